//! What a sealed store promises beyond the contract: nothing readable below it, and no wrong key above.

use std::sync::Arc;

use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::store::sealed::{SEAL_BYTES_MAX, SealError, SealedStore, Sealer, check_seal};
use pilothouse_adapters::store::{Batch, Keyspace, Store, VALUE_BYTES_MAX};
use pilothouse_messages::error::StoreError;

#[path = "sealed_store/keyed.rs"]
mod keyed;

fn put(key: &str, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(Keyspace::Head, key, value);
    batch
}

async fn opened(store: &MemoryStore, sealer: Arc<dyn Sealer>) -> Result<SealedStore, StoreError> {
    SealedStore::open(Arc::new(store.clone()), sealer).await
}

/// What the refusal says to do; `None` if it is none.
fn refusal<T>(answer: Result<T, StoreError>) -> Option<String> {
    match answer {
        Ok(_) => None,
        Err(StoreError::Sealed { reason }) => Some(reason),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_store_opens_with_the_key_that_it_was_made_with_and_with_no_other() {
    let store = MemoryStore::new();
    let sealed = opened(&store, keyed::sealer("one")).await.unwrap();
    sealed.lane().append(put("k", b"canary")).await.unwrap();
    assert_eq!(check_seal(&sealed).await, Ok(()));
    let before = store.scan(Keyspace::Head, vec![], None, 9).await.unwrap();
    assert!(before.iter().all(|(_, value)| !value.windows(6).any(|bytes| bytes == b"canary")));

    let wrong = refusal(opened(&store, keyed::sealer("two")).await);
    assert!(wrong.is_some_and(|words| words.contains("use the key that it was made with")));
    let none = refusal(check_seal(&store).await);
    assert!(none.is_some_and(|words| words.contains("give the sealer")));
    let plain = MemoryStore::new();
    plain.lane().append(put("k", b"plain")).await.unwrap();
    let late = refusal(opened(&plain, keyed::sealer("one")).await);
    assert!(late.is_some_and(|words| words.contains("kept without a sealer")));
    assert_eq!(check_seal(&plain).await, Ok(()));

    let again = opened(&store, keyed::sealer("one")).await.unwrap();
    assert_eq!(again.get(Keyspace::Head, b"k".to_vec()).await, Ok(Some(b"canary".to_vec())));
    assert_eq!(store.scan(Keyspace::Head, vec![], None, 9).await.unwrap(), before, "refusals change nothing");
}

#[tokio::test]
async fn a_value_that_was_changed_or_moved_does_not_open() {
    let store = MemoryStore::new();
    let sealed = opened(&store, keyed::sealer("one")).await.unwrap();
    sealed.lane().append(put("a", b"of a")).await.unwrap();
    let value = store.get(Keyspace::Head, b"a".to_vec()).await.unwrap().unwrap();
    let flipped = |at: usize| {
        let mut value = value.clone();
        value[at] ^= 1;
        put("a", &value)
    };
    let cases = [put("b", &value), flipped(0), flipped(40), put("a", b""), put("a", &value[..39])];
    for batch in cases {
        let spoilt = store.crash();
        spoilt.lane().append(batch.clone()).await.unwrap();
        let sealed = opened(&spoilt, keyed::sealer("one")).await.unwrap();
        let read = sealed.scan(Keyspace::Head, vec![], None, 9).await;
        assert!(matches!(read, Err(StoreError::Damaged { .. })), "{batch:?}: {read:?}");
    }
}

/// Seals with as many bytes more, or not at all.
struct Odd(Option<usize>);

impl Sealer for Odd {
    fn seal(&self, place: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        match self.0 {
            _ if place.ends_with(b"sealed") => Ok(value.to_vec()),
            Some(more) => Ok([value, &vec![0; more]].concat()),
            None => panic!("no key"),
        }
    }

    fn open(&self, _place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(sealed.to_vec())
    }
}

#[tokio::test]
async fn what_cannot_be_sealed_is_not_stored_and_nothing_follows_it_in_its_lane() {
    let largest = vec![7; VALUE_BYTES_MAX];
    let answers = async |odd: Odd| {
        let sealed = opened(&MemoryStore::new(), Arc::new(odd)).await.unwrap();
        let lane = sealed.lane();
        let answers = [lane.append(put("a", &largest)).await, lane.append(Batch::new()).await];
        let stored = sealed.get(Keyspace::Head, b"a".to_vec()).await.unwrap().is_some();
        (answers.map(|answer| answer.map_err(|error| error.to_string())), stored)
    };
    assert_eq!(answers(Odd(Some(SEAL_BYTES_MAX))).await, ([Ok(()), Ok(())], true));
    for (odd, words) in
        [(Odd(Some(SEAL_BYTES_MAX + 1)), "adds more than"), (Odd(None), "the sealer panicked")]
    {
        let ([first, second], stored) = answers(odd).await;
        let first = first.expect_err("it was not sealed");
        assert!(first.contains(words), "{first}");
        assert!(second.is_err() && !stored, "{second:?}");
    }
}
