use std::ops::ControlFlow;

use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::record::Format;

use super::{
    GENESIS, JOURNAL, LEDGER, Log, PART_BYTES, put_record, read_log, read_log_from, read_marked_log,
    read_record, read_whole_part, topic_of, topic_prefix,
};
use crate::store::memory::MemoryStore;
use crate::store::pages::PAGE;
use crate::store::{Batch, Change, Keyspace, Mark, Store};

/// A batch for each payload, linked and numbered from 1.
fn written(format: &Format, prefix: &[u8], payloads: &[String]) -> Vec<Batch> {
    let mut link = GENESIS;
    let numbered = (1..).zip(payloads);
    let batches = numbered.map(|(sequence, payload)| {
        let record = format.encode(sequence, link, payload).unwrap();
        link = format.link(&record);
        let mut batch = Batch::new();
        put_record(&mut batch, Keyspace::Ledger, prefix, sequence, &record);
        batch
    });
    batches.collect()
}

async fn stored(batches: Vec<Batch>) -> MemoryStore {
    let store = MemoryStore::new();
    let lane = store.lane();
    for batch in batches {
        lane.append(batch).await.unwrap();
    }
    store
}

async fn read(store: &MemoryStore, prefix: &[u8], format: &Format) -> Result<Log<String>, StoreError> {
    read_log(store, Keyspace::Ledger, prefix, format).await
}

fn payloads(log: &Log<String>) -> Vec<String> {
    log.records.iter().map(|record| record.payload.clone()).collect()
}

#[tokio::test]
async fn a_log_of_any_length_with_records_of_any_size_reads_back() {
    for format in [JOURNAL, LEDGER] {
        for prefix in [topic_prefix(&TopicId::new("t").unwrap()), Vec::new()] {
            let mut texts = vec!["short".to_owned(); PAGE];
            texts.extend(["x".repeat(PART_BYTES * 3), "y".repeat(PART_BYTES), String::new()]);
            let batches = written(&format, &prefix, &texts);
            let Some(Change::Put(_, _, last)) = batches.last().and_then(|batch| batch.changes.last()) else {
                panic!("the last record is in the last batch");
            };
            let link = if format == LEDGER { format.link(last) } else { GENESIS };
            let log = read(&stored(batches).await, &prefix, &format).await.unwrap();
            assert_eq!(payloads(&log), texts);
            assert_eq!((log.next_sequence, log.last_link), (texts.len() as u64 + 1, link));
        }
    }
}

/// Parts as another version may have cut them.
#[tokio::test]
async fn parts_of_any_size_are_joined() {
    let record = JOURNAL.encode(1, GENESIS, &"a text".to_owned()).unwrap();
    let mut batch = Batch::new();
    for (part, bytes) in (0u16..).zip([&record[..5], &record[5..6], &record[6..]]) {
        let key = [&1u64.to_be_bytes()[..], &part.to_be_bytes()].concat();
        batch.put(Keyspace::Ledger, key, bytes);
    }
    let log = read(&stored(vec![batch]).await, b"", &JOURNAL).await.unwrap();
    assert_eq!(payloads(&log), ["a text"]);
}

#[tokio::test]
async fn an_empty_log_begins_at_one() {
    let empty = Log { records: Vec::new(), next_sequence: 1, last_link: GENESIS };
    assert_eq!(read(&MemoryStore::new(), b"", &LEDGER).await, Ok(empty));
}

#[tokio::test]
async fn topics_whose_names_begin_alike_keep_their_logs_apart() {
    let [short, long] = ["a", "ab"].map(|id| topic_prefix(&TopicId::new(id).unwrap()));
    let mut batches = written(&JOURNAL, &short, &["of a".into()]);
    batches.extend(written(&JOURNAL, &long, &["of ab".into()]));
    let named = |prefix: &[u8]| topic_of(prefix).map(|topic| topic.as_str().to_owned());
    assert_eq!((named(&short), named(&long)), (Some("a".into()), Some("ab".into())));
    assert_eq!((named(&long[..3]), named(b"")), (None, None));
    let store = stored(batches).await;
    assert_eq!(payloads(&read(&store, &short, &JOURNAL).await.unwrap()), ["of a"]);
    assert_eq!(payloads(&read(&store, &long, &JOURNAL).await.unwrap()), ["of ab"]);
}

