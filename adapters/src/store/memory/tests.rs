use std::time::Duration;

use pilothouse_messages::error::StoreError;

use super::MemoryStore;
use crate::store::{Batch, Durability, Keyspace, LAZY_WITHIN, Store};

fn put(key: &str, durability: Durability) -> Batch {
    let mut batch = Batch { durability, ..Batch::new() };
    batch.put(Keyspace::Head, key, key);
    batch
}

async fn keys(store: &MemoryStore) -> Vec<String> {
    let pairs = store.scan(Keyspace::Head, Vec::new(), None, usize::MAX).await.unwrap();
    pairs.into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

fn failure() -> StoreError {
    StoreError::Io { reason: "the disk is on strike".into() }
}

#[tokio::test(start_paused = true)]
async fn a_held_batch_is_neither_acknowledged_nor_readable_until_the_release() {
    let store = MemoryStore::new();
    let lane = store.lane();
    store.hold();
    let mut acks = [lane.append(put("a", Durability::Sync)), lane.append(put("b", Durability::Lazy))];
    let mut closed = store.close();
    for ack in &mut acks {
        assert!(tokio::time::timeout(Duration::from_secs(60), ack).await.is_err());
    }
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut closed).await.is_err());
    assert_eq!((keys(&store).await, store.held()), (vec![], 3));
    assert_eq!(keys(&store.crash_keeping_lazy()).await, Vec::<String>::new());
    store.release();
    let [first, second] = acks;
    assert_eq!((first.await, second.await, closed.await), (Ok(()), Ok(()), Ok(())));
    assert_eq!(keys(&store.crash()).await, ["a", "b"]);
}

#[tokio::test]
async fn a_failed_batch_ends_its_lane_and_no_other() {
    let store = MemoryStore::new();
    let (one, other) = (store.lane(), store.lane());
    one.append(put("a", Durability::Sync)).await.unwrap();
    store.hold();
    store.fail_next(failure());
    let acks = [
        one.append(put("b", Durability::Sync)),
        one.append(put("c", Durability::Sync)),
        other.append(put("d", Durability::Sync)),
    ];
    store.release();
    let [first, second, third] = acks;
    assert_eq!((first.await, third.await), (Err(failure()), Ok(())));
    assert!(second.await.is_err());
    assert_eq!(keys(&store).await, ["a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_takes_only_lazy_batches_that_no_sync_and_no_time_covered() {
    let store = MemoryStore::new();
    let lane = store.lane();
    let lazy = |key| lane.append(put(key, Durability::Lazy));
    lazy("a").await.unwrap();
    tokio::time::advance(LAZY_WITHIN).await;
    lazy("b").await.unwrap();
    let mut removal = Batch { durability: Durability::Lazy, ..Batch::new() };
    removal.delete(Keyspace::Head, "a");
    lane.append(removal).await.unwrap();
    assert_eq!((keys(&store).await, keys(&store.crash()).await), (vec!["b".into()], vec!["a".into()]));
    assert_eq!(keys(&store.crash_keeping_lazy()).await, ["b"]);
    // Written, removed and written again: taken back step by step.
    lazy("a").await.unwrap();
    lazy("b").await.unwrap();
    assert_eq!(
        (keys(&store).await, keys(&store.crash()).await),
        (vec!["a".into(), "b".into()], vec!["a".into()])
    );
    let mut again = Batch { durability: Durability::Lazy, ..Batch::new() };
    again.delete(Keyspace::Head, "a");
    lane.append(again).await.unwrap();
    lane.append(put("c", Durability::Sync)).await.unwrap();
    lazy("d").await.unwrap();
    assert_eq!(keys(&store.crash()).await, ["b", "c"]);
    tokio::time::advance(LAZY_WITHIN).await;
    assert_eq!(keys(&store.crash()).await, ["b", "c", "d"]);
}

#[tokio::test]
async fn a_store_dropped_with_a_batch_in_its_hands_answers_closed() {
    let store = MemoryStore::new();
    store.hold();
    let ack = store.lane().append(put("a", Durability::Sync));
    drop(store);
    assert_eq!(ack.await, Err(StoreError::Closed));
}
