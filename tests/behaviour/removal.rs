//! What goes: whole topics, old turns; and what can be taken out before.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::{Card, GrantOffer, GrantReach, GrantScope};
use pilothouse::error::TopicError;
use pilothouse::id::{MessageId, TurnId};
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Keyspace, Store};
use pilothouse::topic::{ExportPage, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::stage::{Setup, Stage, call, holds, memory, peer, settle, thinks};
use crate::stores::Recorder;

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "drop", "reply": "dropped"}]}))
}

/// A model that asks for `drop` in each first step, and says so in the second.
fn dropping() -> Arc<ScriptedModel> {
    let steps = (0..200).flat_map(|_| [call("a", "drop", json!({})), Step::text("Dropped.")]);
    Arc::new(ScriptedModel::new(steps.collect()))
}

fn setup(peer: &Arc<Peer>, store: impl Store) -> Setup {
    thinks(dropping()).peer("a", peer).store(store)
}

/// The keys of each keyspace of topics that are there.
async fn keys(store: &MemoryStore) -> Vec<usize> {
    let mut counts = Vec::new();
    for keyspace in [Keyspace::Journal, Keyspace::Checkpoints, Keyspace::Keys, Keyspace::Open, Keyspace::Head]
    {
        counts.push(store.scan(keyspace, Vec::new(), None, usize::MAX).await.expect("it reads").len());
    }
    counts
}

