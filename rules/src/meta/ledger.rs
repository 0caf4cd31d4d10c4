//! The ledger of what one topic's model has seen the signature of.

use std::collections::{BTreeSet, VecDeque};

use pilothouse_messages::digest::Digest;

/// How many tools it remembers; a model that has inspected more than that has long forgotten the first ones.
const REMEMBERED: usize = 1_024;

/// Fingerprints of the tools that one topic's model has inspected. A tool that changes is another one.
///
/// In memory only: after a restart the first call is refused with the signature, and the next one passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    known: BTreeSet<Digest>,
    order: VecDeque<Digest>,
}

impl Inspected {
    /// Whether the tool of this fingerprint was inspected.
    pub fn contains(&self, fingerprint: Digest) -> bool {
        self.known.contains(&fingerprint)
    }

    /// Notes that it was. The oldest is forgotten if there are too many.
    pub fn record(&mut self, fingerprint: Digest) {
        if !self.known.insert(fingerprint) {
            return;
        }
        self.order.push_back(fingerprint);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
