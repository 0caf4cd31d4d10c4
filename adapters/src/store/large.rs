//! Values of any size: staged in parts, then switched by one key.
//!
//! ```text
//! 's' ‖ key                                            the switch: generation u64, parts u32, length u64, crc32 u32
//! 'p' ‖ length u16 ‖ key ‖ generation u64 ‖ part u32   a part of the value, at most 4 KiB
//! ```
//!
//! The parts of a new generation are written beside the old ones; the switch names the new ones and only then the
//! old ones go. A crash before the switch leaves the old value, and parts that nothing names: the next load finds
//! them as [`LargeValues::leftovers`]. A value that cannot be read back spoils no other one, and nothing of it is a
//! leftover: it stays as it is until its owner stages the next one.

use std::collections::BTreeMap;

use pilothouse_messages::error::StoreError;

use super::log::{PART_BYTES, length_prefixed};
use super::pages::each_pair;
use super::{BATCH_BYTES_MAX, Batch, Change, Durability, Keyspace, Store};

const SWITCH: u8 = b's';
const PART: u8 = b'p';

/// Which parts a value lies in; what the next [`stage`] or [`remove`] of the same key has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    number: u64,
    parts: u32,
}

impl Generation {
    /// Where nothing lies, so that what is staged over it has the number behind `number`.
    pub fn none_after(number: u64) -> Self {
        Self { number, parts: 0 }
    }

    /// It grows with each value that is staged over this one.
    pub fn number(self) -> u64 {
        self.number
    }
}

/// A value that is there, by what its switch says; its parts were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueSize {
    /// Its key.
    pub key: Vec<u8>,
    /// How large it is.
    pub bytes: u64,
    /// Where it lies.
    pub generation: Generation,
}

/// Lists all values of a keyspace without reading them, in key order. One whose switch cannot be read is passed over.
///
/// # Errors
/// The store's own.
pub async fn sizes(store: &dyn Store, keyspace: Keyspace) -> Result<Vec<ValueSize>, StoreError> {
    let mut found = Vec::new();
    each_pair(store, keyspace, &[SWITCH], |(key, value)| {
        if let (Some(key), Some(switch)) = (key.strip_prefix(&[SWITCH]), Switch::parse(&value)) {
            let (bytes, generation) = (switch.length, switch.generation);
            found.push(ValueSize { key: key.to_vec(), bytes, generation });
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// A value to append: all batches, in order, to one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Append all of them, in order; the value is the new one once the last is acknowledged.
    pub batches: Vec<Batch>,
    /// Where the value lies then.
    pub generation: Generation,
}

/// A value as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeValue {
    /// Its key.
    pub key: Vec<u8>,
    /// The whole value.
    pub bytes: Vec<u8>,
    /// Where it lies.
    pub generation: Generation,
}

/// A value that cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedValue {
    /// Its key; the stored one if that belongs to no value at all.
    pub key: Vec<u8>,
    /// What is wrong with it.
    pub error: StoreError,
    /// Where it lies as far as that is known, so that a new value can be staged over it.
    pub generation: Option<Generation>,
}

/// All values of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeValues {
    /// The values, in key order.
    pub values: Vec<LargeValue>,
    /// Those that cannot be read back.
    pub damaged: Vec<DamagedValue>,
    /// Removes what torn stagings left behind; usually empty. The owner appends these to its lane before anything
    /// else, since a new staging writes under the same keys.
    pub leftovers: Vec<Batch>,
}

/// Sets a value. `before` is where the key's present value lies; `None` if there is none.
pub fn stage(keyspace: Keyspace, key: &[u8], bytes: &[u8], before: Option<Generation>) -> Staged {
    let number = before.map_or(1, |before| before.number.saturating_add(1));
    let mut packer = Packer::default();
    let mut parts = 0u32;
    for part in bytes.chunks(PART_BYTES) {
        packer.push(Change::Put(keyspace, part_key(key, number, parts), part.to_vec()));
        parts += 1;
    }
    let generation = Generation { number, parts };
    let switch = Switch { generation, length: bytes.len() as u64, check: crc32fast::hash(bytes) };
    packer.push_synced(Change::Put(keyspace, switch_key(key), switch.to_bytes()));
    if let Some(before) = before {
        packer.delete_parts(keyspace, key, before);
    }
    Staged { batches: packer.batches, generation }
}

