//! What every store promises, checked on every adapter.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::store::sealed::SealedStore;
#[cfg(feature = "sled")]
use pilothouse_adapters::store::sled::SledStore;
use pilothouse_adapters::store::{
    BATCH_BYTES_MAX, Batch, Durability, KEY_BYTES_MAX, Keyspace, Mark, Pair, Store, VALUE_BYTES_MAX,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;

#[path = "sealed_store/keyed.rs"]
mod keyed;

/// A fresh store of one kind, and how it is found again.
enum Subject {
    Memory(MemoryStore),
    #[cfg(feature = "sled")]
    Sled(SledStore, tempfile::TempDir),
    Sealed(MemoryStore, SealedStore),
}

impl Subject {
    fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            #[cfg(feature = "sled")]
            Self::Sled(store, _) => Arc::new(store.clone()),
            Self::Sealed(_, sealed) => Arc::new(sealed.clone()),
        }
    }

    /// What is left when the process ends without closing the store.
    async fn found_again(self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.crash()),
            Self::Sealed(store, _) => sealed(store.crash()).await,
            #[cfg(feature = "sled")]
            Self::Sled(store, directory) => {
                drop(store);
                Self::Sled(SledStore::open(directory.path()).await.unwrap(), directory)
            }
        }
    }
}

async fn sealed(store: MemoryStore) -> Subject {
    let sealed = SealedStore::open(Arc::new(store.clone()), keyed::sealer("key")).await.unwrap();
    Subject::Sealed(store, sealed)
}

async fn check(case: impl AsyncFn(Subject)) {
    case(Subject::Memory(MemoryStore::new())).await;
    case(sealed(MemoryStore::new()).await).await;
    #[cfg(feature = "sled")]
    {
        let directory = tempfile::tempdir().unwrap();
        case(Subject::Sled(SledStore::open(directory.path()).await.unwrap(), directory)).await;
    }
}

fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(Keyspace::Head, key, value);
    batch
}

fn lazy(batch: Batch) -> Batch {
    Batch { durability: Durability::Lazy, ..batch }
}

async fn pairs(store: &dyn Store, keyspace: Keyspace) -> Vec<(String, String)> {
    texts(store.scan(keyspace, Vec::new(), None, usize::MAX).await.unwrap())
}

fn texts(pairs: Vec<Pair>) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    pairs.into_iter().map(|(key, value)| (text(key), text(value))).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn is_io(answer: &Result<(), StoreError>) -> bool {
    matches!(answer, Err(StoreError::Io { .. }))
}

#[tokio::test]
async fn a_lane_acknowledges_in_the_order_of_its_appends() {
    check(async |subject: Subject| {
        let lane = subject.store().lane();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let waiters: Vec<_> = (0..100)
            .map(|i| {
                let batch = put("last", &i.to_string());
                let ack = lane.append(if i % 3 == 0 { lazy(batch) } else { batch });
                let order = order.clone();
                tokio::spawn(async move {
                    ack.await.unwrap();
                    order.lock().unwrap().push(i);
                })
            })
            .collect();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
        assert_eq!(pairs(&*subject.store(), Keyspace::Head).await, owned(&[("last", "99")]));
    })
    .await;
}

#[tokio::test]
async fn what_is_acknowledged_is_found_again() {
    check(async |subject: Subject| {
        let id = subject.store().id();
        let lane = subject.store().lane();
        let first = lane.append(lazy(put("a", "1")));
        let second = lane.append(put("b", "2"));
        second.await.unwrap();
        first.await.unwrap();
        drop(lane);
        let subject = subject.found_again().await;
        assert_eq!(pairs(&*subject.store(), Keyspace::Head).await, owned(&[("a", "1"), ("b", "2")]));
        assert_eq!(subject.store().id(), id);
    })
    .await;
}

/// What a successor relies on that reads after a life of which a batch may still be under way.
#[tokio::test]
async fn an_empty_batch_of_a_fresh_lane_is_acknowledged_after_all_that_came_before() {
    check(async |subject: Subject| {
        let store = subject.store();
        for round in 0..20 {
            let lane = store.lane();
            let before: Vec<_> = (0..10).map(|i| lane.append(put("last", &format!("{round}.{i}")))).collect();
            store.lane().append(Batch::new()).await.unwrap();
            for ack in before {
                // Tokio's budget for one task must not make a known answer look open.
                let mut ack = tokio::task::unconstrained(ack);
                let known = std::pin::Pin::new(&mut ack).poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(known, Poll::Ready(Ok(())), "round {round}");
            }
            assert_eq!(pairs(&*store, Keyspace::Head).await, owned(&[("last", &format!("{round}.9"))]));
        }
    })
    .await;
}

