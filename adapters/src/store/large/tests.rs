use pilothouse_messages::error::StoreError;

use super::{
    DamagedValue, Generation, LargeValue, LargeValues, Staged, Switch, list_large, parts_prefix, read_large,
    remove, stage, switch_key,
};
use crate::store::log::PART_BYTES;
use crate::store::memory::MemoryStore;
use crate::store::pages::PAGE;
use crate::store::{BATCH_BYTES_MAX, Batch, Change, Keyspace, Lane, Store};

const SPACE: Keyspace = Keyspace::Listing;

async fn append(lane: &dyn Lane, batches: Vec<Batch>) {
    for batch in batches {
        lane.append(batch).await.unwrap();
    }
}

async fn put(store: &MemoryStore, key: &str, bytes: &[u8], before: Option<Generation>) -> Generation {
    let Staged { batches, generation } = stage(SPACE, key.as_bytes(), bytes, before);
    append(&*store.lane(), batches).await;
    generation
}

async fn all_pairs(store: &MemoryStore) -> usize {
    store.scan(SPACE, Vec::new(), None, usize::MAX).await.unwrap().len()
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from(i % 251).unwrap_or(0) ^ seed).collect()
}

#[tokio::test]
async fn a_value_of_any_size_reads_back_and_leaves_nothing_of_the_one_before() {
    let store = MemoryStore::new();
    let mut before = None;
    let sizes = [0, 1, PART_BYTES, PART_BYTES + 1, BATCH_BYTES_MAX * 3, PART_BYTES * (PAGE + 1), 5];
    for (seed, size) in (1..).zip(sizes) {
        let bytes = pattern(size, seed);
        let generation = put(&store, "server", &bytes, before).await;
        let expected = LargeValue { key: b"server".to_vec(), bytes, generation };
        assert_eq!(read_large(&store, SPACE, b"server").await, Ok(Some(expected.clone())));
        let listed = LargeValues { values: vec![expected], damaged: vec![], leftovers: vec![] };
        assert_eq!(list_large(&store, SPACE).await, Ok(listed));
        assert_eq!(all_pairs(&store).await, 1 + size.div_ceil(PART_BYTES));
        before = Some(generation);
    }
    append(&*store.lane(), remove(SPACE, b"server", before.unwrap())).await;
    assert_eq!((read_large(&store, SPACE, b"server").await, all_pairs(&store).await), (Ok(None), 0));
}

#[tokio::test]
async fn values_are_listed_in_key_order_and_kept_apart() {
    let store = MemoryStore::new();
    for key in ["ab", "b", "a", "abc"] {
        put(&store, key, key.repeat(40_000).as_bytes(), None).await;
    }
    let listed = list_large(&store, SPACE).await.unwrap();
    let keys: Vec<_> = listed.values.iter().map(|value| value.key.clone()).collect();
    assert_eq!(keys, ["a", "ab", "abc", "b"].map(|key| key.as_bytes().to_vec()));
    for value in &listed.values {
        assert_eq!(read_large(&store, SPACE, &value.key).await, Ok(Some(value.clone())));
        assert_eq!(value.bytes.len(), value.key.len() * 40_000);
    }
}

/// The value before or the value after, wherever the staging tears; never a mix, and nothing is left for good.
#[tokio::test]
async fn a_staging_torn_at_any_batch_leaves_one_whole_value() {
    let (old, new) = (pattern(BATCH_BYTES_MAX * 2, 1), pattern(BATCH_BYTES_MAX * 3, 2));
    let total = stage(SPACE, b"s", &new, None).batches.len();
    assert!(total > 3);
    for written in 0..=total {
        for had_value in [true, false] {
            let store = MemoryStore::new();
            let before = if had_value { Some(put(&store, "s", &old, None).await) } else { None };
            let staged = stage(SPACE, b"s", &new, before);
            let switched = written == staged.batches.len();
            append(&*store.lane(), staged.batches.into_iter().take(written).collect()).await;

            let loaded = list_large(&store, SPACE).await.unwrap();
            let expected = if switched { Some(&new) } else { had_value.then_some(&old) };
            assert_eq!(loaded.values.first().map(|value| &value.bytes), expected, "torn at {written}");
            append(&*store.lane(), loaded.leftovers).await;
            let parts = expected.map_or(0, |bytes| 1 + bytes.len().div_ceil(PART_BYTES));
            assert_eq!(all_pairs(&store).await, parts, "torn at {written}");

            let before = loaded.values.first().map(|value| value.generation);
            put(&store, "s", b"later", before).await;
            assert_eq!(all_pairs(&store).await, 2, "torn at {written}");
        }
    }
}

