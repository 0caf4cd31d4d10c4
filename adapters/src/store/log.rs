//! Logs: records in sequence, as every durable actor keeps them.
//!
//! ```text
//! key    prefix ‖ sequence u64 ‖ part u16      (big-endian, so that key order is log order)
//! value  a part of the encoded record, at most 4 KiB
//! ```
//!
//! A log begins at sequence 1 and has no gaps; in a linked format each record names the one before it, the first
//! one the zero digest.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::record::{Chain, Format, Record};
use serde::de::DeserializeOwned;

use super::large::Packer;
use super::pages::{each_pair, each_pair_after};
use super::{Batch, Change, Keyspace, Mark, Store, VALUE_BYTES_MAX};

/// Events of topics.
pub const JOURNAL: Format = Format { keyspace: "journal", version: 1, chain: Chain::None };
/// Events of the ledger of approvals.
pub const LEDGER: Format = Format { keyspace: "ledger", version: 1, chain: Chain::Linked };
/// Events of grants.
pub const GRANTS: Format = Format { keyspace: "grants", version: 1, chain: Chain::Linked };
/// Listings of servers.
pub const LISTING: Format = Format { keyspace: "listing", version: 1, chain: Chain::None };
/// Child processes that run.
pub const PROCESS: Format = Format { keyspace: "process", version: 1, chain: Chain::None };
/// Topics between two of their turns.
pub const CHECKPOINTS: Format = Format { keyspace: "checkpoints", version: 1, chain: Chain::None };
/// What senders' keys stand for.
pub const KEYS: Format = Format { keyspace: "keys", version: 1, chain: Chain::None };
/// Wire names of tools.
pub const NAMES: Format = Format { keyspace: "names", version: 1, chain: Chain::None };

/// Whole results.
pub const ASIDE: Format = Format { keyspace: "aside", version: 1, chain: Chain::None };
/// What servers spoke last.
pub const SPOKEN: Format = Format { keyspace: "spoken", version: 1, chain: Chain::None };

/// The largest part of a record that is written under one key: a whole value. Readers take parts of any size.
pub const PART_BYTES: usize = VALUE_BYTES_MAX;

/// What the first record of a linked log names as its predecessor.
pub const GENESIS: Digest = Digest([0; 32]);

/// A log as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log<T> {
    /// The records, oldest first.
    pub records: Vec<Record<T>>,
    /// The sequence of the record to write next.
    pub next_sequence: u64,
    /// What the record to write next names as its predecessor; [`GENESIS`] in an unlinked format.
    pub last_link: Digest,
}

/// The prefix of one topic's log: no topic's prefix begins another's.
pub fn topic_prefix(topic: &TopicId) -> Vec<u8> {
    length_prefixed(topic.as_str().as_bytes())
}

/// The topic of a prefix, as [`topic_prefix`] made it.
pub fn topic_of(prefix: &[u8]) -> Option<TopicId> {
    let (length, text) = prefix.split_at_checked(2)?;
    let whole = usize::from(u16::from_be_bytes(length.try_into().ok()?)) == text.len();
    whole.then(|| TopicId::new(std::str::from_utf8(text).ok()?).ok()).flatten()
}

/// The prefix of the log that a key belongs to, as far as it has one.
pub(super) fn prefix_of_key(key: &[u8]) -> Option<&[u8]> {
    let length = u16::from_be_bytes(key.first_chunk().copied()?);
    key.get(..2 + usize::from(length))
}

/// The text behind its length (u16, big-endian). A text above 64 KiB, which no id is, stands for its digest.
pub(super) fn length_prefixed(text: &[u8]) -> Vec<u8> {
    let Ok(length) = u16::try_from(text.len()) else {
        return length_prefixed(&Digest::of_parts("pilothouse/key/1", &[text]).0);
    };
    let mut prefix = length.to_be_bytes().to_vec();
    prefix.extend_from_slice(text);
    prefix
}

/// Adds one encoded record to a batch, cut into parts.
pub fn put_record(batch: &mut Batch, keyspace: Keyspace, prefix: &[u8], sequence: u64, record: &[u8]) {
    // Parts that 16 bits do not count make a batch that no store takes, so that none is lost unseen.
    for (part, bytes) in (0..=u16::MAX).zip(record.chunks(PART_BYTES)) {
        let mut key = prefix.to_vec();
        key.extend_from_slice(&sequence.to_be_bytes());
        key.extend_from_slice(&part.to_be_bytes());
        batch.put(keyspace, key, bytes);
    }
}

