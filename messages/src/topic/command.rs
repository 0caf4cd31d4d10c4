//! What a topic is told, what it answers, and what it wants done.

use serde::{Deserialize, Serialize};

use crate::approval::{Card, Verdict};
use crate::call::{CallReceipt, CallResult, LateAnswer};
use crate::digest::Digest;
use crate::id::{ApprovalId, Attempt, CallId, GrantId, MessageId, StepRef, TurnId};
use crate::json::JsonText;
use crate::model::{FinishReason, Usage};
use crate::time::Timestamp;
use crate::tool::{Effect, ToolSource};
use crate::topic::config::{ConfigPatch, TopicConfig};
use crate::topic::event::{HoldReason, RunBasis};
use crate::topic::nested::NestedNews;
use crate::topic::queue::{Level, QueueCommand};
use crate::topic::settings::Configured;
use crate::topic::update::TopicUpdate;
use crate::topic::view::Receipt;

/// Everything that a topic can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicCommand {
    /// Creates the topic, or opens it again with this configuration (its tenant cannot change).
    Open {
        /// The configuration.
        config: TopicConfig,
    },
    /// Changes the configuration from the next turn on.
    Configure {
        /// The changes.
        patch: ConfigPatch,
    },
    /// A person's message.
    Send {
        /// The text.
        text: String,
        /// The sender's own key: the same key and text again is the same message.
        key: Option<String>,
        /// How soon it is to be seen.
        level: Level,
    },
    /// Ends the open turn as aborted.
    Stop {
        /// Who asked.
        by: String,
    },
    /// The model's text so far, since the last such command.
    ModelText {
        /// Which step and attempt.
        at: StepRef,
        /// The new text.
        delta: String,
    },
    /// The model's reply is complete.
    ModelReplied {
        /// Which step and attempt.
        at: StepRef,
        /// The reply, its calls resolved against the registry.
        reply: ModelReply,
    },
    /// The model failed.
    ModelFailed {
        /// Which step and attempt.
        at: StepRef,
        /// In plain words.
        message: String,
    },
    /// The call was handed to its tool or server.
    CallSent {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// The call has its result.
    CallReturned {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// The result.
        result: CallResult,
    },
    /// News from the approval actor about one card.
    Card {
        /// The card.
        approval: ApprovalId,
        /// What happened.
        news: CardNews,
    },
    /// The topic was loaded from its records and its last one was not a clean end.
    Recover {
        /// Why it has to.
        cause: Recovery,
    },
    /// The runtime shuts down: ends the open turn as interrupted, unless it waits for approvals only.
    ShutDown,
    /// A server handed out what a call goes on by.
    CallReceipted {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// What.
        receipt: CallReceipt,
    },
    /// The model showed something beside its text, which is told and not recorded.
    ModelShowed {
        /// Which step and attempt.
        at: StepRef,
        /// What, in order.
        shown: Vec<Shown>,
    },
    /// What a person does with a message that waits or is held.
    Queue(QueueCommand),
    /// Takes up the last turn where it was cut short.
    Continue,
    /// Time has passed: what was to be over by now is.
    Tick,
    /// Nothing has happened for a while: sleeps, if nothing is open.
    Sleep,
    /// News of a call that a running script makes.
    Nested {
        /// The call that the script runs in.
        call: CallId,
        /// Which attempt at it.
        attempt: Attempt,
        /// What happened.
        news: NestedNews,
    },
    /// The server answered a call when nobody waited for it any more.
    CallAnsweredLate {
        /// The call.
        call: CallId,
        /// What it said.
        answer: LateAnswer,
    },
}

/// What a model shows while it writes its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// More of its reasoning.
    Reasoning(String),
    /// More of the arguments of a call.
    ToolInput {
        /// The call's place in the reply.
        index: u32,
        /// The name that the model wrote.
        tool: String,
        /// The new text.
        delta: String,
    },
    /// Its window is too small for the whole conversation.
    HistoryShortened {
        /// How many of the oldest turns it is not given.
        left_out: u64,
    },
}

/// Why a topic recovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The process started again.
    ProcessRestart,
    /// The session's actor was restarted.
    SessionRestart,
}

/// What the approval actor says about a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardNews {
    /// It is stored and may be shown.
    Opened(Box<Card>),
    /// The ledger shows it; told again and again, since a topic's wish to withdraw it may have been lost.
    Waits,
    /// It could not be opened: the call is answered with this.
    Refused(String),
    /// It was decided; told again until the topic has recorded it.
    Decided {
        /// Approved or denied.
        verdict: Verdict,
        /// By whom.
        by: String,
        /// Why, in the decider's words.
        reason: Option<String>,
        /// The arguments that replace the card's.
        arguments: Option<JsonText>,
    },
    /// Nobody decided in time.
    Expired,
}

/// A complete reply of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// The whole text.
    pub text: String,
    /// The calls that it asks for, in order.
    pub calls: Vec<RequestedCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// Tokens used.
    pub usage: Usage,
}

/// One call as a model asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// The provider's own id; data only.
    pub provider_id: Option<String>,
    /// The name that the model wrote.
    pub name: String,
    /// The arguments of the tool that is called; of a call that is not made, what the model wrote. `{}` where that was
    /// no JSON object.
    pub arguments: JsonText,
    /// What the registry knows about it now.
    pub resolution: Resolution,
    /// What the layers of the gate said about the tool and these arguments.
    pub findings: Findings,
}

