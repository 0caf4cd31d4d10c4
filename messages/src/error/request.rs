//! Why a request got no answer.

/// Why a request to a connected server has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server answered with a JSON-RPC error.
    #[error("the server answered error {code}: {message}")]
    Server {
        /// The code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error("the server's answer is malformed: {reason}")]
    Malformed {
        /// In plain words.
        reason: String,
    },
    /// The server wants other credentials.
    #[error("not authorised: {reason}")]
    Unauthorised {
        /// In plain words, with what to do.
        reason: String,
        /// What the server's `WWW-Authenticate` header says.
        challenge: Option<String>,
    },
    /// The answer is an HTTP status and no MCP message.
    #[error("the server answered HTTP {status}: {reason}")]
    Http {
        /// The status.
        status: u16,
        /// In plain words, with the start of what the server said.
        reason: String,
    },
    /// It never reached the server.
    #[error("it could not be sent: {reason}")]
    Unsent {
        /// In plain words.
        reason: String,
    },
    /// It was sent, and its answer was broken off; the connection may go on.
    #[error("the answer was broken off: {reason}")]
    Interrupted {
        /// In plain words.
        reason: String,
    },
    /// The connection ended first.
    #[error("the connection ended: {reason}")]
    Ended {
        /// In plain words.
        reason: String,
    },
}

impl RequestError {
    /// `true` if it shows that the server is there and speaks.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Server { .. } | Self::Malformed { .. } | Self::Unauthorised { .. } | Self::Http { .. } => {
                true
            }
            Self::Unsent { .. } | Self::Interrupted { .. } | Self::Ended { .. } => false,
        }
    }

    /// `true` if the same request may be answered later; it may have had its effect all the same unless it is
    /// [`Unsent`](Self::Unsent).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unsent { .. } | Self::Interrupted { .. } | Self::Ended { .. } => true,
            Self::Http { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Server { .. } | Self::Malformed { .. } | Self::Unauthorised { .. } => false,
        }
    }
}
