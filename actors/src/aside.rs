//! Keeps whole results that were cut for the model, within bounds: the oldest go first, and are remembered as gone.
//!
//! ```text
//! key    topic's prefix ‖ turn u64 ‖ step u32 ‖ index u32      (big-endian)
//! value  a record of any size; its generation grows over all keys, so that it is its age
//! 'g' ‖ key                                                    it was kept, and had to go
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_adapters::store::large::{self, Generation, read_large};
use pilothouse_adapters::store::log::{ASIDE, GENESIS, topic_prefix};
use pilothouse_adapters::store::pages::each_pair;
use pilothouse_adapters::store::{Ack, Batch, Keyspace, Lane, Store};
use pilothouse_messages::call::{CallResult, KeptResult};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{CallId, TopicId};
use pilothouse_messages::limits::Limits;
use tokio::sync::OnceCell;
use tokio::time::timeout;

const GONE: u8 = b'g';
/// Marks that are removed by one batch.
const MARKS: usize = 1_000;

/// The kept results of one runtime; written by the calls of its sessions, through one lane.
pub struct Asides {
    store: Arc<dyn Store>,
    limits: Arc<Limits>,
    /// What is kept, once it was looked up.
    index: OnceCell<Mutex<Index>>,
    /// A failed lane takes nothing more, so that a fresh one takes its place.
    lane: Mutex<Arc<dyn Lane>>,
}

impl std::fmt::Debug for Asides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asides")
    }
}

/// One value, by its age.
#[derive(Debug, Clone)]
struct Entry {
    key: Vec<u8>,
    bytes: u64,
    lies: Generation,
}

/// What is kept, oldest first.
#[derive(Debug, Default)]
struct Index {
    by_age: BTreeMap<u64, Entry>,
    bytes: u64,
}

impl Index {
    fn insert(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.by_age.insert(entry.lies.number(), entry);
    }

    fn take(&mut self, age: u64) -> Option<Entry> {
        let entry = self.by_age.remove(&age)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// The ages of all whose key begins so, oldest first.
    fn under(&self, prefix: &[u8]) -> Vec<u64> {
        let under = self.by_age.iter().filter(|(_, entry)| entry.key.starts_with(prefix));
        under.map(|(age, _)| *age).collect()
    }

    /// Takes the oldest until `bytes` more fit into the topic and into the whole.
    fn make_room(&mut self, topic: &[u8], bytes: u64, limits: &Limits) -> Vec<Entry> {
        let (of_topic, of_all) = (whole(limits.kept_results_topic), whole(limits.kept_results));
        let mut gone = Vec::new();
        let ages = self.under(topic);
        let mut used: u64 = ages.iter().filter_map(|age| self.by_age.get(age)).map(|entry| entry.bytes).sum();
        for age in ages {
            if used + bytes <= of_topic {
                break;
            }
            if let Some(entry) = self.take(age) {
                used -= entry.bytes;
                gone.push(entry);
            }
        }
        while self.bytes + bytes > of_all {
            let Some(entry) = self.by_age.keys().next().copied().and_then(|age| self.take(age)) else {
                break;
            };
            gone.push(entry);
        }
        gone
    }
}

impl Asides {
    /// Over this store; nothing is read before the first result is kept.
    pub(crate) fn new(store: Arc<dyn Store>, limits: Arc<Limits>) -> Self {
        Self { lane: Mutex::new(store.lane()), store, limits, index: OnceCell::new() }
    }

    /// Keeps the whole result of a call; returns when it is durable, or cannot be made so within a bound.
    pub(crate) async fn keep(&self, topic: &TopicId, call: CallId, result: &CallResult) {
        let kept = timeout(self.limits.commit, self.kept(topic, call, result)).await;
        if let Err(error) = kept.unwrap_or(Err(StoreError::TimedOut)) {
            // The model has what it is shown; only what was cut is lost.
            tracing::warn!(target: "pilothouse", %topic, %call, %error, "a whole result could not be kept");
            *self.lane.lock().unwrap_or_else(PoisonError::into_inner) = self.store.lane();
        }
    }

