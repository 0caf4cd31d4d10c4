//! Keeps a record of every child process that runs, so that the next start of the host can end those which outlived it.
//!
//! ```text
//! spawned ──▶ noted, durable ──▶ asked anything ──▶ … ──▶ gone ──▶ record removed
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::server::ProcessNotes;
use pilothouse_adapters::store::log::{GENESIS, PROCESS};
use pilothouse_adapters::store::pages::each_pair;
use pilothouse_adapters::store::{Ack, Batch, Keyspace, Lane, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::process::ProcessMark;
use tokio::sync::watch;

/// The records of one runtime's processes; part of the servers' supervisor, which is their only writer.
pub struct Processes {
    store: Arc<dyn Store>,
    /// A failed lane takes nothing more, so that a fresh one takes its place.
    lane: Mutex<Arc<dyn Lane>>,
    within: Duration,
    /// Whether somebody has begun to look back.
    looking: AtomicBool,
    /// The servers of which an earlier process of the host may still run; `None` until that has been looked up.
    left: watch::Sender<Option<BTreeSet<ServerId>>>,
}

/// Looks back once; what it has not cleared when it is dropped, nobody waits for any more.
#[derive(Debug)]
pub struct LookBack(Arc<Processes>);

impl LookBack {
    /// Processes of these servers are there, and of no others.
    pub fn found(&self, servers: BTreeSet<ServerId>) {
        self.0.left.send_replace(Some(servers));
    }

    /// None of this server's is there any more.
    pub fn cleared(&self, server: &ServerId) {
        self.0.left.send_if_modified(|left| left.as_mut().is_some_and(|left| left.remove(server)));
    }

    /// The records.
    pub fn processes(&self) -> &Processes {
        &self.0
    }
}

impl Drop for LookBack {
    fn drop(&mut self) {
        self.0.left.send_replace(Some(BTreeSet::new()));
    }
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Processes")
    }
}

impl Processes {
    /// Records in this store; a write is waited for at most `within`.
    pub fn new(store: Arc<dyn Store>, within: Duration) -> Self {
        let looking = AtomicBool::new(false);
        Self { lane: Mutex::new(store.lane()), store, within, looking, left: watch::Sender::new(None) }
    }

    /// Begins to look for what an earlier process has left; `None` if that has begun: what is noted from then on is
    /// this process's own.
    pub fn look_back(self: &Arc<Self>) -> Option<LookBack> {
        let first = !self.looking.swap(true, Ordering::Relaxed);
        first.then(|| LookBack(self.clone()))
    }

    /// Waits until nothing that an earlier process left of this server runs any more.
    pub async fn until_cleared(&self, server: &ServerId) {
        let mut left = self.left.subscribe();
        let is_clear =
            |left: &Option<BTreeSet<ServerId>>| left.as_ref().is_some_and(|left| !left.contains(server));
        // The sender lives in self, so that this only ends by coming true.
        let _clear = left.wait_for(is_clear).await;
    }

    /// What an earlier process has noted and not removed. A record that cannot be read is passed over and removed: it
    /// names no process that could be told from a stranger.
    ///
    /// # Errors
    /// The store's own, and [`StoreError::NewerFormat`].
    pub async fn left_behind(&self) -> Result<Vec<ProcessMark>, StoreError> {
        let (mut marks, mut unreadable) = (Vec::new(), Batch::new());
        each_pair(self.store.as_ref(), Keyspace::Process, &[], |(key, value)| {
            match PROCESS.decode::<ProcessMark>(&value) {
                Ok(record) => marks.push(record.payload),
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::warn!(target: "pilothouse", %error, "the record of a process cannot be read");
                    unreadable.delete(Keyspace::Process, key);
                }
                Err(other) => return Err(other),
            }
            Ok(())
        })
        .await?;
        if !unreadable.changes.is_empty() {
            // What is not removed now is passed over again at the next start.
            drop(self.append(unreadable));
        }
        Ok(marks)
    }

    fn append(&self, batch: Batch) -> Ack {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner).append(batch)
    }

    async fn note(&self, process: &ProcessMark) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(Keyspace::Process, key(process), PROCESS.encode(1, GENESIS, process)?);
        let written = tokio::time::timeout(self.within, self.append(batch)).await;
        written.unwrap_or(Err(StoreError::TimedOut))
    }
}

impl ProcessNotes for Processes {
    fn started(&self, process: ProcessMark) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(error) = self.note(&process).await {
                // The server is of use all the same; only its end after our own death is not certain.
                let (server, pid) = (&process.server, process.pid);
                tracing::warn!(target: "pilothouse", %server, pid, %error, "a process could not be noted");
                *self.lane.lock().unwrap_or_else(PoisonError::into_inner) = self.store.lane();
            }
        })
    }

    fn ended(&self, process: &ProcessMark) {
        let mut batch = Batch::new();
        batch.delete(Keyspace::Process, key(process));
        // A record that stays names a process that is gone: the next start finds that out, and removes it.
        drop(self.append(batch));
    }
}

/// One process, whatever server it was: a digest of all that tells it from others.
fn key(process: &ProcessMark) -> Vec<u8> {
    let ProcessMark { boot, pid, started, server: _ } = process;
    let parts: [&[u8]; 3] = [boot.as_bytes(), &pid.to_be_bytes(), &started.to_be_bytes()];
    Digest::of_parts("pilothouse/process/1", &parts).0.to_vec()
}
