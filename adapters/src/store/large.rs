//! Values of any size: staged in parts, then switched by one key.
//!
//! ```text
//! 's' ‖ key                                            the switch: generation u64, parts u32, length u64, crc32 u32
//! 'p' ‖ length u16 ‖ key ‖ generation u64 ‖ part u32   at most 60 KiB of the value
//! ```
//!
//! The parts of a new generation are written beside the old ones; the switch names the new ones and only then the
//! old ones go. A crash before the switch leaves the old value, and parts that nothing names: the next load finds
//! them as [`LargeValues::leftovers`].

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

/// All values of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeValues {
    /// The values, in key order.
    pub values: Vec<LargeValue>,
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
    let mut joiner = Joiner::default();
    joiner.expect(keyspace, key.to_vec(), &switch)?;
    each_pair(store, keyspace, &parts_prefix(key), |(key, value)| joiner.take(keyspace, key, &value)).await?;
    Ok(joiner.finish(keyspace)?.values.into_iter().next())
}

/// Reads all values of a keyspace, and finds what torn stagings left.
///
/// # Errors
/// As [`read_large`].
pub async fn list_large(store: &dyn Store, keyspace: Keyspace) -> Result<LargeValues, StoreError> {
    let mut joiner = Joiner::default();
    let switches = |(key, value): (Vec<u8>, Vec<u8>)| {
        let key = key.strip_prefix(&[SWITCH]).unwrap_or_default().to_vec();
        joiner.expect(keyspace, key, &value)
    };
    each_pair(store, keyspace, &[SWITCH], switches).await?;
    each_pair(store, keyspace, &[PART], |(key, value)| joiner.take(keyspace, key, &value)).await?;
    joiner.finish(keyspace)
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
struct Packer {
    batches: Vec<Batch>,
    bytes: usize,
}

impl Packer {
    fn push(&mut self, change: Change) -> &mut Batch {
        let bytes = match &change {
            Change::Put(_, key, value) => key.len() + value.len(),
            Change::Delete(_, key) => key.len(),
        };
        if self.batches.is_empty() || self.bytes + bytes > BATCH_BYTES_MAX {
            self.batches.push(Batch { changes: Vec::new(), durability: Durability::Lazy });
            self.bytes = 0;
        }
        self.bytes += bytes;
        let last = self.batches.len() - 1;
        let batch = &mut self.batches[last];
        batch.changes.push(change);
        batch
    }

    /// One sync for all: it covers the lazy batches before it in the lane.
    fn push_synced(&mut self, change: Change) {
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
#[derive(Default)]
struct Joiner {
    /// By the prefix that the parts of a key share.
    values: BTreeMap<Vec<u8>, Joined>,
    leftovers: Packer,
}

struct Joined {
    key: Vec<u8>,
    switch: Switch,
    bytes: Vec<u8>,
    parts: u32,
}

impl Joiner {
    fn expect(&mut self, keyspace: Keyspace, key: Vec<u8>, switch: &[u8]) -> Result<(), StoreError> {
        let switch =
            Switch::parse(switch).ok_or_else(|| damaged(keyspace, &key, "an unreadable switch for"))?;
        self.values.insert(parts_prefix(&key), Joined { key, switch, bytes: Vec::new(), parts: 0 });
        Ok(())
    }

    fn take(&mut self, keyspace: Keyspace, key: Vec<u8>, part: &[u8]) -> Result<(), StoreError> {
        let Some((prefix, tail)) = key.len().checked_sub(12).and_then(|at| key.split_at_checked(at)) else {
            return Err(damaged(keyspace, &key, "a foreign key"));
        };
        match self.values.get_mut(prefix) {
            Some(value) if value.expects(tail) => {
                value.bytes.extend_from_slice(part);
                value.parts += 1;
            }
            Some(_) | None => {
                self.leftovers.push(Change::Delete(keyspace, key));
            }
        }
        Ok(())
    }

    fn finish(self, keyspace: Keyspace) -> Result<LargeValues, StoreError> {
        let values = self.values.into_values().map(|value| value.finish(keyspace));
        // Key order, not the order of lengths.
        let mut values = values.collect::<Result<Vec<_>, _>>()?;
        values.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LargeValues { values, leftovers: self.leftovers.batches })
    }
}

impl Joined {
    /// Whether the part whose key ends in `tail` comes next.
    fn expects(&self, tail: &[u8]) -> bool {
        let generation = self.switch.generation;
        let next = [generation.number.to_be_bytes().as_slice(), &self.parts.to_be_bytes()].concat();
        self.parts < generation.parts && next == tail
    }

    fn finish(self, keyspace: Keyspace) -> Result<LargeValue, StoreError> {
        let whole = self.parts == self.switch.generation.parts
            && self.bytes.len() as u64 == self.switch.length
            && crc32fast::hash(&self.bytes) == self.switch.check;
        if !whole {
            return Err(damaged(keyspace, &self.key, "parts are missing or changed of"));
        }
        Ok(LargeValue { key: self.key, bytes: self.bytes, generation: self.switch.generation })
    }
}

#[cfg(test)]
mod tests;
