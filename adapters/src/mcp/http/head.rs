//! Decides which headers a message needs, from the message itself (MCP 2025-06-18 "Protocol Version Header",
//! 2026-07-28 "Standard Request Headers").

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::params::Params;

/// From this version on each request carries its version, and headers repeat what it is about.
const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(in crate::mcp) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What a message of ours is, without its weight.
#[derive(Debug, Default, Deserialize)]
pub(in crate::mcp) struct Head {
    /// The request that it is, or that it answers.
    pub(in crate::mcp) id: Option<RequestId>,
    /// `None` for an answer.
    pub(in crate::mcp) method: Option<String>,
    #[serde(default)]
    params: HeadParams,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadParams {
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
    name: Option<Value>,
    uri: Option<Value>,
    task_id: Option<Value>,
    request_id: Option<RequestId>,
}

impl Head {
    /// Reads it off a line that rmcp wrote. What has another shape has no headers of its own.
    pub(in crate::mcp) fn of(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_default()
    }

    /// The id, if it is a request.
    pub(in crate::mcp) fn request(&self) -> Option<&RequestId> {
        self.id.as_ref().filter(|_| self.method.is_some())
    }

    /// Whether it is this method.
    pub(in crate::mcp) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The request that it takes back.
    pub(in crate::mcp) fn cancelled(&self) -> Option<&RequestId> {
        self.params.request_id.as_ref().filter(|_| self.is("notifications/cancelled"))
    }

    /// The version under which it is sent, if it says so itself.
    pub(in crate::mcp) fn version(&self) -> Option<&str> {
        self.params.meta.get(VERSION_KEY).and_then(Value::as_str)
    }

    /// The headers of this message, where `spoken` is the version of the connection.
    pub(in crate::mcp) fn headers(&self, spoken: Option<&str>, line: &[u8], known: &Params) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let version = self.version().or(spoken).filter(|_| !self.is("initialize"));
        let (Some(version), Some(method)) = (version, &self.method) else {
            insert(&mut headers, VERSION, version);
            return headers;
        };
        insert(&mut headers, VERSION, Some(version));
        if !is_modern(version) {
            return headers;
        }
        insert(&mut headers, METHOD, Some(method));
        let name = match method.as_str() {
            "tools/call" | "prompts/get" => &self.params.name,
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => &self.params.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => &self.params.task_id,
            _ => &None,
        };
        let name = name.as_ref().and_then(Value::as_str);
        insert(&mut headers, NAME, name.map(encoded).as_deref());
        if let Some(tool) = name.filter(|_| method == "tools/call") {
            for (name, value) in known.of_call(tool, line) {
                insert(&mut headers, name, Some(&encoded(&value)));
            }
        }
        headers
    }
}

/// Whether a version has the headers that repeat the message. Versions are dates, and sort as such.
pub(in crate::mcp) fn is_modern(version: &str) -> bool {
    version >= MODERN
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

/// A value that cannot stand in a header as it is stands there in base64.
fn encoded(value: &str) -> String {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    let is_plain = bytes.iter().all(|byte| (0x20..=0x7e).contains(byte))
        && !blank(bytes.first())
        && !blank(bytes.last())
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) }
}

#[cfg(test)]
mod tests;
