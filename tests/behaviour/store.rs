//! A store that fails or stalls: whoever waits is told, the actor starts afresh from what is kept, nobody else notices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::{Card, DecideAnswer};
use pilothouse::error::{AskError, DecideError, StoreError, TopicError};
use pilothouse::limits::Limits;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::topic::{ConfigPatch, TopicRejection, TopicStatus};
use pilothouse::tree::RuntimeEvent;
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{
    PATIENCE, Stage, assert_acceptable, call, calls, holds, memory, messages, peer, plays, settle, thinks,
};
use crate::stores::{Faulty, Mishap};

fn full() -> StoreError {
    StoreError::Io { reason: "the disk is full".to_owned() }
}

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [
        {"name": "look", "reply": "seen"},
        {"name": "drop", "reply": "dropped"},
        {"name": "burn", "reply": "burnt"},
    ]}))
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_kept_is_refused_and_the_session_starts_afresh() {
    let store = memory();
    let mut stage = plays([Step::text("Yes?")]).store(store.clone()).raise().await;
    let mut events = stage.runtime.events();
    store.fail_next(full());
    let refused = stage.topic.send("first").await;
    assert_eq!(refused, Err(TopicError::Ask(AskError::Unconfirmed(full()))));
    let restarted = RuntimeEvent::Restarted { actor: "session/t".to_owned(), reason: full().to_string() };
    assert_eq!(events.next().await, Some(restarted));
    stage.attach_again().await;
    stage.say("second").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["second answered(1)"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_fails_in_a_turn_interrupts_it_and_holds_what_waited_and_no_other_topic_notices() {
    let (store, peer) = (memory(), tools());
    let steps =
        [call("a", "look", json!({})), call("a", "look", json!({})), Step::text("Yes?"), Step::text("Yes?")];
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    let mut other = Stage::on(stage.runtime.clone(), "other", TopicConfig::new("main")).await;
    peer.hold_calls();
    for topic in [&mut stage, &mut other] {
        topic.say("first").await;
        topic.until_running().await;
    }
    stage.say("second").await;
    settle().await;
    store.fail_next(full());
    assert_eq!(stage.topic.send("third").await, Err(TopicError::Ask(AskError::Unconfirmed(full()))));
    stage.attach_again().await;
    settle().await;
    let stop = StopReason::Interrupted("the session was restarted".to_owned());
    let view = stage.topic.view().expect("it is open");
    assert_eq!(view.turns.last().and_then(|turn| turn.stop.clone()), Some(stop));
    stage.window = stage.topic.attach().expect("it is open");
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(session_restart)"]);
    peer.release_calls();
    assert_eq!(other.until_end().await, StopReason::Completed);
    assert_eq!(other.messages(), ["first answered(1)"]);
    stage.say("fourth").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(session_restart)", "fourth answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_takes_too_long_ends_the_wait() {
    let store = memory();
    let stage = plays([Step::text("Yes?")]).store(store.clone()).raise().await;
    let mut events = stage.runtime.events();
    store.hold();
    let asked = Instant::now();
    let refused = stage.topic.send("first").await;
    assert_eq!(refused, Err(TopicError::Ask(AskError::Unconfirmed(StoreError::TimedOut))));
    assert_eq!(asked.elapsed(), Duration::from_secs(5));
    let restarted =
        RuntimeEvent::Restarted { actor: "session/t".to_owned(), reason: StoreError::TimedOut.to_string() };
    assert_eq!(events.next().await, Some(restarted));
}

/// A batch that was given up may become durable all the same, after the next life has begun.
#[tokio::test(start_paused = true)]
async fn a_batch_that_becomes_durable_late_is_part_of_the_next_life_or_of_none() {
    for wait in [0, 1, 50, 4_000, 6_000, 12_000] {
        let store = memory();
        let stage = plays([Step::text("Yes?")]).store(store.clone()).raise().await;
        store.hold();
        let refused = stage.topic.send("first").await;
        assert_eq!(refused, Err(TopicError::Ask(AskError::Unconfirmed(StoreError::TimedOut))));
        let configuring = tokio::spawn({
            let topic = stage.topic.clone();
            async move { topic.configure(ConfigPatch { max_steps: Some(7), ..Default::default() }).await }
        });
        sleep(Duration::from_millis(wait)).await;
        store.release();
        sleep(PATIENCE).await;
        let configured = configuring.await.expect("the task ends").is_ok();
        let live = (stage.messages(), stage.view().turns.clone());
        if configured {
            assert_eq!(stage.view().config.max_steps, Some(7), "{wait}");
        }
        let next = plays([Step::text("Yes?")]).store(store.crash());
        let next = Stage::on(next.start().await, "t", stage.view().config.clone()).await;
        assert_eq!((next.messages(), next.view().turns.clone()), live, "released after {wait} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_attaches_again_after_a_restart_sees_what_came_to_light() {
    let store = memory();
    let mut stage = plays([Step::text("Yes?")]).store(store.clone()).raise().await;
    store.hold();
    assert!(stage.topic.send("first").await.is_err());
    assert_eq!(stage.shown_already(), [""; 0]);
    store.release();
    settle().await;
    stage.attach_again().await;
    assert_eq!(messages(&stage.window.view), ["first accepted(1)"], "it became durable all the same");
    stage.say("second").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first accepted(1)", "second answered(2)"]);
}

/// Whatever batch fails, of whatever actor: people get an answer, and the same holds as after a crash.
#[tokio::test(start_paused = true)]
async fn whichever_batch_fails_or_stalls_nothing_is_lost_and_nothing_runs_twice() {
    for mishap in [Mishap::Fails, Mishap::Stalls] {
        for good in 0.. {
            let store = Faulty::after(good, mishap);
            with_one_mishap(&store, &format!("the batch after {good} {mishap:?}").to_lowercase()).await;
            if !store.is_over() {
                assert!(good > 25, "{good}");
                break;
            }
        }
    }
}

async fn with_one_mishap(store: &Faulty, when: &str) {
    let peer = tools();
    let steps = vec![
        Step { text: Some("Let me see.".to_owned()), ..call("a", "look", json!({})) },
        calls([("a", "look", json!({})), ("a", "drop", json!({})), ("a", "burn", json!({}))]),
    ];
    let model = Arc::new(ScriptedModel::new(steps));
    let runtime = thinks(model.clone()).peer("a", &peer).store(store.clone()).start().await;
    let topic = persistent(async || runtime.open_topic("t", TopicConfig::new("main")).await).await;
    let mut taken = BTreeSet::new();
    for text in ["first", "second", "third"] {
        taken.insert(persistent(async || topic.send_with_key(text, text).await).await.message);
        sleep(Duration::from_millis(20)).await;
        for card in runtime.approvals() {
            decided(&runtime, &topic, &card).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let view = || topic.view().expect("it was opened");
    let rests = || matches!(view().status, TopicStatus::Done | TopicStatus::Error | TopicStatus::Aborted);
    let begun = Instant::now();
    while !rests() {
        assert!(begun.elapsed() < PATIENCE, "{when}: it hangs as {:?}", view().status);
        for card in runtime.approvals() {
            decided(&runtime, &topic, &card).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let last = persistent(async || topic.send_with_key("last", "last").await).await;
    holds("the last one is answered, unless it was the one that failed", rests).await;
    taken.insert(last.message);

    let places = messages(&view());
    let texts: Vec<_> = places.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(texts, ["first", "second", "third", "last"], "{when}: {places:?}");
    assert_eq!(taken.len(), 4, "{when}");
    assert!(peer.executions("drop") <= 1 && peer.executions("burn") <= 1, "{when}");
    assert_acceptable(&model.requests().pop().expect("it was asked").history);

    let next = thinks(model).peer("a", &peer).store(store.killed()).start().await;
    let kept = next.topic("t").await.expect("it is stored");
    holds("it is read back", || kept.view().is_some_and(|view| !view.turns.is_empty())).await;
    assert_eq!(messages(&kept.view().expect("it is read back")), places, "{when}");
}

/// Decides until there is an answer; stops the turn if nothing is approved any more.
async fn decided(runtime: &Runtime, topic: &Topic, card: &Card) {
    for _ in 0..20 {
        match runtime.decide(card.approval, Decision::allow("ann").of(card)).await {
            Ok(_answer) => return,
            Err(DecideError::Ask { source: AskError::Store(StoreError::Stopped { .. }), .. }) => {
                persistent(async || topic.stop("ann").await).await;
                return;
            }
            Err(_again) => sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("nobody says what became of the decision");
}

/// Asks until there is an answer, as a careful caller does.
async fn persistent<T, E: std::fmt::Debug>(mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..20 {
        match ask().await {
            Ok(answer) => return answer,
            Err(_again) => sleep(Duration::from_millis(100)).await,
        }
    }
    ask().await.expect("one failure is survived")
}

#[tokio::test(start_paused = true)]
async fn the_largest_texts_that_the_limits_allow_are_kept() {
    let text = |bytes: usize| "x".repeat(bytes);
    let big = pilothouse::limits::TEXT_MAX;
    let arguments = json!({"text": text(big - 4_096)});
    let steps = [call("a", "drop", arguments), Step::text(text(big - 4_096))];
    let wide = |limits: &mut Limits| {
        (limits.reply_bytes, limits.queued_bytes, limits.result_bytes) = (usize::MAX, usize::MAX, usize::MAX);
    };
    let mut stage = plays(steps).limits(wide).peer("a", &tools()).raise().await;
    let refused = stage.topic.send(text(2 * big)).await;
    let limit = TopicRejection::QueueBytes { bytes: 2 * big, limit: big };
    assert_eq!(refused, Err(TopicError::Rejected(limit)));
    stage.say(&text(big)).await;
    let card = stage.until_card().await;
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let tree = stage.runtime.tree();
    let actors = tree.children.iter().flat_map(|child| child.children.iter().chain([child]));
    assert_eq!(actors.map(|actor| actor.restarts).sum::<u64>(), 0);
}
