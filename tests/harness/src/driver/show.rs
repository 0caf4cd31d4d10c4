//! What the runtime shows, as fields of lines out.

use std::time::Duration;

use pilothouse::Sent;
use pilothouse::approval::{Card, DecideAnswer, Grant, Settlement, ToolChange, ToolFace};
use pilothouse::call::{CallResult, Content};
use pilothouse::id::{ApprovalId, CallId, Sequence, TopicId};
use pilothouse::listing::{ListingState, ListingView};
use pilothouse::server::ServerView;
use pilothouse::time::Timestamp;
use pilothouse::tool::{SurfaceView, ToolDefinition};
use pilothouse::topic::{
    Budget, CallState, CallView, Level, MessageView, Receipt, StopReason, TopicConfig, TopicUpdate,
    TopicView, TurnView,
};
use pilothouse::tree::{RuntimeEvent, TreeNode};
use serde::Serialize;
use serde_json::{Value, json};

use super::out::Fields;

/// The fields of an object, without those that say nothing.
pub(super) fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Fields::new(),
    }
}

fn object(value: Value) -> Value {
    Value::Object(fields(value))
}

/// The fields of two objects.
fn joined(first: Value, second: Fields) -> Fields {
    fields(first).into_iter().chain(second).collect()
}

/// A topic's event: its kind and its fields but for the topic.
pub(super) fn update(update: &TopicUpdate) -> (&'static str, Fields) {
    match update {
        TopicUpdate::Status(status) => ("topic_status", fields(json!({"status": status}))),
        TopicUpdate::Receipt { message, receipt } => {
            ("receipt", joined(json!({"message": message}), self::receipt(receipt)))
        }
        TopicUpdate::TurnStarted { turn, messages } => {
            ("turn_started", fields(json!({"turn": turn, "messages": messages})))
        }
        TopicUpdate::Text { turn, delta } => ("text", fields(json!({"turn": turn, "delta": delta}))),
        TopicUpdate::StepFinished { turn, step } => {
            ("step_finished", fields(json!({"turn": turn, "step": step})))
        }
        TopicUpdate::ToolStarted { call, tool, server } => (
            "tool_started",
            fields(json!({"turn": call.turn, "call": call.to_string(), "tool": tool, "server": server})),
        ),
        TopicUpdate::ToolFinished { call, tool, server, result } => {
            let told = json!({"turn": call.turn, "call": call.to_string(), "tool": tool, "server": server});
            ("tool_finished", joined(told, self::result(result)))
        }
        TopicUpdate::ApprovalRequested(card) => ("approval_requested", fields(self::card(card))),
        TopicUpdate::ApprovalSettled { approval, state, by, reason } => (
            "approval_settled",
            fields(json!({"approval": approval, "state": state, "by": by, "reason": reason})),
        ),
        TopicUpdate::TurnFinished { turn, stop } => {
            ("turn_finished", joined(json!({"turn": turn}), self::stop(stop)))
        }
        TopicUpdate::Reasoning { turn, step, delta } => {
            ("reasoning", fields(json!({"turn": turn, "step": step, "delta": delta})))
        }
        TopicUpdate::ToolInput { turn, step, index, tool, delta } => (
            "tool_input",
            fields(json!({"turn": turn, "step": step, "index": index, "tool": tool, "delta": delta})),
        ),
        TopicUpdate::MessageChanged { message, text, level } => {
            ("message_changed", fields(json!({"message": message, "text": text, "level": level})))
        }
        TopicUpdate::HistoryShortened { turn, step, left_out } => {
            ("history_shortened", fields(json!({"turn": turn, "step": step, "left_out": left_out})))
        }
        TopicUpdate::NestedStarted { call, number, tool, server } => {
            ("nested_started", fields(nested(*call, *number, tool, server.as_ref())))
        }
        TopicUpdate::NestedFinished { call, number, tool, server, result } => {
            let told = nested(*call, *number, tool, server.as_ref());
            ("nested_finished", joined(told, self::result(result)))
        }
    }
}

fn nested(call: CallId, number: u32, tool: &str, server: Option<&String>) -> Value {
    json!({"turn": call.turn, "call": call.to_string(), "number": number, "tool": tool, "server": server})
}

/// Where a message is.
pub(super) fn receipt(receipt: &Receipt) -> Fields {
    fields(match receipt {
        Receipt::Accepted { turn } => json!({"state": "accepted", "turn": turn}),
        Receipt::Queued { position } => json!({"state": "queued", "position": position}),
        Receipt::Answered { turn } => json!({"state": "answered", "turn": turn}),
        Receipt::Held { reason } => json!({"state": "held", "reason": reason}),
        Receipt::Injected { turn, step } => json!({"state": "injected", "turn": turn, "step": step}),
        Receipt::Dropped { by } => json!({"state": "dropped", "by": by}),
    })
}

/// The reply to a message that was taken.
pub(super) fn sent(topic: &TopicId, sent: &Sent) -> Fields {
    joined(json!({"topic": topic, "message": sent.message}), placed(&sent.receipt))
}

