//! The records that an audit is drawn up from, as far as they are whole.

use std::collections::BTreeSet;

use super::AuditFault;
use crate::approval::ApprovalEvent;
use crate::id::{TopicId, TurnId};
use crate::record::Record;
use crate::time::Timestamp;
use crate::topic::TopicEvent;

/// The records of approvals and of topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditBooks {
    /// Of cards and decisions.
    pub ledger: Vec<Record<ApprovalEvent>>,
    /// Of grants.
    pub grants: Vec<Record<ApprovalEvent>>,
    /// Of each topic, in the order of their ids.
    pub topics: Vec<TopicRecords>,
    /// Topics that were removed, with their records.
    pub removed: BTreeSet<TopicId>,
    /// The last record of the ledger that was durable before any topic was read: what it says that a topic has recorded
    /// has to be found there.
    pub durable: u64,
    /// Where a log is not whole.
    pub damage: Vec<AuditFault>,
}

/// The records of one topic, from where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRecords {
    /// The topic.
    pub topic: TopicId,
    /// The configuration before the first record, as events that record it; empty if all records are kept.
    pub before: Vec<TopicEvent>,
    /// The newest time before the first record.
    pub at: Timestamp,
    /// The last turn whose records are gone: its own that were too old, or those of a removed topic of this name.
    pub after_turn: TurnId,
    /// The records.
    pub records: Vec<Record<TopicEvent>>,
}

impl TopicRecords {
    /// All records of a topic of which nothing is gone.
    pub fn whole(topic: TopicId, records: Vec<Record<TopicEvent>>) -> Self {
        let (before, at, after_turn) = (Vec::new(), Timestamp::default(), TurnId::default());
        Self { topic, before, at, after_turn, records }
    }
}