/// One encoded record of any size that nobody reads before `switch` names it: its parts, over as many batches as they
/// need, then the switch. Append all of them, in order, to one lane; a crash between them leaves parts that nothing
/// names, and what the switch said before.
pub fn switched_record(
    keyspace: Keyspace,
    prefix: &[u8],
    sequence: u64,
    record: &[u8],
    switch: Change,
) -> Vec<Batch> {
    let (mut parts, mut packer) = (Batch::new(), Packer::default());
    put_record(&mut parts, keyspace, prefix, sequence, record);
    for part in parts.changes {
        packer.push(part);
    }
    packer.push_synced(switch);
    packer.batches
}

/// Reads a whole log and checks that nothing is missing from its middle.
///
/// # Errors
/// [`StoreError::Damaged`] names the first sequence that is missing, unreadable or wrongly linked;
/// [`StoreError::NewerFormat`] if a newer version wrote it; else the store's own.
pub async fn read_log<T: DeserializeOwned + Send>(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    format: &Format,
) -> Result<Log<T>, StoreError> {
    let mut reader = LogReader::new(format, None);
    each_pair(store, keyspace, prefix, |(key, value)| reader.take(prefix, &key, &value)).await?;
    reader.finish()?;
    Ok(reader.log)
}

/// Reads the one log of a keyspace whose writer marks how far it has come.
///
/// # Errors
/// As [`read_log`], and [`StoreError::Damaged`] if the log ends before its mark or has another record there.
pub async fn read_marked_log<T: DeserializeOwned + Send>(
    store: &dyn Store,
    keyspace: Keyspace,
    format: &Format,
) -> Result<Log<T>, StoreError> {
    let mut reader = LogReader::new(format, store.mark(keyspace).await?);
    each_pair(store, keyspace, &[], |(key, value)| reader.take(&[], &key, &value)).await?;
    reader.finish()?;
    Ok(reader.log)
}

/// A log as far as it is whole, and what is wrong behind that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholePart<T> {
    /// The records before any damage, oldest first.
    pub records: Vec<Record<T>>,
    /// The damage, or a newer format; `None` if the whole log was read.
    pub fault: Option<StoreError>,
}

/// Reads a log as far as it is whole, for those who have to look at a damaged one: from record `first` on, up to its end,
/// which is not before record `last`. The `Mark` of its keyspace counts if the whole keyspace is one log, that is with an
/// empty prefix.
///
/// # Errors
/// What keeps the store from being read at all; damage is none.
pub async fn read_whole_part<T: DeserializeOwned + Send>(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    format: &Format,
    (first, last): (u64, u64),
) -> Result<WholePart<T>, StoreError> {
    let mark = if prefix.is_empty() { store.mark(keyspace).await? } else { None };
    let mut reader = LogReader::new(format, mark);
    reader.log.next_sequence = first;
    let after = before_record(prefix, first);
    let read = each_pair_after(store, keyspace, prefix, after, |(key, value)| {
        reader.take(prefix, &key, &value).map(ControlFlow::Continue)
    });
    let fault = match read.await.and_then(|()| reader.finish()).and_then(|()| reader.reaches(last)) {
        Ok(()) => None,
        Err(fault @ (StoreError::Damaged { .. } | StoreError::NewerFormat { .. })) => Some(fault),
        Err(error) => return Err(error),
    };
    Ok(WholePart { records: reader.log.records, fault })
}

/// The key behind which record `first` begins; `None` for the whole log, and whatever lies before it.
fn before_record(prefix: &[u8], first: u64) -> Option<Vec<u8>> {
    let before = first.checked_sub(1).filter(|before| *before > 0)?;
    Some([prefix, &before.to_be_bytes(), &u16::MAX.to_be_bytes()].concat())
}

/// Reads the records of an unlinked log from `first` on and hands each to `visit`, until that has seen enough. Answers
/// the sequence after the last one that was read.
///
/// # Errors
/// As [`read_log`].
pub async fn read_log_from<T: DeserializeOwned + Send>(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    format: &Format,
    first: u64,
    mut visit: impl FnMut(Record<T>) -> ControlFlow<()> + Send,
) -> Result<u64, StoreError> {
    let mut reader = LogReader::new(format, None);
    reader.log.next_sequence = first;
    let after = before_record(prefix, first);
    let mut flow = ControlFlow::Continue(());
    each_pair_after(store, keyspace, prefix, after, |(key, value)| {
        reader.take(prefix, &key, &value)?;
        flow = reader.log.records.drain(..).try_for_each(&mut visit);
        Ok(flow)
    })
    .await?;
    if flow.is_break() {
        return Ok(reader.log.next_sequence);
    }
    reader.finish()?;
    // The last record is whole only now; nothing comes after it, whatever the visitor says.
    let _seen_enough = reader.log.records.drain(..).try_for_each(&mut visit);
    Ok(reader.log.next_sequence)
}

