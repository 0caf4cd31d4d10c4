//! A disk that misbehaves: slow, standing still, refusing, or gone at a record. Nothing of it is real, so a thousand
//! crashes a second are possible.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse::error::StoreError;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Ack, AckSender, Batch, Keyspace, Lane, Mark, Pair, Store, StoreId, ack};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What happens to one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// It takes this long, and so do all after it.
    Stall(Duration),
    /// It is not written, and its writer is told so.
    Refuse,
    /// It is written, and its writer is told that it was not.
    Deny,
    /// The process ends just before it is written.
    CrashBefore(Loss),
    /// The process ends when it is written, before anybody is told.
    CrashAfter(Loss),
}

/// What a crash takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Whatever was not synced: the power went.
    PowerCut,
    /// Nothing that was written: the process alone ended.
    Killed,
}

/// Decides what happens to each batch, and how long it takes.
pub trait Disk: Send + 'static {
    /// How long the next batch, or the next reading, takes.
    fn latency(&mut self) -> Duration {
        Duration::ZERO
    }

    /// What happens to the next batch.
    fn blow(&mut self, _batch: &Batch) -> Option<Blow> {
        None
    }
}

/// A disk without faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct SoundDisk;

impl Disk for SoundDisk {}

/// A store in memory behind a [`Disk`]. A clone is the same store. Batches follow each other; one is neither readable nor
/// kept by a crash before its turn has come.
#[derive(Clone)]
pub struct FaultyStore(Arc<Inner>);

struct Inner {
    memory: MemoryStore,
    id: StoreId,
    disk: Mutex<Box<dyn Disk>>,
    queue: mpsc::UnboundedSender<Queued>,
    waiting: watch::Sender<usize>,
    /// What the crash left, once it has come.
    left: watch::Sender<Option<MemoryStore>>,
    /// Acknowledgements that will never come; kept, since to drop one is to answer.
    unanswered: Mutex<VecDeque<AckSender>>,
}

struct Queued {
    lane: Arc<dyn Lane>,
    refused: Arc<AtomicBool>,
    batch: Batch,
    ack: AckSender,
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyStore").field("memory", &self.0.memory).finish_non_exhaustive()
    }
}

impl FaultyStore {
    /// Puts a disk in front of what a store holds.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn over(memory: MemoryStore, id: StoreId, disk: impl Disk) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            memory,
            id,
            disk: Mutex::new(Box::new(disk)),
            queue,
            waiting: watch::Sender::new(0),
            left: watch::Sender::new(None),
            unanswered: Mutex::default(),
        });
        // A weak one, so that the store ends with its last handle.
        tokio::spawn(write(Arc::downgrade(&inner), waiting));
        Self(inner)
    }

    /// Ends the process now, as far as this store is concerned: nothing is answered any more. What is left of it.
    pub fn crash(&self, loss: Loss) -> MemoryStore {
        self.0.crash(loss)
    }

    /// Waits for the crash; what it left.
    pub async fn crashed(&self) -> MemoryStore {
        let mut left = self.0.left.subscribe();
        match left.wait_for(Option::is_some).await.map(|left| left.clone()) {
            Ok(Some(left)) => left,
            // The sender lives in `self`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// What is in it.
    pub fn memory(&self) -> &MemoryStore {
        &self.0.memory
    }

    async fn read<T>(&self, reading: Answer<'_, T>) -> Result<T, StoreError> {
        let latency = lock(&self.0.disk).latency();
        if !latency.is_zero() {
            sleep(latency).await;
        }
        if self.0.left.borrow().is_some() {
            std::future::pending::<()>().await;
        }
        reading.await
    }
}

impl Inner {
    fn crash(&self, loss: Loss) -> MemoryStore {
        let mut first = None;
        self.left.send_if_modified(|left| {
            let crashes = left.is_none();
            let kept = left.get_or_insert_with(|| match loss {
                Loss::PowerCut => self.memory.crash(),
                Loss::Killed => self.memory.crash_keeping_lazy(),
            });
            first = Some(kept.clone());
            crashes
        });
        first.unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.left.borrow().is_some()
    }

    fn never_answer(&self, ack: AckSender) {
        lock(&self.unanswered).push_back(ack);
    }
}

/// Writes one batch after the other, until the store is gone or the process has crashed.
async fn write(store: std::sync::Weak<Inner>, mut queue: mpsc::UnboundedReceiver<Queued>) {
    while let Some(Queued { lane, refused, batch, ack }) = queue.recv().await {
        let Some(store) = store.upgrade() else { return };
        let (latency, blow) = {
            let mut disk = lock(&store.disk);
            (disk.latency(), disk.blow(&batch))
        };
        if !latency.is_zero() {
            sleep(latency).await;
        }
        if let Some(Blow::Stall(long)) = blow {
            sleep(long).await;
        }
        if let Some(Blow::CrashBefore(loss)) = blow {
            // What it left is what whoever waits for the crash is told.
            drop(store.crash(loss));
        }
        if store.is_over() {
            store.never_answer(ack);
            continue;
        }
        let broken = || StoreError::Io { reason: "the disk does not take it".to_owned() };
        let answer = if refused.load(Ordering::Acquire) {
            Err(StoreError::Io { reason: "an earlier batch of this writer failed".to_owned() })
        } else {
            match blow {
                Some(Blow::Refuse) => Err(broken()),
                Some(Blow::Deny) => lane.append(batch).await.and(Err(broken())),
                Some(Blow::Stall(_) | Blow::CrashBefore(_) | Blow::CrashAfter(_)) | None => {
                    lane.append(batch).await
                }
            }
        };
        if answer.is_err() {
            refused.store(true, Ordering::Release);
        }
        if let Some(Blow::CrashAfter(loss)) = blow {
            // As above.
            drop(store.crash(loss));
        }
        if store.is_over() {
            store.never_answer(ack);
        } else {
            ack.send(answer);
        }
        store.waiting.send_modify(|count| *count -= 1);
    }
}

struct FaultyLane {
    lane: Arc<dyn Lane>,
    refused: Arc<AtomicBool>,
    store: Arc<Inner>,
}

impl Lane for FaultyLane {
    fn append(&self, batch: Batch) -> Ack {
        let (ack, answer) = ack();
        self.store.waiting.send_modify(|count| *count += 1);
        let queued = Queued { lane: self.lane.clone(), refused: self.refused.clone(), batch, ack };
        // A store whose Tokio runtime has ended answers nobody.
        let _over = self.store.queue.send(queued);
        answer
    }
}

impl Store for FaultyStore {
    fn id(&self) -> StoreId {
        self.0.id
    }

    fn lane(&self) -> Arc<dyn Lane> {
        let refused = Arc::new(AtomicBool::new(false));
        Arc::new(FaultyLane { lane: self.0.memory.lane(), refused, store: self.0.clone() })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(self.read(self.0.memory.get(keyspace, key)))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        Box::pin(self.read(self.0.memory.scan(keyspace, prefix, after, limit)))
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.0.memory.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut waiting = self.0.waiting.subscribe();
            if waiting.wait_for(|count| *count == 0).await.is_err() || self.0.is_over() {
                std::future::pending::<()>().await;
            }
            self.0.memory.close().await
        })
    }
}

/// A poisoned lock here still holds a whole value: each is set in one step.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
