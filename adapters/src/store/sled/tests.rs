//! What only the inside can see: failed syncs, the timer of lazy batches, and the end of the runtime.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use tokio::runtime::{Builder, Handle};

use super::committer::Committer;
use super::disk::Disk;
use super::marks::{Kept, MARK_FILE, Marks};
use super::{SledLane, SledStore};
use crate::store::{Batch, Durability, Keyspace, LAZY_WITHIN, Lane, Mark, Store, StoreId};

fn put(key: &str, durability: Durability) -> Batch {
    let mut batch = Batch { durability, ..Batch::new() };
    batch.put(Keyspace::Head, key, key);
    batch
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_and_reads_go_on_until_the_close() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(directory.path()).unwrap();
    disk.break_sync().unwrap();
    let committer = Arc::new(Committer::new(disk, Handle::current()));
    let store = SledStore { committer, store_id: StoreId::default(), lost: None };
    let (one, other) = (store.lane(), store.lane());
    let acks = [one.append(put("a", Durability::Sync)), one.append(put("b", Durability::Sync))];
    for ack in acks {
        assert!(matches!(ack.await, Err(StoreError::Io { .. })));
    }
    assert!(matches!(other.append(put("c", Durability::Lazy)).await, Err(StoreError::Io { .. })));
    assert_eq!(store.get(Keyspace::Head, b"c".to_vec()).await, Ok(None));
    assert!(matches!(store.close().await, Err(StoreError::Io { .. })));
    assert_eq!(store.get(Keyspace::Head, b"c".to_vec()).await, Err(StoreError::Closed));
    SledStore::open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn a_panic_of_the_engine_becomes_an_error_and_stops_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    let read = store.committer.read::<()>(|_| panic!("as sled does on damaged pages"));
    assert_eq!(read.await, Err(StoreError::Io { reason: "sled gave up while reading".into() }));
    let answer = store.lane().append(put("a", Durability::Sync)).await;
    assert!(matches!(answer, Err(StoreError::Io { .. })));
}

#[tokio::test]
async fn a_lazy_batch_is_synced_in_time_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    store.lane().append(put("a", Durability::Lazy)).await.unwrap();
    let synced = async {
        while store.committer.is_unsynced() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(store.committer.is_unsynced());
    tokio::time::timeout(LAZY_WITHIN, synced).await.unwrap();
    store.lane().append(put("b", Durability::Lazy)).await.unwrap();
    assert!(store.committer.is_unsynced());
    store.lane().append(put("c", Durability::Sync)).await.unwrap();
    assert!(!store.committer.is_unsynced());
}

#[test]
fn a_store_that_outlives_its_runtime_answers_closed_and_can_be_dropped_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let store = first.block_on(SledStore::open(directory.path())).unwrap();
    let lane = store.lane();
    first.block_on(lane.append(put("a", Durability::Lazy))).unwrap();
    drop(first);
    let second = runtime();
    for _ in 0..2 {
        assert_eq!(second.block_on(lane.append(put("b", Durability::Sync))), Err(StoreError::Closed));
        assert_eq!(second.block_on(store.get(Keyspace::Head, b"a".to_vec())), Err(StoreError::Closed));
    }
    drop(lane);
    drop(store);
    let again = second.block_on(SledStore::open(directory.path())).unwrap();
    assert_eq!(second.block_on(again.get(Keyspace::Head, b"a".to_vec())), Ok(Some(b"a".to_vec())));
}

#[test]
fn a_store_opened_outside_a_runtime_says_so() {
    let mut opening = std::pin::pin!(SledStore::open("/nowhere"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = opening.as_mut().poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Err(StoreError::Io { .. }))));
}

#[tokio::test]
async fn a_refused_batch_is_answered_after_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = SledStore::open(directory.path()).await.unwrap();
    let lane = SledLane { committer: store.committer.clone(), refuses: std::sync::Mutex::new(false) };
    let first = lane.append(put("a", Durability::Sync));
    let mut large = Batch::new();
    large.put(Keyspace::Head, "b", vec![0; crate::store::VALUE_BYTES_MAX + 1]);
    let refused = lane.append(large);
    assert!(matches!(refused.await, Err(StoreError::TooLarge { .. })));
    let mut first = std::pin::pin!(first);
    let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx))).await;
    assert_eq!(polled, std::task::Poll::Ready(Ok(())));
}

#[tokio::test]
async fn a_directory_that_somebody_else_holds_is_locked_by_either_lock() {
    let locked = |directory: &tempfile::TempDir| Err(StoreError::Locked { path: directory.path().into() });
    let open = async |directory: &tempfile::TempDir| SledStore::open(directory.path()).await.map(drop);

    let ours = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(ours.path().join("lock")).unwrap();
    fs2::FileExt::lock_exclusive(&lock).unwrap();
    assert_eq!(open(&ours).await, locked(&ours));
    assert!(!ours.path().join("db").exists(), "nothing is made in a directory that is not ours");
    drop(lock);
    assert_eq!(open(&ours).await, Ok(()));

    let theirs = tempfile::tempdir().unwrap();
    let alone = ::sled::open(theirs.path()).unwrap();
    assert_eq!(open(&theirs).await, locked(&theirs));
    drop(alone);
}

fn mark(sequence: u64) -> Mark {
    Mark { keyspace: Keyspace::Ledger, sequence, link: Digest([7; 32]) }
}

#[test]
fn a_torn_write_of_several_marks_leaves_the_one_before_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(MARK_FILE);
    for before in 1..=2 {
        let mut marks = Marks::open(directory.path()).unwrap();
        marks.write(&[mark(before)], Kept::OnDisk).unwrap();
        let whole = std::fs::read(&file).unwrap();
        marks.write(&[mark(8), mark(9)], Kept::OnDisk).unwrap();
        // Whatever the write has changed is torn.
        let mut torn = std::fs::read(&file).unwrap();
        for (place, byte) in torn.iter_mut().enumerate() {
            if whole.get(place) != Some(byte) {
                *byte ^= 0x55;
            }
        }
        std::fs::write(&file, torn).unwrap();
        let left = Marks::open(directory.path()).map(|marks| marks.get(Keyspace::Ledger));
        assert_eq!(left, Ok(Some(mark(before))));
    }
}

#[tokio::test]
async fn a_kill_after_the_first_mark_hides_no_loss_of_the_marks_later() {
    let directory = tempfile::tempdir().unwrap();
    let open = async || SledStore::open(directory.path()).await;
    open().await.unwrap().close().await.unwrap();
    // A killed process had written its first mark, and nothing after it.
    Marks::open(directory.path()).unwrap().write(&[mark(1)], Kept::OnDisk).unwrap();
    open().await.unwrap().close().await.unwrap();
    std::fs::remove_file(directory.path().join(MARK_FILE)).unwrap();
    let opened = open().await;
    assert!(matches!(opened, Err(StoreError::Damaged { .. })), "{opened:?}");
}
