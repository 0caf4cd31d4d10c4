//! High-water marks: how far a log has come, kept apart from the log.
//!
//! A store engine may lose the end of its file to a torn or rotten sector and not notice. A mark is synced in a place of
//! its own after the records that it names, and before their writer is told that they are durable. So a log that ends
//! before its mark, or that has another record in its place, has lost what was acknowledged.

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;

use super::Keyspace;

/// How far the log of a keyspace has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which log.
    pub keyspace: Keyspace,
    /// The sequence of its last durable record.
    pub sequence: u64,
    /// The digest of that record, as the next one names it.
    pub link: Digest,
}

impl Mark {
    /// What a log that ends at `last` has lost, if it has.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] names the records.
    pub(super) fn check_end(&self, name: &str, last: u64) -> Result<(), StoreError> {
        if last >= self.sequence {
            return Ok(());
        }
        let (first, marked) = (last + 1, self.sequence);
        let reason = format!("records {first} to {marked} in {name} were acknowledged and are gone");
        Err(StoreError::Damaged { reason })
    }

    /// Whether the record at the mark is the one that was acknowledged.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is another one.
    pub(super) fn check_record(&self, name: &str, sequence: u64, link: Digest) -> Result<(), StoreError> {
        if sequence != self.sequence || link == self.link {
            return Ok(());
        }
        let reason = format!("record {sequence} in {name} is not the one that was acknowledged");
        Err(StoreError::Damaged { reason })
    }
}