/// Where a message is, beside other things about it.
fn placed(receipt: &Receipt) -> Fields {
    let mut told = self::receipt(receipt);
    let state = told.remove("state");
    joined(json!({"receipt": state}), told)
}

fn stop(stop: &StopReason) -> Fields {
    fields(json!({"stop": stop.name(), "reason": stop.detail()}))
}

/// Outcome and content of a call; content blocks as MCP writes them.
pub(super) fn result(result: &CallResult) -> Fields {
    let block = |piece: &Content| match piece {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Other(block) => block.value(),
        Content::Structured(data) => serde_json::json!({"type": "structured", "data": data.value()}),
    };
    let content: Vec<Value> = result.content.iter().map(block).collect();
    fields(json!({"outcome": result.outcome, "content": content, "retry_after_ms": result.retry_after_ms}))
}

/// A card as a person needs it.
pub(super) fn card(card: &Card) -> Value {
    object(json!({
        "approval": card.approval, "topic": card.topic, "tenant": card.tenant, "turn": card.call.turn,
        "call": card.call.to_string(), "tool": card.tool, "server": card.source.server(),
        "raw_name": card.source.raw_name(), "label": card.label, "title": card.title, "effect": card.effect,
        "arguments": card.arguments, "fingerprint": card.fingerprint, "definition": card.definition,
        "digest": card.digest(), "reason": card.reason, "expires_at": card.expires_at,
    }))
}

/// A card, with what has changed about its tool.
pub(super) fn card_with(card: &Card, change: Option<&ToolChange>) -> Value {
    Value::Object(joined(self::card(card), fields(json!({"change": change.map(self::change)}))))
}

/// What has changed about a card's tool: both sides.
pub(super) fn change(change: &ToolChange) -> Value {
    let side = |face: &ToolFace| object(serde_json::to_value(face).unwrap_or_default());
    json!({"seen": change.seen, "parts": change.parts(), "old": side(&change.old), "new": side(&change.new)})
}

/// A standing approval.
pub(super) fn grant(grant: &Grant) -> Value {
    object(json!({
        "grant": grant.grant, "approval": grant.approval, "tenant": grant.tenant, "place": grant.place,
        "of": grant.subject, "tools": grant.fingerprints.len(), "definition": grant.definition,
        "arguments": grant.arguments, "by": grant.by, "reason": grant.reason, "given_at": grant.given_at,
        "expires_at": grant.expires_at,
    }))
}

/// What became of a decision.
pub(super) fn answer(approval: ApprovalId, answer: &DecideAnswer) -> Value {
    let settled = |name: &str, settlement: &Settlement| json!({"approval": approval, "answer": name, "state": settlement.state, "by": settlement.by});
    object(match answer {
        DecideAnswer::Applied => json!({"approval": approval, "answer": "applied"}),
        DecideAnswer::Already(settlement) => settled("already", settlement),
        DecideAnswer::Conflict(settlement) => settled("conflict", settlement),
        DecideAnswer::Expired(settlement) => settled("expired", settlement),
        DecideAnswer::Withdrawn(settlement) => settled("withdrawn", settlement),
        DecideAnswer::Changed { digest } => {
            json!({"approval": approval, "answer": "changed", "digest": digest})
        }
        DecideAnswer::Unknown => json!({"approval": approval, "answer": "unknown"}),
    })
}

/// What a server offered last.
pub(super) fn listing(view: &ListingView, now: Timestamp) -> Fields {
    let (state, reason) = match &view.state {
        ListingState::Cold => ("cold", None),
        ListingState::Warm => ("warm", None),
        ListingState::Stale { reason } => ("stale", Some(reason)),
    };
    let tools: Vec<Value> = view.tools().iter().map(tool).collect();
    let listing = view.listing.as_deref();
    let age = listing.map(|listing| now.since(listing.listed_at));
    fields(json!({
        "server": view.server, "state": state, "reason": reason, "tools": tools,
        "revision": listing.map(|listing| listing.revision), "age_ms": age.map(milliseconds),
        "dropped": listing.map(|listing| &listing.dropped),
    }))
}

fn tool(tool: &ToolDefinition) -> Value {
    let mut shown = fields(shown(tool));
    shown.insert("fingerprint".into(), json!(tool.fingerprint()));
    Value::Object(shown)
}

/// What a model is shown, what it finds by search instead, and why.
pub(super) fn surface(surface: &SurfaceView) -> Fields {
    fields(json!({
        "tools": surface.tools, "deferred": surface.deferred, "section": surface.section,
        "report": surface.deferral, "loosened": surface.loosened, "hash": surface.hash,
    }))
}

/// Where a subscriber is.
pub(super) fn sequence(sequence: Sequence) -> Value {
    json!({"epoch": sequence.epoch, "n": sequence.n})
}