/// Reads the records of these sequences that are there, encoded: for those who follow a thread through a few of them.
///
/// # Errors
/// The store's own.
pub async fn encoded_records(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    sequences: RangeInclusive<u64>,
) -> Result<BTreeMap<u64, Vec<u8>>, StoreError> {
    let mut records = BTreeMap::<u64, Vec<u8>>::new();
    let before = sequences.start().saturating_sub(1);
    let after = [prefix, &before.to_be_bytes(), &u16::MAX.to_be_bytes()].concat();
    each_pair_after(store, keyspace, prefix, Some(after), |(key, value)| {
        match position(prefix, &key) {
            Some((sequence, _)) if sequences.contains(&sequence) => {
                records.entry(sequence).or_default().extend_from_slice(&value);
            }
            Some(_) | None => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    Ok(records)
}

/// Reads the one record of this sequence, if it is there.
///
/// # Errors
/// [`StoreError::Damaged`] if it cannot be read; [`StoreError::NewerFormat`] if a newer version wrote it; else the
/// store's own.
pub async fn read_record<T: DeserializeOwned>(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    format: &Format,
    sequence: u64,
) -> Result<Option<T>, StoreError> {
    let prefix = [prefix, &sequence.to_be_bytes()].concat();
    let mut bytes = Vec::new();
    each_pair(store, keyspace, &prefix, |(_part, value)| {
        bytes.extend_from_slice(&value);
        Ok(())
    })
    .await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(format.decode(&bytes)?.payload))
}

/// Joins parts to records.
struct LogReader<'a, T> {
    format: &'a Format,
    log: Log<T>,
    /// The parts so far of the record `log.next_sequence`.
    bytes: Vec<u8>,
    /// How many they are.
    parts: u16,
    /// How far the log had come.
    mark: Option<Mark>,
}

impl<'a, T: DeserializeOwned> LogReader<'a, T> {
    fn new(format: &'a Format, mark: Option<Mark>) -> Self {
        let log = Log { records: Vec::new(), next_sequence: 1, last_link: GENESIS };
        Self { format, log, bytes: Vec::new(), parts: 0, mark }
    }

    fn take(&mut self, prefix: &[u8], key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let Some((sequence, part)) = position(prefix, key) else {
            return Err(self.damaged("a foreign key lies beside"));
        };
        if sequence != self.log.next_sequence {
            self.end_record()?;
        }
        if sequence != self.log.next_sequence || part != self.parts {
            return Err(self.damaged("a part is missing of"));
        }
        self.bytes.extend_from_slice(value);
        // The last part of 65 536 would wrap; such a record was never written and the next part is refused.
        self.parts = self.parts.saturating_add(1);
        Ok(())
    }

    fn end_record(&mut self) -> Result<(), StoreError> {
        if self.parts == 0 {
            return Ok(());
        }
        let record: Record<T> = self.format.decode(&self.bytes).map_err(|error| self.at_sequence(error))?;
        if record.sequence != self.log.next_sequence {
            return Err(self.damaged("another record lies in the place of"));
        }
        match self.format.chain {
            Chain::None => {}
            Chain::Linked if record.previous == Some(self.log.last_link) => {
                self.log.last_link = self.format.link(&self.bytes);
                if let Some(mark) = &self.mark {
                    mark.check_record(self.format.keyspace, record.sequence, self.log.last_link)?;
                }
            }
            Chain::Linked => return Err(self.damaged("a wrong predecessor is named by")),
        }
        self.log.records.push(record);
        self.log.next_sequence += 1;
        self.bytes.clear();
        self.parts = 0;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.end_record()?;
        match &self.mark {
            Some(mark) => mark.check_end(self.format.keyspace, self.log.next_sequence - 1),
            None => Ok(()),
        }
    }

    /// Whether the log, which was read to its end, has this record.
    fn reaches(&self, last: u64) -> Result<(), StoreError> {
        let (next, keyspace) = (self.log.next_sequence, self.format.keyspace);
        if next > last {
            return Ok(());
        }
        let reason = format!("records {next} to {last} in {keyspace} were acknowledged and are gone");
        Err(StoreError::Damaged { reason })
    }

    fn damaged(&self, what: &str) -> StoreError {
        let (sequence, keyspace) = (self.log.next_sequence, self.format.keyspace);
        StoreError::Damaged { reason: format!("{what} record {sequence} in {keyspace}") }
    }

    /// Says which record a decoder's complaint is about.
    fn at_sequence(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Damaged { reason } => {
                StoreError::Damaged { reason: format!("{reason} at record {}", self.log.next_sequence) }
            }
            other => other,
        }
    }
}

/// Sequence and part from a key.
fn position(prefix: &[u8], key: &[u8]) -> Option<(u64, u16)> {
    let (sequence, part) = key.strip_prefix(prefix)?.split_at_checked(8)?;
    Some((u64::from_be_bytes(sequence.try_into().ok()?), u16::from_be_bytes(part.try_into().ok()?)))
}

#[cfg(test)]
mod tests;
