//! The contract of every decider.
//!
//! ```text
//! command ──▶ decide ──▶ Decision { answer, events, directives }
//!                              │        │          └─ performed once the events are durable
//!                              │        └──────────── applied at once, and again in replay
//!                              └───────────────────── told to the asker once the events are durable
//! ```
//!
//! The *replay law*: a fresh state to which a log's events are applied equals the live state after the same
//! events. It holds because [`apply`](Decider::apply) is the only way that a state changes.

use pilothouse_messages::time::Timestamp;

/// What follows from one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<E, D, A> {
    /// What the asker is told.
    pub answer: A,
    /// What happened, in order; one atomic batch.
    pub events: Vec<E>,
    /// What to do once the batch is durable, in order.
    pub directives: Vec<D>,
}

impl<E, D, A> Decision<E, D, A> {
    /// An answer from which nothing else follows.
    pub fn answer(answer: A) -> Self {
        Self { answer, events: Vec::new(), directives: Vec::new() }
    }
}

/// A pure state machine.
pub trait Decider {
    /// What it can be told.
    type Command;
    /// What can have happened. The only thing that changes it.
    type Event: Clone;
    /// What it may want done.
    type Directive;
    /// What an asker is told.
    type Answer;
    /// Why a command changes nothing.
    type Rejection;

    /// Decides about one command and changes nothing.
    ///
    /// # Errors
    /// The reason why nothing follows from the command.
    #[expect(clippy::type_complexity, reason = "the contract names all five types once, here")]
    fn decide(
        &self,
        now: Timestamp,
        command: &Self::Command,
    ) -> Result<Decision<Self::Event, Self::Directive, Self::Answer>, Self::Rejection>;

    /// Applies one event. Cannot fail, knows no time, is the same live and in replay.
    fn apply(&mut self, event: &Self::Event);

    /// When the shell should send the decider's tick, if ever.
    fn next_deadline(&self) -> Option<Timestamp>;

    /// What to do again after a replay.
    fn resume(&self) -> Vec<Self::Directive>;
}
