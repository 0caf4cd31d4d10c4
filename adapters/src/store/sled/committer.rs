//! Group commit: one queue for all lanes, one commit at a time.
//!
//! ```text
//! idle ──submit──▶ leading ──▶ take a group ─▶ write it ─▶ (sync it) ─▶ answer in order ─┐
//!   ▲                              ▲──────────────── more has arrived ───────────────────┤
//!   └────────────────────────────────────────────── the queue is empty ──────────────────┘
//! ```
//!
//! The leader runs on the runtime's blocking threads and answers from there, so that a lone caller waits for two
//! thread switches only.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use pilothouse_messages::error::StoreError;
use tokio::runtime::Handle;

use super::disk::Disk;
use crate::BoxFuture;
use crate::store::{AckSender, BATCH_BYTES_MAX, Batch, Durability};

/// Batches in one group at most, so that one answer does not wait for an endless queue.
const GROUP_BATCHES: usize = 1_024;
/// Bytes in one group at most, for the same reason.
const GROUP_BYTES: usize = 8 * BATCH_BYTES_MAX;
/// How long written lazy batches wait for a sync: half of what is promised, the rest is for the sync itself.
const LAZY_WAIT: Duration = Duration::from_millis(250);

/// What the queue holds.
pub(super) enum Work {
    /// Write a batch.
    Commit(Batch, AckSender),
    /// Only tell its writer, in turn.
    Refuse(StoreError, AckSender),
    /// Sync what was written.
    Sync,
    /// Sync everything, then let go of the disk.
    Close(AckSender),
}

/// The queue, and the disk behind it.
pub(super) struct Committer {
    /// `None` once it is closed. Readers and the leader share it; a close has it alone.
    disk: RwLock<Option<Disk>>,
    queue: Mutex<Queue>,
    /// Where the blocking work runs.
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    /// Somebody works the queue off, or is about to.
    leading: bool,
    /// Lazy batches are written that no sync has covered.
    unsynced: bool,
    /// A task will ask for that sync.
    timer: bool,
    /// Why nothing is written any more.
    failed: Option<StoreError>,
}

impl Committer {
    pub(super) fn new(disk: Disk, runtime: Handle) -> Self {
        Self { disk: RwLock::new(Some(disk)), queue: Mutex::default(), runtime }
    }

    /// Queues some work; never waits.
    pub(super) fn submit(self: &Arc<Self>, work: Work) {
        let mut queue = self.queue();
        queue.waiting.push_back(work);
        let idle = !std::mem::replace(&mut queue.leading, true);
        drop(queue);
        if idle {
            let leader = Leader { committer: self.clone(), done: false };
            self.runtime.spawn_blocking(move || leader.lead());
        }
    }

