//! Short words for what the scripts say. Numbers are turn, step, index, attempt, in that order.

use std::time::Duration;

use pilothouse_messages::approval::{Card, Verdict};
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{
    ApprovalId, Attempt, CallId, MessageId, ServerId, StepId, StepRef, TenantId, TurnId,
};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CallPlan, CardNews, Directive, Findings, HoldReason, Level, ModelReply, PlannedCall, QueueCommand,
    Receipt, RequestedCall, Resolution, ResolvedTool, RunBasis, StopReason, TopicAnswer, TopicCommand,
    TopicConfig, TopicEvent, TurnTerms,
};

use super::{NOW, topic};

pub(super) fn step_ref(turn: u64, step: u32) -> StepRef {
    StepRef { turn: TurnId(turn), step: StepId(step), attempt: Attempt(1) }
}

pub(super) fn call(turn: u64, step: u32, index: u32) -> CallId {
    CallId { turn: TurnId(turn), step: StepId(step), index }
}

pub(super) fn card_of(call: CallId) -> ApprovalId {
    ApprovalId::of(&topic(), call)
}

// What is asked.

pub(super) fn open() -> TopicCommand {
    TopicCommand::Open { config: TopicConfig::new("m") }
}

pub(super) fn send(text: &str) -> TopicCommand {
    TopicCommand::Send { text: text.into(), key: None, level: Level::NextStep }
}

pub(super) fn send_keyed(text: &str, key: &str) -> TopicCommand {
    TopicCommand::Send { text: text.into(), key: Some(key.into()), level: Level::NextStep }
}

pub(super) fn send_at(level: Level, text: &str) -> TopicCommand {
    TopicCommand::Send { text: text.into(), key: None, level }
}

/// A topic whose turns run on these terms.
pub(super) fn opens_with(terms: TurnTerms) -> TopicCommand {
    let mut config = TopicConfig::new("m");
    config.turns = terms;
    TopicCommand::Open { config }
}

pub(super) fn edits(message: u64, text: &str) -> TopicCommand {
    TopicCommand::Queue(QueueCommand::Edit { message: MessageId(message), text: text.into() })
}

pub(super) fn drops(message: u64) -> TopicCommand {
    TopicCommand::Queue(QueueCommand::Drop { message: MessageId(message), by: "ann".into() })
}

pub(super) fn reorders(messages: &[u64]) -> TopicCommand {
    let messages = messages.iter().copied().map(MessageId).collect();
    TopicCommand::Queue(QueueCommand::Reorder { messages })
}

pub(super) fn resends(message: u64) -> TopicCommand {
    TopicCommand::Queue(QueueCommand::Resend { message: MessageId(message) })
}

pub(super) fn relevels(message: u64, level: Level) -> TopicCommand {
    TopicCommand::Queue(QueueCommand::Relevel { message: MessageId(message), level })
}

pub(super) fn stop() -> TopicCommand {
    TopicCommand::Stop { by: "ann".into() }
}

pub(super) fn says(turn: u64, step: u32, delta: &str) -> TopicCommand {
    TopicCommand::ModelText { at: step_ref(turn, step), delta: delta.into() }
}

pub(super) fn fails(turn: u64, step: u32, message: &str) -> TopicCommand {
    TopicCommand::ModelFailed { at: step_ref(turn, step), message: message.into() }
}

pub(super) fn reply(text: &str, calls: Vec<RequestedCall>, finish: FinishReason) -> ModelReply {
    ModelReply { text: text.into(), calls, finish, usage: Usage { input: 3, output: 2 } }
}

pub(super) fn replies(turn: u64, step: u32, text: &str, calls: Vec<RequestedCall>) -> TopicCommand {
    let reply = reply(text, calls, FinishReason::Stop);
    TopicCommand::ModelReplied { at: step_ref(turn, step), reply }
}

pub(super) fn sends(call: CallId, attempt: u32) -> TopicCommand {
    TopicCommand::CallSent { call, attempt: Attempt(attempt) }
}

pub(super) fn returns(call: CallId, attempt: u32, text: &str) -> TopicCommand {
    TopicCommand::CallReturned { call, attempt: Attempt(attempt), result: done(text) }
}

pub(super) fn news(call: CallId, news: CardNews) -> TopicCommand {
    TopicCommand::Card { approval: card_of(call), news }
}

pub(super) fn opened(call: CallId) -> TopicCommand {
    news(call, CardNews::Opened(Box::new(card(call, "change"))))
}

pub(super) fn allows(call: CallId) -> TopicCommand {
    news(call, CardNews::Decided { verdict: Verdict::Allow, by: "bob".into(), reason: None, arguments: None })
}

pub(super) fn denies(call: CallId) -> TopicCommand {
    let reason = Some("too risky".into());
    news(call, CardNews::Decided { verdict: Verdict::Deny, by: "bob".into(), reason, arguments: None })
}

