//! Decides what a provider's refusal means: whether the same request may be answered another time, and when.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::model::ModelError;
use crate::text::one_line;
use crate::words::Words;

/// What is told of a provider's words (2 KiB).
const SHOWN_BYTES: usize = 2 << 10;

/// What an answer without success means.
pub(super) fn of_answer(status: u16, headers: &HeaderMap, body: &[u8], words: &Words) -> ModelError {
    let said = serde_json::from_slice::<Value>(body).unwrap_or(Value::Null);
    let message = message(&said).unwrap_or_else(|| {
        let text = one_line(&String::from_utf8_lossy(body), SHOWN_BYTES);
        if text.is_empty() { "it said nothing else".to_owned() } else { text }
    });
    let message = words.reason(message);
    let asked = header(headers, "x-should-retry");
    let passes = match asked {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => may_pass(status) && !is_spent(&said),
    };
    if passes {
        ModelError::Busy { status, message, retry_after: retry_after(headers) }
    } else {
        ModelError::Provider { status, message }
    }
}

/// What an error within a stream means; it has no status of its own.
pub(super) fn of_event(said: &Value, words: &Words) -> ModelError {
    let error = error_of(said);
    let kind = ["type", "code"].iter().filter_map(|field| error.get(*field)?.as_str());
    let named = kind.filter_map(status_of).next();
    let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = status.filter(|status| (400..600).contains(status)).or(named).unwrap_or(500);
    let message = words.reason(message(said).unwrap_or_else(|| one_line(&said.to_string(), SHOWN_BYTES)));
    if may_pass(status) && !is_spent(said) {
        ModelError::Busy { status, message, retry_after: None }
    } else {
        ModelError::Provider { status, message }
    }
}

/// Statuses of a provider that is overloaded, limits its rate or is ill.
fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 520..=524 | 529)
}

/// The status that an error's name stands for (OpenAI, "Error codes"; Anthropic, "Errors").
fn status_of(name: &str) -> Option<u16> {
    match name {
        "invalid_request_error" | "context_length_exceeded" => Some(400),
        "authentication_error" | "invalid_api_key" => Some(401),
        "billing_error" => Some(402),
        "permission_error" => Some(403),
        "not_found_error" | "model_not_found" => Some(404),
        "request_too_large" => Some(413),
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => Some(429),
        "api_error" | "server_error" => Some(500),
        "timeout_error" => Some(504),
        "overloaded_error" | "overloaded" => Some(529),
        _ => None,
    }
}

/// A 429 that no wait cures: the account has no money left.
fn is_spent(said: &Value) -> bool {
    let error = error_of(said);
    let spent = |field: &str| error.get(field).and_then(Value::as_str) == Some("insufficient_quota");
    spent("code") || spent("type")
}

fn error_of(said: &Value) -> &Value {
    said.get("error").unwrap_or(said)
}

fn message(said: &Value) -> Option<String> {
    let error = error_of(said);
    let text = error.get("message").or_else(|| error.get("detail")).unwrap_or(error).as_str()?;
    Some(one_line(text, SHOWN_BYTES)).filter(|text| !text.is_empty())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// How long the provider wants to be left alone, in seconds or milliseconds. A date is not read: it would have to be
/// compared with a clock of ours.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name| header(headers, name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}
