//! The store on disk: sled 0.34, made durable.
//!
//! sled's own flush does not reach the disk's cache, so every group ends with a sync of the data file. Group commit:
//! whoever appends to an idle store starts a commit; what arrives meanwhile is the next group, which waits for
//! nothing else. Any failed write stops the whole store, since what sled holds in memory is no longer what is on the
//! disk; reads go on until it is closed. No key or value is so large that sled would put a page into a file of its
//! own, which it would not sync.
//!
//! A directory belongs to one open store at a time, of all processes. Nothing in it is ever deleted, but for
//! `snap.*.generating`: half-written snapshots that a killed process left and over which sled would stumble.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_messages::error::StoreError;
use tokio::runtime::Handle;

use self::committer::{Committer, Work};
use self::disk::Disk;
use super::{Ack, Batch, Keyspace, Lane, Mark, Pair, Store, StoreId, ack, refused_after_failure};
use crate::BoxFuture;

mod committer;
mod directory;
mod disk;
mod marks;

/// A store in a directory. A clone is the same store.
///
/// It works on the Tokio runtime that opened it, and ends with that runtime. Dropping the last handle and lane
/// without [`close`](Store::close) still writes everything, in the background; the directory is free soon after.
#[derive(Clone)]
pub struct SledStore {
    committer: Arc<Committer>,
    store_id: StoreId,
    lost: Option<StoreError>,
}

impl SledStore {
    /// Opens the store in this directory, and makes both if they do not exist: the directory with mode 0700, files
    /// with 0600. A lock that somebody else is just giving up is waited for, up to a second.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), pilothouse_messages::error::StoreError> {
    /// use pilothouse_adapters::store::{Store, sled::SledStore};
    ///
    /// let store = SledStore::open("/var/lib/agent/pilothouse").await?;
    /// store.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Locked`] if it is open already, [`StoreError::Directory`] if the path cannot be used,
    /// [`StoreError::Damaged`] if what is there cannot be read, [`StoreError::NewerFormat`] if a newer version wrote
    /// it. Nothing is deleted in any of these cases.
    ///
    /// # Cancel safety
    /// If the future is dropped, the store is closed again in the background.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::Io { reason: "a store is opened inside a Tokio runtime".into() });
        };
        let opening = runtime.spawn_blocking(move || Disk::open(&path));
        match opening.await {
            Ok(disk) => {
                let disk = disk?;
                let (store_id, lost) = (StoreId(disk.store_id()), disk.lost());
                Ok(Self { committer: Arc::new(Committer::new(disk, runtime)), store_id, lost })
            }
            Err(ended) if ended.is_panic() => {
                Err(StoreError::Damaged { reason: "sled gave up while it read the directory".into() })
            }
            Err(_) => Err(StoreError::Closed),
        }
    }
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").finish_non_exhaustive()
    }
}

impl Store for SledStore {
    fn id(&self) -> StoreId {
        self.store_id
    }

    fn lane(&self) -> Arc<dyn Lane> {
        Arc::new(SledLane { committer: self.committer.clone(), refuses: Mutex::new(false) })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        self.committer.read(move |disk| disk.get(keyspace, &key))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Pair>, StoreError>> {
        self.committer.read(move |disk| disk.scan(keyspace, &prefix, after.as_deref(), limit))
    }

    fn mark(&self, keyspace: Keyspace) -> BoxFuture<'_, Result<Option<Mark>, StoreError>> {
        self.committer.read(move |disk| Ok(disk.mark(keyspace)))
    }

    fn lost(&self) -> Option<StoreError> {
        self.lost.clone()
    }

    /// Makes everything durable that was appended, then frees the directory: it can be opened again at once.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let (sender, closed) = ack();
        self.committer.submit(Work::Close(sender));
        Box::pin(closed)
    }
}

struct SledLane {
    committer: Arc<Committer>,
    /// Whether a batch was refused here, so that nothing may follow it. A failed write stops the whole store.
    refuses: Mutex<bool>,
}

impl Lane for SledLane {
    fn append(&self, batch: Batch) -> Ack {
        let (sender, answer) = ack();
        // Held over the submission, so that no batch slips in behind a refused one.
        let mut refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = if *refuses { Err(refused_after_failure()) } else { batch.check() };
        *refuses = checked.is_err();
        // A refusal queues up, too: answers of a lane come in order.
        self.committer.submit(match checked {
            Ok(()) => Work::Commit(batch, sender),
            Err(refusal) => Work::Refuse(refusal, sender),
        });
        answer
    }
}

#[cfg(test)]
mod tests;
