//! Asks a policy within bounds: one that panics or hangs refuses.

use std::sync::Arc;

use pilothouse_messages::error::ConnectError;
use pilothouse_messages::id::ServerId;
use tokio_util::task::AbortOnDropHandle;

use super::{Approach, POLICY_WITHIN, ServerPolicy};

/// A policy with the server for which it is asked.
#[derive(Clone)]
pub(crate) struct Gate {
    policy: Arc<dyn ServerPolicy>,
    server: ServerId,
}

/// What a policy refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server policy refused {what}: {reason}")]
pub(crate) struct Refusal {
    pub(crate) what: String,
    pub(crate) reason: String,
}

impl From<Refusal> for ConnectError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { what: refusal.what, reason: refusal.reason }
    }
}

impl Gate {
    pub(crate) fn new(policy: Arc<dyn ServerPolicy>, server: ServerId) -> Self {
        Self { policy, server }
    }

    /// The same server, and another policy.
    pub(crate) fn with(self, policy: Arc<dyn ServerPolicy>) -> Self {
        Self { policy, ..self }
    }

    /// Asks the policy, in a task of its own so that a panic is an answer too.
    pub(crate) async fn ask(&self, approach: Approach) -> Result<(), Refusal> {
        let what = approach.to_string();
        let gate = self.clone();
        let asking = AbortOnDropHandle::new(tokio::spawn(async move {
            // Also the making of the future is the embedder's code.
            gate.policy.allows(&gate.server, &approach).await
        }));
        let reason = match tokio::time::timeout(POLICY_WITHIN, asking).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(_panicked)) => "the policy panicked".to_owned(),
            Err(_elapsed) => format!("the policy gave no answer within {} s", POLICY_WITHIN.as_secs()),
        };
        Err(Refusal { what, reason })
    }
}