/// Breaks a log of four records, the second one of three parts, and reads it.
async fn check(format: Format, breaking: impl FnOnce(&mut Vec<Change>), reason: &str) {
    let texts: Vec<String> = vec!["one".into(), "2".repeat(PART_BYTES * 2), "three".into(), "four".into()];
    let batches = written(&format, b"p", &texts);
    let mut changes: Vec<_> = batches.into_iter().flat_map(|batch| batch.changes).collect();
    assert_eq!(changes.len(), 6);
    breaking(&mut changes);
    let store = stored(vec![Batch { changes, ..Batch::new() }]).await;
    let damaged = StoreError::Damaged { reason: reason.into() };
    assert_eq!(read(&store, b"p", &format).await, Err(damaged));
}

fn value(change: &mut Change) -> &mut Vec<u8> {
    let Change::Put(_, _, value) = change else { panic!("a log only puts") };
    value
}

#[tokio::test]
async fn every_kind_of_damage_names_the_record_where_it_begins() {
    let rows = [
        (0, "a part is missing of record 1 in journal"),
        (1, "a part is missing of record 2 in journal"),
        (2, "a part is missing of record 2 in journal"),
        (3, "a record with a wrong checksum in journal at record 2"),
        (4, "a part is missing of record 3 in journal"),
    ];
    for (lost, reason) in rows {
        check(JOURNAL, |changes| drop(changes.remove(lost)), reason).await;
    }
    let flipped = |changes: &mut Vec<Change>| value(&mut changes[2])[9] ^= 1;
    check(JOURNAL, flipped, "a record with a wrong checksum in journal at record 2").await;
    let copied = |changes: &mut Vec<Change>| *value(&mut changes[4]) = value(&mut changes[5]).clone();
    check(JOURNAL, copied, "another record lies in the place of record 3 in journal").await;
    let foreign =
        |changes: &mut Vec<Change>| changes.push(Change::Put(Keyspace::Ledger, b"p!".into(), vec![]));
    check(JOURNAL, foreign, "a foreign key lies beside record 4 in journal").await;
    let relinked = |changes: &mut Vec<Change>| {
        *value(&mut changes[4]) = LEDGER.encode(3, GENESIS, &"three").unwrap();
    };
    check(LEDGER, relinked, "a wrong predecessor is named by record 3 in ledger").await;
    // A record replaced by another whole one, well linked itself, is noticed by the one after it.
    let replaced = |changes: &mut Vec<Change>| {
        *value(&mut changes[0]) = LEDGER.encode(1, GENESIS, &"uno").unwrap();
    };
    check(LEDGER, replaced, "a wrong predecessor is named by record 2 in ledger").await;
}

#[tokio::test]
async fn a_newer_format_is_named() {
    let newer = Format { version: 2, ..JOURNAL };
    let store = stored(written(&newer, b"", &["from the future".into()])).await;
    let expected = StoreError::NewerFormat { keyspace: "journal".into(), found: 2, known: 1 };
    assert_eq!(read(&store, b"", &JOURNAL).await, Err(expected));
}

