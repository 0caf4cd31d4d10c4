//! Decides how a conversation is said to a provider: who speaks in turn, under which ids and names, and what of a result
//! is text.
//!
//! ```text
//! User ─▶ Assistant {calls} ─▶ Results ─▶ Assistant ─▶ User …    begins and ends with User or Results
//! ```

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::id::CallId;
use pilothouse_messages::model::{HistoryCall, HistoryItem, ModelRequest};
use serde_json::Value;

/// What stands where a provider wants words and there are none.
const NO_TEXT: &str = "(no text)";
const NO_OUTPUT: &str = "(no output)";
const GO_ON: &str = "(Go on.)";

/// What one side says before the other one does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    User(Vec<&'a str>),
    Assistant {
        texts: Vec<&'a str>,
        calls: Vec<&'a HistoryCall>,
    },
    /// The results of the calls before it, in their order.
    Results(Vec<(CallId, &'a CallResult)>),
}

/// The request's conversation, with what it says about late tools behind it.
pub(super) fn said(request: &ModelRequest) -> Vec<Said<'_>> {
    let mut all = Vec::new();
    for item in &request.history {
        match item {
            HistoryItem::User { text } => user(&mut all, text),
            HistoryItem::Assistant { text, calls } => {
                let texts: Vec<&str> =
                    (!text.trim().is_empty()).then_some(text.as_str()).into_iter().collect();
                assistant(&mut all, texts, calls.iter().collect());
            }
            HistoryItem::Tool { call, result } => match all.last_mut() {
                Some(Said::Results(results)) => results.push((*call, result)),
                Some(Said::User(_) | Said::Assistant { .. }) | None => {
                    all.push(Said::Results(vec![(*call, result)]));
                }
            },
        }
    }
    if !matches!(all.first(), Some(Said::User(_))) {
        all.insert(0, Said::User(vec![GO_ON]));
    }
    if matches!(all.last(), Some(Said::Assistant { .. })) {
        all.push(Said::User(vec![GO_ON]));
    }
    if let Some(late) = &request.late_tools {
        user(&mut all, late);
    }
    all
}

fn user<'a>(all: &mut Vec<Said<'a>>, text: &'a str) {
    let text = if text.trim().is_empty() { NO_TEXT } else { text };
    match all.last_mut() {
        Some(Said::User(texts)) => texts.push(text),
        Some(Said::Assistant { .. } | Said::Results(_)) | None => all.push(Said::User(vec![text])),
    }
}

fn assistant<'a>(all: &mut Vec<Said<'a>>, texts: Vec<&'a str>, calls: Vec<&'a HistoryCall>) {
    match all.last_mut() {
        _ if texts.is_empty() && calls.is_empty() => {}
        Some(Said::Assistant { texts: before, calls: none }) if none.is_empty() => {
            before.extend(texts);
            *none = calls;
        }
        Some(Said::User(_) | Said::Assistant { .. } | Said::Results(_)) | None => {
            all.push(Said::Assistant { texts, calls });
        }
    }
}

/// The id of a call. It is ours, since those of providers may come twice.
pub(super) fn id(call: CallId) -> String {
    format!("call_{}_{}_{}", call.turn, call.step, call.index)
}

/// A name as every provider takes it back: a model may have called what is no name.
pub(super) fn name(written: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = written.chars().map(plain).take(64).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// What a model is told of a result: its text, and its outcome if that is no success.
pub(super) fn told(result: &CallResult) -> String {
    let mut pieces: Vec<String> = Vec::new();
    for piece in &result.content {
        match piece {
            Content::Text(text) => pieces.push(text.clone()),
            Content::Other(json) => pieces.push(in_words(&json.value())),
            Content::Structured(_) => {}
        }
    }
    // The pieces say the same to a reader, if there are any.
    if pieces.iter().all(|piece| piece.trim().is_empty())
        && let Some(json) = result.structured()
    {
        pieces = vec![json.to_string()];
    }
    let text = pieces.join("\n");
    let text = if text.trim().is_empty() { NO_OUTPUT } else { text.as_str() };
    match outcome(result.outcome) {
        None => text.to_owned(),
        Some(outcome) => format!("[{outcome}] {text}"),
    }
}

fn outcome(outcome: CallOutcome) -> Option<&'static str> {
    match outcome {
        CallOutcome::Succeeded => None,
        CallOutcome::Failed => Some("failed"),
        CallOutcome::Rejected => Some("rejected"),
        CallOutcome::Denied => Some("denied"),
        CallOutcome::Unavailable => Some("unavailable"),
        CallOutcome::TimedOut => Some("timed out"),
        CallOutcome::Cancelled => Some("cancelled"),
        CallOutcome::Unknown => Some("outcome unknown"),
    }
}

/// A piece that is no text (MCP, "Tool result"): the text of an embedded resource, the name of anything else.
fn in_words(piece: &Value) -> String {
    let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str);
    if let Some(text) = text("/resource/text") {
        return text.to_owned();
    }
    let kind = text("/type").unwrap_or("content");
    let of =
        [text("/mimeType"), text("/resource/mimeType"), text("/uri"), text("/resource/uri"), text("/name")];
    let of: Vec<&str> = of.into_iter().flatten().collect();
    format!(
        "[{kind} that is not shown: {}]",
        if of.is_empty() { "no name".to_owned() } else { of.join(", ") }
    )
}
