//! Stores: ordered keys in keyspaces, atomic batches, and lanes that acknowledge in order.
//!
//! A *lane* belongs to one writer. It acknowledges its batches in the order in which they were appended, each one
//! only when it and all before it are durable (synced to the disk, not only handed to the kernel). Many lanes share
//! one sync: group commit is inside the store. An acknowledgement also says that every batch which was appended
//! before it, in any lane, is durable or never will be. After one failure a lane refuses everything, so that no later batch
//! can become durable over a gap.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::time::SystemTime;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use tokio::sync::oneshot;

use crate::BoxFuture;

pub mod books;
pub mod head;
pub mod large;
pub mod log;
mod mark;
pub mod memory;
pub mod pages;
pub mod sealed;
#[cfg(feature = "sled")]
pub mod sled;

pub use mark::Mark;

/// The largest value (4 KiB). A page of sled's above 128 KiB goes to a file of its own that is neither synced nor
/// ever removed, and a page holds up to twenty pairs; so twenty of the largest have to stay well below that.
pub const VALUE_BYTES_MAX: usize = 4 << 10;
/// The longest key, for the same reason.
pub const KEY_BYTES_MAX: usize = 256;
/// The largest batch (1 MiB); larger writes are staged and switched by one key.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Who writes what; the first byte of every stored key. Each has one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keyspace {
    /// Events of topics, written by their sessions.
    Journal,
    /// One head for each topic, written by its session.
    Head,
    /// Topics with an open turn, card or debt: all that a start reads. Written by sessions.
    Open,
    /// The ledger of approvals, written by the approval actor.
    Ledger,
    /// Standing approvals, written by the approval actor.
    Grants,
    /// Listings of servers, written by the catalog.
    Listing,
    /// Wire names, written by the registry.
    Names,
    /// Child processes that run, written by the servers' supervisor.
    Process,
    /// Facts about the store itself, written when it is made.
    Meta,
    /// Whole results that were cut for the model, written by sessions.
    Aside,
    /// What each server spoke last, written by the connections.
    Spoken,
    /// Topics between two of their turns, written by their sessions.
    Checkpoints,
    /// What senders' keys of closed turns stand for, written by sessions.
    Keys,
}

impl Keyspace {
    /// The byte in front of every key. Frozen.
    pub fn byte(self) -> u8 {
        match self {
            Self::Journal => b'j',
            Self::Head => b'h',
            Self::Open => b'o',
            Self::Ledger => b'l',
            Self::Grants => b'g',
            Self::Listing => b'c',
            Self::Names => b'n',
            Self::Process => b'p',
            Self::Meta => b'm',
            Self::Aside => b'a',
            Self::Spoken => b's',
            Self::Checkpoints => b't',
            Self::Keys => b'k',
        }
    }
}

/// The key as stores keep it: the keyspace's byte, then the key.
fn stored_key(keyspace: Keyspace, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 1);
    stored.push(keyspace.byte());
    stored.extend_from_slice(key);
    stored
}

/// What a lane answers after its first failure.
fn refused_after_failure() -> StoreError {
    StoreError::Io { reason: "an earlier batch of this writer failed, so that nothing may follow it".into() }
}

/// A lazy batch is on the disk at the latest this long after it was appended.
pub const LAZY_WITHIN: Duration = Duration::from_millis(500);

/// When a batch has to be on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    #[default]
    Sync,
    /// Within [`LAZY_WITHIN`]; acknowledged when all before it are acknowledged and it is written. The next
    /// synced batch makes it durable, too.
    Lazy,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets a value.
    Put(Keyspace, Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(Keyspace, Vec<u8>),
}

impl Change {
    /// Bytes of its key and value.
    pub fn bytes(&self) -> usize {
        let (key, value) = self.sizes();
        key + value
    }

    fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Put(_, key, value) => (key.len(), value.len()),
            Self::Delete(_, key) => (key.len(), 0),
        }
    }
}

/// Changes that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// When they have to be on the disk.
    pub durability: Durability,
    /// How far logs have come with this batch; written once it is durable, before it is acknowledged. A batch with marks
    /// is synced in any case.
    pub marks: Vec<Mark>,
    /// Bytes that sealing has added to its values, at most [`SEAL_BYTES_MAX`](sealed::SEAL_BYTES_MAX) to each: the
    /// bounds are those of what was sealed.
    pub sealing: usize,
}

impl Batch {
    /// An empty batch that is synced before it is acknowledged.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value.
    pub fn put(&mut self, keyspace: Keyspace, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.changes.push(Change::Put(keyspace, key.into(), value.into()));
    }