#[tokio::test]
async fn the_changes_of_a_batch_happen_in_order_and_together() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        let mut batch = put("gone", "1");
        batch.put(Keyspace::Head, "kept", "old");
        batch.put(Keyspace::Open, "kept", "");
        batch.delete(Keyspace::Head, "gone");
        batch.put(Keyspace::Head, "kept", "new");
        lane.append(batch).await.unwrap();
        lane.append(Batch::new()).await.unwrap();
        let mut refused = put("half", "1");
        refused.put(Keyspace::Head, "big", vec![0; VALUE_BYTES_MAX + 1]);
        assert!(lane.append(refused).await.is_err());
        drop(lane);
        drop(store);
        let store = subject.found_again().await.store();
        assert_eq!(pairs(&*store, Keyspace::Head).await, owned(&[("kept", "new")]));
        assert_eq!(pairs(&*store, Keyspace::Open).await, owned(&[("kept", "")]));
    })
    .await;
}

#[tokio::test]
async fn a_batch_with_only_an_empty_key_and_value_is_written() {
    check(async |subject: Subject| {
        subject.store().lane().append(put("", "")).await.unwrap();
        assert_eq!(pairs(&*subject.store(), Keyspace::Head).await, owned(&[("", "")]));
        assert_eq!(subject.store().get(Keyspace::Head, Vec::new()).await, Ok(Some(Vec::new())));
        assert_eq!(subject.store().get(Keyspace::Open, Vec::new()).await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn nothing_follows_a_refused_batch_of_its_lane() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        let answers = [
            lane.append(put("a", "1")),
            lane.append(put("b", &"x".repeat(VALUE_BYTES_MAX + 1))),
            lane.append(put("c", "3")),
        ];
        let [first, second, third] = answers;
        assert_eq!(first.await, Ok(()));
        let refusal =
            StoreError::TooLarge { what: "a value", bytes: VALUE_BYTES_MAX + 1, limit: VALUE_BYTES_MAX };
        assert_eq!(second.await, Err(refusal));
        assert!(is_io(&third.await));
        assert!(is_io(&lane.append(put("d", "4")).await));
        // Other lanes go on.
        store.lane().append(put("e", "5")).await.unwrap();
        assert_eq!(pairs(&*store, Keyspace::Head).await, owned(&[("a", "1"), ("e", "5")]));
    })
    .await;
}

#[tokio::test]
async fn a_batch_at_the_bounds_is_taken_and_one_above_is_not() {
    check(async |subject: Subject| {
        let store = subject.store();
        let filled = |last: usize| {
            let mut batch = Batch::new();
            let parts = BATCH_BYTES_MAX / VALUE_BYTES_MAX;
            for part in 0..parts {
                let bytes = if part + 1 == parts { last } else { VALUE_BYTES_MAX - 1 };
                batch.put(Keyspace::Head, [u8::try_from(part).unwrap()], vec![7; bytes]);
            }
            batch
        };
        let largest = filled(VALUE_BYTES_MAX - 1);
        assert_eq!(largest.bytes(), BATCH_BYTES_MAX);
        store.lane().append(largest).await.unwrap();
        let bytes = BATCH_BYTES_MAX + 1;
        assert_eq!(
            store.lane().append(filled(VALUE_BYTES_MAX)).await,
            Err(StoreError::TooLarge { what: "a batch", bytes, limit: BATCH_BYTES_MAX })
        );
        let keyed = |bytes: usize| put(&"k".repeat(bytes), "");
        store.lane().append(keyed(KEY_BYTES_MAX)).await.unwrap();
        let bytes = KEY_BYTES_MAX + 1;
        assert_eq!(
            store.lane().append(keyed(bytes)).await,
            Err(StoreError::TooLarge { what: "a key", bytes, limit: KEY_BYTES_MAX })
        );
        assert_eq!(store.get(Keyspace::Head, vec![15]).await, Ok(Some(vec![7; VALUE_BYTES_MAX - 1])),);
    })
    .await;
}

#[tokio::test]
async fn a_scan_is_ordered_and_bounded_by_keyspace_prefix_place_and_limit() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        let mut batch = Batch::new();
        for key in ["b2", "a", "b1", "c", "b", "b10"] {
            batch.put(Keyspace::Names, key, key.to_uppercase());
        }
        batch.put(Keyspace::Open, "b0", "of the next keyspace");
        batch.put(Keyspace::Ledger, "b0", "of the keyspace before");
        lane.append(batch).await.unwrap();
        let rows: [(&str, Option<&str>, usize, &[&str]); 9] = [
            ("", None, 99, &["a", "b", "b1", "b10", "b2", "c"]),
            ("", None, 2, &["a", "b"]),
            ("", None, 0, &[]),
            ("", Some("b10"), 99, &["b2", "c"]),
            ("b", None, 99, &["b", "b1", "b10", "b2"]),
            ("b", Some("a"), 2, &["b", "b1"]),
            ("b", Some("b"), 2, &["b1", "b10"]),
            ("b", Some("c"), 99, &[]),
            ("d", None, 99, &[]),
        ];
        for (prefix, after, limit, expected) in rows {
            let found = store.scan(Keyspace::Names, prefix.into(), after.map(Into::into), limit).await;
            let upper: Vec<_> = expected.iter().map(|key| key.to_uppercase()).collect();
            let expected: Vec<_> = expected.iter().map(|key| (*key).to_owned()).zip(upper).collect();
            assert_eq!(texts(found.unwrap()), expected, "{prefix:?} {after:?} {limit}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_close_keeps_what_was_appended_and_refuses_what_comes_later() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        let before = lane.append(lazy(put("a", "1")));
        let closed = store.close();
        let late = lane.append(put("b", "2"));
        assert_eq!(closed.await, Ok(()));
        assert_eq!((before.await, late.await), (Ok(()), Err(StoreError::Closed)));
        assert_eq!(store.lane().append(put("c", "3")).await, Err(StoreError::Closed));
        assert_eq!(store.get(Keyspace::Head, b"a".to_vec()).await, Err(StoreError::Closed));
        assert_eq!(store.scan(Keyspace::Head, Vec::new(), None, 1).await, Err(StoreError::Closed));
        assert_eq!(store.close().await, Ok(()));
        // The handles are still held: a close alone frees what it was opened on.
        let again = subject.found_again().await;
        assert_eq!(pairs(&*again.store(), Keyspace::Head).await, owned(&[("a", "1")]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_that_write_at_once_do_not_disturb_each_other() {
    check(async |subject: Subject| {
        let store = subject.store();
        let writers: Vec<_> = ["x", "y", "z"]
            .map(|name| {
                let lane = store.lane();
                tokio::spawn(async move {
                    let acks: Vec<_> =
                        (0..200).map(|i| lane.append(put(&format!("{name}{i:03}"), name))).collect();
                    for ack in acks {
                        ack.await.unwrap();
                    }
                })
            })
            .into_iter()
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let expected: Vec<_> = ["x", "y", "z"]
            .into_iter()
            .flat_map(|name| (0..200).map(move |i| (format!("{name}{i:03}"), name.to_owned())))
            .collect();
        assert_eq!(pairs(&*store, Keyspace::Head).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_lazy_batch_is_readable_once_it_is_acknowledged() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        let before = lane.append(put("a", "1"));
        let ack = lane.append(lazy(put("b", "2")));
        ack.await.unwrap();
        // What comes before it in its lane was acknowledged before it.
        let mut before = std::pin::pin!(before);
        let polled = std::future::poll_fn(|cx| Poll::Ready(before.as_mut().poll(cx))).await;
        assert_eq!(polled, Poll::Ready(Ok(())));
        assert_eq!(pairs(&*store, Keyspace::Head).await, owned(&[("a", "1"), ("b", "2")]));
    })
    .await;
}

#[tokio::test]
async fn a_mark_is_kept_with_what_it_names_however_lazy_the_batch() {
    check(async |subject| {
        let mut batch = lazy(put("a", "1"));
        let mark = Mark { keyspace: Keyspace::Ledger, sequence: 1, link: Digest([7; 32]) };
        batch.marks.push(mark);
        subject.store().lane().append(batch).await.unwrap();
        let found = subject.found_again().await.store();
        assert_eq!(found.mark(Keyspace::Ledger).await, Ok(Some(mark)));
        assert_eq!(found.get(Keyspace::Head, b"a".to_vec()).await, Ok(Some(b"1".to_vec())));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_ack_does_not_stop_its_batch() {
    check(async |subject: Subject| {
        let store = subject.store();
        let lane = store.lane();
        drop(lane.append(put("a", "1")));
        drop(store.close());
        drop(lane);
        let again = subject.found_again().await;
        assert_eq!(pairs(&*again.store(), Keyspace::Head).await, owned(&[("a", "1")]));
    })
    .await;
}
