//! What is secret about a server, and its errors without it.

use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::server::{Proxies, ServerDefinition, Transport};

use super::Words;
use crate::mcp::proxy_secrets;

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
        let values = values.into_iter().chain(proxies.iter().map(String::as_str));
        Self::of_secrets(values)
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