/// Removes a value: append all batches, in order.
pub fn remove(keyspace: Keyspace, key: &[u8], before: Generation) -> Vec<Batch> {
    let mut packer = Packer::default();
    packer.push_synced(Change::Delete(keyspace, switch_key(key)));
    packer.delete_parts(keyspace, key, before);
    packer.batches
}

/// Reads one value.
///
/// # Errors
/// [`StoreError::Damaged`] if parts are missing or differ from what was written; else the store's own.
pub async fn read_large(
    store: &dyn Store,
    keyspace: Keyspace,
    key: &[u8],
) -> Result<Option<LargeValue>, StoreError> {
    let Some(switch) = store.get(keyspace, switch_key(key)).await? else {
        return Ok(None);
    };
    let mut joiner = Joiner::new(keyspace);
    joiner.expect(key.to_vec(), &switch);
    each_pair(store, keyspace, &parts_prefix(key), |(key, value)| joiner.take(key, &value)).await?;
    let read = joiner.finish();
    match read.damaged.into_iter().next() {
        Some(damaged) => Err(damaged.error),
        None => Ok(read.values.into_iter().next()),
    }
}

/// Reads all values of a keyspace, names those that cannot be read, and finds what torn stagings left.
///
/// # Errors
/// The store's own.
pub async fn list_large(store: &dyn Store, keyspace: Keyspace) -> Result<LargeValues, StoreError> {
    let mut joiner = Joiner::new(keyspace);
    let switches = |(key, value): (Vec<u8>, Vec<u8>)| {
        joiner.expect(key.strip_prefix(&[SWITCH]).unwrap_or_default().to_vec(), &value);
        Ok(())
    };
    each_pair(store, keyspace, &[SWITCH], switches).await?;
    each_pair(store, keyspace, &[PART], |(key, value)| joiner.take(key, &value)).await?;
    Ok(joiner.finish())
}

fn switch_key(key: &[u8]) -> Vec<u8> {
    let mut switch = vec![SWITCH];
    switch.extend_from_slice(key);
    switch
}

fn parts_prefix(key: &[u8]) -> Vec<u8> {
    let mut prefix = vec![PART];
    prefix.extend_from_slice(&length_prefixed(key));
    prefix
}

fn part_key(key: &[u8], generation: u64, part: u32) -> Vec<u8> {
    let mut stored = parts_prefix(key);
    stored.extend_from_slice(&generation.to_be_bytes());
    stored.extend_from_slice(&part.to_be_bytes());
    stored
}

fn damaged(keyspace: Keyspace, key: &[u8], what: &str) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::Damaged { reason: format!("{what} \"{key}\" in {keyspace:?}") }
}

/// Fills batches up to their bound.
#[derive(Default)]
pub(super) struct Packer {
    pub(super) batches: Vec<Batch>,
    bytes: usize,
}

impl Packer {
    pub(super) fn push(&mut self, change: Change) -> &mut Batch {
        let bytes = change.bytes();
        if self.batches.is_empty() || self.bytes + bytes > BATCH_BYTES_MAX {
            self.batches.push(Batch { durability: Durability::Lazy, ..Batch::new() });
            self.bytes = 0;
        }
        self.bytes += bytes;
        let last = self.batches.len() - 1;
        let batch = &mut self.batches[last];
        batch.changes.push(change);
        batch
    }

    /// One sync for all: it covers the lazy batches before it in the lane.
    pub(super) fn push_synced(&mut self, change: Change) {
        self.push(change).durability = Durability::Sync;
    }

    fn delete_parts(&mut self, keyspace: Keyspace, key: &[u8], before: Generation) {
        for part in 0..before.parts {
            self.push(Change::Delete(keyspace, part_key(key, before.number, part)));
        }
    }
}

struct Switch {
    generation: Generation,
    length: u64,
    check: u32,
}

