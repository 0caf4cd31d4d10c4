//! One open sled database, and the handle that syncs it. Everything here blocks.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::record::{Chain, Format};

use super::directory::{self, Deadline, Hold};
use super::marks::{Kept, Marks};
use crate::store::{BATCH_BYTES_MAX, Batch, Change, Keyspace, Mark, Pair, StoreId, stored_key};

/// The store's own record, under [`FORMAT_KEY`] in [`Keyspace::Meta`]; its payload is the store id.
const META: Format = Format { keyspace: "meta", version: 1, chain: Chain::None };
const FORMAT_KEY: &[u8] = b"format";
/// There once the first mark is written.
const MARKED_KEY: &[u8] = b"marked";
/// How many groups were written; the mark of [`Keyspace::Meta`] says how many of them were synced.
const GROUPS_KEY: &[u8] = b"groups";
/// Pages that sled keeps in memory (64 MiB); its own default is 1 GiB.
const CACHE_BYTES: u64 = 64 << 20;

/// An open database. Dropping it writes and syncs what is left and frees the directory.
pub(super) struct Disk {
    /// `None` only while it is dropped.
    db: Option<::sled::Db>,
    /// sled's flush stops at the kernel; a sync of this handle goes on to the disk.
    file: File,
    store_id: [u8; 16],
    /// How far logs have come, in a file that sled knows nothing of.
    marks: Mutex<Marks>,
    /// Groups that were written.
    groups: AtomicU64,
    /// What the file of marks says was synced, and sled does not have.
    lost: Option<StoreError>,
    /// Given up last: nobody else opens the directory while sled is still closing it.
    _hold: Hold,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|error| directory::unusable(path, &error))?;
        let deadline = Deadline::soon();
        let hold = directory::prepare(&path, deadline)?;
        let db = open_sled(&path, deadline)?;
        let data = path.join(directory::DATA_FILE);
        let file = OpenOptions::new().read(true).write(true).open(&data);
        let file = file.map_err(|error| directory::unusable(&path, &error))?;
        let marks = Marks::open(&path)?;
        let blank = marks.is_blank();
        let mut disk = Self {
            db: Some(db),
            file,
            store_id: [0; 16],
            marks: Mutex::new(marks),
            groups: AtomicU64::new(0),
            lost: None,
            _hold: hold,
        };
        if blank && disk.get(Keyspace::Meta, MARKED_KEY)?.is_some() {
            let reason = "the file of marks is gone, so nobody can tell whether records are missing".into();
            return Err(StoreError::Damaged { reason });
        }
        disk.look_at_end()?;
        disk.store_id = disk.identify(&path)?;
        if !blank && disk.lost.is_none() && disk.get(Keyspace::Meta, MARKED_KEY)?.is_none() {
            // Its first mark was the last thing that a killed process wrote.
            disk.note_marked()?;
        }
        // What a killed process had written and not synced is read as durable from now on.
        disk.sync()?;
        directory::restrict(&path);
        directory::sync(&path)?;
        Ok(disk)
    }

    /// Compares how far sled has come with what was synced. A log of sled's that lost its end begins anew before that.
    fn look_at_end(&mut self) -> Result<(), StoreError> {
        let groups = self.get(Keyspace::Meta, GROUPS_KEY)?;
        let damaged = || StoreError::Damaged { reason: "the number of groups cannot be read".to_owned() };
        let groups = groups.map(|bytes| bytes.try_into().map(u64::from_be_bytes).map_err(|_| damaged()));
        let groups = groups.transpose()?.unwrap_or_default();
        let synced = self.mark(Keyspace::Meta).map_or(0, |mark| mark.sequence);
        self.groups = AtomicU64::new(groups);
        if groups < synced {
            let gone = synced - groups;
            let reason = format!("its end is gone, with the last {gone} groups that were acknowledged");
            self.lost = Some(StoreError::Damaged { reason });
        }
        Ok(())
    }

    /// What was acknowledged and is gone.
    pub(super) fn lost(&self) -> Option<StoreError> {
        self.lost.clone()
    }

    pub(super) fn store_id(&self) -> [u8; 16] {
        self.store_id
    }

    /// Reads the store's own record; writes it if the store is new.
    fn identify(&self, path: &Path) -> Result<[u8; 16], StoreError> {
        if let Some(record) = self.get(Keyspace::Meta, FORMAT_KEY)? {
            return Ok(META.decode(&record)?.payload);
        }
        if self.lost.is_some() {
            // What is left is evidence, and names no store any more.
            return Ok([0; 16]);
        }
        if !self.db()?.is_empty() {
            let reason = "it holds data, but not the record that every store begins with".into();
            return Err(StoreError::Damaged { reason });
        }
        let store_id = StoreId::draw(path.as_os_str().as_encoded_bytes()).0;
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, FORMAT_KEY, META.encode(1, Digest([0; 32]), &store_id)?);
        self.apply(vec![batch])?;
        self.sync()?;
        Ok(store_id)
    }

    fn db(&self) -> Result<&::sled::Db, StoreError> {
        self.db.as_ref().ok_or(StoreError::Closed)
    }

    /// Writes batches in order; each of them is whole after a crash, or not there.
    pub(super) fn apply(&self, batches: Vec<Batch>) -> Result<(), StoreError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let mut merged = ::sled::Batch::default();
        let (mut bytes, mut changes) = (0, 0);
        for batch in batches {
            // Several small batches share sled's cost of one; the bound keeps the merged one small, too.
            if bytes + batch.bytes() > BATCH_BYTES_MAX {
                self.db()?.apply_batch(std::mem::take(&mut merged)).map_err(engine_error)?;
                (bytes, changes) = (0, 0);
            }
            bytes += batch.bytes();
            changes += batch.changes.len();
            for change in batch.changes {
                match change {
                    Change::Put(keyspace, key, value) => merged.insert(stored_key(keyspace, &key), value),
                    Change::Delete(keyspace, key) => merged.remove(stored_key(keyspace, &key)),
                }
            }
        }
        if changes > 0 {
            // With the last of them, so that a store which has this number has all before it.
            let groups = self.groups.fetch_add(1, Ordering::Relaxed) + 1;
            merged.insert(stored_key(Keyspace::Meta, GROUPS_KEY), &groups.to_be_bytes());
            self.db()?.apply_batch(merged).map_err(engine_error)?;
        }
        Ok(())
    }

    /// Brings everything that was written to the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.db()?.flush().map_err(engine_error)?;
        self.file.sync_data().map_err(|error| StoreError::Io { reason: error.to_string() })
    }

    pub(super) fn mark(&self, keyspace: Keyspace) -> Option<Mark> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).get(keyspace)
    }

    /// Writes marks of what has just been synced. Those of logs are brought to the disk; how many groups there are need
    /// not be, so that a sync of a group without them costs no second one.
    pub(super) fn write_marks(&self, written: &[Mark]) -> Result<(), StoreError> {
        let sequence = self.groups.load(Ordering::Relaxed);
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Mark { keyspace: Keyspace::Meta, sequence, link: Digest([0; 32]) };
        let first = marks.is_blank();
        let kept = if first || !written.is_empty() { Kept::OnDisk } else { Kept::ByKernel };
        marks.write(&[written, &[end]].concat(), kept)?;
        if first { self.note_marked() } else { Ok(()) }
    }

    /// From now on the file of marks has to be there.
    fn note_marked(&self) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, MARKED_KEY, [1]);
        self.apply(vec![batch])?;
        self.sync()
    }

    /// From now on every sync fails: no file system syncs the null device.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn break_sync(&mut self) -> io::Result<()> {
        self.file = File::open("/dev/null")?;
        Ok(())
    }

    pub(super) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.db()?.get(stored_key(keyspace, key)).map_err(engine_error)?;
        Ok(value.map(|value| value.to_vec()))
    }

    pub(super) fn scan(
        &self,
        keyspace: Keyspace,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let prefix = stored_key(keyspace, prefix);
        let start = match after.map(|after| stored_key(keyspace, after)) {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix.clone()),
        };
        let mut pairs = Vec::new();
        for pair in self.db()?.range((start, Bound::Unbounded)).take(limit) {
            let (key, value) = pair.map_err(engine_error)?;
            if !key.starts_with(&prefix) {
                break;
            }
            pairs.push((key.iter().skip(1).copied().collect(), value.to_vec()));
        }
        Ok(pairs)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let last = self.sync();
        if let Err(error) = last {
            tracing::error!(%error, "the last sync of the store failed");
        }
        let db = self.db.take();
        // sled writes in its destructor and may panic there; whoever drops the store must not.
        if catch_unwind(AssertUnwindSafe(|| drop(db))).is_err() {
            tracing::error!("sled gave up while it was closed");
        }
    }
}

