//! Opens the store that a runtime keeps everything in, sealed if a sealer is given.

#[cfg(feature = "sled")]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::store::Store;
use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::store::sealed::{SealedStore, Sealer, check_seal};
use pilothouse_messages::error::StoreError;
use tokio::time::timeout;

/// Where everything is kept.
#[derive(Default)]
pub(super) enum Keep {
    #[default]
    Memory,
    #[cfg(feature = "sled")]
    Directory(PathBuf),
    Store(Arc<dyn Store>),
}

/// A store, and whose it was before.
pub(super) enum Opened {
    Ours(Arc<dyn Store>),
    Embedders(Arc<dyn Store>),
}

impl Opened {
    pub(super) fn into_inner(self) -> Arc<dyn Store> {
        match self {
            Self::Ours(store) | Self::Embedders(store) => store,
        }
    }

    fn store(&self) -> &Arc<dyn Store> {
        match self {
            Self::Ours(store) | Self::Embedders(store) => store,
        }
    }

    fn sealed(self, sealed: SealedStore) -> Self {
        match self {
            Self::Ours(_) => Self::Ours(Arc::new(sealed)),
            Self::Embedders(_) => Self::Embedders(Arc::new(sealed)),
        }
    }

    /// Nothing is started over it: one that was opened here is closed again.
    pub(super) async fn leave(self) {
        match self {
            // What else is wrong is what the caller has to hear about.
            Self::Ours(store) => drop(store.close().await),
            Self::Embedders(_) => {}
        }
    }
}

/// One that has lost what it acknowledged is evidence: nothing is started over it.
pub(super) async fn open(
    keep: Keep,
    sealer: Option<Arc<dyn Sealer>>,
    within: Duration,
) -> Result<Opened, StoreError> {
    let opened = opened(keep).await?;
    let store = opened.store().clone();
    let usable = async {
        match (store.lost(), sealer) {
            (Some(lost), _) => Err(lost),
            (None, Some(sealer)) => SealedStore::open(store, sealer).await.map(Some),
            (None, None) => check_seal(store.as_ref()).await.map(|()| None),
        }
    };
    // The store may be the embedder's.
    match timeout(within, usable).await.unwrap_or(Err(StoreError::TimedOut)) {
        Ok(None) => Ok(opened),
        Ok(Some(sealed)) => Ok(opened.sealed(sealed)),
        Err(error) => {
            opened.leave().await;
            Err(error)
        }
    }
}

async fn opened(keep: Keep) -> Result<Opened, StoreError> {
    match keep {
        Keep::Memory => Ok(Opened::Ours(Arc::new(MemoryStore::new()))),
        #[cfg(feature = "sled")]
        Keep::Directory(directory) => {
            Ok(Opened::Ours(Arc::new(pilothouse_adapters::store::sled::SledStore::open(directory).await?)))
        }
        Keep::Store(store) => Ok(Opened::Embedders(store)),
    }
}
