//! What happened in a topic. These are stored: their bytes are frozen (see [`crate::record`]).

use serde::{Deserialize, Serialize};

use crate::approval::Verdict;
use crate::call::{CallReceipt, CallResult, LateAnswer};
use crate::id::{ApprovalId, Attempt, CallId, GrantId, MessageId, StepId, StepRef, TurnId};
use crate::json::JsonText;
use crate::model::{FinishReason, Usage};
use crate::time::Timestamp;
use crate::tool::ToolLists;
use crate::topic::command::{PlannedCall, Recovery};
use crate::topic::config::{Headless, TopicConfig};
use crate::topic::nested::NestedNews;
use crate::topic::queue::Level;
use crate::topic::terms::{BudgetLimit, TurnTerms};

/// Everything that can have happened in a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicEvent {
    /// The topic was created, opened again, or its configuration changed.
    Configured {
        /// The configuration; applies from the next turn on.
        config: TopicConfig,
        /// When.
        at: Timestamp,
    },
    /// A person's message was taken; it waits at the end of the queue.
    MessageAccepted {
        /// Its id.
        message: MessageId,
        /// Its text.
        text: String,
        /// The sender's key.
        key: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// A turn began with these messages, taken from the head of the queue.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// Its messages.
        messages: Vec<MessageId>,
        /// When.
        at: Timestamp,
    },
    /// A model step began.
    StepStarted {
        /// Which.
        at: StepRef,
    },
    /// The model wrote some text.
    TextAppended {
        /// In which step and attempt.
        at: StepRef,
        /// The text.
        delta: String,
    },
    /// The model's reply is complete, and what happens with each of its calls is decided.
    StepReplied {
        /// In which step and attempt.
        at: StepRef,
        /// The whole text.
        text: String,
        /// Its calls.
        calls: Vec<PlannedCall>,
        /// Why it stopped.
        finish: FinishReason,
        /// Tokens used.
        usage: Usage,
    },
    /// The intent to run a call, and why it may; recorded before it is sent.
    CallStarted {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// Why it may run.
        basis: RunBasis,
    },
    /// The call was handed over.
    CallSent {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// The call has its one result.
    CallFinished {
        /// The call.
        call: CallId,
        /// Which attempt; 0 if it never started.
        attempt: Attempt,
        /// The result.
        result: CallResult,
    },
    /// A person decided about a call.
    CallDecided {
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
        /// Approved or denied.
        verdict: Verdict,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
    },
    /// A card was not decided in time.
    CallExpired {
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
    },
    /// Every call of the step has its result.
    StepFinished {
        /// The step.
        at: StepRef,
    },
    /// The turn ended.
    TurnFinished {
        /// The turn.
        turn: TurnId,
        /// Why.
        stop: StopReason,
        /// When.
        at: Timestamp,
    },
    /// Messages that waited are held: they never run by themselves.
    MessagesHeld {
        /// Which.
        messages: Vec<MessageId>,
        /// Why.
        reason: HoldReason,
    },
    /// The card of a call is stored in the ledger and may be shown.
    CardOpened {
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
    },
    /// The topic took up its records after an unclean end.
    Recovered {
        /// Why it had to.
        cause: Recovery,
        /// When.
        at: Timestamp,
    },
    /// What becomes of calls that need a person; part of the configuration that was recorded before it.
    HeadlessSet {
        /// What.
        headless: Headless,
    },
    /// A person changed the arguments of a call; recorded before its start.
    CallEdited {
        /// The call.
        call: CallId,
        /// The arguments that are sent.
        arguments: JsonText,
    },
    /// Which tools it may use, and the window that they are shown in; part of the configuration that was recorded
    /// before it.
    ToolTermsSet {
        /// Its lists.
        tools: ToolLists,
        /// The model's context window.
        context_window: Option<u64>,
    },
    /// The server handed out what the call goes on by.
    CallReceipted {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// What.
        receipt: CallReceipt,
    },
    /// A message that waits or is held has another text.
    MessageEdited {
        /// The message.
        message: MessageId,
        /// Its text.
        text: String,
    },
    /// A message that waited or was held was taken away: it never runs.
    MessageDropped {
        /// The message.
        message: MessageId,
        /// Who asked.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// The messages that wait have another order.
    QueueReordered {
        /// All of them, the head first.
        messages: Vec<MessageId>,
    },
    /// A held message waits again, as one that was just sent.
    MessageResent {
        /// The message.
        message: MessageId,
        /// When.
        at: Timestamp,
    },
    /// How soon a message that waits or is held is to be seen.
    LevelSet {
        /// The message.
        message: MessageId,
        /// How soon.
        level: Level,
    },
    /// Messages that waited joined the open turn before this step.
    MessagesInjected {
        /// The turn.
        turn: TurnId,
        /// The step that is the first to see them.
        step: StepId,
        /// Which.
        messages: Vec<MessageId>,
    },
    /// The turn that has just begun takes up one that was cut short.
    TurnContinued {
        /// The turn that goes on.
        turn: TurnId,
        /// The one that was cut short.
        of: TurnId,
    },
    /// The open turn goes on after an unclean end.
    TurnResumed {
        /// The turn.
        turn: TurnId,
        /// When.
        at: Timestamp,
    },
    /// The terms of its turns; part of the configuration that was recorded before them.
    TurnTermsSet {
        /// The terms.
        terms: TurnTerms,
    },
    /// Nothing was open and nothing had happened for a while: the topic went to sleep.
    Slept {
        /// When.
        at: Timestamp,
    },
    /// News of a call that a script made.
    Nested {
        /// The call that the script runs in.
        call: CallId,
        /// What happened.
        news: NestedNews,
    },
    /// The server answered when nobody waited for it any more. Nothing follows from it.
    CallAnsweredLate {
        /// The call.
        call: CallId,
        /// What it said.
        answer: LateAnswer,
        /// When.
        at: Timestamp,
    },
}

impl TopicEvent {
    /// When, for those events that have a time of their own.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Configured { at, .. }
            | Self::MessageAccepted { at, .. }
            | Self::TurnStarted { at, .. }
            | Self::TurnFinished { at, .. }
            | Self::Recovered { at, .. }
            | Self::MessageDropped { at, .. }
            | Self::MessageResent { at, .. }
            | Self::TurnResumed { at, .. }
            | Self::Slept { at }
            | Self::CallAnsweredLate { at, .. } => Some(*at),
            Self::StepStarted { .. }
            | Self::TextAppended { .. }
            | Self::StepReplied { .. }
            | Self::CallStarted { .. }
            | Self::CallSent { .. }
            | Self::CallFinished { .. }
            | Self::CallDecided { .. }
            | Self::CallExpired { .. }
            | Self::StepFinished { .. }
            | Self::MessagesHeld { .. }
            | Self::CardOpened { .. }
            | Self::HeadlessSet { .. }
            | Self::ToolTermsSet { .. }
            | Self::CallEdited { .. }
            | Self::CallReceipted { .. }
            | Self::MessageEdited { .. }
            | Self::QueueReordered { .. }
            | Self::LevelSet { .. }
            | Self::MessagesInjected { .. }
            | Self::TurnContinued { .. }
            | Self::TurnTermsSet { .. }
            | Self::Nested { .. } => None,
        }
    }

    /// `true` if losing it in a power cut costs only text or a hint, so that it need not be synced before its effect.
    pub fn is_lazy(&self) -> bool {
        match self {
            Self::TextAppended { .. }
            | Self::CallSent { .. }
            | Self::CardOpened { .. }
            | Self::CallAnsweredLate { .. }
            | Self::Nested { news: NestedNews::Sent { .. }, .. } => true,
            Self::Configured { .. }
            | Self::MessageAccepted { .. }
            | Self::TurnStarted { .. }
            | Self::StepStarted { .. }
            | Self::StepReplied { .. }
            | Self::CallStarted { .. }
            | Self::CallFinished { .. }
            | Self::CallDecided { .. }
            | Self::CallExpired { .. }
            | Self::StepFinished { .. }
            | Self::TurnFinished { .. }
            | Self::MessagesHeld { .. }
            | Self::Recovered { .. }
            | Self::HeadlessSet { .. }
            | Self::CallEdited { .. }
            | Self::ToolTermsSet { .. }
            | Self::CallReceipted { .. }
            | Self::MessageEdited { .. }
            | Self::MessageDropped { .. }
            | Self::QueueReordered { .. }
            | Self::MessageResent { .. }
            | Self::LevelSet { .. }
            | Self::MessagesInjected { .. }
            | Self::TurnContinued { .. }
            | Self::TurnResumed { .. }
            | Self::TurnTermsSet { .. }
            | Self::Slept { .. }
            | Self::Nested { news: NestedNews::Called(_) | NestedNews::Returned { .. }, .. } => false,
        }
    }
}

