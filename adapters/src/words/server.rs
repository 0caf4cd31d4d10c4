//! What is secret about a server, and its errors without it.

use std::sync::PoisonError;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::server::{Proxies, ServerDefinition, Transport};
use serde_json::Value;

use super::{SECRET_BYTES_MIN, Words};
use crate::mcp::proxy_secrets;

/// How many passing secrets of one server are known again: an old one is worth nothing.
const PASSING_MAX: usize = 32;
/// A longer passing secret is not known again: whoever looks for it would have to keep that much of every text.
const PASSING_BYTES_MAX: usize = 4 << 10;

impl Words {
    /// Knows the values of a definition's variables and headers, and what its URL hides.
    pub(crate) fn of(definition: &ServerDefinition) -> Self {
        let values: Vec<&str> = match &definition.transport {
            Transport::Stdio { env, .. } => env.values().map(|value| value.expose()).collect(),
            Transport::Http { endpoint, headers } | Transport::Sse { endpoint, headers } => {
                // A server that was given `Bearer x` may repeat `x` alone.
                let headers = headers.values().map(|value| value.expose());
                let headers = headers.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or_default()]);
                endpoint.secrets().into_iter().chain(headers).collect()
            }
            Transport::InMemory { .. } => Vec::new(),
        };
        let proxies = match definition.proxies {
            Proxies::None => Vec::new(),
            Proxies::FromEnvironment => proxy_secrets(),
        };
        let written: Vec<String> = values.iter().map(|value| unescaped(value)).collect();
        let basic = basic(&definition.transport);
        let values = values.into_iter().chain(proxies.iter().map(String::as_str));
        let values = values.chain(written.iter().map(String::as_str)).chain(basic.as_deref());
        Self::of_secrets(values.chain(definition.secrets.iter().map(|secret| secret.expose())))
    }

    /// A secret that the server is sent from now on, such as a token.
    pub(crate) fn pass(&self, secret: &str) {
        let mut passing = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        let length = secret.trim().len();
        if !(SECRET_BYTES_MIN..=PASSING_BYTES_MAX).contains(&length)
            || passing.iter().any(|known| known == secret)
        {
            return;
        }
        if passing.len() >= PASSING_MAX {
            passing.remove(0);
        }
        passing.push(secret.to_owned());
    }

    /// What a person answered: each text in `content`, wherever it stands.
    pub(crate) fn pass_answer(&self, answer: &Value) {
        if let Some(content) = answer.get("content") {
            self.pass_texts(content);
        }
    }

    fn pass_texts(&self, value: &Value) {
        match value {
            Value::String(text) => self.pass(text),
            Value::Array(values) => values.iter().for_each(|value| self.pass_texts(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.pass_texts(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A failed connect as it may be shown.
    pub(crate) fn connect_error(&self, error: ConnectError) -> ConnectError {
        match error {
            ConnectError::Spawn { command, reason } => {
                ConnectError::Spawn { command: self.reason(command), reason: self.reason(reason) }
            }
            ConnectError::Handshake { reason } => ConnectError::Handshake { reason: self.reason(reason) },
            ConnectError::Unauthorised { reason, challenge } => ConnectError::Unauthorised {
                reason: self.reason(reason),
                challenge: challenge.map(|challenge| self.reason(challenge)),
            },
            ConnectError::Refused { what, reason } => {
                ConnectError::Refused { what: self.reason(what), reason: self.reason(reason) }
            }
            other => other,
        }
    }

    /// A failed request as it may be shown.
    pub(crate) fn request_error(&self, error: RequestError) -> RequestError {
        match error {
            RequestError::Server { code, message } => {
                RequestError::Server { code, message: self.reason(message) }
            }
            RequestError::Malformed { reason } => RequestError::Malformed { reason: self.reason(reason) },
            RequestError::Unauthorised { reason, challenge } => RequestError::Unauthorised {
                reason: self.reason(reason),
                challenge: challenge.map(|challenge| self.reason(challenge)),
            },
            RequestError::Http { status, reason } => {
                RequestError::Http { status, reason: self.reason(reason) }
            }
            RequestError::Unsent { reason } => RequestError::Unsent { reason: self.reason(reason) },
            RequestError::Interrupted { reason } => RequestError::Interrupted { reason: self.reason(reason) },
            RequestError::Ended { reason } => RequestError::Ended { reason: self.reason(reason) },
            other => other,
        }
    }
}

/// What the user and password of a URL become in a request.
fn basic(transport: &Transport) -> Option<String> {
    let (Transport::Http { endpoint, .. } | Transport::Sse { endpoint, .. }) = transport else { return None };
    let (_, rest) = endpoint.expose().split_once("://")?;
    let (user, _host) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let credentials = [decoded(name), decoded(password)].join(&b':');
    Some(BASE64_STANDARD_NO_PAD.encode(credentials))
}

fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&decoded(text)).into_owned()
}

/// Bytes that a URL writes with percent signs.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%');
        let byte = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}
