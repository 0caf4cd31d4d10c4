//! Seals what a store keeps: the embedder's sealer encrypts every value before the store sees it, and opens it again.
//!
//! ```text
//! writers ──▶ records, checksums, chain ──▶ SealedStore: value ─▶ sealer ─▶ store: key, sealed value
//! ```
//!
//! Values are sealed, keys are not: ids of topics and servers and the order of records stay readable, and so do the marks
//! beside the store. Each value is bound to its place, so that one cannot be put where another was. The chain of the ledger
//! links what was sealed and not the sealed bytes (`docs/decisions/sealer.md`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_messages::error::StoreError;

use super::{
    Ack, Batch, Change, Keyspace, Lane, Mark, Pair, Store, StoreId, refused_after_failure, stored_key,
};
use crate::BoxFuture;

/// The most that a sealer may add to a value: room for a nonce, a tag and the name of a key.
pub const SEAL_BYTES_MAX: usize = 128;
/// A value of known text, by which a wrong sealer is noticed before anything is read or written with it.
const SEAL_KEY: &[u8] = b"sealed";
const SEAL_TEXT: &[u8] = b"sealed since it was made";

/// Where a store that was never sealed has something.
const FILLED: [Keyspace; 12] = [
    Keyspace::Journal,
    Keyspace::Head,
    Keyspace::Open,
    Keyspace::Ledger,
    Keyspace::Grants,
    Keyspace::Listing,
    Keyspace::Names,
    Keyspace::Process,
    Keyspace::Aside,
    Keyspace::Spoken,
    Keyspace::Checkpoints,
    Keyspace::Keys,
];

/// Encrypts and opens the values of a store, with authentication: what was changed, or was sealed for another place or
/// with another key, does not open.
///
/// For implementers: it is called by writers that wait for nothing, so that it must neither block nor reach a network; a key
/// is fetched before. It adds at most [`SEAL_BYTES_MAX`] bytes. A panic is taken for a failure.
pub trait Sealer: Send + Sync + 'static {
    /// Encrypts the value of this place. `place` is not secret; it is bound as associated data.
    ///
    /// # Errors
    /// Why it cannot; the write fails with it, and nothing of it is stored.
    fn seal(&self, place: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError>;

    /// Opens what [`seal`](Self::seal) made of a value for this place.
    ///
    /// # Errors
    /// Why it cannot, without a word of what the value may be.
    fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError>;
}

/// Why a value could not be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SealError(pub String);

/// A store whose values are sealed. A clone is the same store.
#[derive(Clone)]
pub struct SealedStore {
    store: Arc<dyn Store>,
    seal: Seal,
}

impl fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedStore").finish_non_exhaustive()
    }
}

impl SealedStore {
    /// Seals an empty store, or opens one that was sealed with the same key.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] if the sealer does not open what is there, or if the store was kept without one; else the
    /// store's own. Nothing is changed in these cases.
    ///
    /// # Cancel safety
    /// Safe: a store that was not marked as sealed is empty still.
    pub async fn open(store: Arc<dyn Store>, sealer: Arc<dyn Sealer>) -> Result<Self, StoreError> {
        let seal = Seal(sealer);
        let place = stored_key(Keyspace::Meta, SEAL_KEY);
        if let Some(sealed) = store.get(Keyspace::Meta, SEAL_KEY.to_vec()).await? {
            return match seal.open(&place, &sealed) {
                Ok(text) if text == SEAL_TEXT => Ok(Self { store, seal }),
                Ok(_) | Err(_) => {
                    Err(refused("the sealer does not open it: use the key that it was made with"))
                }
            };
        }
        if store.lost().is_some() {
            // Its seal may be what it has lost, and it takes no writes: what is left can be read, and tells that it was.
            return Ok(Self { store, seal });
        }
        for keyspace in FILLED {
            if !store.scan(keyspace, Vec::new(), None, 1).await?.is_empty() {
                let words = "it was kept without a sealer: use it without one, or choose another directory";
                return Err(refused(words));
            }
        }
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, SEAL_KEY, SEAL_TEXT);
        store.lane().append(seal.batch(batch)?).await?;
        Ok(Self { store, seal })
    }
}