/// Why a turn ended. Never mixed: each cause has its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had nothing more to do.
    Completed,
    /// A message waited at a step boundary; the next turn answers it.
    Yielded,
    /// Somebody stopped it.
    Aborted,
    /// The model, or the rules, could not go on; in plain words.
    Failed(String),
    /// It used all its steps.
    StepLimit,
    /// The model ran into its output limit.
    OutputTruncated,
    /// The model refused.
    Refused,
    /// It used up its budget; the record does not say what of it. A turn that ends now says so:
    /// [`BudgetSpent`](Self::BudgetSpent).
    BudgetExhausted,
    /// A card was not decided in time.
    ApprovalExpired,
    /// The process or the session ended under it; in plain words.
    Interrupted(String),
    /// It used up this part of its budget.
    BudgetSpent(BudgetLimit),
}

impl StopReason {
    /// `true` if the next queued message may start a turn by itself.
    pub fn chains(&self) -> bool {
        match self {
            Self::Completed | Self::Yielded => true,
            Self::Aborted
            | Self::Failed(_)
            | Self::StepLimit
            | Self::OutputTruncated
            | Self::Refused
            | Self::BudgetExhausted
            | Self::ApprovalExpired
            | Self::Interrupted(_)
            | Self::BudgetSpent(_) => false,
        }
    }

