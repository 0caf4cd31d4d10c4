//! Read-only pictures of a topic.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::approval::Card;
use crate::call::CallResult;
use crate::id::{ApprovalId, CallId, MessageId, Sequence, StepId, TopicId, TurnId};
use crate::json::JsonText;
use crate::model::Usage;
use crate::time::Timestamp;
use crate::topic::config::TopicConfig;
use crate::topic::event::{HoldReason, StopReason};
use crate::topic::queue::Level;

/// What a topic is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicStatus {
    /// No turn yet.
    #[default]
    Idle,
    /// A turn runs; its model has not said anything yet.
    Pending,
    /// A turn runs.
    Streaming,
    /// A turn waits for a person, and for nothing else.
    AwaitingApproval,
    /// The last turn ended well, or ran out of something.
    Done,
    /// The last turn failed, was refused or interrupted.
    Error,
    /// The last turn was stopped.
    Aborted,
}

/// Where a user message is. It is always in exactly one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// In the turn that runs, or that ended without answering it.
    Accepted {
        /// The turn.
        turn: TurnId,
    },
    /// Waiting; 1 is the head of the queue.
    Queued {
        /// Its place.
        position: usize,
    },
    /// Answered by a turn that ended well.
    Answered {
        /// The turn.
        turn: TurnId,
    },
    /// Kept, and not run by itself.
    Held {
        /// Why.
        reason: HoldReason,
    },
    /// In the turn that runs, which had begun before it came.
    Injected {
        /// The turn.
        turn: TurnId,
        /// The step that is the first to see it.
        step: StepId,
    },
    /// Taken away: it never runs.
    Dropped {
        /// By whom.
        by: String,
    },
}

/// A user message and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageView {
    /// Its id.
    pub message: MessageId,
    /// Its text.
    pub text: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// Where it is.
    pub receipt: Receipt,
    /// How soon it is, or was, to be seen.
    pub level: Level,
}

impl MessageView {
    /// A picture of a message of the default level.
    pub fn new(message: MessageId, text: String, at: Timestamp, receipt: Receipt) -> Self {
        Self { message, text, at, receipt, level: Level::default() }
    }
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnView {
    /// Its id.
    pub turn: TurnId,
    /// The messages that it answers.
    pub messages: Vec<MessageView>,
    /// Its steps.
    pub steps: Vec<StepView>,
    /// Why it ended; `None` while it runs.
    pub stop: Option<StopReason>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Tokens that its steps used, as far as their models said.
    pub usage: Usage,
    /// The turn that it takes up, which was cut short.
    pub continues: Option<TurnId>,
}

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepView {
    /// Its id.
    pub step: StepId,
    /// What the model said.
    pub text: String,
    /// What it called.
    pub calls: Vec<CallView>,
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallView {
    /// Its id.
    pub call: CallId,
    /// The wire name.
    pub tool: String,
    /// The arguments.
    pub arguments: JsonText,
    /// Where it is.
    pub state: CallState,
    /// What a script that runs in it has called, in order.
    pub nested: Vec<NestedView>,
}

/// One call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NestedView {
    /// Which of its script's calls, from 1 on.
    pub number: u32,
    /// The wire name.
    pub tool: String,
    /// The arguments.
    pub arguments: JsonText,
    /// Where it is; its result as far as it is recorded.
    pub state: CallState,
}

/// Where a call is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Waiting for a person.
    Awaiting {
        /// The card.
        approval: ApprovalId,
    },
    /// Running.
    Running,
    /// It has its result.
    Finished(CallResult),
}

/// A topic at one point of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TopicView {
    /// Which topic.
    pub topic: TopicId,
    /// The last event that this view includes.
    pub sequence: Sequence,
    /// What it is doing.
    pub status: TopicStatus,
    /// Its configuration.
    pub config: TopicConfig,
    /// The last turns, oldest first, the open one last. Closed ones are shared, not copied.
    #[serde(serialize_with = "each_turn")]
    pub turns: Vec<Arc<TurnView>>,
    /// How many turns there were before those.
    pub earlier_turns: u64,
    /// Messages that wait, head first.
    pub queue: Vec<MessageView>,
    /// Messages that are held.
    pub held: Vec<MessageView>,
    /// Cards that wait for a person and may be shown.
    pub cards: Vec<Card>,
    /// What the model that runs has shown beside its text. None of it is stored.
    pub live: Option<LiveStep>,
}

fn each_turn<S: Serializer>(turns: &[Arc<TurnView>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(turns.iter().map(Arc::as_ref))
}

/// What a model shows while it writes its reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LiveStep {
    /// The turn.
    pub turn: TurnId,
    /// The step.
    pub step: StepId,
    /// Its reasoning so far.
    pub reasoning: String,
    /// The calls that it is writing, in the order in which they were begun.
    pub inputs: Vec<LiveInput>,
}

impl LiveStep {
    /// A step whose model has shown nothing yet.
    pub fn new(turn: TurnId, step: StepId) -> Self {
        Self { turn, step, ..Self::default() }
    }
}

/// A call that a model is writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveInput {
    /// Its place in the reply.
    pub index: u32,
    /// The name that the model wrote.
    pub tool: String,
    /// The text of its arguments so far; not yet JSON.
    pub arguments: String,
}

impl TopicView {
    /// A topic in which nothing has happened.
    pub fn new(topic: TopicId, config: TopicConfig) -> Self {
        Self {
            topic,
            sequence: Sequence::default(),
            status: TopicStatus::Idle,
            config,
            turns: Vec::new(),
            earlier_turns: 0,
            queue: Vec::new(),
            held: Vec::new(),
            cards: Vec::new(),
            live: None,
        }
    }
}