impl Switch {
    /// Whether these are the bytes that it was written for.
    fn covers(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && crc32fast::hash(bytes) == self.check
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.generation.number.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.generation.parts.to_be_bytes());
        bytes.extend_from_slice(&self.length.to_be_bytes());
        bytes.extend_from_slice(&self.check.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (parts, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let check = rest.try_into().ok()?;
        Some(Self {
            generation: Generation { number: u64::from_be_bytes(*number), parts: u32::from_be_bytes(*parts) },
            length: u64::from_be_bytes(*length),
            check: u32::from_be_bytes(check),
        })
    }
}

/// Joins parts to values.
struct Joiner {
    keyspace: Keyspace,
    /// By the prefix that the parts of a key share.
    values: BTreeMap<Vec<u8>, Joined>,
    damaged: Vec<DamagedValue>,
    leftovers: Packer,
}

struct Joined {
    key: Vec<u8>,
    /// `None` if it cannot be read.
    switch: Option<Switch>,
    bytes: Vec<u8>,
    /// How many parts were joined.
    parts: u32,
    /// Under an unreadable switch: the newest parts there are.
    found: Option<Generation>,
}

/// What a part is to the value of its key.
enum Place {
    /// The next one.
    Next,
    /// One of its own, out of order.
    Own,
    /// Left by a staging that was torn.
    Foreign,
}

impl Joiner {
    fn new(keyspace: Keyspace) -> Self {
        Self { keyspace, values: BTreeMap::new(), damaged: Vec::new(), leftovers: Packer::default() }
    }

    fn expect(&mut self, key: Vec<u8>, switch: &[u8]) {
        let switch = Switch::parse(switch);
        let value = Joined { switch, bytes: Vec::new(), parts: 0, found: None, key };
        self.values.insert(parts_prefix(&value.key), value);
    }

    /// Cannot fail; a result, since that is what a visitor of pairs returns.
    fn take(&mut self, key: Vec<u8>, part: &[u8]) -> Result<(), StoreError> {
        let Some((prefix, number, index)) = place_of(&key) else {
            let error = damaged(self.keyspace, &key, "a foreign key");
            self.damaged.push(DamagedValue { key, error, generation: None });
            return Ok(());
        };
        let value = self.values.get_mut(prefix);
        match value.map(|value| value.take(number, index, part)) {
            Some(Place::Next | Place::Own) => {}
            Some(Place::Foreign) | None => {
                self.leftovers.push(Change::Delete(self.keyspace, key));
            }
        }
        Ok(())
    }

    fn finish(self) -> LargeValues {
        let (mut values, mut damaged) = (Vec::new(), self.damaged);
        for value in self.values.into_values() {
            match value.finish(self.keyspace) {
                Ok(value) => values.push(value),
                Err(value) => damaged.push(value),
            }
        }
        // Key order, not the order of lengths.
        values.sort_by(|a, b| a.key.cmp(&b.key));
        LargeValues { values, damaged, leftovers: self.leftovers.batches }
    }
}

/// The prefix, generation and index from a part's key.
fn place_of(key: &[u8]) -> Option<(&[u8], u64, u32)> {
    let (rest, index) = key.split_last_chunk()?;
    let (prefix, number) = rest.split_last_chunk()?;
    Some((prefix, u64::from_be_bytes(*number), u32::from_be_bytes(*index)))
}

impl Joined {
    fn take(&mut self, number: u64, index: u32, part: &[u8]) -> Place {
        let Some(Switch { generation, .. }) = self.switch else {
            // Pairs come in key order, so the last one names the newest generation and its size.
            self.found = Some(Generation { number, parts: index.saturating_add(1) });
            return Place::Own;
        };
        if number != generation.number || index >= generation.parts {
            return Place::Foreign;
        }
        if index != self.parts {
            return Place::Own;
        }
        self.bytes.extend_from_slice(part);
        self.parts += 1;
        Place::Next
    }

    fn finish(self, keyspace: Keyspace) -> Result<LargeValue, DamagedValue> {
        let (what, generation) = match self.switch {
            Some(switch) if self.parts == switch.generation.parts && switch.covers(&self.bytes) => {
                return Ok(LargeValue { key: self.key, bytes: self.bytes, generation: switch.generation });
            }
            Some(switch) => ("parts are missing or changed of", Some(switch.generation)),
            None => ("an unreadable switch for", self.found),
        };
        let error = damaged(keyspace, &self.key, what);
        Err(DamagedValue { key: self.key, error, generation })
    }
}

#[cfg(test)]
mod tests;
