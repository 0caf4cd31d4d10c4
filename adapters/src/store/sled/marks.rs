//! The file of high-water marks beside sled's own.
//!
//! ```text
//! slots of 64 bytes, two for each marked keyspace, written in turn:
//!   magic "PM" | keyspace u8 | 0 | sequence u64 | link 32 bytes | crc32 of all before u32 | zeros
//! ```
//!
//! A write that is torn spoils the older slot of the two only, since each write changes one slot of a keyspace.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;

use super::directory;
use crate::store::{Keyspace, Mark};

/// The file's name.
pub(super) const MARK_FILE: &str = "marks";
const MAGIC: [u8; 2] = *b"PM";
const SLOT_BYTES: usize = 64;
const CHECKED_BYTES: usize = 44;
/// The keyspaces that are marked, in the order of their slots. Frozen; new ones are appended.
const MARKED: [Keyspace; 3] = [Keyspace::Ledger, Keyspace::Grants, Keyspace::Meta];

/// The open file, and what it says.
pub(super) struct Marks {
    file: File,
    /// For each marked keyspace: its mark, and which of its two slots holds it.
    held: [Option<(Mark, usize)>; MARKED.len()],
}

impl Marks {
    /// Opens the file, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a keyspace has slots that were written, and none that can be read.
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| directory::unusable(directory, &error);
        let mut file = directory::open_private(&directory.join(MARK_FILE)).map_err(failed)?;
        let mut bytes = vec![0; MARKED.len() * 2 * SLOT_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read(&mut bytes[filled..]).map_err(failed)? {
                0 => break,
                read => filled += read,
            }
        }
        let mut held = [None; MARKED.len()];
        for ((place, keyspace), slots) in held.iter_mut().zip(MARKED).zip(bytes.chunks(2 * SLOT_BYTES)) {
            let read: Vec<_> = slots.chunks(SLOT_BYTES).map(|slot| mark_of(keyspace, slot)).collect();
            let newest = read.iter().zip(0..).filter_map(|(mark, slot)| Some(((*mark)?, slot)));
            *place = newest.max_by_key(|(mark, _)| mark.sequence);
            if place.is_none() && slots.iter().any(|byte| *byte != 0) {
                let reason = format!("the marks of acknowledged records ({MARK_FILE}) cannot be read");
                return Err(StoreError::Damaged { reason });
            }
        }
        Ok(Self { file, held })
    }

    /// `true` if no mark was ever written.
    pub(super) fn is_blank(&self) -> bool {
        self.held.iter().all(Option::is_none)
    }

    pub(super) fn get(&self, keyspace: Keyspace) -> Option<Mark> {
        let place = MARKED.iter().position(|marked| *marked == keyspace)?;
        self.held[place].map(|(mark, _)| mark)
    }

    /// Writes the last mark of each keyspace, and brings them to the disk if they are told to be there.
    pub(super) fn write(&mut self, marks: &[Mark], kept: Kept) -> Result<(), StoreError> {
        let failed = |error: io::Error| StoreError::Io { reason: error.to_string() };
        for (place, keyspace) in MARKED.iter().enumerate() {
            let Some(mark) = marks.iter().rfind(|mark| mark.keyspace == *keyspace) else { continue };
            let slot = self.held[place].map_or(0, |(_, slot)| 1 - slot);
            let offset = ((place * 2 + slot) * SLOT_BYTES) as u64;
            self.file.seek(SeekFrom::Start(offset)).map_err(failed)?;
            self.file.write_all(&bytes_of(mark)).map_err(failed)?;
            self.held[place] = Some((*mark, slot));
        }
        match kept {
            Kept::OnDisk => self.file.sync_data().map_err(failed),
            Kept::ByKernel => Ok(()),
        }
    }
}

/// Where marks are once they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// On the disk.
    OnDisk,
    /// With the kernel, which writes them when it likes. What the disk has is an older mark then, and as true.
    ByKernel,
}

fn bytes_of(mark: &Mark) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..2].copy_from_slice(&MAGIC);
    slot[2] = mark.keyspace.byte();
    slot[4..12].copy_from_slice(&mark.sequence.to_be_bytes());
    slot[12..CHECKED_BYTES].copy_from_slice(&mark.link.0);
    let check = crc32fast::hash(&slot[..CHECKED_BYTES]);
    slot[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&check.to_be_bytes());
    slot
}

fn mark_of(keyspace: Keyspace, slot: &[u8]) -> Option<Mark> {
    let (checked, rest) = slot.split_at_checked(CHECKED_BYTES)?;
    let whole = rest.get(..4)? == crc32fast::hash(checked).to_be_bytes();
    if !whole || checked.get(..2)? != MAGIC || *checked.get(2)? != keyspace.byte() {
        return None;
    }
    let sequence = u64::from_be_bytes(checked.get(4..12)?.try_into().ok()?);
    Some(Mark { keyspace, sequence, link: Digest(checked.get(12..)?.try_into().ok()?) })
}