    /// Reads from the disk, on a blocking thread.
    pub(super) fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Disk) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let committer = self.clone();
        let reading = self.runtime.spawn_blocking(move || {
            let disk = committer.disk.read().unwrap_or_else(PoisonError::into_inner);
            let Some(disk) = disk.as_ref() else { return Err(StoreError::Closed) };
            let answer = guarded("reading", || read(disk));
            if matches!(answer, Err(StoreError::Io { .. } | StoreError::Damaged { .. })) {
                committer.stop(&answer);
            }
            answer
        });
        // Only a runtime that shuts down ends the task without an answer.
        Box::pin(async { reading.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// Whether a sync of lazy batches is still to come.
    #[cfg(test)]
    pub(super) fn is_unsynced(&self) -> bool {
        self.queue().unsynced
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it holds the queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next group; `None` ends the lead.
    fn next_group(&self) -> Option<Vec<Work>> {
        let mut queue = self.queue();
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BATCHES && bytes < GROUP_BYTES {
            let Some(work) = queue.waiting.pop_front() else { break };
            let last = matches!(work, Work::Close(_));
            if let Work::Commit(batch, _) = &work {
                bytes += batch.bytes();
            }
            group.push(work);
            if last {
                break;
            }
        }
        queue.leading = !group.is_empty();
        queue.leading.then_some(group)
    }

    /// Writes one group and answers it.
    fn serve(self: &Arc<Self>, group: Vec<Work>) {
        let mut batches = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        let (mut sync, mut close) = (false, None);
        for work in group {
            match work {
                Work::Commit(batch, ack) => {
                    // A mark is written once what it names is durable.
                    sync |= batch.durability == Durability::Sync || !batch.marks.is_empty();
                    batches.push(batch);
                    answers.push((ack, None));
                }
                Work::Refuse(refusal, ack) => answers.push((ack, Some(refusal))),
                Work::Sync => sync = true,
                Work::Close(ack) => close = Some(ack),
            }
        }
        let written = self.write(batches, sync || close.is_some());
        for (ack, refusal) in answers {
            ack.send(refusal.map_or_else(|| written.clone(), Err));
        }
        if let Some(ack) = close {
            ack.send(self.let_go(written));
        }
    }

    fn write(self: &Arc<Self>, batches: Vec<Batch>, sync: bool) -> Result<(), StoreError> {
        if let Some(failed) = self.queue().failed.clone() {
            return Err(failed);
        }
        let disk = self.disk.read().unwrap_or_else(PoisonError::into_inner);
        let Some(disk) = disk.as_ref() else {
            // Closed before: a batch is late, and a second close as good as the first.
            return if batches.is_empty() { Ok(()) } else { Err(StoreError::Closed) };
        };
        let lazy = !sync && !batches.is_empty();
        let marks: Vec<_> = batches.iter().flat_map(|batch| batch.marks.iter().copied()).collect();
        let written = guarded("writing", || {
            disk.apply(batches)?;
            if !sync {
                return Ok(());
            }
            disk.sync()?;
            disk.write_marks(&marks)
        });
        self.stop(&written);
        let mut queue = self.queue();
        queue.unsynced = written.is_ok() && (lazy || queue.unsynced && !sync);
        if queue.unsynced && !std::mem::replace(&mut queue.timer, true) {
            self.sync_later();
        }
        written
    }

    /// Asks for a sync when lazy batches have waited long enough.
    fn sync_later(self: &Arc<Self>) {
        let committer = Arc::downgrade(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(LAZY_WAIT).await;
            // A store that nobody holds any more was synced when it was dropped.
            let Some(committer) = committer.upgrade() else { return };
            let unsynced = {
                let mut queue = committer.queue();
                queue.timer = false;
                queue.unsynced
            };
            if unsynced {
                committer.submit(Work::Sync);
            }
        });
    }

    /// After a failure nothing is written any more.
    fn stop<T>(&self, result: &Result<T, StoreError>) {
        let Err(error) = result else { return };
        let mut queue = self.queue();
        if queue.failed.is_none() {
            tracing::error!(%error, "the store failed and takes no more writes");
            let reason =
                format!("the store failed before and takes no more until it is opened again ({error})");
            queue.failed = Some(StoreError::Io { reason });
        }
    }

    fn let_go(&self, written: Result<(), StoreError>) -> Result<(), StoreError> {
        let disk = self.disk.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(disk);
        written
    }

    /// The runtime ended before the leader ran: nobody will serve the queue any more.
    fn abandon(&self) {
        let mut queue = self.queue();
        queue.leading = false;
        queue.failed.get_or_insert(StoreError::Closed);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        for work in waiting {
            match work {
                Work::Commit(_, ack) | Work::Close(ack) => ack.send(Err(StoreError::Closed)),
                Work::Refuse(refusal, ack) => ack.send(Err(refusal)),
                Work::Sync => {}
            }
        }
    }
}

/// Turns a panic of sled into an error, so that it ends no other actor.
fn guarded<T>(doing: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(StoreError::Io { reason: format!("sled gave up while {doing}") }))
}

impl Drop for Committer {
    fn drop(&mut self) {
        let disk = self.disk.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(disk) = disk {
            // Its last sync may take a while, and this may be an async thread. A runtime that has ended drops the
            // closure, and the disk with it, right here.
            self.runtime.spawn_blocking(move || drop(disk));
        }
    }
}

/// The one who works the queue off.
struct Leader {
    committer: Arc<Committer>,
    done: bool,
}

impl Leader {
    fn lead(mut self) {
        while let Some(group) = self.committer.next_group() {
            self.committer.serve(group);
        }
        self.done = true;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.done {
            self.committer.abandon();
        }
    }
}