/// A turn in which a person allows the call.
async fn allowed_turn(stage: &mut Stage, key: &str) -> Card {
    stage.topic.send_with_key("go", key).await.expect("it is taken");
    let card = stage.until_card().await;
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    card
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_removed_asks_nobody_and_leaves_its_numbers_and_the_ledger() {
    let (peer, store) = (tools(), memory());
    let mut stage = setup(&peer, store.clone()).raise().await;
    for turn in 0..10 {
        allowed_turn(&mut stage, &format!("key {turn}")).await;
    }
    stage.say("ask").await;
    let card = stage.until_card().await;
    let ledger = store.scan(Keyspace::Ledger, Vec::new(), None, usize::MAX).await.expect("it reads");

    stage.runtime.delete_topic("t").await.expect("it is there");
    assert_eq!(stage.runtime.approvals(), []);
    assert_eq!(keys(&store).await, [0, 0, 0, 0, 1], "its head keeps the numbers");
    let after = store.scan(Keyspace::Ledger, Vec::new(), None, usize::MAX).await.expect("it reads");
    assert_eq!(after[..ledger.len()], ledger, "what the ledger knows stays");
    let late = stage.runtime.decide(card.approval, Decision::allow("bob")).await;
    assert!(matches!(late, Ok(pilothouse::approval::DecideAnswer::Withdrawn(_))), "{late:?}");
    let gone = stage.runtime.topic("t").await.map(|topic| topic.id().clone());
    assert!(matches!(gone, Err(TopicError::Unknown { .. })), "{gone:?}");
    assert!(stage.topic.send("hello").await.is_err(), "its old handle is of no use");
    assert!(matches!(stage.runtime.delete_topic("t").await, Err(TopicError::Unknown { .. })));
    let mut last = None;
    while let Some(event) = stage.window.try_next() {
        last = Some(event);
    }
    assert_ne!(last, None);
    assert_eq!(stage.window.next().await, Some(TopicEventOut::Closed));

    let mut again = Stage::on(stage.runtime.clone(), "t", TopicConfig::new("main")).await;
    assert_eq!(again.view().turns, []);
    let sent = again.topic.send_with_key("go", "key 1").await.expect("its keys went with it");
    assert_eq!(sent.message, MessageId(12));
    // The model goes on in its script: it says that it has dropped something.
    assert_eq!(again.until_end().await, StopReason::Completed);
    let second = allowed_turn(&mut again, "key 2").await;
    assert_eq!(second.call.turn, TurnId(13), "no card is named twice");
    let mut after = setup(&peer, store.crash()).raise().await;
    assert_eq!(after.view().turns, again.view().turns);
    allowed_turn(&mut after, "key 3").await;
}

#[tokio::test(start_paused = true)]
async fn the_grants_of_a_topic_go_with_it() {
    let (peer, store) = (tools(), memory());
    let mut stage = setup(&peer, store).raise().await;
    stage.say("go").await;
    let card = stage.until_card().await;
    let offer = GrantOffer::new(GrantScope::Topic, GrantReach::Tool);
    stage.decide(&card, Decision::allow("ann").granting(offer)).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.runtime.grants().len(), 1);
    stage.runtime.delete_topic("t").await.expect("it is there");
    assert_eq!(stage.runtime.grants(), []);
    let mut again = Stage::on(stage.runtime.clone(), "t", TopicConfig::new("main")).await;
    again.say("go").await;
    again.until_card().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_a_crash_cuts_off_goes_on_at_the_next_start() {
    let peer = tools();
    let recorder = Recorder::new(|| ());
    let mut stage = setup(&peer, recorder.clone()).raise().await;
    for turn in 0..40 {
        allowed_turn(&mut stage, &format!("key {turn}")).await;
    }
    settle().await;
    drop(recorder.moments());
    stage.runtime.delete_topic("t").await.expect("it is there");
    let moments = recorder.moments();
    assert!(moments.len() >= 4, "{} batches", moments.len());
    for (index, moment) in moments.iter().enumerate() {
        for store in [&moment.after_power_cut, &moment.after_kill] {
            let runtime = setup(&peer, store.clone()).start().await;
            sleep(Duration::from_secs(5)).await;
            let left = keys(store).await;
            let whole = left[0] > 40;
            assert!(whole || left == [0, 0, 0, 0, 1], "after batch {index}: {left:?}");
            // Whole or gone, and it can be used.
            let topic = runtime.open_topic("t", TopicConfig::new("main")).await.expect("it opens");
            let shown = topic.view().expect("it is open").turns.len();
            assert_eq!(shown, if whole { 20 } else { 0 }, "after batch {index}");
            let sent = topic.send("next").await.expect("it is taken");
            assert_eq!(sent.message, MessageId(41), "after batch {index}");
        }
    }
}

async fn exported(topic: &Topic) -> Vec<Value> {
    let (mut lines, mut from) = (Vec::new(), 0);
    loop {
        let ExportPage { lines: page, next, .. } = topic.export(from).await.expect("it reads");
        lines.extend(page.iter().map(|line| serde_json::from_str(line).expect("it is JSON")));
        match next {
            Some(next) => from = next,
            None => return lines,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_exported_whole_and_in_order() {
    let (peer, store) = (tools(), memory());
    let mut stage = setup(&peer, store.clone()).raise().await;
    for turn in 0..40 {
        allowed_turn(&mut stage, &format!("key {turn}")).await;
    }
    let lines = exported(&stage.topic).await;
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["sequence"].as_u64()).collect();
    assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>());
    assert!(lines.len() > 300 && lines.iter().all(|line| line["topic"] == "t"), "{} lines", lines.len());
    let of = |kind: &str| lines.iter().filter(|line| line["event"].get(kind).is_some()).count();
    assert_eq!((of("TurnStarted"), of("CallDecided"), of("CallStarted")), (40, 40, 40));
    let decided = lines.iter().find(|line| line["event"].get("CallDecided").is_some()).expect("there is one");
    assert_eq!(decided["event"]["CallDecided"]["by"], "ann");
}

/// Turns without calls.
async fn turns(stage: &mut Stage, count: usize) {
    for _ in 0..count {
        stage.say("go").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
}

fn answering() -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new((0..400).map(|n| Step::text(format!("{n}"))).collect()))
}

/// The closed turns that can still be read.
async fn kept(topic: &Topic) -> Vec<u64> {
    let (mut kept, mut cursor) = (Vec::new(), None);
    loop {
        let page = topic.history(cursor).await.expect("it reads");
        kept.splice(0..0, page.turns.iter().map(|turn| turn.turn.0));
        match page.earlier {
            Some(earlier) => cursor = Some(earlier),
            None => return kept,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn old_turns_go_where_the_embedder_sets_a_bound_and_the_topic_is_whole_without_them() {
    type Bound = fn(&mut pilothouse::limits::Limits);
    let many: Bound = |limits| limits.keep_turns = Some(30);
    let old: Bound = |limits| limits.keep_for = Some(Duration::from_secs(3_600));
    for bound in [many, old] {
        let store = memory();
        let mut stage = thinks(answering()).store(store.clone()).limits(bound).raise().await;
        turns(&mut stage, 60).await;
        sleep(Duration::from_secs(7_200)).await;
        turns(&mut stage, 24).await;
        sleep(Duration::from_secs(400)).await;
        let left = kept(&stage.topic).await;
        assert_eq!(left.last(), Some(&84));
        assert!((24..60).contains(&left.len()), "{left:?}");
        assert_eq!(left, (left[0]..=84).collect::<Vec<_>>());
        let lines = exported(&stage.topic).await;
        assert!(lines[0]["sequence"].as_u64() > Some(60), "what goes is not exported");
        let crashed = store.crash();
        let again = thinks(answering()).store(crashed).limits(bound).raise().await;
        assert_eq!(again.view().turns, stage.view().turns);
        assert_eq!(again.view().earlier_turns, stage.view().earlier_turns, "they are still counted");
        holds("it rests", || again.status() == TopicStatus::Done).await;
        assert_eq!(kept(&again.topic).await, left);
    }
}