/// Whatever happens to the end of a log after it was acknowledged, it is not taken for the truth. What came after the
/// mark was never acknowledged.
#[tokio::test]
async fn a_log_that_lost_what_was_marked_is_damaged() {
    let texts: Vec<String> = (1..=4).map(|n| format!("record {n}")).collect();
    let batches = written(&LEDGER, b"", &texts);
    let record = |n: usize| match batches[n - 1].changes.as_slice() {
        [Change::Put(_, key, value)] => (key.clone(), value.clone()),
        other => panic!("{other:?}"),
    };
    let marked = |sequence: usize| {
        let mut batch = Batch::new();
        let link = LEDGER.link(&record(sequence).1);
        batch.marks.push(Mark { keyspace: Keyspace::Ledger, sequence: sequence as u64, link });
        batch
    };
    let lost = |n: usize| {
        let mut batch = Batch::new();
        batch.delete(Keyspace::Ledger, record(n).0);
        batch
    };
    let flipped = || {
        let (key, mut value) = record(4);
        value[20] ^= 1;
        let mut batch = Batch::new();
        batch.put(Keyspace::Ledger, key, value);
        batch
    };
    // Another last record, whole in itself and linked rightly.
    let forged = written(&LEDGER, b"", &[texts[..3].to_vec(), vec!["forged".into()]].concat()).pop().unwrap();
    let rows = [
        ("whole", vec![marked(4)], Ok(4)),
        (
            "the last one is gone",
            vec![marked(4), lost(4)],
            Err("records 4 to 4 in ledger were acknowledged and are gone"),
        ),
        ("two are gone", vec![marked(4), lost(4), lost(3)], Err("records 3 to 4")),
        ("all are gone", vec![marked(4), lost(4), lost(3), lost(2), lost(1)], Err("records 1 to 4")),
        ("the last one is cut and was never acknowledged", vec![marked(3), lost(4)], Ok(3)),
        ("a bit of the last one is flipped", vec![marked(4), flipped()], Err("a wrong checksum")),
        ("the last one is another", vec![marked(4), forged], Err("record 4 in ledger is not the one")),
        ("never marked", vec![], Ok(4)),
    ];
    for (what, then, expected) in rows {
        let store = stored(batches.iter().cloned().chain(then).collect()).await;
        let part = read_whole_part::<String>(&store, Keyspace::Ledger, b"", &LEDGER, (1, 0)).await.unwrap();
        assert_eq!(part.fault.is_some(), expected.is_err(), "{what}");
        let whole: Vec<_> = part.records.iter().map(|record| record.payload.clone()).collect();
        assert!(whole.len() < 4 || expected.is_ok(), "{what}: what is damaged is no part of it");
        assert_eq!(whole, texts[..whole.len()], "{what}");
        let found = read_marked_log::<String>(&store.crash(), Keyspace::Ledger, &LEDGER).await;
        match (&found, expected) {
            (Ok(log), Ok(records)) => assert_eq!(log.records.len(), records, "{what}"),
            (Err(StoreError::Damaged { reason }), Err(words)) => {
                assert!(reason.contains(words), "{what}: {reason}")
            }
            (found, expected) => panic!("{what}: {found:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_log_is_read_from_any_record_and_no_further_than_asked() {
    let prefix = topic_prefix(&TopicId::new("t").unwrap());
    let long = "x".repeat(PART_BYTES * 2);
    let texts: Vec<String> =
        (1..=PAGE + 9).map(|n| format!("{n}{}", if n % 7 == 0 { &long } else { "" })).collect();
    let mut batches = written(&JOURNAL, &prefix, &texts);
    // A neighbour's records begin and end nothing.
    batches.extend(written(&JOURNAL, &topic_prefix(&TopicId::new("u").unwrap()), &["of u".into()]));
    let store = stored(batches).await;
    for (first, most) in
        [(1, 3), (1, usize::MAX), (2, 1), (7, 2), (PAGE, usize::MAX), (PAGE + 9, 1), (PAGE + 10, 1)]
    {
        let mut seen: Vec<String> = Vec::new();
        let next = read_log_from(&store, Keyspace::Ledger, &prefix, &JOURNAL, first as u64, |record| {
            seen.push(record.payload);
            if seen.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let next = next.await.unwrap();
        let last = (first - 1).saturating_add(most).min(texts.len());
        assert_eq!(seen, texts[(first - 1).min(last)..last], "{most} from {first}");
        assert_eq!(next, (last.max(first - 1) + 1) as u64, "{most} from {first}");
    }
    let gone: Result<Option<String>, _> = read_record(&store, Keyspace::Ledger, &prefix, &JOURNAL, 999).await;
    assert_eq!(gone, Ok(None));
    let one: Result<Option<String>, _> = read_record(&store, Keyspace::Ledger, &prefix, &JOURNAL, 7).await;
    assert_eq!(one, Ok(Some(texts[6].clone())));
}

#[tokio::test]
async fn a_log_that_is_read_from_a_record_which_is_not_there_is_damaged() {
    let batches = written(&JOURNAL, b"", &["one".into(), "two".into(), "three".into()]);
    let store = stored(vec![batches[0].clone(), batches[2].clone()]).await;
    let read =
        read_log_from::<String>(&store, Keyspace::Ledger, b"", &JOURNAL, 2, |_| ControlFlow::Continue(()));
    assert!(matches!(read.await, Err(StoreError::Damaged { .. })));
}