fn open_sled(path: &Path, deadline: Deadline) -> Result<::sled::Db, StoreError> {
    let config = ::sled::Config::new().path(path).flush_every_ms(None).cache_capacity(CACHE_BYTES);
    loop {
        match config.open() {
            Ok(db) => return Ok(db),
            // sled's own threads may hold its file a moment longer than the handle that was dropped, and a program
            // that opens the directory by sled alone does not know our lock.
            Err(::sled::Error::Io(error)) if is_lock(&error) => deadline.pause(path)?,
            Err(error) => return Err(open_error(path, error)),
        }
    }
}

/// sled wraps a lock that is held into an error of its own words.
fn is_lock(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

fn open_error(path: &Path, error: ::sled::Error) -> StoreError {
    match error {
        ::sled::Error::Io(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
        {
            StoreError::Damaged { reason: error.to_string() }
        }
        ::sled::Error::Io(error) => directory::unusable(path, &error),
        ::sled::Error::Unsupported(reason) => StoreError::Directory {
            path: path.to_owned(),
            reason: format!("another version of sled wrote it ({reason}): choose another directory"),
        },
        other => engine_error(other),
    }
}

fn engine_error(error: ::sled::Error) -> StoreError {
    let reason = error.to_string();
    match error {
        ::sled::Error::Corruption { .. } => StoreError::Damaged { reason },
        _ => StoreError::Io { reason },
    }
}
