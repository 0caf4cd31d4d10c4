//! Reads everything that an audit rests on, as far as it is whole.
//!
//! ```text
//! head ──▶ removed? ──▶ its records are no longer part of the account
//!   │
//!   ├──▶ kept from ──▶ the checkpoint that ends there: configuration, time and turn before the first record
//!   └──▶ newest checkpoint ──▶ how far the journal reached at least
//! ```

use std::collections::BTreeSet;

use pilothouse_messages::audit::{AuditBooks, AuditFault, AuditLog, TopicRecords};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{TopicId, TurnId};
use pilothouse_messages::record::{Format, Record};
use pilothouse_messages::topic::{TopicCheckpoint, TopicEvent};
use serde::de::DeserializeOwned;

use super::head::{Head, Present};
use super::log::{
    CHECKPOINTS, GRANTS, JOURNAL, LEDGER, prefix_of_key, read_record, read_whole_part, topic_of, topic_prefix,
};
use super::pages::each_pair;
use super::sealed::check_seal;
use super::{Keyspace, Store};

/// How often a log is read that looks damaged: while its writer writes, a page may hold half of a batch, and what is too
/// old may just go.
const LOOKS: usize = 3;

/// Reads the books from a store, also while a runtime writes to it.
///
/// # Errors
/// What keeps the store from being read at all. Damage is no error: it is told in the books.
pub async fn read(store: &dyn Store) -> Result<AuditBooks, StoreError> {
    // Topics before ledger and grants: what they rest on was durable before. The mark before topics: what it says that a
    // topic has recorded was durable before.
    check_seal(store).await?;
    let durable = store.mark(Keyspace::Ledger).await?.map_or(0, |mark| mark.sequence);
    let mut books = AuditBooks { durable, ..AuditBooks::default() };
    books.damage.extend(store.lost().map(|lost| AuditFault::EndLost { reason: lost.to_string() }));
    for topic in topics(store, &mut books.damage).await? {
        match Found::read(store, &topic).await? {
            Found::Removed => {
                books.removed.insert(topic);
            }
            Found::Kept { records, fault } => {
                let whole = last(&records.records);
                books.damage.extend(fault.map(|reason| damaged(AuditLog::Topic, Some(topic), whole, reason)));
                books.topics.push(records);
            }
        }
    }
    books.grants = log(store, AuditLog::Grants, (Keyspace::Grants, &GRANTS), &mut books.damage).await?;
    books.ledger = log(store, AuditLog::Ledger, (Keyspace::Ledger, &LEDGER), &mut books.damage).await?;
    Ok(books)
}

/// The topics that have a head or a journal. A key that names none is damage.
async fn topics(store: &dyn Store, damage: &mut Vec<AuditFault>) -> Result<BTreeSet<TopicId>, StoreError> {
    let (mut found, mut odd) = (BTreeSet::new(), 0_u64);
    let mut keep = |topic: Option<TopicId>| match topic {
        Some(topic) => {
            found.insert(topic);
        }
        None => odd += 1,
    };
    let heads = each_pair(store, Keyspace::Head, &[], |(key, _)| {
        keep(topic_of(&key));
        Ok(())
    });
    let mut hidden = told(heads.await)?.err();
    let mut after = None;
    loop {
        let key = match told(store.scan(Keyspace::Journal, Vec::new(), after, 1).await)? {
            Ok(mut pairs) => pairs.pop().map(|(key, _)| key),
            Err(error) => {
                hidden.get_or_insert(error);
                None
            }
        };
        let Some(key) = key else { break };
        let prefix = prefix_of_key(&key);
        let topic = prefix.and_then(topic_of);
        // Past all records of this topic, or past this key.
        let past = topic.as_ref().map(|topic| [topic_prefix(topic), vec![u8::MAX; 10]].concat());
        after = Some(past.filter(|past| *past > key).unwrap_or(key));
        keep(topic);
    }
    damage.extend(hidden.map(|error| damaged(AuditLog::Topic, None, 0, error)));
    if odd > 0 {
        let reason = format!("{odd} keys of topics name no topic");
        damage.push(AuditFault::Damaged { log: AuditLog::Topic, topic: None, whole: 0, reason });
    }
    Ok(found)
}

/// One of the logs that are a keyspace each.
async fn log<T: DeserializeOwned + Send>(
    store: &dyn Store,
    log: AuditLog,
    (keyspace, format): (Keyspace, &Format),
    damage: &mut Vec<AuditFault>,
) -> Result<Vec<Record<T>>, StoreError> {
    let mut looks = 1;
    let part = loop {
        let part = read_whole_part::<T>(store, keyspace, &[], format, (1, 0)).await?;
        if part.fault.is_none() || looks == LOOKS {
            break part;
        }
        looks += 1;
    };
    damage.extend(part.fault.map(|fault| damaged(log, None, last(&part.records), fault)));
    Ok(part.records)
}

/// A topic as it was found.
enum Found {
    Removed,
    Kept { records: TopicRecords, fault: Option<StoreError> },
}

