//! Owns the one fact that everything of a connection waits for: that it is over, and why.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pilothouse_messages::error::RequestError;
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

use crate::words::Words;

/// Failures whose requests nobody asks about any more; more of them are forgotten.
#[cfg(feature = "mcp-http")]
const FAILURES_MAX: usize = 1_024;

/// The life of one connection. The first reason stays.
#[derive(Debug, Default)]
pub(super) struct Life {
    over: CancellationToken,
    reason: OnceLock<String>,
    /// What a reason may show.
    words: Words,
    /// Requests that failed below JSON-RPC: an error in its form is on its way, and this is what it stands for.
    failures: Mutex<HashMap<RequestId, RequestError>>,
}

impl Life {
    /// A life whose reasons are kept as `words` has them.
    pub(super) fn new(words: Words) -> Self {
        Self { words, ..Self::default() }
    }

    /// Says why the connection will end, before it does: what follows from our own doing is not the server's fault.
    pub(super) fn foretell(&self, reason: impl Display) {
        // A reason that is already known is the older, hence the true one.
        let _ = self.reason.set(self.words.reason(reason));
    }

    /// Ends the connection for everyone who waits on it.
    pub(super) fn end(&self, reason: impl Display) {
        self.foretell(reason);
        self.over.cancel();
    }

    /// Says what the error stands for that answers this request next.
    #[cfg(feature = "mcp-http")]
    pub(super) fn fail(&self, request: RequestId, error: RequestError) {
        let mut failures = self.failures();
        if failures.len() >= FAILURES_MAX {
            failures.clear();
        }
        failures.insert(request, error);
    }

    /// What the answer to this request stands for, if it is none of the server's; told once.
    pub(super) fn failure(&self, request: &RequestId) -> Option<RequestError> {
        self.failures().remove(request)
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<RequestId, RequestError>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What of the server's words may be shown.
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// The reason as far as it is known.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.get().cloned()
    }

    /// Waits for the end.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Waits for the end and tells the reason.
    pub(super) async fn ended(&self) -> String {
        self.over().await;
        self.reason().unwrap_or_default()
    }

    /// A token that is cancelled at the end, and whose own cancelling ends nothing else.
    pub(super) fn token(&self) -> CancellationToken {
        self.over.child_token()
    }
}
