//! Takes a topic's records away: its head says so first, then they go, a bounded number at a time. A removal that is
//! cut off goes on when the topic is read next, which a start does by itself.

use std::sync::Arc;

use pilothouse_adapters::store::head::{Head, Present, Used};
use pilothouse_adapters::store::log::topic_prefix;
use pilothouse_adapters::store::pages::PAGE;
use pilothouse_adapters::store::{Batch, Durability, Keyspace, Lane, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::limits::Limits;

use super::journal;

/// Where a topic's records are; its head stays.
const RECORDS: [Keyspace; 3] = [Keyspace::Journal, Keyspace::Checkpoints, Keyspace::Keys];

/// Removes a topic whose session has ended. The numbers of its turns and messages are never given again, since cards
/// and idempotency keys are named by them.
///
/// # Errors
/// The store's own. The topic is as it was then, or goes on being removed when it is read next.
pub async fn remove(store: &dyn Store, topic: &TopicId, limits: Arc<Limits>) -> Result<(), StoreError> {
    let prefix = topic_prefix(topic);
    let lane = store.lane();
    // What its session has appended is durable after this, or never will be.
    lane.append(Batch::new()).await?;
    let loaded = journal::load(store, topic.clone(), limits).await?;
    let state = loaded.conversation.state();
    let head = Head {
        epoch: loaded.journal.epoch(),
        used: Used { turn: state.last_turn(), message: state.last_message() },
        presence: Present::Removed,
        ..Head::default()
    };
    let mut batch = Batch::new();
    batch.put(Keyspace::Head, prefix.clone(), head.to_bytes());
    // A start looks at it until its records are gone.
    batch.put(Keyspace::Open, prefix.clone(), topic.as_str());
    lane.append(batch).await?;
    clean(store, lane.as_ref(), &prefix).await
}

/// Deletes what is left of a removed topic.
pub(super) async fn clean(store: &dyn Store, lane: &dyn Lane, prefix: &[u8]) -> Result<(), StoreError> {
    for keyspace in RECORDS {
        delete_range(store, lane, keyspace, prefix, None).await?;
    }
    let mut batch = Batch::new();
    batch.delete(Keyspace::Open, prefix);
    lane.append(batch).await
}

/// Deletes the keys with this prefix, up to and without `end`, if that is given.
pub(super) async fn delete_range(
    store: &dyn Store,
    lane: &dyn Lane,
    keyspace: Keyspace,
    prefix: &[u8],
    end: Option<&[u8]>,
) -> Result<(), StoreError> {
    loop {
        let page = store.scan(keyspace, prefix.to_vec(), None, PAGE).await?;
        let mut batch = Batch { durability: Durability::Lazy, ..Batch::new() };
        for (key, _value) in &page {
            if end.is_none_or(|end| key.as_slice() < end) {
                batch.delete(keyspace, key.clone());
            }
        }
        let deleted = batch.changes.len();
        lane.append(batch).await?;
        if deleted < PAGE {
            return Ok(());
        }
    }
}
