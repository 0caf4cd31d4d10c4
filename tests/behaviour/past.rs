//! A topic with a long past: read in pages, told to its model, and no burden when it wakes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pilothouse::error::StoreError;
use pilothouse::id::{MessageId, TurnId};
use pilothouse::model::HistoryItem;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Batch, Keyspace, Lane, Mark, Pair, Store, StoreId};
use pilothouse::topic::{HistoryPage, Receipt, TopicRejection, TurnView};

use crate::stage::{Setup, Stage, memory, thinks};
use crate::stores::Recorder;

/// A model that answers each message in its own words.
fn chatty() -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new((1..400).map(|n| Step::text(format!("Answer {n}."))).collect()))
}

fn setup(store: impl Store) -> Setup {
    thinks(chatty()).store(store)
}

/// Turns, each with one message and one answer.
async fn turns(stage: &mut Stage, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        stage.say(&format!("Question {number}?")).await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
}

/// Every closed turn, oldest first, read page by page from the newest.
async fn all_pages(topic: &Topic) -> (Vec<Arc<TurnView>>, usize) {
    let (mut turns, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let HistoryPage { turns: mut page, earlier, .. } = topic.history(cursor).await.expect("it reads");
        assert!(!page.is_empty() && page.len() <= 32, "{} turns in a page", page.len());
        page.append(&mut turns);
        turns = page;
        pages += 1;
        match earlier {
            Some(earlier) => cursor = Some(earlier),
            None => return (turns, pages),
        }
    }
}

