//! Records: the envelope around everything that is stored.
//!
//! ```text
//! magic "PH" | version u16 | sequence u64 | previous digest 32 bytes (version with chain only)
//!            | length u32 | payload (bincode 1, fixed-width integers) | crc32 of all before u32
//! ```
//!
//! One frozen type for each version: the current version's payload is the live type, and a golden file
//! holds its bytes. A changed type needs a new version and keeps the old one readable.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;
use crate::error::StoreError;
use bincode::Options;

const MAGIC: [u8; 2] = *b"PH";
/// The largest payload of a record (64 MiB). How it lies in the store is the store's concern: a record of a log has to
/// fit into one batch, too; a listing is staged over as many as it takes.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Whether records of a keyspace name their predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Plain records.
    None,
    /// Each record holds the digest of the one before it.
    Linked,
}

/// How one keyspace writes its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// For errors.
    pub keyspace: &'static str,
    /// The version that is written, and the newest that is read.
    pub version: u16,
    /// Whether records are linked.
    pub chain: Chain,
}

/// A record as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<T> {
    /// Its place in its log.
    pub sequence: u64,
    /// The digest of the record before it, in a linked keyspace.
    pub previous: Option<Digest>,
    /// What it says.
    pub payload: T,
}

fn unbounded() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().reject_trailing_bytes().with_no_limit()
}

fn options() -> impl Options {
    unbounded().with_limit(RECORD_BYTES_MAX)
}

/// Why a payload cannot be written.
fn unwritable<T: Serialize>(format: &Format, payload: &T, error: &bincode::ErrorKind) -> StoreError {
    let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    match (error, unbounded().serialized_size(payload)) {
        (bincode::ErrorKind::SizeLimit, Ok(bytes)) => {
            StoreError::TooLarge { what: "a record", bytes: whole(bytes), limit: whole(RECORD_BYTES_MAX) }
        }
        (error, _) => {
            StoreError::Io { reason: format!("a record of {} cannot be written: {error}", format.keyspace) }
        }
    }
}

fn damaged(format: &Format, reason: &str) -> StoreError {
    StoreError::Damaged { reason: format!("{reason} in {}", format.keyspace) }
}

impl Format {
    /// The bytes of one record. `previous` is written in a linked keyspace only.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if the payload passes [`RECORD_BYTES_MAX`]; [`StoreError::Io`] if it is of a shape that
    /// cannot be written at all.
    pub fn encode<T: Serialize>(
        &self,
        sequence: u64,
        previous: Digest,
        payload: &T,
    ) -> Result<Vec<u8>, StoreError> {
        let body = options().serialize(payload).map_err(|error| unwritable(self, payload, &error))?;
        let mut out = Vec::with_capacity(body.len() + 64);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&sequence.to_be_bytes());
        match self.chain {
            Chain::None => {}
            Chain::Linked => out.extend_from_slice(&previous.0),
        }
        // The limit above keeps the length within 32 bits.
        out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&body);
        let check = crc32fast::hash(&out);
        out.extend_from_slice(&check.to_be_bytes());
        Ok(out)
    }

    /// Reads one record back.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the envelope or the payload is not whole, [`StoreError::NewerFormat`] if it was
    /// written by a newer version. Never panics, whatever the bytes.
    pub fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<Record<T>, StoreError> {
        let mut rest = Reader { bytes, format: self };
        if rest.take(2)? != MAGIC {
            return Err(damaged(self, "a record without its mark"));
        }
        let version = u16::from_be_bytes(rest.array()?);
        let Some(checked) = bytes.len().checked_sub(4) else {
            return Err(damaged(self, "a record that is cut short"));
        };
        let (head, check) = bytes.split_at(checked);
        if check != crc32fast::hash(head).to_be_bytes() {
            return Err(damaged(self, "a record with a wrong checksum"));
        }
        if version > self.version {
            return Err(StoreError::NewerFormat {
                keyspace: self.keyspace.to_owned(),
                found: version,
                known: self.version,
            });
        }
        let sequence = u64::from_be_bytes(rest.array()?);
        let previous = match self.chain {
            Chain::None => None,
            Chain::Linked => Some(Digest(rest.array()?)),
        };
        let length = u32::from_be_bytes(rest.array()?) as usize;
        let body = rest.take(length)?;
        if rest.bytes.len() != 4 {
            return Err(damaged(self, "a record of another length than it says"));
        }
        let payload = options()
            .deserialize(body)
            .map_err(|error| damaged(self, &format!("an unreadable record ({error})")))?;
        Ok(Record { sequence, previous, payload })
    }

    /// The digest that the next record of a linked keyspace holds.
    pub fn link(&self, record: &[u8]) -> Digest {
        Digest::of_parts("pilothouse/chain/1", &[self.keyspace.as_bytes(), record])
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    format: &'a Format,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], StoreError> {
        let Some((head, tail)) = self.bytes.split_at_checked(count) else {
            return Err(damaged(self.format, "a record that is cut short"));
        };
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
