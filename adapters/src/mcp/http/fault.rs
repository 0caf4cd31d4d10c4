//! Decides what a failed HTTP exchange means: to the request, to the handshake, and to the connection.

use std::error::Error;

use pilothouse_messages::error::{ConnectError, RequestError};
use serde_json::Value;

use crate::policy::Refusal;

/// Why an exchange gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mcp) enum Fault {
    /// The policy does not allow the connection.
    Refused(Refusal),
    /// There was no connection, so nothing was sent.
    Unreached(String),
    /// Nothing was sent, for want of something else; the server may well be there.
    #[cfg(feature = "mcp-oauth")]
    Withheld(String),
    /// It was sent, or may have been, and the answer was broken off.
    Broken(String),
    /// The credentials are missing, wrong or too weak.
    Unauthorised { reason: String, challenge: Option<String> },
    /// Another status than success, without an MCP message that would say more.
    Status { status: u16, reason: String },
    /// A JSON-RPC error, wherever it stood; `data` is null where it has none.
    Server { code: i64, message: String, data: Value },
    /// Something that is no answer.
    Malformed(String),
}

/// What a fault says of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Sign {
    /// Nothing: the server is there.
    Alive,
    /// It may be gone: ask.
    Doubtful,
    /// It is gone.
    Dead,
}

impl Fault {
    /// What went wrong below HTTP, or in it.
    pub(in crate::mcp) fn of(error: &reqwest::Error) -> Self {
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            if let Some(refusal) = source.downcast_ref::<Refusal>() {
                return Self::Refused(refusal.clone());
            }
            cause = source;
        }
        // Only the innermost cause: the outer ones show the whole URL.
        let words = if std::ptr::eq(cause, error) { "it failed".to_owned() } else { cause.to_string() };
        if error.is_connect() { Self::Unreached(words) } else { Self::Broken(words) }
    }

    /// What it says of the connection.
    pub(in crate::mcp) fn sign(&self) -> Sign {
        match self {
            Self::Refused(_) | Self::Unreached(_) => Sign::Dead,
            Self::Broken(_) => Sign::Doubtful,
            #[cfg(feature = "mcp-oauth")]
            Self::Withheld(_) => Sign::Alive,
            Self::Unauthorised { .. } | Self::Status { .. } | Self::Server { .. } | Self::Malformed(_) => {
                Sign::Alive
            }
        }
    }

    /// In plain words, as the end of a connection says it.
    pub(in crate::mcp) fn words(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.to_string(),
            Self::Unreached(reason) => format!("it cannot be reached: {reason}"),
            #[cfg(feature = "mcp-oauth")]
            Self::Withheld(reason) => reason.clone(),
            Self::Broken(reason) => format!("it broke off its answer: {reason}"),
            Self::Unauthorised { reason, .. } | Self::Malformed(reason) => reason.clone(),
            Self::Status { status, reason } => format!("it answered HTTP {status}: {reason}"),
            Self::Server { code, message, .. } => format!("the server answered error {code}: {message}"),
        }
    }

    /// What the caller of a request is told.
    pub(in crate::mcp) fn request_error(self) -> RequestError {
        match self {
            Self::Refused(refusal) => RequestError::Unsent { reason: refusal.to_string() },
            Self::Unreached(reason) => RequestError::Unsent { reason },
            #[cfg(feature = "mcp-oauth")]
            Self::Withheld(reason) => RequestError::Unsent { reason },
            Self::Broken(reason) => RequestError::Interrupted { reason },
            Self::Unauthorised { reason, challenge } => RequestError::Unauthorised { reason, challenge },
            Self::Status { status, reason } => RequestError::Http { status, reason },
            Self::Server { code, message, .. } => RequestError::Server { code, message },
            Self::Malformed(reason) => RequestError::Malformed { reason },
        }
    }

    /// What the caller of a connect is told.
    pub(in crate::mcp) fn connect_error(self) -> ConnectError {
        match self {
            Self::Refused(refusal) => refusal.into(),
            Self::Unauthorised { reason, challenge } => ConnectError::Unauthorised { reason, challenge },
            #[cfg(feature = "mcp-oauth")]
            Self::Withheld(reason) => ConnectError::Handshake { reason },
            other @ (Self::Unreached(_)
            | Self::Broken(_)
            | Self::Status { .. }
            | Self::Server { .. }
            | Self::Malformed(_)) => ConnectError::Handshake { reason: other.words() },
        }
    }
}
