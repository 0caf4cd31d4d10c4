//! How listings lie in the store: the last one of each server, of any size, under the server's id.
//!
//! A listing is a copy of what its server can say again. One that cannot be read leaves its server cold, and the
//! next listing is written over it; only a newer format, which a newer version still reads, stops the start.

use std::collections::BTreeMap;

use pilothouse_adapters::store::large::{DamagedValue, Generation, LargeValue, list_large, remove, stage};
use pilothouse_adapters::store::log::{GENESIS, LISTING};
use pilothouse_adapters::store::{Batch, Keyspace, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::listing::{CacheScope, CatalogEvent, Listing};
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::Decider;
use pilothouse_rules::catalog::Catalog;

use crate::durable::Journal;

/// Where each stored listing lies.
#[derive(Debug, Default)]
pub(super) struct CatalogJournal {
    stored: BTreeMap<ServerId, Generation>,
}

impl Journal<Catalog> for CatalogJournal {
    fn stage(&mut self, events: &[CatalogEvent], _state: &Catalog) -> Result<Vec<Batch>, StoreError> {
        let mut batches = Vec::new();
        for event in events {
            match event {
                CatalogEvent::Listed { server, listing, cache: CacheScope::Public, expires: _ } => {
                    batches.extend(self.put(server, listing)?);
                }
                // What one credential may see is not there for the next process, whose credential may be another.
                CatalogEvent::Listed { server, cache: CacheScope::Private, .. }
                | CatalogEvent::Dropped { server }
                | CatalogEvent::Removed { server } => {
                    batches.extend(self.remove(server));
                }
                CatalogEvent::Defined { .. }
                | CatalogEvent::RefreshStarted { .. }
                | CatalogEvent::RefreshQueued { .. }
                | CatalogEvent::RefreshEnded { .. }
                | CatalogEvent::Confirmed { .. }
                | CatalogEvent::Rested { .. }
                | CatalogEvent::WentStale { .. }
                | CatalogEvent::RetrySet { .. } => {}
            }
        }
        Ok(batches)
    }
}

impl CatalogJournal {
    fn put(&mut self, server: &ServerId, listing: &Listing) -> Result<Vec<Batch>, StoreError> {
        let record = LISTING.encode(listing.revision.0, GENESIS, listing)?;
        let before = self.stored.get(server).copied();
        let staged = stage(Keyspace::Listing, server.as_str().as_bytes(), &record, before);
        self.stored.insert(server.clone(), staged.generation);
        Ok(staged.batches)
    }

    fn remove(&mut self, server: &ServerId) -> Vec<Batch> {
        let before = self.stored.remove(server);
        before.map_or_else(Vec::new, |before| remove(Keyspace::Listing, server.as_str().as_bytes(), before))
    }
}

/// The catalog as it was stored.
pub(super) struct Loaded {
    pub(super) catalog: Catalog,
    pub(super) journal: CatalogJournal,
    /// When the newest listing was given.
    pub(super) newest: Timestamp,
    /// Removes what torn writes left behind.
    pub(super) leftovers: Vec<Batch>,
}

/// Reads every listing.
pub(super) async fn load(store: &dyn Store) -> Result<Loaded, StoreError> {
    let stored = list_large(store, Keyspace::Listing).await?;
    let mut loaded = Loaded {
        catalog: Catalog::new(),
        journal: CatalogJournal::default(),
        newest: Timestamp::default(),
        leftovers: stored.leftovers,
    };
    stored.damaged.into_iter().for_each(|value| loaded.pass_over(value));
    stored.values.into_iter().try_for_each(|value| loaded.add(value))?;
    Ok(loaded)
}

impl Loaded {
    fn add(&mut self, value: LargeValue) -> Result<(), StoreError> {
        let LargeValue { key, bytes, generation } = value;
        match LISTING.decode::<Listing>(&bytes) {
            Ok(record) => {
                if let Some(server) = server_of(&key) {
                    self.journal.stored.insert(server.clone(), generation);
                    self.newest = self.newest.max(record.payload.listed_at);
                    let events = Catalog::restore(server, record.payload);
                    events.iter().for_each(|event| self.catalog.apply(event));
                } else {
                    let reason = "it lies under a key that is no server's id".to_owned();
                    let error = StoreError::Damaged { reason };
                    self.pass_over(DamagedValue { key, error, generation: Some(generation) });
                }
            }
            Err(error @ StoreError::Damaged { .. }) => {
                self.pass_over(DamagedValue { key, error, generation: Some(generation) });
            }
            Err(other) => return Err(other),
        }
        Ok(())
    }

    /// Leaves the server cold, and remembers where the value lies for the listing that takes its place.
    fn pass_over(&mut self, value: DamagedValue) {
        let key = String::from_utf8_lossy(&value.key);
        tracing::error!(target: "pilothouse", server = %key, error = %value.error, "a stored listing cannot be read; the server is listed anew");
        if let (Some(server), Some(generation)) = (server_of(&value.key), value.generation) {
            self.journal.stored.insert(server, generation);
        }
    }
}

fn server_of(key: &[u8]) -> Option<ServerId> {
    std::str::from_utf8(key).ok().and_then(|text| ServerId::new(text).ok())
}

#[cfg(test)]
mod tests;
