//! Decides what an HTTP response is before anything of it is an MCP message.

use reqwest::header::{CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::fault::Fault;
use crate::response;

/// What is shown of a body that is no MCP message.
const SHOWN_CHARS: usize = 200;
/// What is kept of a challenge (4 KiB).
const CHALLENGE_BYTES_MAX: usize = 4 << 10;

/// In which shape an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Shape {
    /// One JSON body.
    Json,
    /// A stream of events.
    Events,
}

/// The shape of a successful answer to a request.
pub(in crate::mcp) fn shape(response: &Response) -> Result<Shape, Fault> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            let status = response.status().as_u16();
            return Err(Fault::Malformed(format!(
                "HTTP {status} says that there is none, but a request needs one"
            )));
        }
        other => return Err(Fault::Malformed(format!("HTTP {} is no status for it", other.as_u16()))),
    }
    let kind = header(response, &CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(Shape::Json),
        "text/event-stream" => Ok(Shape::Events),
        "" => Err(Fault::Malformed("it has no content type".to_owned())),
        _ => Err(Fault::Malformed(format!(
            "its content type is {essence:?}, not application/json or text/event-stream"
        ))),
    }
}

/// What a response without success means.
pub(in crate::mcp) async fn failure(mut response: Response) -> Fault {
    let status = response.status();
    let challenge = header(&response, &WWW_AUTHENTICATE).map(|mut challenge| {
        let mut end = challenge.len().min(CHALLENGE_BYTES_MAX);
        while !challenge.is_char_boundary(end) {
            end -= 1;
        }
        challenge.truncate(end);
        challenge
    });
    let body = response::start(&mut response).await;
    let said = serde_json::from_slice::<Value>(&body).ok().and_then(|body| json_rpc_error(&body));
    let shown = match &said {
        Some(Said { code, message, .. }) => format!("error {code}: {message}"),
        None => start_of(&body),
    };
    match (status.as_u16(), said) {
        (401, _) => Fault::Unauthorised {
            reason: format!(
                "the server answered HTTP 401, {shown}; give it a token or a header that it takes"
            ),
            challenge,
        },
        (403, _) => Fault::Unauthorised {
            reason: format!("the server answered HTTP 403, {shown}; what it was given does not allow this"),
            challenge,
        },
        (400..500, Some(Said { code, message, data })) => Fault::Server { code, message, data },
        (status, _) => Fault::Status { status, reason: shown },
    }
}

/// A JSON-RPC error.
struct Said {
    code: i64,
    message: String,
    data: Value,
}

fn json_rpc_error(body: &Value) -> Option<Said> {
    let error = body.get("error").filter(|error| error.is_object())?;
    Some(Said {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: error.get("message").and_then(Value::as_str)?.to_owned(),
        data: error.get("data").cloned().unwrap_or_default(),
    })
}

fn start_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return "it says nothing else".to_owned();
    }
    format!("it says {:?}", whole_words(text, SHOWN_CHARS))
}

/// The start of a text, cut behind a word: half a secret would not be known for one.
pub(in crate::mcp) fn whole_words(text: &str, chars: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(chars).map(clean).collect();
    if text.chars().nth(chars).is_some() {
        let end = shown.rfind(char::is_whitespace).unwrap_or_default();
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// A header that is text.
pub(in crate::mcp) fn header(response: &Response, name: &HeaderName) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}