/// A topic.
pub(super) fn view(view: &TopicView) -> Fields {
    let turns: Vec<Value> = view.turns.iter().map(|shown| turn(shown)).collect();
    let messages = |messages: &[MessageView]| messages.iter().map(message).collect::<Vec<_>>();
    fields(json!({
        "topic": view.topic, "sequence": sequence(view.sequence), "status": view.status,
        "config": config(&view.config), "turns": turns, "earlier_turns": view.earlier_turns,
        "queue": messages(&view.queue), "held": messages(&view.held),
        "cards": view.cards.iter().map(card).collect::<Vec<_>>(), "live": view.live,
    }))
}

fn config(config: &TopicConfig) -> Value {
    // What events of their own store is no field of the stored form.
    let told = json!({
        "headless": config.headless, "context_window": config.context_window,
        "tools": (!config.tools.is_open()).then_some(&config.tools),
        "steering": config.turns.steering, "claim": config.turns.claim, "after_crash": config.turns.after_crash,
        "budget": (config.turns.budget != Budget::default()).then_some(config.turns.budget),
    });
    Value::Object(joined(shown(config), fields(told)))
}

pub(super) fn turn(turn: &TurnView) -> Value {
    let step = |step: &pilothouse::topic::StepView| json!({"step": step.step, "text": step.text, "calls": step.calls.iter().map(call).collect::<Vec<_>>()});
    let told = json!({
        "turn": turn.turn, "messages": turn.messages.iter().map(message).collect::<Vec<_>>(),
        "steps": turn.steps.iter().map(step).collect::<Vec<_>>(),
        "started_at": turn.started_at, "finished_at": turn.finished_at, "continues": turn.continues,
        "usage": turn.usage,
    });
    Value::Object(joined(told, turn.stop.as_ref().map(stop).unwrap_or_default()))
}

fn message(message: &MessageView) -> Value {
    let level = (message.level != Level::default()).then_some(message.level);
    let told = json!({"message": message.message, "text": message.text, "at": message.at, "level": level});
    Value::Object(joined(told, placed(&message.receipt)))
}

fn call(call: &CallView) -> Value {
    let nested = call.nested.iter().map(|nested| {
        let told = json!({"number": nested.number, "tool": nested.tool, "arguments": nested.arguments});
        Value::Object(joined(told, call_state(&nested.state)))
    });
    let nested: Vec<_> = nested.collect();
    let told = json!({
        "call": call.call.to_string(), "tool": call.tool, "arguments": call.arguments,
        "nested": (!nested.is_empty()).then_some(nested),
    });
    Value::Object(joined(told, call_state(&call.state)))
}

fn call_state(state: &CallState) -> Fields {
    match state {
        CallState::Awaiting { approval } => fields(json!({"state": "awaiting", "approval": approval})),
        CallState::Running => fields(json!({"state": "running"})),
        CallState::Finished(result) => joined(json!({"state": "finished"}), self::result(result)),
    }
}

/// The supervision tree.
pub(super) fn tree(root: &TreeNode) -> Fields {
    let mut told = fields(shown(root));
    if let Some(server) = told.get_mut("server") {
        *server = object(server.take());
    }
    let children: Vec<Value> = root.children.iter().map(|child| Value::Object(tree(child))).collect();
    told.insert("children".into(), children.into());
    told
}

/// What a server is doing.
fn server(view: &ServerView, now: Timestamp) -> Fields {
    let retry_in = view.retry_at.map(|at| at.since(now));
    fields(json!({
        "server": view.server, "state": view.state, "reason": view.reason,
        "attempt": (view.attempt > 0).then_some(view.attempt),
        "retry_in_ms": retry_in.map(milliseconds), "last_failure": view.last_failure,
    }))
}

/// An event of the runtime as a whole; `None` for one that a topic's own lines already say.
pub(super) fn runtime(event: &RuntimeEvent, now: Timestamp) -> Option<(&'static str, Fields)> {
    Some(match event {
        RuntimeEvent::Server(view) => ("server_state", server(view, now)),
        RuntimeEvent::Listing { server, revision, tools, fresh, reason } => (
            "listing",
            fields(
                json!({"server": server, "revision": revision, "tools": tools, "fresh": fresh, "reason": reason}),
            ),
        ),
        RuntimeEvent::Restarted { actor, reason } => {
            ("restarted", fields(json!({"actor": actor, "reason": reason})))
        }
        RuntimeEvent::Lagged { missed } => ("lagged", fields(json!({"as": "runtime", "missed": missed}))),
        RuntimeEvent::TopicOpened { .. } => return None,
        RuntimeEvent::TopicSlept { topic } => ("topic_slept", fields(json!({"topic": topic}))),
        RuntimeEvent::QuestionAsked(card) => ("question_asked", super::questions::shown(card)),
        RuntimeEvent::QuestionOver { question, topic, end } => (
            "question_over",
            fields(json!({"question": question, "topic": topic, "word": end.word, "by": end.by})),
        ),
        // The enum may grow; what is new there has no line yet.
        _ => return None,
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Plain data as JSON. All of it has text for keys, so that nothing here can fail.
fn shown(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}
