//! What subscribers of a topic are told, in order.

use serde::Serialize;

use crate::approval::{Card, CardState};
use crate::call::CallResult;
use crate::id::{ApprovalId, CallId, MessageId, Sequence, StepId, TurnId};
use crate::topic::event::StopReason;
use crate::topic::queue::Level;
use crate::topic::view::{Receipt, TopicStatus};

/// One change of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicUpdate {
    /// The topic does something else now.
    Status(TopicStatus),
    /// A message is somewhere else now.
    Receipt {
        /// The message.
        message: MessageId,
        /// Where it is.
        receipt: Receipt,
    },
    /// A turn began.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// Its messages.
        messages: Vec<MessageId>,
    },
    /// The model wrote.
    Text {
        /// The turn.
        turn: TurnId,
        /// The new text.
        delta: String,
    },
    /// A step ended: every call has its result.
    StepFinished {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: StepId,
    },
    /// A call began to run.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The wire name.
        tool: String,
        /// The server, for a server's tool.
        server: Option<String>,
    },
    /// A call has its result.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The wire name.
        tool: String,
        /// The server, for a server's tool.
        server: Option<String>,
        /// The result.
        result: CallResult,
    },
    /// A card may be shown.
    ApprovalRequested(Box<Card>),
    /// A card has its last state.
    ApprovalSettled {
        /// The card.
        approval: ApprovalId,
        /// Its state.
        state: CardState,
        /// Who decided.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// A turn ended.
    TurnFinished {
        /// The turn.
        turn: TurnId,
        /// Why.
        stop: StopReason,
    },
    /// The model thinks. Shown while it runs, never stored and never sent back.
    Reasoning {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: StepId,
        /// The new words.
        delta: String,
    },
    /// The model writes the arguments of a call that it has not asked for yet.
    ToolInput {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: StepId,
        /// The call's place in the reply.
        index: u32,
        /// The name that the model wrote.
        tool: String,
        /// The new text; empty if only the name has come.
        delta: String,
    },
    /// A message that waits or is held is another one now.
    MessageChanged {
        /// The message.
        message: MessageId,
        /// Its text.
        text: String,
        /// How soon it is to be seen.
        level: Level,
    },
    /// The model is not given the whole conversation any more, or less of it than before; people still see all of it.
    HistoryShortened {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: StepId,
        /// How many of the oldest turns are left out.
        left_out: u64,
    },
    /// A script's call began to run.
    NestedStarted {
        /// The call that the script runs in.
        call: CallId,
        /// Which of its calls, from 1 on.
        number: u32,
        /// The wire name.
        tool: String,
        /// The server, for a server's tool.
        server: Option<String>,
    },
    /// A script's call has its result.
    NestedFinished {
        /// The call that the script runs in.
        call: CallId,
        /// Which of its calls, from 1 on.
        number: u32,
        /// The wire name.
        tool: String,
        /// The server, for a server's tool.
        server: Option<String>,
        /// The result, as far as it is recorded.
        result: CallResult,
    },
}

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicEventOut {
    /// The next change.
    Update {
        /// Its place.
        sequence: Sequence,
        /// The change.
        update: TopicUpdate,
    },
    /// The subscriber was too slow: attach again for a view that includes what was missed.
    Lagged {
        /// How many changes were dropped.
        missed: u64,
        /// The first place that can still be followed.
        resume_from: Sequence,
    },
    /// The topic's runtime has shut down; nothing follows.
    Closed,
}
