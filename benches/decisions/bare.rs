//! sled by itself, with the sync that it leaves out: the raw limit.

use std::path::Path;

/// Key of a ledger's record: keyspace, sequence, part.
const KEY_TAIL: [u8; 3] = [b'l', 0, 0];

pub(crate) struct Bare {
    db: sled::Db,
    file: std::fs::File,
    next: u64,
    value: Vec<u8>,
}

impl Bare {
    /// Writes records of this size.
    pub(crate) fn open(path: &Path, bytes: usize) -> Self {
        let db = sled::Config::new().path(path).flush_every_ms(None).open().expect("sled opens");
        let file = std::fs::OpenOptions::new().write(true).open(path.join("db")).expect("its file opens");
        Self { db, file, next: 0, value: vec![0xab; bytes] }
    }

    /// So many records in one batch, flushed and synced.
    pub(crate) fn append(&mut self, records: u64) {
        let mut batch = sled::Batch::default();
        for _ in 0..records {
            self.next += 1;
            let key = [self.next.to_be_bytes().as_slice(), &KEY_TAIL].concat();
            batch.insert(key, self.value.clone());
        }
        self.db.apply_batch(batch).expect("sled takes a batch");
        self.db.flush().expect("sled flushes");
        self.file.sync_data().expect("the file syncs");
    }
}
