//! Decides what a server's answer means: a page of tools, the result of a call, or an error.

use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::error::RequestError;
use pilothouse_messages::limits::WAIT_MAX;
use serde_json::{Map, Value};

use crate::server::{CacheScope, Page};

/// Pieces of one result that are kept; their bytes are bounded by the line that they came in.
const CONTENT_PIECES_MAX: usize = 1_000;

/// Takes the result out of a whole answer.
pub(super) fn result(answer: Value) -> Result<Map<String, Value>, RequestError> {
    let Value::Object(mut answer) = answer else {
        return Err(malformed("it is no JSON object"));
    };
    match (answer.remove("error").filter(|error| !error.is_null()), answer.remove("result")) {
        (Some(error), _) => Err(refusal(&error)),
        (None, Some(Value::Object(result))) => Ok(result),
        (None, _) => Err(malformed("its result is no JSON object")),
    }
}

fn malformed(reason: impl Into<String>) -> RequestError {
    RequestError::Malformed { reason: reason.into() }
}

fn refusal(error: &Value) -> RequestError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let words = error.get("message").and_then(Value::as_str).unwrap_or("(no message)");
    RequestError::Server { code, message: words.to_owned() }
}

/// Reads one page of `tools/list`; the tools are not looked at.
pub(super) fn page(mut result: Map<String, Value>) -> Result<Page, RequestError> {
    let Some(Value::Array(tools)) = result.remove("tools") else {
        return Err(malformed("`tools` is no list"));
    };
    let next_cursor = match result.remove("nextCursor") {
        // Some servers write an empty cursor on the last page; asked for, it would be the first page again.
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) => Some(cursor).filter(|cursor| !cursor.is_empty()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(malformed("`nextCursor` is no string"));
        }
    };
    let ttl = result.get("ttlMs").and_then(Value::as_u64).map(|ms| Duration::from_millis(ms).min(WAIT_MAX));
    let cache = match result.get("cacheScope").and_then(Value::as_str) {
        // What is said in other words than the two we know is kept from everybody else.
        None | Some("public") => CacheScope::Public,
        Some(_) => CacheScope::Private,
    };
    Ok(Page { tools, next_cursor, ttl, cache })
}

/// Reads the result of `tools/call`.
pub(super) fn called(mut result: Map<String, Value>) -> Result<CallResult, RequestError> {
    let pieces = match result.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(pieces)) => pieces,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            return Err(malformed("`content` is no list"));
        }
    };
    let mut pieces = pieces.into_iter().filter(is_for_the_model);
    let mut content: Vec<_> = pieces.by_ref().take(CONTENT_PIECES_MAX).map(piece).collect();
    let left = pieces.count();
    if left > 0 {
        let all = CONTENT_PIECES_MAX + left;
        let cut = format!("[cut: the result has {all} pieces, {CONTENT_PIECES_MAX} are shown]");
        content.push(Content::Text(cut));
    }
    let has_text = content.iter().any(|piece| matches!(piece, Content::Text(_)));
    if let Some(structured) = result.remove("structuredContent").filter(|value| !value.is_null() && !has_text)
    {
        content.push(Content::Other(structured.into()));
    }
    // Whatever a server writes here but `false`, it does not mean that all is well.
    let outcome = match result.remove("isError") {
        None | Some(Value::Null | Value::Bool(false)) => CallOutcome::Succeeded,
        Some(_) => CallOutcome::Failed,
    };
    Ok(CallResult { outcome, content, retry_after_ms: None })
}

/// Content whose audience leaves out the assistant is not for the model (MCP, "Annotations").
fn is_for_the_model(piece: &Value) -> bool {
    match piece.pointer("/annotations/audience") {
        Some(Value::Array(audience)) => audience.is_empty() || audience.iter().any(|who| who == "assistant"),
        Some(_) | None => true,
    }
}

fn piece(piece: Value) -> Content {
    match (piece.get("type").and_then(Value::as_str), piece.get("text").and_then(Value::as_str)) {
        (Some("text"), Some(text)) => Content::Text(text.to_owned()),
        _ => Content::Other(piece.into()),
    }
}

#[cfg(test)]
mod tests;
