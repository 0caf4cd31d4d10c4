//! How wire names lie in the store: one record for each tool, under the digest of its identity.

use pilothouse_adapters::store::log::{GENESIS, NAMES};
use pilothouse_adapters::store::pages::each_pair;
use pilothouse_adapters::store::{BATCH_BYTES_MAX, Batch, Change, Keyspace, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::registry::{NameRecord, RegistryEvent};
use pilothouse_rules::registry::Registry;

use crate::durable::Journal;

/// Writes each name once.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamesJournal;

impl Journal<Registry> for NamesJournal {
    fn stage(&mut self, events: &[RegistryEvent], _state: &Registry) -> Result<Vec<Batch>, StoreError> {
        let mut batches = Vec::new();
        let (mut batch, mut bytes) = (Batch::new(), 0);
        for event in events {
            match event {
                RegistryEvent::Named(record) => {
                    let value = NAMES.encode(0, GENESIS, record)?;
                    let change = Change::Put(Keyspace::Names, key_of(record), value);
                    // A first listing of thousands of tools is more than one batch takes; a crash between two of
                    // them loses names that nobody has seen.
                    if bytes + change.bytes() > BATCH_BYTES_MAX {
                        batches.push(std::mem::take(&mut batch));
                        bytes = 0;
                    }
                    bytes += change.bytes();
                    batch.changes.push(change);
                }
                RegistryEvent::Offered(_) | RegistryEvent::Withdrawn { .. } => {}
            }
        }
        if !batch.changes.is_empty() {
            batches.push(batch);
        }
        Ok(batches)
    }
}

fn key_of(record: &NameRecord) -> Vec<u8> {
    let identity = [record.server.as_str().as_bytes(), record.tool.as_bytes()];
    Digest::of_parts("pilothouse/name/1", &identity).0.to_vec()
}

/// Reads every name.
pub(super) async fn load(store: &dyn Store) -> Result<Vec<NameRecord>, StoreError> {
    let mut names = Vec::new();
    let take = |(_key, value): (Vec<u8>, Vec<u8>)| {
        names.push(NAMES.decode::<NameRecord>(&value)?.payload);
        Ok(())
    };
    each_pair(store, Keyspace::Names, &[], take).await?;
    Ok(names)
}