/// What the layers of the gate said about one call, before the rules weigh it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// A deny list or a guard says no; why.
    pub denied: Option<String>,
    /// A guard wants a person; why.
    pub asked: Option<String>,
    /// A grant covers it.
    pub grant: Option<GrantId>,
    /// What the classifier said, where it was asked.
    pub classified: Option<Classified>,
}

/// What a classifier says about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classified {
    /// It may run.
    Run,
    /// A person has to be asked; why.
    Ask(String),
    /// It must not run; why.
    Deny(String),
}

/// What the registry made of a requested call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// A tool that this topic may use.
    Tool(Box<ResolvedTool>),
    /// No such tool, or arguments that are not what it asks for; the model is told this.
    Refused(String),
    /// A meta tool that only reads what is known here: this is its result, and nobody is asked.
    Answered(CallResult),
}

/// A tool as it stands at call time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedTool {
    /// The wire name.
    pub name: String,
    /// Who runs it.
    pub source: ToolSource,
    /// The embedder's label of the server, or of the function.
    pub label: String,
    /// The owner's title.
    pub title: Option<String>,
    /// What it may do.
    pub effect: Effect,
    /// Always asks.
    pub force_prompt: bool,
    /// Whether a message that cannot wait cancels it while it runs. Not stored: after a restart nothing of it runs.
    #[serde(skip)]
    pub interruptible: bool,
    /// Fingerprint of the tool.
    pub fingerprint: Digest,
    /// Fingerprint of the server's definition; of the function's name for a built-in.
    pub definition: Digest,
}

/// One call of a step, with what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// Our id.
    pub call: CallId,
    /// The provider's own id; data only.
    pub provider_id: Option<String>,
    /// The name that the model wrote: `tool_invoke` for a tool that was called through it.
    pub name: String,
    /// The arguments of the tool that is called.
    pub arguments: JsonText,
    /// The tool that is called, if there is one.
    pub tool: Option<ResolvedTool>,
    /// What happens with it.
    pub plan: CallPlan,
}

/// What happens with a requested call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPlan {
    /// It runs now; why it may.
    Run(RunBasis),
    /// It waits for a person.
    Ask {
        /// The card.
        approval: ApprovalId,
        /// Why a person is asked, in plain words.
        reason: String,
        /// When the card stops waiting: recorded, so that the card is the same after a restart.
        expires_at: Timestamp,
    },
    /// It is not run: the model gets this text as a `Rejected` result.
    Reject(String),
    /// A layer of the gate says no: the model gets this text as a `Denied` result.
    Deny(String),
    /// It was answered at once from what is known here; its result follows.
    Answered,
}

/// What a topic wants done. Performed only after the events that it came with are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// Run the model for this step; the shell pins the surface first if the step is the turn's first.
    RunModel {
        /// Which step and attempt.
        at: StepRef,
    },
    /// Call a tool.
    CallTool {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// The tool as it stood when it was allowed.
        tool: ResolvedTool,
        /// The arguments to send.
        arguments: JsonText,
        /// Why it may run.
        basis: RunBasis,
    },
    /// Tell the approval actor to open this card (idempotent).
    OpenCard(Box<Card>),
    /// Tell the approval actor that these cards are no longer wanted.
    WithdrawCards {
        /// The cards.
        approvals: Vec<ApprovalId>,
        /// Why.
        reason: String,
    },
    /// Tell the approval actor that its decision is recorded here.
    PayDebt {
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
    },
    /// Cancel everything that runs for this turn.
    CancelTurn {
        /// The turn.
        turn: TurnId,
    },
    /// Publish something that no event says.
    Announce(TopicUpdate),
    /// End the session: the topic sleeps on the disk.
    FallAsleep,
    /// Go on with a call by what its server handed out before a restart.
    TakeUpCall {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// The tool as it stood when it was allowed.
        tool: ResolvedTool,
        /// The arguments that were sent.
        arguments: JsonText,
        /// Why it may run.
        basis: RunBasis,
        /// What was handed out.
        receipt: CallReceipt,
    },
    /// Cancel these calls, which have their results already.
    CancelCalls {
        /// The calls.
        calls: Vec<CallId>,
    },
}

/// What became of a decision that was owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payment {
    /// The topic recorded it.
    Paid,
    /// It came too late: the call is over, nothing runs.
    Void,
}

/// What the sender of a command is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicAnswer {
    /// The message is durable.
    Sent {
        /// Its id.
        message: MessageId,
        /// Where it is.
        receipt: Receipt,
    },
    /// Nothing runs any more.
    Stopped {
        /// The turn that was ended, if one was open.
        turn: Option<TurnId>,
    },
    /// The configuration is recorded.
    Configured(Configured),
    /// Done; nothing to say.
    Noted,
    /// The turn that was cut short goes on.
    Continued {
        /// As this turn.
        turn: TurnId,
    },
}

/// Why queued messages are held, in a command's words.
impl From<Recovery> for HoldReason {
    fn from(cause: Recovery) -> Self {
        match cause {
            Recovery::ProcessRestart => Self::ProcessRestart,
            Recovery::SessionRestart => Self::SessionRestart,
        }
    }
}
