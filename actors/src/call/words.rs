//! What a call's last word says where the tool itself says nothing.

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::error::RequestError;
use pilothouse_rules::arguments::Faults;

/// The JSON-RPC code with which a server refuses arguments (JSON-RPC 2.0, section 5.1).
const INVALID_PARAMS: i64 = -32602;

pub(super) fn refused_by(error: &RequestError) -> CallResult {
    match error {
        RequestError::Server { code: INVALID_PARAMS, message } => {
            rejected(&format!("the server refused the arguments: {message}"))
        }
        RequestError::Unsent { reason } => CallResult::unavailable(
            format!("the server could not be reached: {reason}; it was not called"),
            None,
        ),
        // Whoever says so, the server or a gateway before it, does not say whether the tool has acted.
        RequestError::Interrupted { reason } | RequestError::Http { status: 408 | 500..=599, reason } => {
            unknown(&format!("it was sent, and no answer came: {reason}"))
        }
        RequestError::Ended { reason } => {
            unknown(&format!("it was sent, and the connection ended before it answered: {reason}"))
        }
        // `Server` and `Malformed`, and whatever else an answer can be.
        error => CallResult::said(CallOutcome::Failed, error.to_string()),
    }
}

pub(super) fn rejected(words: &str) -> CallResult {
    CallResult::said(CallOutcome::Rejected, words)
}

pub(super) fn unfit(name: &str, faults: &Faults, signature: &str) -> CallResult {
    rejected(&format!(
        "\"{name}\" was not called: the arguments do not match its schema:\n{faults}\nThis is its signature:\n{signature}"
    ))
}

pub(super) fn changed() -> CallResult {
    rejected("the tool has changed since the call was allowed; it was not called")
}

pub(super) fn unknown(words: &str) -> CallResult {
    CallResult::said(CallOutcome::Unknown, words)
}

pub(super) fn cancelled_unsent() -> CallResult {
    CallResult::said(CallOutcome::Cancelled, "cancelled before it was called")
}

pub(super) fn cancelled() -> CallResult {
    CallResult::said(CallOutcome::Cancelled, "cancelled before it answered")
}

pub(super) fn timed_out(within: std::time::Duration) -> CallResult {
    CallResult::said(CallOutcome::TimedOut, format!("no answer within {} ms", within.as_millis()))
}