fn numbers(turns: &[Arc<TurnView>]) -> Vec<u64> {
    turns.iter().map(|turn| turn.turn.0).collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_past_is_read_in_pages_without_a_gap_and_the_same_after_a_crash() {
    let store = memory();
    let mut stage = setup(store.clone()).raise().await;
    assert_eq!(
        stage.topic.history(None).await,
        Ok(HistoryPage::new(Vec::new(), None)),
        "nothing has happened"
    );
    turns(&mut stage, 1..=45).await;
    stage.say("open").await;
    let view = stage.view();
    assert_eq!((view.earlier_turns, view.turns.len()), (26, 20));
    let (all, pages) = all_pages(&stage.topic).await;
    let closed = numbers(&all).len() as u64;
    assert_eq!(numbers(&all), (1..=closed).collect::<Vec<_>>());
    assert!(closed >= 45 && pages > 1, "{closed} turns in {pages} pages");
    for shown in view.turns.iter().filter(|turn| turn.stop.is_some()) {
        assert!(all.contains(shown), "{shown:?}");
    }
    let first = view.turns[0].turn;
    let before =
        stage.topic.history(Some(pilothouse::topic::HistoryCursor::before(first))).await.expect("it reads");
    assert_eq!(before.turns.last().map(|turn| turn.turn.0), Some(first.0 - 1), "a view goes on in its page");

    let again = setup(store.crash()).raise().await;
    let (after, _) = all_pages(&again.topic).await;
    assert_eq!(after[..45], all[..45]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_without_a_pause_has_pages_too() {
    let mut stage = setup(memory()).raise().await;
    stage.say("first").await;
    // There is always a message that waits, so that no turn ends with nothing after it.
    for number in 0..40 {
        stage.say(&format!("{number}")).await;
        stage.until_end().await;
    }
    stage.until_end().await;
    let (all, _) = all_pages(&stage.topic).await;
    assert_eq!(numbers(&all), (1..=41).collect::<Vec<_>>());
}

/// What the model is told for one more message.
async fn told(stage: &mut Stage, model: &ScriptedModel) -> Vec<HistoryItem> {
    stage.say("And now?").await;
    stage.until_end().await;
    model.requests().pop().expect("it was asked").history
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_the_whole_past_whether_it_was_in_memory_or_not() {
    let (store, model, other) = (memory(), chatty(), chatty());
    let mut stage = thinks(model.clone()).store(store.clone()).raise().await;
    turns(&mut stage, 1..=45).await;
    let crashed = store.crash();
    let before = told(&mut stage, &model).await;
    assert_eq!(before.len(), 91);
    let mut stage = thinks(other.clone()).store(crashed).raise().await;
    assert_eq!(told(&mut stage, &other).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_no_more_of_the_past_than_has_a_place() {
    let (store, model, other) = (memory(), chatty(), chatty());
    let mut stage = thinks(model.clone()).store(store.clone()).raise().await;
    let long = "x".repeat(60 << 10);
    for _ in 0..40 {
        stage.say(&long).await;
        stage.until_end().await;
    }
    let (crashed, live) = (store.crash(), told(&mut stage, &model).await);
    let mut stage = thinks(other.clone()).store(crashed).raise().await;
    let read = told(&mut stage, &other).await;
    assert_eq!(
        (live.len(), read.len()),
        (3, 3),
        "one of 40 turns is four fifths of a window that nobody knows"
    );
    assert!(matches!(&read[0], HistoryItem::User { .. }), "whole turns only");
    assert_eq!(live, read);
}

#[tokio::test(start_paused = true)]
async fn a_senders_key_is_known_as_long_as_its_topic_lives() {
    let store = memory();
    let mut stage = setup(store.clone()).raise().await;
    let sent = stage.topic.send_with_key("first", "key").await.expect("it is taken");
    stage.until_end().await;
    turns(&mut stage, 2..=45).await;
    let again = setup(store.crash()).raise().await;
    for topic in [&stage.topic, &again.topic] {
        let repeated = topic.send_with_key("first", "key").await.expect("it is known");
        let answered = Receipt::Answered { turn: TurnId(1) };
        assert_eq!((repeated.message, repeated.receipt), (sent.message, answered));
        let other = topic.send_with_key("second", "key").await;
        let reused = TopicRejection::KeyReused { message: MessageId(1) };
        assert_eq!(other.map(|sent| sent.message), Err(pilothouse::error::TopicError::Rejected(reused)));
        let fresh = topic.send_with_key("second", "another").await.expect("it is taken");
        assert_eq!(fresh.message, MessageId(46));
    }
}

/// A model that falls silent in each turn.
fn silent() -> Arc<ScriptedModel> {
    let hangs = || Step { hang: true, ..Step::default() };
    Arc::new(ScriptedModel::new((0..64).map(|_| hangs()).collect()))
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_dropped_message_is_known_as_long_as_its_topic_lives() {
    let store = memory();
    let stage = thinks(silent()).store(store.clone()).raise().await;
    stage.say("first").await;
    for number in 0..80 {
        let sent = stage.topic.send_with_key("steer", format!("key {number}")).await.expect("it is taken");
        stage.topic.drop_message(sent.message, "ann").await.expect("it waits");
    }
    let again = thinks(silent()).store(store.crash()).raise().await;
    for topic in [&stage.topic, &again.topic] {
        for number in [0, 79, 15, 16, 40] {
            let repeated = topic.send_with_key("steer", format!("key {number}")).await.expect("it is known");
            let dropped = Receipt::Dropped { by: "ann".to_owned() };
            assert_eq!((repeated.message, repeated.receipt), (MessageId(number + 2), dropped));
        }
        let other = topic.send_with_key("another", "key 0").await;
        let reused = TopicRejection::KeyReused { message: MessageId(2) };
        assert_eq!(other.map(|sent| sent.message), Err(pilothouse::error::TopicError::Rejected(reused)));
    }
}

/// The newest checkpoint that the topic's head names.
async fn newest_checkpoint(store: &MemoryStore) -> u64 {
    let heads = store.scan(Keyspace::Head, Vec::new(), None, 9).await.expect("it reads");
    let [(_, head)] = heads.as_slice() else { panic!("{} heads", heads.len()) };
    u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"))
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_holds_much_has_checkpoints_too_and_is_whole_after_each_crash() {
    let recorder = Recorder::new(|| ());
    let mut stage = thinks(silent()).store(recorder.clone()).raise().await;
    let long = "x".repeat(63 << 10);
    for _ in 0..16 {
        drop(recorder.moments());
        stage.say("go").await;
        stage.say(&long).await;
        stage.topic.stop("ann").await.expect("it is open");
        stage.until_end().await;
    }
    let held = |stage: &Stage| stage.view().held.len();
    assert_eq!(held(&stage), 16, "a MiB is held");
    let moments = recorder.moments();
    let mut seen = std::collections::BTreeSet::new();
    for (index, moment) in moments.iter().enumerate() {
        for store in [&moment.after_power_cut, &moment.after_kill] {
            seen.insert(newest_checkpoint(store).await);
            let again = thinks(silent()).store(store.clone()).raise().await;
            let (whole, view) = (held(&again), again.view());
            assert!((15..=16).contains(&whole), "{whole} held after batch {index}");
            assert_eq!(view.earlier_turns + view.turns.len() as u64, 16, "after batch {index}");
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [8, 16]);
}

/// A store that gives an old head of the topic to whoever asks for it next, as if that had been read before the records
/// went.
#[derive(Clone)]
struct Stale {
    inner: MemoryStore,
    head: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Store for Stale {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        self.inner.lane()
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        let old = (keyspace == Keyspace::Head).then(|| self.head.lock().expect("nobody panics").take());
        Box::pin(async move {
            match old.flatten() {
                Some(old) => Ok(Some(old)),
                None => self.inner.get(keyspace, key).await,
            }
        })
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        self.inner.scan(keyspace, prefix, after, limit)
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.inner.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}

#[tokio::test(start_paused = true)]
async fn old_turns_that_go_while_they_are_read_are_no_damage() {
    let store = Stale { inner: memory(), head: Arc::default() };
    let setup = thinks(chatty()).store(store.clone()).limits(|limits| limits.keep_turns = Some(30));
    let mut stage = setup.raise().await;
    turns(&mut stage, 1..=3).await;
    let heads = store.inner.scan(Keyspace::Head, Vec::new(), None, 9).await.expect("it reads");
    turns(&mut stage, 4..=64).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let (page, lines) = (stage.topic.history(None).await, stage.topic.export(1).await);
    assert!(page.as_ref().is_ok_and(|page| page.turns.last().is_some_and(|turn| turn.turn == TurnId(64))));

    let stale = || *store.head.lock().expect("nobody panics") = Some(heads[0].1.clone());
    stale();
    assert_eq!(stage.topic.history(None).await, page);
    stale();
    assert_eq!(stage.topic.export(1).await, lines);
    assert!(store.head.lock().expect("nobody panics").is_none(), "the old head was read");
}

/// A store that counts what is read of it.
#[derive(Clone)]
struct Counted {
    inner: MemoryStore,
    pairs: Arc<AtomicUsize>,
}

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

impl Store for Counted {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        self.inner.lane()
    }

    fn get(&self, keyspace: Keyspace, key: Vec<u8>) -> Answer<'_, Option<Vec<u8>>> {
        self.pairs.fetch_add(1, Ordering::Relaxed);
        self.inner.get(keyspace, key)
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Answer<'_, Vec<Pair>> {
        Box::pin(async move {
            let pairs = self.inner.scan(keyspace, prefix, after, limit).await?;
            self.pairs.fetch_add(pairs.len(), Ordering::Relaxed);
            Ok(pairs)
        })
    }

    fn mark(&self, keyspace: Keyspace) -> Answer<'_, Option<Mark>> {
        self.inner.mark(keyspace)
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}

/// What a topic with so many turns reads when it wakes.
async fn read_to_wake(count: usize) -> usize {
    let store = memory();
    let mut stage = setup(store.clone()).raise().await;
    turns(&mut stage, 1..=count).await;
    let (inner, pairs) = (store.crash(), Arc::new(AtomicUsize::new(0)));
    let runtime = setup(Counted { inner, pairs: pairs.clone() }).start().await;
    pairs.store(0, Ordering::Relaxed);
    let topic = runtime.open_topic("t", TopicConfig::new("main")).await.expect("it is stored");
    assert_eq!(topic.view().expect("it is open").turns.len(), 20);
    pairs.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn waking_reads_as_much_of_a_long_past_as_of_a_short_one() {
    let (short, long) = (read_to_wake(40).await, read_to_wake(320).await);
    // A page of the store may reach further than what is needed.
    assert!(long <= short * 2 && long < 600, "{short} pairs of 40 turns, {long} of 320");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_cannot_be_read_costs_time_and_nothing_else() {
    let store = memory();
    let mut stage = setup(store.clone()).raise().await;
    turns(&mut stage, 1..=45).await;
    let (before, left) = (stage.view(), store.crash());
    let checkpoints = left.scan(Keyspace::Checkpoints, Vec::new(), None, usize::MAX).await.expect("it reads");
    assert!(checkpoints.len() >= 5, "{} checkpoints", checkpoints.len());
    let mut batch = Batch::new();
    for (key, _value) in checkpoints {
        batch.put(Keyspace::Checkpoints, key, "rotten");
    }
    left.lane().append(batch).await.expect("it is written");
    let again = setup(left).raise().await;
    assert_eq!(again.view().turns, before.turns);
    assert_eq!(again.view().earlier_turns, before.earlier_turns);
}

#[tokio::test(start_paused = true)]
async fn a_topic_whose_records_are_damaged_says_so_and_no_other_notices() {
    let store = memory();
    let mut stage = setup(store.clone()).raise().await;
    turns(&mut stage, 1..=3).await;
    let mut other = Stage::on(stage.runtime.clone(), "other", TopicConfig::new("main")).await;
    turns(&mut other, 1..=3).await;
    let left = store.crash();
    let of_t = |pair: &Pair| pair.0.starts_with(&[0, 1, b't']);
    let all = left.scan(Keyspace::Journal, Vec::new(), None, usize::MAX).await.expect("it reads");
    let mut records: Vec<Pair> = all.into_iter().filter(of_t).collect();
    let (key, value) = &mut records[4];
    let middle = value.len() / 2;
    value[middle] ^= 1;
    let mut batch = Batch::new();
    batch.put(Keyspace::Journal, key.clone(), value.clone());
    left.lane().append(batch).await.expect("it is written");

    let runtime = setup(left.clone()).start().await;
    let refused = runtime.open_topic("t", TopicConfig::new("main")).await.map(|topic| topic.id().clone());
    let words = format!("{refused:?}");
    assert!(words.contains("damaged") && words.contains("record 5"), "{words}");
    let mut good = Stage::on(runtime, "other", TopicConfig::new("main")).await;
    turns(&mut good, 4..=5).await;
    assert_eq!(good.view().turns.len(), 5);
    let all = left.scan(Keyspace::Journal, Vec::new(), None, usize::MAX).await.expect("it reads");
    assert_eq!(all.into_iter().filter(of_t).collect::<Vec<_>>(), records, "the evidence stays as it is");
}
