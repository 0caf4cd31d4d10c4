//! Stores that a test can look into: one that takes its time, and one that remembers what every crash would leave.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse::error::StoreError;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Ack, AckSender, Batch, Keyspace, Lane, Mark, Pair, Store, StoreId, ack};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store that needs a while for each batch, as a disk does: batches follow each other, and one is neither readable
/// nor kept by a crash before it is acknowledged.
#[derive(Clone)]
pub(crate) struct Slow<S> {
    inner: S,
    latency: Duration,
    queue: mpsc::UnboundedSender<Queued>,
    /// Batches that are not acknowledged yet.
    under_way: Arc<watch::Sender<usize>>,
}

/// One batch, and where it goes.
struct Queued {
    lane: Arc<dyn Lane>,
    batch: Batch,
    ack: AckSender,
}

impl<S: Store> Slow<S> {
    pub(crate) fn over(inner: S, latency: Duration) -> Self {
        let (queue, mut waiting) = mpsc::unbounded_channel::<Queued>();
        let under_way = Arc::new(watch::Sender::new(0));
        let done = under_way.clone();
        tokio::spawn(async move {
            while let Some(Queued { lane, batch, ack }) = waiting.recv().await {
                sleep(latency).await;
                ack.send(lane.append(batch).await);
                done.send_modify(|count| *count -= 1);
            }
        });
        Self { inner, latency, queue, under_way }
    }
}

struct SlowLane {
    lane: Arc<dyn Lane>,
    queue: mpsc::UnboundedSender<Queued>,
    under_way: Arc<watch::Sender<usize>>,
}

impl Lane for SlowLane {
    fn append(&self, batch: Batch) -> Ack {
        let (ack, answer) = ack();
        self.under_way.send_modify(|count| *count += 1);
        // A store whose Tokio runtime has ended answers nobody.
        let _over = self.queue.send(Queued { lane: self.lane.clone(), batch, ack });
        answer
    }
}

impl<S: Store> Store for Slow<S> {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        let (queue, under_way) = (self.queue.clone(), self.under_way.clone());
        Arc::new(SlowLane { lane: self.inner.lane(), queue, under_way })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            sleep(self.latency).await;
            self.inner.get(keyspace, key).await
        })
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        Box::pin(async move {
            sleep(self.latency).await;
            self.inner.scan(keyspace, prefix, after, limit).await
        })
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.inner.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut under_way = self.under_way.subscribe();
            under_way.wait_for(|count| *count == 0).await.expect("self holds the sender");
            self.inner.close().await
        })
    }
}

/// A store in memory that keeps, for each batch, what a crash just after it would leave.
#[derive(Clone)]
pub(crate) struct Recorder<T> {
    inner: MemoryStore,
    /// What else was true at that moment.
    witness: Arc<dyn Fn() -> T + Send + Sync>,
    moments: Arc<Mutex<Vec<Moment<T>>>>,
}

/// One moment just after a batch.
pub(crate) struct Moment<T> {
    /// What a power cut leaves.
    pub(crate) after_power_cut: MemoryStore,
    /// What the end of the process leaves.
    pub(crate) after_kill: MemoryStore,
    /// What the witness said just before the batch became durable.
    pub(crate) before: T,
}

impl<T: Send + 'static> Recorder<T> {
    pub(crate) fn new(witness: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { inner: MemoryStore::new(), witness: Arc::new(witness), moments: Arc::default() }
    }

    /// All moments so far, oldest first.
    pub(crate) fn moments(&self) -> Vec<Moment<T>> {
        std::mem::take(&mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct RecorderLane<T> {
    lane: Arc<dyn Lane>,
    store: Recorder<T>,
}

impl<T: Send + 'static> Lane for RecorderLane<T> {
    fn append(&self, batch: Batch) -> Ack {
        let before = (self.store.witness)();
        let ack = self.lane.append(batch);
        let inner = &self.store.inner;
        let moment =
            Moment { after_power_cut: inner.crash(), after_kill: inner.crash_keeping_lazy(), before };
        self.store.moments.lock().unwrap_or_else(PoisonError::into_inner).push(moment);
        ack
    }
}

impl<T: Send + 'static> Store for Recorder<T> {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        let store =
            Self { inner: self.inner.clone(), witness: self.witness.clone(), moments: self.moments.clone() };
        Arc::new(RecorderLane { lane: self.inner.lane(), store })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        self.inner.get(keyspace, key)
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        self.inner.scan(keyspace, prefix, after, limit)
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.inner.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}

/// What befalls one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mishap {
    /// It fails, and what its lane wanted to write after it is refused.
    Fails,
    /// It, and everything after it, becomes durable later than anybody waits for it.
    Stalls,
}

/// A store in memory that has one mishap.
#[derive(Clone)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    mishap: Mishap,
    /// Batches until then.
    left: Arc<Mutex<Option<usize>>>,
}

impl Faulty {
    /// The mishap befalls the batch that comes after `good` ones.
    pub(crate) fn after(good: usize, mishap: Mishap) -> Self {
        Self { inner: MemoryStore::new(), mishap, left: Arc::new(Mutex::new(Some(good))) }
    }

    /// Whether that batch has come.
    pub(crate) fn is_over(&self) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// What the end of the process leaves.
    pub(crate) fn killed(&self) -> MemoryStore {
        self.inner.crash_keeping_lazy()
    }
}

struct FaultyLane {
    lane: Arc<dyn Lane>,
    store: Faulty,
}

impl Lane for FaultyLane {
    fn append(&self, batch: Batch) -> Ack {
        let mut left = self.store.left.lock().unwrap_or_else(PoisonError::into_inner);
        match *left {
            Some(0) => {
                *left = None;
                let store = self.store.inner.clone();
                match self.store.mishap {
                    Mishap::Fails => store.fail_next(StoreError::Io { reason: "a bad sector".to_owned() }),
                    Mishap::Stalls => {
                        store.hold();
                        tokio::spawn(async move {
                            sleep(Duration::from_secs(7)).await;
                            store.release();
                        });
                    }
                }
            }
            Some(more) => *left = Some(more - 1),
            None => {}
        }
        self.lane.append(batch)
    }
}

impl Store for Faulty {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        Arc::new(FaultyLane { lane: self.inner.lane(), store: self.clone() })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        self.inner.get(keyspace, key)
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        self.inner.scan(keyspace, prefix, after, limit)
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.inner.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
