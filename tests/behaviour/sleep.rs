//! Topics that rest: they sleep on the disk, wake with the next command, and lose nothing on the way.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::{Keyspace, Store};
use pilothouse::topic::{ConfigPatch, Receipt, TopicStatus};
use pilothouse::tree::RuntimeEvent;
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{LATENCY, Setup, Stage, call, holds, memory, peer, plays, thinks};
use crate::stores::Slow;

/// As long as a topic rests before it sleeps.
const IDLE: Duration = Duration::from_secs(300);

/// Long enough for all of it.
const LONGER: Duration = Duration::from_secs(301);

fn chatty() -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new((1..400).map(|n| Step::text(format!("Answer {n}."))).collect()))
}

/// The names and states of the topics in the tree.
fn topics(runtime: &Runtime) -> Vec<(String, String)> {
    let shown = runtime.tree().children[4].children.clone();
    shown.into_iter().map(|node| (node.name, node.state)).collect()
}

fn states(runtime: &Runtime) -> Vec<String> {
    topics(runtime).into_iter().map(|(_, state)| state).collect()
}

/// One turn of a topic that nobody watches.
async fn turn(topic: &Topic, text: &str) {
    topic.send(text).await.expect("it is taken");
    holds("the turn ends", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
}

async fn started(setup: Setup) -> (Runtime, Topic) {
    let Stage { runtime, topic, window } = setup.raise().await;
    drop(window);
    (runtime, topic)
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_rests_sleeps_and_goes_on_with_the_next_message() {
    let model = chatty();
    let (runtime, topic) = started(thinks(model.clone())).await;
    let mut events = runtime.events();
    turn(&topic, "first").await;
    sleep(IDLE / 2).await;
    assert_eq!(states(&runtime), ["running"]);
    sleep(LONGER).await;
    assert_eq!(states(&runtime), ["asleep"]);
    assert_eq!(topic.view().expect("it was open").turns.len(), 1, "who holds it can look at it");
    let slept = std::iter::from_fn(|| match tokio_test(&mut events) {
        Some(RuntimeEvent::TopicSlept { topic }) => Some(topic.to_string()),
        _ => None,
    });
    assert_eq!(slept.take(1).collect::<Vec<_>>(), ["t"]);

    turn(&topic, "second").await;
    assert_eq!(states(&runtime), ["running"]);
    let view = topic.view().expect("it is open");
    assert_eq!(crate::stage::messages(&view), ["first answered(1)", "second answered(2)"]);
    assert_eq!(model.requests().pop().expect("it was asked").history.len(), 3, "it knows what was said");
    assert_eq!(runtime.tree().children[4].children[0].restarts, 0);
}

/// The next event that is there already.
fn tokio_test(events: &mut pilothouse::RuntimeEvents) -> Option<RuntimeEvent> {
    let mut next = std::pin::pin!(events.next());
    match next.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(event) => event,
        std::task::Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_sleeps_and_that_nobody_holds_is_on_the_disk_only() {
    let (runtime, topic) = started(thinks(chatty())).await;
    turn(&topic, "first").await;
    drop(topic);
    let held = runtime.open_topic("held", TopicConfig::new("main")).await.expect("it opens");
    sleep(LONGER * 2).await;
    assert_eq!(topics(&runtime), [("session/held".to_owned(), "asleep".to_owned())]);
    drop(held);
    // The next topic that comes or goes takes it along.
    let again = runtime.topic("t").await.expect("it is stored");
    turn(&again, "second").await;
    assert_eq!(topics(&runtime), [("session/t".to_owned(), "running".to_owned())]);
    assert_eq!(again.view().expect("it is open").turns.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_open_and_what_somebody_looks_at_stays_awake() {
    let tools = peer(json!({"tools": [{"name": "drop"}]}));
    let steps = [call("a", "drop", json!({}))];
    let (runtime, topic) = started(plays(steps).peer("a", &tools)).await;
    topic.send("first").await.expect("it is taken");
    holds("a card waits", || !runtime.approvals().is_empty()).await;
    let looked_at = runtime.open_topic("looked at", TopicConfig::new("main")).await.expect("it opens");
    let window = looked_at.attach().expect("it is open");
    sleep(LONGER * 2).await;
    assert_eq!(states(&runtime), ["running", "running"]);
    drop(window);
    let card = runtime.approvals().pop().expect("it waits");
    runtime.decide(card.approval, Decision::deny("ann", "no")).await.expect("it is decided");
    sleep(LONGER * 2).await;
    assert_eq!(states(&runtime), ["asleep", "asleep"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_reads_nothing_of_topics_that_sleep() {
    let store = memory();
    let (runtime, topic) = started(thinks(chatty()).store(store.clone())).await;
    turn(&topic, "first").await;
    sleep(LONGER).await;
    assert_eq!(states(&runtime), ["asleep"]);
    let crashed = store.crash();
    assert_eq!(crashed.scan(Keyspace::Open, Vec::new(), None, 9).await, Ok(Vec::new()));
    let runtime = thinks(chatty()).store(crashed).start().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&runtime), [] as [String; 0]);
    let topic = runtime.topic("t").await.expect("it is stored");
    turn(&topic, "second").await;
    let view = topic.view().expect("it is open");
    assert_eq!(crate::stage::messages(&view), ["first answered(1)", "second answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_as_a_topic_falls_asleep_is_taken_once() {
    let mut before = std::collections::BTreeSet::new();
    for late in 0..24 {
        let store = Slow::over(memory(), LATENCY * 2);
        let (runtime, topic) = started(thinks(chatty()).store(store)).await;
        turn(&topic, "first").await;
        // Around the moment at which it falls asleep, in steps that are finer than its store.
        let view = topic.view().expect("it is open");
        let ended = view.turns[0].finished_at.expect("it has ended");
        let now = view.turns[0].started_at;
        let since = Duration::from_millis(ended.0 - now.0);
        sleep((IDLE + LATENCY * late / 2).saturating_sub(since + LATENCY * 6)).await;
        before.extend(states(&runtime));
        let (sent, configured) = tokio::join!(topic.send("second"), topic.configure(ConfigPatch::default()));
        assert_eq!(sent.expect("it is taken").receipt, Receipt::Accepted { turn: pilothouse::id::TurnId(2) });
        configured.expect("it is answered");
        holds("it is answered", || topic.view().is_some_and(|view| view.turns.len() == 2)).await;
        holds("the turn ends", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
        let view = topic.view().expect("it is open");
        assert_eq!(crate::stage::messages(&view), ["first answered(1)", "second answered(2)"], "{late}");
        assert!(runtime.shutdown().await.is_clean());
    }
    assert_eq!(before.len(), 2, "some come before it sleeps and some after: {before:?}");
}