// Tools.

pub(super) fn tool(name: &str, effect: Effect) -> ResolvedTool {
    ResolvedTool {
        name: name.into(),
        source: ToolSource::Mcp { server: ServerId::new("files").expect("an id"), tool: name.into() },
        label: "Files".into(),
        title: Some(name.to_uppercase()),
        effect,
        force_prompt: false,
        interruptible: effect == Effect::Reads,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

fn requested(name: &str, resolution: Resolution) -> RequestedCall {
    let arguments = JsonText::parse(r#"{"a":1}"#).expect("JSON");
    RequestedCall {
        provider_id: Some("p".into()),
        name: name.into(),
        arguments,
        resolution,
        findings: Findings::default(),
    }
}

/// A call that runs at once.
pub(super) fn look() -> RequestedCall {
    requested("look", Resolution::Tool(Box::new(tool("look", Effect::Reads))))
}

/// A call that asks.
pub(super) fn change() -> RequestedCall {
    requested("change", Resolution::Tool(Box::new(tool("change", Effect::Edits))))
}

/// A call of a tool of this effect.
pub(super) fn requested_of(name: &str, effect: Effect) -> RequestedCall {
    requested(name, Resolution::Tool(Box::new(tool(name, effect))))
}

/// A call of a tool that does not exist.
pub(super) fn missing() -> RequestedCall {
    requested("missing", Resolution::Refused("there is no tool \"missing\"".into()))
}

/// A call of a meta tool that has its answer.
pub(super) fn answered() -> RequestedCall {
    requested("tool_search", Resolution::Answered(CallResult::said(CallOutcome::Succeeded, "two tools")))
}

pub(super) fn planned(id: CallId, asked: &RequestedCall, plan: CallPlan) -> PlannedCall {
    let tool = match (&asked.resolution, &plan) {
        (Resolution::Tool(tool), CallPlan::Run(_) | CallPlan::Ask { .. }) => Some(tool.as_ref().clone()),
        (Resolution::Tool(_) | Resolution::Refused(_) | Resolution::Answered(_), _) => None,
    };
    let (provider_id, name) = (asked.provider_id.clone(), asked.name.clone());
    PlannedCall { call: id, provider_id, name, arguments: asked.arguments.clone(), tool, plan }
}

pub(super) fn planned_look(id: CallId) -> PlannedCall {
    planned(id, &look(), CallPlan::Run(RunBasis::Mode))
}

pub(super) fn planned_change(id: CallId) -> PlannedCall {
    let reason = "this tool changes things".into();
    planned(id, &change(), CallPlan::Ask { approval: card_of(id), reason, expires_at: tomorrow() })
}

pub(super) fn tomorrow() -> Timestamp {
    NOW.after(Duration::from_secs(24 * 60 * 60))
}

pub(super) fn card(call: CallId, name: &str) -> Card {
    let tool = tool(name, Effect::Edits);
    Card {
        approval: card_of(call),
        tenant: TenantId::default(),
        topic: topic(),
        call,
        tool: tool.name,
        source: tool.source,
        label: tool.label,
        title: tool.title,
        effect: tool.effect,
        arguments: change().arguments,
        fingerprint: tool.fingerprint,
        definition: tool.definition,
        reason: "this tool changes things".into(),
        expires_at: tomorrow(),
    }
}

pub(super) fn done(text: &str) -> CallResult {
    CallResult::said(CallOutcome::Succeeded, text)
}

// What is recorded.

pub(super) fn accepted(message: u64, text: &str) -> TopicEvent {
    TopicEvent::MessageAccepted { message: MessageId(message), text: text.into(), key: None, at: NOW }
}

/// The two events with which a turn begins.
pub(super) fn turn_starts(turn: u64, message: u64) -> [TopicEvent; 2] {
    turn_starts_with(turn, &[message])
}

pub(super) fn turn_starts_with(turn: u64, messages: &[u64]) -> [TopicEvent; 2] {
    let messages = messages.iter().copied().map(MessageId).collect();
    [TopicEvent::TurnStarted { turn: TurnId(turn), messages, at: NOW }, step_starts(turn, 1)]
}

pub(super) fn leveled(message: u64, level: Level) -> TopicEvent {
    TopicEvent::LevelSet { message: MessageId(message), level }
}

pub(super) fn injected(turn: u64, step: u32, messages: &[u64]) -> TopicEvent {
    let messages = messages.iter().copied().map(MessageId).collect();
    TopicEvent::MessagesInjected { turn: TurnId(turn), step: StepId(step), messages }
}

pub(super) fn step_starts(turn: u64, step: u32) -> TopicEvent {
    TopicEvent::StepStarted { at: step_ref(turn, step) }
}

pub(super) fn replied(turn: u64, step: u32, text: &str, calls: Vec<PlannedCall>) -> TopicEvent {
    TopicEvent::StepReplied {
        at: step_ref(turn, step),
        text: text.into(),
        calls,
        finish: FinishReason::Stop,
        usage: Usage { input: 3, output: 2 },
    }
}

pub(super) fn call_starts(call: CallId, attempt: u32) -> TopicEvent {
    TopicEvent::CallStarted { call, attempt: Attempt(attempt), basis: RunBasis::Mode }
}

pub(super) fn approved_starts(call: CallId) -> TopicEvent {
    let basis = RunBasis::Approved { approval: card_of(call) };
    TopicEvent::CallStarted { call, attempt: Attempt(1), basis }
}

pub(super) fn call_ends(call: CallId, attempt: u32, result: CallResult) -> TopicEvent {
    TopicEvent::CallFinished { call, attempt: Attempt(attempt), result }
}

pub(super) fn call_says(call: CallId, attempt: u32, outcome: CallOutcome, text: &str) -> TopicEvent {
    call_ends(call, attempt, CallResult::said(outcome, text))
}

pub(super) fn allowed(call: CallId) -> TopicEvent {
    let (approval, by) = (card_of(call), "bob".into());
    TopicEvent::CallDecided { call, approval, verdict: Verdict::Allow, by, reason: None }
}

pub(super) fn denied(call: CallId) -> TopicEvent {
    let (approval, by, reason) = (card_of(call), "bob".into(), Some("too risky".into()));
    TopicEvent::CallDecided { call, approval, verdict: Verdict::Deny, by, reason }
}

pub(super) fn step_ends(turn: u64, step: u32) -> TopicEvent {
    TopicEvent::StepFinished { at: step_ref(turn, step) }
}

pub(super) fn turn_ends(turn: u64, stop: StopReason) -> TopicEvent {
    TopicEvent::TurnFinished { turn: TurnId(turn), stop, at: NOW }
}

pub(super) fn held(messages: &[u64], reason: HoldReason) -> TopicEvent {
    TopicEvent::MessagesHeld { messages: messages.iter().copied().map(MessageId).collect(), reason }
}

// What is done and answered.

pub(super) fn run_model(turn: u64, step: u32) -> Directive {
    Directive::RunModel { at: step_ref(turn, step) }
}

pub(super) fn run_look(call: CallId, attempt: u32) -> Directive {
    let (tool, arguments) = (tool("look", Effect::Reads), look().arguments);
    Directive::CallTool { call, attempt: Attempt(attempt), tool, arguments, basis: RunBasis::Mode }
}

pub(super) fn run_change(call: CallId) -> Directive {
    let (tool, arguments) = (tool("change", Effect::Edits), change().arguments);
    let basis = RunBasis::Approved { approval: card_of(call) };
    Directive::CallTool { call, attempt: Attempt(1), tool, arguments, basis }
}

pub(super) fn open_card(call: CallId) -> Directive {
    Directive::OpenCard(Box::new(card(call, "change")))
}

pub(super) fn pay(call: CallId, payment: Payment) -> Directive {
    Directive::PayDebt { approval: card_of(call), payment }
}

pub(super) fn withdraw(call: CallId, reason: &str) -> Directive {
    Directive::WithdrawCards { approvals: vec![card_of(call)], reason: reason.into() }
}

pub(super) fn cancel(turn: u64) -> Directive {
    Directive::CancelTurn { turn: TurnId(turn) }
}

pub(super) fn took(message: u64, turn: u64) -> TopicAnswer {
    sent(message, Receipt::Accepted { turn: TurnId(turn) })
}

pub(super) fn queued(message: u64, position: usize) -> TopicAnswer {
    sent(message, Receipt::Queued { position })
}

pub(super) fn held_for(message: u64, reason: HoldReason) -> TopicAnswer {
    sent(message, Receipt::Held { reason })
}

pub(super) fn sent(message: u64, receipt: Receipt) -> TopicAnswer {
    TopicAnswer::Sent { message: MessageId(message), receipt }
}

/// The server hands out this.
pub(super) fn receipts(call: CallId, attempt: u32, receipt: CallReceipt) -> TopicCommand {
    TopicCommand::CallReceipted { call, attempt: Attempt(attempt), receipt }
}

pub(super) fn receipted(call: CallId, attempt: u32, receipt: CallReceipt) -> TopicEvent {
    TopicEvent::CallReceipted { call, attempt: Attempt(attempt), receipt }
}

/// The call of `change` that a person allowed goes on by this.
pub(super) fn take_up_change(call: CallId, attempt: u32, receipt: CallReceipt) -> Directive {
    let (tool, arguments) = (tool("change", Effect::Edits), change().arguments);
    let basis = RunBasis::Approved { approval: card_of(call) };
    Directive::TakeUpCall { call, attempt: Attempt(attempt), tool, arguments, basis, receipt }
}
