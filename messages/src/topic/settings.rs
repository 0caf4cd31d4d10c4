//! What a change of a topic's configuration answers: what counts already, and what waits for the next turn.

use serde::Serialize;

/// One setting of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Setting {
    /// The model.
    Model,
    /// How freely tools run.
    Mode,
    /// Steps in one turn.
    MaxSteps,
    /// The servers whose tools it may use.
    Servers,
    /// The functions that it may use.
    Builtins,
    /// How long a pinned surface lives while idle.
    SurfaceTtl,
    /// How long a card waits for a person.
    ApprovalTtl,
    /// What becomes of a call that needs a person.
    Headless,
    /// Which of its tools it may use after all.
    Tools,
    /// The model's context window.
    ContextWindow,
    /// What becomes of a message that arrives while a turn runs.
    Steering,
    /// How many of the messages that wait start one turn.
    Claim,
    /// What becomes of a turn that a crash has cut off.
    AfterCrash,
    /// What one turn may use up.
    Budget,
}

/// Which settings of a change count when. One that becomes both stricter and looser is in both lists: what is stricter
/// about it counts now, what is looser from the next turn on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// What counts now, also for the turn that runs and for cards that wait.
    pub now: Vec<Setting>,
    /// What waits for the next turn.
    pub next_turn: Vec<Setting>,
}

impl Configured {
    /// Whether anything waits for the next turn.
    pub fn waits(&self) -> bool {
        !self.next_turn.is_empty()
    }
}