impl Found {
    async fn read(store: &dyn Store, topic: &TopicId) -> Result<Self, StoreError> {
        let prefix = topic_prefix(topic);
        let mut looks = 1;
        loop {
            let head = told(Head::read(store, &prefix).await)?;
            let found = Self::look(store, topic, &prefix, &head).await?;
            // What was removed meanwhile is no damage, and an end that was cut off by it no end.
            let again = told(Head::read(store, &prefix).await)?;
            let settled = again.map(what_is_kept) == head.clone().map(what_is_kept);
            let whole = matches!(found, Self::Removed | Self::Kept { fault: None, .. });
            if (settled && whole) || looks == LOOKS {
                return Ok(found);
            }
            looks += 1;
        }
    }

    async fn look(
        store: &dyn Store,
        topic: &TopicId,
        prefix: &[u8],
        head: &Result<Option<Head>, StoreError>,
    ) -> Result<Self, StoreError> {
        let mut records = TopicRecords::whole(topic.clone(), Vec::new());
        let (head, mut fault) = match head {
            Ok(Some(head)) => (*head, None),
            Ok(None) => (Head::default(), Some(no_head())),
            Err(error) => (Head::default(), Some(error.clone())),
        };
        let open = store.get(Keyspace::Open, prefix.to_vec()).await?.is_some();
        match head.presence {
            // A start looks at it until its records are gone.
            Present::Removed if open => return Ok(Self::Removed),
            Present::Removed => {
                let left = store.scan(Keyspace::Journal, prefix.to_vec(), None, 1).await?;
                if left.is_empty() {
                    return Ok(Self::Removed);
                }
                fault.get_or_insert_with(not_removed);
            }
            Present::Yes => records.after_turn = head.used.turn,
        }
        let reached = match told(past(store, prefix, &head, &mut records).await)? {
            Ok(reached) => reached,
            Err(error) => {
                fault.get_or_insert(error);
                0
            }
        };
        let range = (head.kept_from, reached);
        let part = read_whole_part::<TopicEvent>(store, Keyspace::Journal, prefix, &JOURNAL, range).await?;
        records.records = part.records;
        let cut = (!open && ends_in_turn(&records.records)).then(cut_in_turn);
        Ok(Self::Kept { records, fault: fault.or(part.fault).or(cut) })
    }
}

/// Takes up what came before the first kept record from its checkpoint. Answers the last record that the newest
/// checkpoint says there was.
async fn past(
    store: &dyn Store,
    prefix: &[u8],
    head: &Head,
    records: &mut TopicRecords,
) -> Result<u64, StoreError> {
    let (mut at, mut reached) = (head.checkpoint, 0);
    while at != TurnId::default() {
        let found: Option<TopicCheckpoint> =
            read_record(store, Keyspace::Checkpoints, prefix, &CHECKPOINTS, at.0).await?;
        let Some(found) = found else { break };
        reached = reached.max(found.next.saturating_sub(1));
        if head.kept_from <= 1 {
            return Ok(reached);
        }
        if found.next == head.kept_from {
            records.before = found.config;
            records.at = found.at;
            records.after_turn = records.after_turn.max(found.last_turn);
            return Ok(reached);
        }
        // Each names an older one, or the chain is no chain.
        at = if found.previous < at { found.previous } else { TurnId::default() };
    }
    if head.kept_from <= 1 && head.checkpoint == TurnId::default() {
        return Ok(reached);
    }
    Err(StoreError::Damaged { reason: "a checkpoint of the topic is gone".to_owned() })
}

/// Whether a turn has begun in a journal and not ended.
fn ends_in_turn(records: &[Record<TopicEvent>]) -> bool {
    let bound = |record: &Record<TopicEvent>| {
        let begins = matches!(record.payload, TopicEvent::TurnStarted { .. });
        let ends = matches!(record.payload, TopicEvent::TurnFinished { .. });
        (begins || ends).then_some(begins)
    };
    records.iter().rev().find_map(bound).unwrap_or(false)
}

fn not_removed() -> StoreError {
    StoreError::Damaged { reason: "it was removed, and its records are there".to_owned() }
}

fn cut_in_turn() -> StoreError {
    StoreError::Damaged { reason: "it ends within a turn, and no turn of its topic is open".to_owned() }
}

/// What of a head changes when records are removed.
fn what_is_kept(head: Option<Head>) -> Option<(u64, TurnId, Present)> {
    head.map(|head| (head.kept_from, head.used.turn, head.presence))
}

/// Damage is told apart from a store that cannot be read.
fn told<T>(read: Result<T, StoreError>) -> Result<Result<T, StoreError>, StoreError> {
    match read {
        Err(error) if !matches!(error, StoreError::Damaged { .. } | StoreError::NewerFormat { .. }) => {
            Err(error)
        }
        read => Ok(read),
    }
}

fn no_head() -> StoreError {
    StoreError::Damaged { reason: "its head is gone".to_owned() }
}

fn damaged(log: AuditLog, topic: Option<TopicId>, whole: u64, fault: StoreError) -> AuditFault {
    AuditFault::Damaged { log, topic, whole, reason: fault.to_string() }
}

fn last<T>(records: &[Record<T>]) -> u64 {
    records.last().map_or(0, |record| record.sequence)
}

#[cfg(test)]
mod tests;
