//! Decides what a server's answer means: a page of tools, the result of a call, a question, a task, or an error.

use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::error::RequestError;
use pilothouse_messages::limits::WAIT_MAX;
use serde_json::{Map, Value};

use crate::server::{CacheScope, CallAnswer, InputRequired, Page, TaskState, TaskTicket};

/// Pieces of one result that are kept; their bytes are bounded by the line that they came in.
const CONTENT_PIECES_MAX: usize = 1_000;
/// A longer name of a task is refused: it is stored.
const TASK_ID_BYTES_MAX: usize = 1 << 10;

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
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) => Some(cursor),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(malformed("`nextCursor` is no string"));
        }
    };
    let cache = match result.get("cacheScope") {
        None | Some(Value::Null) => CacheScope::Public,
        Some(scope) if scope == "public" => CacheScope::Public,
        // What is not known to be everybody's is nobody else's.
        Some(_) => CacheScope::Private,
    };
    Ok(Page { tools, next_cursor, ttl: millis(result.get("ttlMs")), cache })
}

/// A time in milliseconds, at most as long as anything waits here.
fn millis(value: Option<&Value>) -> Option<Duration> {
    let millis = value?.as_f64().filter(|millis| *millis >= 0.0)?;
    Some(Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(WAIT_MAX).min(WAIT_MAX))
}

/// Reads the answer to `tools/call`: its result, a question, or a task (2026-07-28 says which; 2025-11-25 nests a task).
pub(super) fn call_answer(mut result: Map<String, Value>) -> Result<CallAnswer, RequestError> {
    match result.get("resultType").and_then(Value::as_str) {
        Some("input_required") => Ok(CallAnswer::InputRequired(input_required(&mut result)?)),
        Some("task") => Ok(CallAnswer::Task(ticket(&result)?)),
        None | Some("complete") => match result.get("task") {
            Some(Value::Object(task)) if !result.contains_key("content") => {
                Ok(CallAnswer::Task(ticket(task)?))
            }
            Some(_) | None => Ok(CallAnswer::Done(called(result)?)),
        },
        Some(_) => Err(malformed("its `resultType` is unknown")),
    }
}

fn input_required(result: &mut Map<String, Value>) -> Result<InputRequired, RequestError> {
    let requests = match result.remove("inputRequests") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(requests)) => requests,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(malformed("`inputRequests` is no JSON object"));
        }
    };
    let state = match result.remove("requestState") {
        None | Some(Value::Null) => None,
        Some(Value::String(state)) => Some(state),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(malformed("`requestState` is no string"));
        }
    };
    Ok(InputRequired { requests, state })
}

fn ticket(task: &Map<String, Value>) -> Result<TaskTicket, RequestError> {
    let Some(id) = task.get("taskId").and_then(Value::as_str).filter(|id| id.len() <= TASK_ID_BYTES_MAX)
    else {
        return Err(malformed("its task has no id, or too long a one"));
    };
    let either = |modern: &str, legacy: &str| millis(task.get(modern)).or_else(|| millis(task.get(legacy)));
    Ok(TaskTicket {
        id: id.to_owned(),
        poll_after: either("pollIntervalMs", "pollInterval"),
        ttl: either("ttlMs", "ttl").filter(|ttl| !ttl.is_zero()),
    })
}

/// What a server says about a task.
#[derive(Debug, PartialEq)]
pub(super) enum TaskTold {
    /// How it is.
    State(TaskState),
    /// It is over, and its result has to be fetched by `tasks/result`.
    Over,
}

/// Reads the answer to `tasks/get`.
pub(super) fn task_told(mut result: Map<String, Value>) -> Result<TaskTold, RequestError> {
    let ticket = ticket(&result)?;
    let said = result
        .get("statusMessage")
        .and_then(Value::as_str)
        .map(|words| format!(": {words}"))
        .unwrap_or_default();
    let state = match result.get("status").and_then(Value::as_str) {
        Some("working" | "submitted") => TaskState::Working(ticket),
        Some("input_required") => TaskState::InputRequired(ticket, input_required(&mut result)?),
        Some("completed") => match result.remove("result") {
            Some(Value::Object(result)) => TaskState::Done(called(result)?),
            Some(_) | None => return Ok(TaskTold::Over),
        },
        Some("failed") => match result.remove("error") {
            Some(error) => {
                let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
                let words = error.get("message").and_then(Value::as_str).unwrap_or("(no message)");
                let words = format!("the task failed with error {code}: {words}");
                TaskState::Done(CallResult::said(CallOutcome::Failed, words))
            }
            None => TaskState::Done(CallResult::said(CallOutcome::Failed, format!("the task failed{said}"))),
        },
        Some("cancelled") => {
            let words = format!("the server cancelled the task{said}");
            TaskState::Done(CallResult::said(CallOutcome::Cancelled, words))
        }
        Some(_) | None => return Err(malformed("its task has no known status")),
    };
    Ok(TaskTold::State(state))
}

/// Names of tools that run as tasks only (`execution.taskSupport`, MCP 2025-11-25, "Tasks").
pub(super) fn task_only(page: &Page) -> impl Iterator<Item = String> {
    let named = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let required =
        |tool: &&Value| tool.pointer("/execution/taskSupport").is_some_and(|support| support == "required");
    page.tools.iter().filter(required).filter_map(named)
}

/// Reads the result of a tool.
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
    if let Some(structured) = result.remove("structuredContent").filter(|value| !value.is_null()) {
        content.push(Content::Structured(structured.into()));
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
