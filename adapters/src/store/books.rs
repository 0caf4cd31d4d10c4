//! Reads everything that an audit rests on, as far as it is whole.

use pilothouse_messages::approval::ApprovalEvent;
use pilothouse_messages::audit::{AuditFault, AuditLog};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::record::{Format, Record};
use pilothouse_messages::topic::TopicEvent;
use serde::de::DeserializeOwned;

use super::log::{GRANTS, JOURNAL, LEDGER, WholePart, read_whole_part, topic_of};
use super::pages::each_pair;
use super::{Keyspace, Store};

/// How often a log is read that looks damaged: while its writer writes, a page may hold half of a batch.
const LOOKS: usize = 3;

/// The records of approvals and of topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    /// Of cards and decisions.
    pub ledger: Vec<Record<ApprovalEvent>>,
    /// Of grants.
    pub grants: Vec<Record<ApprovalEvent>>,
    /// Of each topic, in the order of their ids.
    pub topics: Vec<(TopicId, Vec<Record<TopicEvent>>)>,
    /// Where a log is not whole.
    pub damage: Vec<AuditFault>,
}

impl Books {
    /// Reads them from a store, also while a runtime writes to it.
    ///
    /// # Errors
    /// What keeps the store from being read at all. Damage is no error: it is told in the books.
    pub async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        // Topics first: what they rest on was durable before.
        let mut prefixes = Vec::new();
        each_pair(store, Keyspace::Head, &[], |(key, _)| {
            prefixes.push(key);
            Ok(())
        })
        .await?;
        let mut books = Self::default();
        for prefix in prefixes {
            let Some(topic) = topic_of(&prefix) else { continue };
            let log = (AuditLog::Topic, Some(topic.clone()));
            let records = books.log(store, log, (Keyspace::Journal, &prefix, &JOURNAL)).await?;
            books.topics.push((topic, records));
        }
        books.topics.sort_by(|(a, _), (b, _)| a.cmp(b));
        let grants = (Keyspace::Grants, &[][..], &GRANTS);
        books.grants = books.log(store, (AuditLog::Grants, None), grants).await?;
        let ledger = (Keyspace::Ledger, &[][..], &LEDGER);
        books.ledger = books.log(store, (AuditLog::Ledger, None), ledger).await?;
        Ok(books)
    }

    async fn log<T: DeserializeOwned + Send>(
        &mut self,
        store: &dyn Store,
        (log, topic): (AuditLog, Option<TopicId>),
        (keyspace, prefix, format): (Keyspace, &[u8], &Format),
    ) -> Result<Vec<Record<T>>, StoreError> {
        let mut looks = 1;
        let WholePart { records, fault } = loop {
            let read = read_whole_part::<T>(store, keyspace, prefix, format).await?;
            if read.fault.is_none() || looks == LOOKS {
                break read;
            }
            looks += 1;
        };
        if let Some(fault) = fault {
            let whole = records.last().map_or(0, |record| record.sequence);
            self.damage.push(AuditFault::Damaged { log, topic, whole, reason: fault.to_string() });
        }
        Ok(records)
    }
}