    /// `true` if the turn was cut short, so that it can be taken up again.
    pub fn continues(&self) -> bool {
        match self {
            Self::StepLimit | Self::OutputTruncated | Self::ApprovalExpired | Self::Interrupted(_) => true,
            Self::Completed
            | Self::Yielded
            | Self::Aborted
            | Self::Failed(_)
            | Self::Refused
            | Self::BudgetExhausted
            | Self::BudgetSpent(_) => false,
        }
    }

    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Yielded => "yielded",
            Self::Aborted => "aborted",
            Self::Failed(_) => "failed",
            Self::StepLimit => "step_limit",
            Self::OutputTruncated => "output_truncated",
            Self::Refused => "refused",
            Self::BudgetExhausted | Self::BudgetSpent(_) => "budget_exhausted",
            Self::ApprovalExpired => "approval_expired",
            Self::Interrupted(_) => "interrupted",
        }
    }

    /// The words that came with it, or the name of the limit that it ran into.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Failed(words) | Self::Interrupted(words) => Some(words),
            Self::BudgetSpent(limit) => Some(limit.name()),
            Self::Completed
            | Self::Yielded
            | Self::Aborted
            | Self::StepLimit
            | Self::OutputTruncated
            | Self::Refused
            | Self::BudgetExhausted
            | Self::ApprovalExpired => None,
        }
    }
}

/// Why a message is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// The turn before it was stopped.
    Aborted,
    /// The turn before it failed, was refused, truncated or ran out of something.
    TurnEnded,
    /// The process started again.
    ProcessRestart,
    /// The session's actor was restarted.
    SessionRestart,
    /// The runtime shut down.
    ShutDown,
}

/// Why a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunBasis {
    /// The mode lets this effect run.
    Mode,
    /// A person approved this card.
    Approved {
        /// The card.
        approval: ApprovalId,
    },
    /// A standing approval covers it.
    Grant {
        /// The grant.
        grant: GrantId,
    },
    /// The embedder's classifier let it run.
    Classified,
}