    async fn kept(&self, topic: &TopicId, call: CallId, result: &CallResult) -> Result<(), StoreError> {
        let bytes = ASIDE.encode(1, GENESIS, result)?;
        let prefix = topic_prefix(topic);
        let key = key(&prefix, call);
        let index = self.index().await?;
        let acks = {
            // One after the other, so that what is removed was written before.
            let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
            let length = whole(bytes.len());
            let fits = length <= whole(self.limits.kept_results_topic.min(self.limits.kept_results));
            let again = index.under(&key).into_iter().filter_map(|age| index.take(age)).collect::<Vec<_>>();
            let mut batches: Vec<Batch> =
                again.iter().flat_map(|entry| removal(entry, Memory::None)).collect();
            for entry in index.make_room(&prefix, if fits { length } else { 0 }, &self.limits) {
                batches.extend(removal(&entry, Memory::Gone));
            }
            if fits {
                let newest = index.by_age.keys().next_back().copied().unwrap_or_default();
                let staged =
                    large::stage(Keyspace::Aside, &key, &bytes, Some(Generation::none_after(newest)));
                index.insert(Entry { key, bytes: length, lies: staged.generation });
                batches.extend(staged.batches);
            } else {
                let mut batch = Batch::new();
                batch.put(Keyspace::Aside, gone_key(&key), []);
                batches.push(batch);
            }
            self.append(batches)
        };
        for ack in acks {
            ack.await?;
        }
        Ok(())
    }

    /// The whole result of a call, if it was cut.
    ///
    /// # Errors
    /// The store's own.
    pub async fn read(&self, topic: &TopicId, call: CallId) -> Result<KeptResult, StoreError> {
        let key = key(&topic_prefix(topic), call);
        let read = read_large(self.store.as_ref(), Keyspace::Aside, &key).await;
        // One that goes while it is read is not damaged.
        if self.store.get(Keyspace::Aside, gone_key(&key)).await?.is_some() {
            return Ok(KeptResult::Gone);
        }
        let Some(value) = read? else { return Ok(KeptResult::NotKept) };
        Ok(KeptResult::Whole(ASIDE.decode(&value.bytes)?.payload))
    }

    /// Removes whatever is kept of a topic, and the memory of what is gone.
    ///
    /// # Errors
    /// The store's own.
    pub async fn forget(&self, topic: &TopicId) -> Result<(), StoreError> {
        let prefix = topic_prefix(topic);
        let index = self.index().await?;
        let mut marks = vec![Batch::new()];
        each_pair(self.store.as_ref(), Keyspace::Aside, &gone_key(&prefix), |(key, _)| {
            if marks.last().is_none_or(|batch| batch.changes.len() >= MARKS) {
                marks.push(Batch::new());
            }
            if let Some(batch) = marks.last_mut() {
                batch.delete(Keyspace::Aside, key);
            }
            Ok(())
        })
        .await?;
        let acks = {
            let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
            let all: Vec<_> = index.under(&prefix).into_iter().filter_map(|age| index.take(age)).collect();
            let batches = all.iter().flat_map(|entry| removal(entry, Memory::None)).chain(marks);
            self.append(batches.collect())
        };
        for ack in acks {
            ack.await?;
        }
        Ok(())
    }

    async fn index(&self) -> Result<&Mutex<Index>, StoreError> {
        let read = async {
            let mut index = Index::default();
            for value in large::sizes(self.store.as_ref(), Keyspace::Aside).await? {
                index.insert(Entry { key: value.key, bytes: value.bytes, lies: value.generation });
            }
            Ok(Mutex::new(index))
        };
        self.index.get_or_try_init(|| read).await
    }

    fn append(&self, batches: Vec<Batch>) -> Vec<Ack> {
        let lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        batches.into_iter().map(|batch| lane.append(batch)).collect()
    }
}

/// What stays of a value that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Nothing.
    None,
    /// That it was there.
    Gone,
}

fn removal(entry: &Entry, memory: Memory) -> Vec<Batch> {
    let mut batches = large::remove(Keyspace::Aside, &entry.key, entry.lies);
    if let (Memory::Gone, Some(first)) = (memory, batches.first_mut()) {
        first.put(Keyspace::Aside, gone_key(&entry.key), []);
    }
    batches
}

fn key(topic: &[u8], call: CallId) -> Vec<u8> {
    let mut key = topic.to_vec();
    key.extend_from_slice(&call.turn.0.to_be_bytes());
    key.extend_from_slice(&call.step.0.to_be_bytes());
    key.extend_from_slice(&call.index.to_be_bytes());
    key
}

fn gone_key(key: &[u8]) -> Vec<u8> {
    let mut gone = vec![GONE];
    gone.extend_from_slice(key);
    gone
}

fn whole(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
