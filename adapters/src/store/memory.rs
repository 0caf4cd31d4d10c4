//! The store that keeps everything in memory: for runtimes that need not survive, and for tests.
//!
//! Every batch is durable at once in the sense that [`MemoryStore::crash`] keeps it; a lazy one after
//! [`LAZY_WITHIN`], or with the next synced one. It needs no thread and no runtime, and follows a paused Tokio clock.
//! Tests reach the window between "appended" and "durable" with [`MemoryStore::hold`].

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_messages::error::StoreError;
use tokio::time::Instant;

use super::{
    Ack, AckSender, Batch, Change, Durability, Keyspace, LAZY_WITHIN, Lane, Mark, Pair, Store, StoreId, ack,
    refused_after_failure, stored_key,
};
use crate::BoxFuture;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory. A clone is the same store.
#[derive(Debug, Clone)]
pub struct MemoryStore(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    id: StoreId,
    /// What reads see.
    live: Map,
    /// Lazy batches that a crash may lose, oldest first.
    unsynced: VecDeque<Unsynced>,
    /// What waits for the release, while commits are held.
    held: Option<VecDeque<Request>>,
    /// How the next batch fails.
    fail_next: Option<StoreError>,
    /// Lanes that refuse everything.
    refused: HashSet<u64>,
    /// How many lanes there were so far.
    lanes: u64,
    closed: bool,
    /// How far logs have come.
    marks: BTreeMap<Keyspace, Mark>,
}

/// How to take one lazy batch back.
#[derive(Debug)]
struct Unsynced {
    at: Instant,
    before: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug)]
enum Request {
    Commit { lane: u64, batch: Batch, ack: AckSender },
    Close { ack: AckSender },
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::holding(Map::new(), StoreId::draw(b"memory"), BTreeMap::new())
    }

    /// Holds commits back: what is appended from now on is neither acknowledged nor readable until
    /// [`release`](Self::release); a close waits, too.
    pub fn hold(&self) {
        self.state().held.get_or_insert_default();
    }

    /// Commits everything that was held, in order, and holds nothing back any more.
    pub fn release(&self) {
        let mut state = self.state();
        for request in state.held.take().unwrap_or_default() {
            state.perform(request);
        }
    }

    /// How many requests are held back now.
    pub fn held(&self) -> usize {
        self.state().held.as_ref().map_or(0, VecDeque::len)
    }

    /// Makes the next batch that would be committed fail with this error; its lane refuses everything afterwards.
    pub fn fail_next(&self, error: StoreError) {
        self.state().fail_next = Some(error);
    }

    /// What a power cut would leave now: no held batch, and no lazy one that was not yet synced. This store goes on
    /// untouched.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.state();
        state.settle();
        let mut left = state.live.clone();
        for (key, value) in state.unsynced.iter().rev().flat_map(|lost| lost.before.iter().rev()) {
            set(&mut left, key.clone(), value.clone());
        }
        Self::holding(left, state.id, state.marks.clone())
    }

    /// What the end of this process alone would leave now: as [`crash`](Self::crash), but with all lazy batches.
    #[must_use]
    pub fn crash_keeping_lazy(&self) -> Self {
        let state = self.state();
        Self::holding(state.live.clone(), state.id, state.marks.clone())
    }

    fn holding(live: Map, id: StoreId, marks: BTreeMap<Keyspace, Mark>) -> Self {
        Self(Arc::new(Mutex::new(State { live, id, marks, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&Map) -> T) -> Result<T, StoreError> {
        let state = self.state();
        if state.closed { Err(StoreError::Closed) } else { Ok(read(&state.live)) }
    }
}

fn set(map: &mut Map, key: Vec<u8>, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

impl State {
    fn accept(&mut self, request: Request) {
        match &mut self.held {
            Some(held) => held.push_back(request),
            None => self.perform(request),
        }
    }

    fn perform(&mut self, request: Request) {
        match request {
            Request::Commit { lane, batch, ack } => ack.send(self.commit(lane, batch)),
            Request::Close { ack } => {
                self.closed = true;
                self.unsynced.clear();
                ack.send(Ok(()));
            }
        }
    }

    fn commit(&mut self, lane: u64, batch: Batch) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::Closed);
        }
        if self.refused.contains(&lane) {
            return Err(refused_after_failure());
        }
        let failure = self.fail_next.take().map_or_else(|| batch.check(), Err);
        if failure.is_err() {
            self.refused.insert(lane);
            return failure;
        }
        self.apply(batch);
        Ok(())
    }

    fn apply(&mut self, batch: Batch) {
        self.marks.extend(batch.marks.iter().map(|mark| (mark.keyspace, *mark)));
        let mut before = Vec::with_capacity(batch.changes.len());
        for change in batch.changes {
            let (key, value) = match change {
                Change::Put(keyspace, key, value) => (stored_key(keyspace, &key), Some(value)),
                Change::Delete(keyspace, key) => (stored_key(keyspace, &key), None),
            };
            before.push((key.clone(), set(&mut self.live, key, value)));
        }
        match batch.durability {
            Durability::Lazy if batch.marks.is_empty() => {
                self.settle();
                self.unsynced.push_back(Unsynced { at: Instant::now(), before });
            }
            // A mark is written once what it names is durable.
            Durability::Lazy | Durability::Sync => self.unsynced.clear(),
        }
    }

    /// Forgets how to take back what is old enough to be durable.
    fn settle(&mut self) {
        let now = Instant::now();
        while self.unsynced.front().is_some_and(|oldest| now.duration_since(oldest.at) >= LAZY_WITHIN) {
            self.unsynced.pop_front();
        }
    }
}

impl Store for MemoryStore {
    fn id(&self) -> StoreId {
        self.state().id
    }

    fn lane(&self) -> Arc<dyn Lane> {
        let mut state = self.state();
        state.lanes += 1;
        Arc::new(MemoryLane { store: self.clone(), lane: state.lanes })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(async move { self.read(|map| map.get(&stored_key(keyspace, &key)).cloned()) })
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Pair>, StoreError>> {
        Box::pin(async move {
            let prefix = stored_key(keyspace, &prefix);
            let start = match after.map(|after| stored_key(keyspace, &after)) {
                Some(after) if after >= prefix => Bound::Excluded(after),
                Some(_) | None => Bound::Included(prefix.clone()),
            };
            self.read(|map| {
                map.range((start, Bound::Unbounded))
                    .take_while(|(key, _)| key.starts_with(&prefix))
                    .take(limit)
                    .map(|(key, value)| (key.iter().skip(1).copied().collect(), value.clone()))
                    .collect()
            })
        })
    }

    fn mark(&self, keyspace: Keyspace) -> BoxFuture<'_, Result<Option<Mark>, StoreError>> {
        Box::pin(async move {
            let state = self.state();
            if state.closed { Err(StoreError::Closed) } else { Ok(state.marks.get(&keyspace).copied()) }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let (sender, closed) = ack();
        self.state().accept(Request::Close { ack: sender });
        Box::pin(closed)
    }
}

struct MemoryLane {
    store: MemoryStore,
    lane: u64,
}

impl Lane for MemoryLane {
    fn append(&self, batch: Batch) -> Ack {
        let (ack, answer) = ack();
        self.store.state().accept(Request::Commit { lane: self.lane, batch, ack });
        answer
    }
}

#[cfg(test)]
mod tests;
