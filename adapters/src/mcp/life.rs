//! Owns the one fact that everything of a connection waits for: that it is over, and why.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

/// The life of one connection. The first reason stays.
#[derive(Debug, Default)]
pub(super) struct Life {
    over: CancellationToken,
    reason: OnceLock<String>,
}

impl Life {
    /// Says why the connection will end, before it does: what follows from our own doing is not the server's fault.
    pub(super) fn foretell(&self, reason: impl Into<String>) {
        // A reason that is already known is the older, hence the true one.
        let _ = self.reason.set(reason.into());
    }

    /// Ends the connection for everyone who waits on it.
    pub(super) fn end(&self, reason: impl Into<String>) {
        self.foretell(reason);
        self.over.cancel();
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
