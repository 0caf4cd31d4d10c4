//! Counts what a scripted server ran.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// How often each tool has begun to run. Clones share one count.
#[derive(Debug, Clone)]
pub struct Executions(Arc<watch::Sender<BTreeMap<String, u64>>>);

impl Executions {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }

    /// How often this tool has begun to run.
    pub fn of(&self, tool: &str) -> u64 {
        self.0.borrow().get(tool).copied().unwrap_or(0)
    }

    /// Every tool that has run, and how often.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.borrow().clone()
    }

    /// Resolves once this tool has begun to run at least so often. Waits without a bound: give it a deadline.
    pub async fn reach(&self, tool: &str, times: u64) {
        let mut counts = self.0.subscribe();
        let reached = |counts: &BTreeMap<String, u64>| counts.get(tool).is_some_and(|count| *count >= times);
        // An error would mean that the sender is gone, and `self` holds it.
        let _held_by_self = counts.wait_for(reached).await.is_ok();
    }

    pub(super) fn count(&self, tool: &str) {
        self.0.send_modify(|counts| *counts.entry(tool.to_owned()).or_default() += 1);
    }
}
