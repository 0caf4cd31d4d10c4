//! What only the store on disk promises: locks, modes, repairs, refusals, and what `kill -9` leaves.
#![cfg(feature = "sled")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pilothouse_adapters::store::large::{remove, stage};
use pilothouse_adapters::store::log::put_record;
use pilothouse_adapters::store::sled::SledStore;
use pilothouse_adapters::store::{
    BATCH_BYTES_MAX, Batch, Durability, KEY_BYTES_MAX, Keyspace, Lane, Mark, Store, VALUE_BYTES_MAX,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::record::{Chain, Format};

fn put(keyspace: Keyspace, key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(keyspace, key, value);
    batch
}

/// A directory with a closed store that holds one pair.
async fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    store.lane().append(put(Keyspace::Head, b"k", b"v")).await.unwrap();
    store.close().await.unwrap();
    directory
}

async fn value(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    SledStore::open(path).await?.get(Keyspace::Head, b"k".to_vec()).await
}

#[tokio::test]
async fn a_second_store_on_one_directory_is_told_that_it_is_locked() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    let locked = Err(StoreError::Locked { path: directory.path().into() });
    assert_eq!(SledStore::open(directory.path()).await.map(|_| ()), locked);
    // The first one is unharmed, and a close frees the directory for a next one at once.
    store.lane().append(put(Keyspace::Head, b"k", b"v")).await.unwrap();
    for _ in 0..5 {
        let next = tokio::spawn(SledStore::open(directory.path().to_owned()));
        tokio::task::yield_now().await;
        store.close().await.unwrap();
        next.await.unwrap().unwrap().close().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_keeps_its_id_and_no_two_have_the_same() {
    let id = async |directory: &tempfile::TempDir| {
        let store = SledStore::open(directory.path()).await.unwrap();
        store.close().await.unwrap();
        store.id()
    };
    let (one, other) = (filled().await, filled().await);
    let ids = [id(&one).await, id(&one).await, id(&other).await];
    assert_eq!((ids[0] == ids[1], ids[0] == ids[2]), (true, false));
}

#[tokio::test]
async fn a_path_that_is_no_directory_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below"), file.join("far").join("below")] {
        let Err(StoreError::Directory { path: named, reason }) = SledStore::open(&path).await else {
            panic!("{} was not refused", path.display());
        };
        assert_eq!((named, reason.contains("choose a directory")), (path, true), "{reason}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(matches!(SledStore::open("/proc/none").await, Err(StoreError::Directory { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_is_made_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let outer = tempfile::tempdir().unwrap();
    let given = outer.path().join("given");
    fs::create_dir(&given).unwrap();
    for path in [outer.path().join("made").join("here"), given] {
        let store = SledStore::open(&path).await.unwrap();
        assert_eq!(mode(&path), 0o700);
        let private = |path: PathBuf| mode(&path) == if path.is_dir() { 0o700 } else { 0o600 };
        let entries: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(entries.iter().any(|entry| entry.ends_with("db")));
        for entry in entries {
            assert!(private(entry.clone()), "{}", entry.display());
        }
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_half_written_snapshot_does_not_keep_the_store_from_opening() {
    let directory = filled().await;
    let torn = directory.path().join("snap.FFFFFFFFFFFFFFFF.generating");
    fs::write(&torn, "half").unwrap();
    assert_eq!(value(directory.path()).await, Ok(Some(b"v".to_vec())));
    assert!(!torn.exists());
}

#[tokio::test]
async fn a_snapshot_that_the_holder_is_writing_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let _store = SledStore::open(directory.path()).await.unwrap();
    let writing = directory.path().join("snap.0000000000000001.generating");
    fs::write(&writing, "half").unwrap();
    assert!(matches!(SledStore::open(directory.path()).await, Err(StoreError::Locked { .. })));
    assert!(writing.exists());
}

#[tokio::test]
async fn a_damaged_snapshot_is_named_as_damage_and_kept() {
    let directory = filled().await;
    let damaged = directory.path().join("snap.FFFFFFFFFFFFFFFF");
    fs::write(&damaged, "no snapshot at all").unwrap();
    assert!(matches!(value(directory.path()).await, Err(StoreError::Damaged { .. })));
    assert!(damaged.exists());
}

fn lazily(batch: Batch) -> Batch {
    Batch { durability: Durability::Lazy, ..batch }
}

async fn append(lane: &dyn Lane, batches: impl IntoIterator<Item = Batch>) {
    for batch in batches {
        lane.append(batch).await.unwrap();
    }
}

/// sled syncs no blob file and never removes one that a later page replaces.
#[tokio::test]
async fn whatever_is_stored_stays_in_pages_that_sled_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    let lane = store.lane();
    let blobs = || fs::read_dir(directory.path().join("blobs")).unwrap().count();
    let record = |sequence: u64, bytes: usize| {
        let mut batch = Batch::new();
        put_record(&mut batch, Keyspace::Journal, &[b't'; 130], sequence, &vec![7; bytes]);
        batch
    };
    append(&*lane, (1..9).map(|sequence| record(sequence, BATCH_BYTES_MAX * 9 / 10))).await;
    assert_eq!(blobs(), 0, "after large records");
    let mut before = None;
    for megabytes in [3, 5, 1, 4] {
        let staged = stage(Keyspace::Listing, b"server", &vec![7; megabytes << 20], before);
        append(&*lane, staged.batches).await;
        before = Some(staged.generation);
    }
    assert_eq!(blobs(), 0, "after a large value and its successors");
    append(&*lane, before.map(|before| remove(Keyspace::Listing, b"server", before)).unwrap()).await;
    assert_eq!(blobs(), 0, "after a large value was removed");
    // Keys that lie close together and come in no order, each as long and each value as large as may be.
    for n in (0..2_000u32).map(|n| n.wrapping_mul(2_654_435_761) % 500) {
        let mut key = n.to_be_bytes().to_vec();
        key.resize(KEY_BYTES_MAX, 7);
        append(&*lane, [lazily(put(Keyspace::Head, &key, &vec![7; VALUE_BYTES_MAX]))]).await;
        if n % 5 == 0 {
            let mut batch = Batch::new();
            batch.delete(Keyspace::Head, key);
            append(&*lane, [lazily(batch)]).await;
        }
    }
    assert_eq!(blobs(), 0, "after values at the bound");
    store.close().await.unwrap();
    drop(SledStore::open(directory.path()).await.unwrap());
    assert_eq!(blobs(), 0, "after it was opened again");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_named() {
    let directory = filled().await;
    let store = SledStore::open(directory.path()).await.unwrap();
    let newer = Format { keyspace: "meta", version: 2, chain: Chain::None };
    let record = newer.encode(1, Digest([0; 32]), &"with more in it").unwrap();
    store.lane().append(put(Keyspace::Meta, b"format", &record)).await.unwrap();
    store.close().await.unwrap();
    let expected = StoreError::NewerFormat { keyspace: "meta".into(), found: 2, known: 1 };
    assert_eq!(value(directory.path()).await, Err(expected.clone()));
    // Refused again, and not locked by the first refusal.
    assert_eq!(value(directory.path()).await, Err(expected));
}

#[tokio::test]
async fn data_without_the_record_that_a_store_begins_with_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = sled::open(directory.path()).unwrap();
    foreign.insert("somebody", "else's").unwrap();
    drop(foreign);
    assert!(matches!(value(directory.path()).await, Err(StoreError::Damaged { .. })));
}

/// Set in the child that writes until it is killed.
const WRITER: &str = "PILOTHOUSE_TEST_WRITER";

/// Writes batches of two pairs and prints the number of each one that was acknowledged.
async fn write_until_killed(path: &str) {
    let store = SledStore::open(path).await.unwrap();
    let first = count(&store).await;
    let lane = store.lane();
    let mut acks = std::collections::VecDeque::new();
    for number in first.. {
        let mut batch = put(Keyspace::Journal, &number.to_be_bytes(), &number.to_be_bytes());
        batch.put(Keyspace::Head, *b"last", number.to_be_bytes());
        acks.push_back((number, lane.append(batch)));
        if acks.len() > 8
            && let Some((number, ack)) = acks.pop_front()
        {
            ack.await.unwrap();
            println!("acked {number}");
        }
    }
}

/// How many numbers are there; panics over a gap, or if half of a batch is missing.
async fn count(store: &SledStore) -> u64 {
    let pairs = store.scan(Keyspace::Journal, Vec::new(), None, usize::MAX).await.unwrap();
    for (expected, (key, value)) in (0u64..).zip(&pairs) {
        assert_eq!(
            (key.as_slice(), value.as_slice()),
            (&expected.to_be_bytes()[..], &expected.to_be_bytes()[..])
        );
    }
    let count = pairs.len() as u64;
    let last = store.get(Keyspace::Head, b"last".to_vec()).await.unwrap();
    assert_eq!(last, count.checked_sub(1).map(|last| last.to_be_bytes().to_vec()));
    count
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    const NAME: &str = "what_was_acknowledged_survives_a_kill_at_any_moment";
    if let Ok(path) = std::env::var(WRITER) {
        return write_until_killed(&path).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut before = 0;
    for trial in 0..6u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(WRITER, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acked = None;
        let mut killed_at = None;
        while let Some(Ok(line)) = lines.next() {
            if let Some((_, number)) = line.split_once("acked ") {
                acked = number.parse::<u64>().ok().or(acked);
                // The moment varies with the trial and with the machine.
                let wait = Duration::from_millis(5 + trial * 17);
                let at = *killed_at.get_or_insert_with(|| Instant::now() + wait);
                if Instant::now() >= at {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        let acked = acked.expect("the child acknowledged something before it was killed");
        let store = SledStore::open(directory.path()).await.unwrap();
        let found = count(&store).await;
        assert!(found > acked && found > before, "trial {trial}: {acked} acknowledged, {found} found");
        before = found;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn marks_outlive_the_process_and_their_loss_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let mark = |sequence| Mark { keyspace: Keyspace::Ledger, sequence, link: Digest([7; 32]) };
    let store = SledStore::open(directory.path()).await.unwrap();
    for sequence in 1..=3 {
        let mut batch = put(Keyspace::Ledger, &[sequence], b"v");
        batch.marks.push(mark(sequence.into()));
        store.lane().append(batch).await.unwrap();
    }
    store.close().await.unwrap();

    let file = directory.path().join("marks");
    let whole = fs::read(&file).unwrap();
    // Two slots in turn: the third mark is in the first one, the second in the other.
    let rows: [(&str, &[usize], Option<u64>); 4] = [
        ("whole", &[], Some(3)),
        ("the newest is torn", &[5], Some(2)),
        ("the older is torn", &[64 + 5], Some(3)),
        ("both are rotten", &[5, 64 + 5], None),
    ];
    for (what, flips, expected) in rows {
        let mut bytes = whole.clone();
        flips.iter().for_each(|place| bytes[*place] ^= 1);
        fs::write(&file, bytes).unwrap();
        let opened = SledStore::open(directory.path()).await;
        match (opened, expected) {
            (Ok(store), Some(sequence)) => {
                assert_eq!(store.mark(Keyspace::Ledger).await, Ok(Some(mark(sequence))), "{what}");
                store.close().await.unwrap();
            }
            (Err(StoreError::Damaged { .. }), None) => {}
            (opened, _) => panic!("{what}: {opened:?}"),
        }
    }
    fs::remove_file(&file).unwrap();
    let opened = SledStore::open(directory.path()).await;
    assert!(matches!(opened, Err(StoreError::Damaged { .. })), "the file is gone: {opened:?}");
}

#[tokio::test]
async fn an_end_that_a_disk_has_lost_is_known_and_nothing_is_written_over_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    let lane = store.lane();
    for n in 0..40u8 {
        // Batches without a mark of their own.
        lane.append(put(Keyspace::Journal, &[n], &[n; 900])).await.unwrap();
    }
    store.close().await.unwrap();
    assert_eq!(store.lost(), None);
    let whole = fs::read(directory.path().join("db")).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut lost, mut refused) = (0, 0);
    for back in [1, 200, 2_000, 9_000, 20_000] {
        let copy = tempfile::tempdir().unwrap();
        for name in ["conf", "marks"] {
            fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        fs::write(copy.path().join("db"), &whole[..end - back]).unwrap();
        match SledStore::open(copy.path()).await {
            Err(_) => refused += 1,
            Ok(store) => {
                let left = store.scan(Keyspace::Journal, vec![], None, 99).await.unwrap().len();
                assert_eq!(store.lost().is_some(), left < 40, "{back} bytes: {left} are left");
                lost += usize::from(left < 40);
                if left < 40 {
                    let answer = store.lane().append(put(Keyspace::Journal, &[99], b"new")).await;
                    assert!(answer.is_err(), "{back} bytes");
                }
            }
        }
    }
    assert!(lost > 0, "{lost} lost, {refused} refused");

    // What was only written, or is closed by a process that ends, is whole.
    let store = SledStore::open(directory.path()).await.unwrap();
    let lazy = Batch { durability: Durability::Lazy, ..put(Keyspace::Journal, &[50], b"lazy") };
    store.lane().append(lazy).await.unwrap();
    store.close().await.unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    assert_eq!(store.lost(), None);
}