/// Whether a store can be read as it is given: one that was sealed needs its sealer.
///
/// # Errors
/// [`StoreError::Sealed`] if it has none; else the store's own.
pub async fn check_seal(store: &dyn Store) -> Result<(), StoreError> {
    match store.get(Keyspace::Meta, SEAL_KEY.to_vec()).await? {
        Some(text) if text != SEAL_TEXT => {
            Err(refused("it was sealed: give the sealer that it was made with"))
        }
        Some(_) | None => Ok(()),
    }
}

fn refused(reason: &str) -> StoreError {
    StoreError::Sealed { reason: reason.to_owned() }
}

impl Store for SealedStore {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        Arc::new(SealedLane { lane: self.store.lane(), seal: self.seal.clone(), refuses: Mutex::new(false) })
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(async move {
            let place = stored_key(keyspace, &key);
            let sealed = self.store.get(keyspace, key).await?;
            sealed.map(|sealed| self.seal.value(&place, &sealed)).transpose()
        })
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Pair>, StoreError>> {
        Box::pin(async move {
            let mut pairs = self.store.scan(keyspace, prefix, after, limit).await?;
            for (key, value) in &mut pairs {
                *value = self.seal.value(&stored_key(keyspace, key), value)?;
            }
            Ok(pairs)
        })
    }

    fn mark(&self, keyspace: Keyspace) -> BoxFuture<'_, Result<Option<Mark>, StoreError>> {
        self.store.mark(keyspace)
    }

    fn lost(&self) -> Option<StoreError> {
        self.store.lost()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.close()
    }
}

struct SealedLane {
    lane: Arc<dyn Lane>,
    seal: Seal,
    /// Whether a batch was refused here, so that nothing may follow it.
    refuses: Mutex<bool>,
}

impl Lane for SealedLane {
    fn append(&self, batch: Batch) -> Ack {
        // Held over the submission, so that no batch slips in behind a refused one.
        let mut refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = if *refuses { Err(refused_after_failure()) } else { self.seal.batch(batch) };
        *refuses = sealed.is_err();
        match sealed {
            Ok(sealed) => self.lane.append(sealed),
            // It queues up, too: answers of a lane come in order.
            Err(refusal) => self.lane.append(Batch::new()).instead(refusal),
        }
    }
}

/// The embedder's sealer, whose panics are failures.
#[derive(Clone)]
struct Seal(Arc<dyn Sealer>);

impl Seal {
    /// The bounds are those of what is sealed, so that no writer has to know whether it is.
    fn batch(&self, mut batch: Batch) -> Result<Batch, StoreError> {
        batch.check()?;
        for change in &mut batch.changes {
            if let Change::Put(keyspace, key, value) = change {
                let sealed = self.seal(&stored_key(*keyspace, key), value);
                let sealed = sealed.map_err(|SealError(reason)| StoreError::Io {
                    reason: format!("a value could not be sealed: {reason}"),
                })?;
                batch.sealing += sealed.len().saturating_sub(value.len());
                *value = sealed;
            }
        }
        Ok(batch)
    }

    fn seal(&self, place: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        let sealed = caught(|| self.0.seal(place, value))?;
        if sealed.len() > value.len() + SEAL_BYTES_MAX {
            let words = format!("the sealer adds more than {SEAL_BYTES_MAX} bytes");
            return Err(SealError(words));
        }
        Ok(sealed)
    }

    fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        caught(|| self.0.open(place, sealed))
    }

    fn value(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.open(place, sealed).map_err(|SealError(reason)| StoreError::Damaged {
            reason: format!("a sealed value does not open: {reason}"),
        })
    }
}

fn caught<T>(work: impl FnOnce() -> Result<T, SealError>) -> Result<T, SealError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(SealError("the sealer panicked".to_owned())))
}