#[test]
fn every_batch_is_within_the_bounds_and_one_is_synced() {
    let before = Some(stage(SPACE, b"s", &pattern(16 << 20, 1), None).generation);
    let batches = stage(SPACE, b"s", &pattern(16 << 20, 2), before).batches;
    assert_eq!(batches.iter().find_map(|batch| batch.check().err()), None);
    let synced = batches.iter().filter(|batch| batch.durability == crate::store::Durability::Sync);
    assert_eq!(synced.count(), 1);
}

/// Writes `a`, `s` and `z`, breaks one pair of `s` (three parts, then the switch), and lists.
async fn check(pair: usize, value: Option<Vec<u8>>, reason: &str, lies: Option<Generation>) {
    let store = MemoryStore::new();
    for key in ["a", "s", "z"] {
        put(&store, key, &pattern(PART_BYTES * 5 / 2, 3), None).await;
    }
    let mut keys = store.scan(SPACE, Vec::new(), None, 99).await.unwrap();
    keys.retain(|(key, _)| key == &switch_key(b"s") || key.starts_with(&parts_prefix(b"s")));
    assert_eq!(keys.len(), 4);
    let mut batch = Batch::new();
    match value {
        Some(value) => batch.put(SPACE, keys[pair].0.clone(), value),
        None => batch.delete(SPACE, keys[pair].0.clone()),
    }
    store.lane().append(batch).await.unwrap();

    let error = StoreError::Damaged { reason: reason.to_owned() };
    assert_eq!(read_large(&store, SPACE, b"s").await, Err(error.clone()), "pair {pair}");
    let listed = list_large(&store, SPACE).await.unwrap();
    let keys: Vec<_> = listed.values.iter().map(|value| value.key.as_slice()).collect();
    assert_eq!(keys, [b"a", b"z"], "pair {pair}");
    let damaged = vec![DamagedValue { key: b"s".to_vec(), error, generation: lies }];
    assert_eq!((listed.damaged, listed.leftovers), (damaged, vec![]), "pair {pair}");

    put(&store, "s", b"later", lies).await;
    let healed = list_large(&store, SPACE).await.unwrap();
    assert_eq!((healed.values.len(), healed.damaged, healed.leftovers), (3, vec![], vec![]), "pair {pair}");
}

#[tokio::test]
async fn a_damaged_value_is_named_spoils_no_other_and_can_be_staged_over() {
    let lies = |number, parts| Some(Generation { number, parts });
    let changed = "parts are missing or changed of \"s\" in Listing";
    for (pair, value) in
        [(0, None), (1, None), (2, None), (0, Some(vec![1; PART_BYTES])), (2, Some(vec![1, 2, 3]))]
    {
        check(pair, value, changed, lies(1, 3)).await;
    }
    check(3, Some(vec![1, 2, 3]), "an unreadable switch for \"s\" in Listing", lies(1, 3)).await;
}

#[tokio::test]
async fn a_key_that_belongs_to_no_value_is_named_and_kept() {
    let store = MemoryStore::new();
    put(&store, "s", b"whole", None).await;
    let mut batch = Batch::new();
    batch.put(SPACE, *b"p!", *b"");
    store.lane().append(batch).await.unwrap();
    let listed = list_large(&store, SPACE).await.unwrap();
    let error = StoreError::Damaged { reason: "a foreign key \"p!\" in Listing".to_owned() };
    let damaged = vec![DamagedValue { key: b"p!".to_vec(), error, generation: None }];
    assert_eq!((listed.values.len(), listed.damaged, listed.leftovers), (1, damaged, vec![]));
}

/// Parts as another version may have cut them.
#[tokio::test]
async fn parts_of_any_size_are_joined() {
    let store = MemoryStore::new();
    let mut batches = stage(SPACE, b"s", &pattern(100, 1), None).batches;
    let before = batches[0].changes[0].clone();
    let Change::Put(_, key, value) = before else { panic!("the first change is a part") };
    let mut second = key.clone();
    *second.last_mut().unwrap() = 1;
    let switch = Switch {
        generation: Generation { number: 1, parts: 2 },
        length: 100,
        check: crc32fast::hash(&value),
    };
    batches[0].changes = vec![
        Change::Put(SPACE, key, value[..7].to_vec()),
        Change::Put(SPACE, second, value[7..].to_vec()),
        Change::Put(SPACE, b"ss".to_vec(), switch.to_bytes()),
    ];
    append(&*store.lane(), batches).await;
    let read = read_large(&store, SPACE, b"s").await.unwrap().unwrap();
    assert_eq!((read.bytes, read.generation), (pattern(100, 1), switch.generation));
}