    /// Removes a key.
    pub fn delete(&mut self, keyspace: Keyspace, key: impl Into<Vec<u8>>) {
        self.changes.push(Change::Delete(keyspace, key.into()));
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.changes.iter().map(Change::bytes).sum()
    }

    /// Checks the three bounds.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if a key passes [`KEY_BYTES_MAX`], a value [`VALUE_BYTES_MAX`] or the whole
    /// [`BATCH_BYTES_MAX`].
    pub fn check(&self) -> Result<(), StoreError> {
        let value_max = VALUE_BYTES_MAX + self.sealing.min(sealed::SEAL_BYTES_MAX);
        for (key, value) in self.changes.iter().map(Change::sizes) {
            within("a key", key, KEY_BYTES_MAX)?;
            within("a value", value, value_max)?;
        }
        within("a batch", self.bytes(), BATCH_BYTES_MAX + self.sealing)
    }
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit { Err(StoreError::TooLarge { what, bytes, limit }) } else { Ok(()) }
}

/// Names one store; no two have the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    /// An id that no other store has: from the time, the process, a place, and what the system's hasher is seeded with.
    pub fn draw(place: &[u8]) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seed = RandomState::new().hash_one(now);
        let (now, process, seed) =
            (now.as_nanos().to_be_bytes(), std::process::id().to_be_bytes(), seed.to_be_bytes());
        let Digest(drawn) = Digest::of_parts("pilothouse/store/1", &[&now, &process, place, &seed]);
        let mut id = [0; 16];
        id.copy_from_slice(&drawn[..16]);
        Self(id)
    }
}

/// A key with its value, as [`Store::scan`] returns them.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A durable, ordered key-value store.
///
/// For implementers: `tests` holds one contract suite; every adapter has to pass it.
pub trait Store: Send + Sync + 'static {
    /// Names this store for good: drawn when it was made, kept with what it holds. Part of every idempotency key, so that
    /// two stores with topics of one name do not look alike to a server.
    fn id(&self) -> StoreId;

    /// A fresh lane.
    fn lane(&self) -> Arc<dyn Lane>;

    /// Reads one value. Sees every acknowledged batch.
    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;

    /// Reads up to `limit` pairs of a keyspace in key order: keys that start with `prefix` and come after `after`.
    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Pair>, StoreError>>;

    /// How far the log of this keyspace has come, as the marks of acknowledged batches said. It must not be read back
    /// from where the records are, or the same fault takes both. `None` if none was ever written.
    fn mark(&self, keyspace: Keyspace) -> BoxFuture<'_, Result<Option<Mark>, StoreError>>;

    /// What was acknowledged and is gone, if the store knows so since it was opened. It takes no writes then: what is left
    /// is evidence.
    fn lost(&self) -> Option<StoreError> {
        None
    }

    /// Makes everything durable that was appended, then refuses further appends and reads.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// One writer's way into the store.
pub trait Lane: Send + Sync + 'static {
    /// Queues a batch and returns at once; the acknowledgement comes when it is durable.
    fn append(&self, batch: Batch) -> Ack;
}

/// Resolves when a batch is durable, or when the store cannot promise that it ever will be.
///
/// An error is no proof of absence: after a failed sync, or for a caller who stops waiting, the batch may still be
/// found by the next start. What follows from it must be decided from what is read back.
///
/// # Cancel safety
/// Dropping it forgets the answer; the batch is written all the same.
#[derive(Debug)]
pub struct Ack {
    answer: oneshot::Receiver<Result<(), StoreError>>,
    /// What is answered when the store has got so far.
    instead: Option<StoreError>,
}

impl Ack {
    /// Refuses what was never written, in its place among the answers.
    fn instead(self, refusal: StoreError) -> Self {
        Self { instead: Some(refusal), ..self }
    }
}

/// The store's end of an [`Ack`].
#[derive(Debug)]
pub struct AckSender(oneshot::Sender<Result<(), StoreError>>);

/// A fresh pair.
pub fn ack() -> (AckSender, Ack) {
    let (sender, receiver) = oneshot::channel();
    (AckSender(sender), Ack { answer: receiver, instead: None })
}

impl AckSender {
    /// Acknowledges; a writer that no longer listens is no concern of the store.
    pub fn send(self, result: Result<(), StoreError>) {
        let _gone = self.0.send(result);
    }
}

impl Future for Ack {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A store that was dropped with the batch in its hands has not made it durable.
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|answer| {
            answer.unwrap_or(Err(StoreError::Closed)).and(self.instead.take().map_or(Ok(()), Err))
        })
    }
}
