//! Faults of turns: calls that fail beside others, results that come late, messages at every moment, windows that fall
//! behind.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::error::TopicError;
use pilothouse::model::HistoryItem;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::topic::{Receipt, Steering, TopicRejection, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{
    PATIENCE, Stage, assert_acceptable, call, calls, holds, memory, messages, peer, plays, said, thinks,
};

fn reading(peer: &Arc<Peer>, tools: &[&str]) -> Server {
    let server = Server::in_memory("a", peer.clone());
    tools.iter().fold(server, |server, tool| server.effect(*tool, Effect::Reads))
}

#[tokio::test(start_paused = true)]
async fn one_call_of_three_that_fails_keeps_the_results_of_the_others_and_its_own_words() {
    let offered = peer(json!({"tools": [
        {"name": "well", "reply": "well"},
        {"name": "ill", "reply": "no such row", "fails": true},
        {"name": "broken"},
        {"name": "many", "reply": [
            {"type": "text", "text": "one"}, {"type": "text", "text": "two"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ]},
    ], "faults": [{"error": {"on": {"tool": "broken"}, "code": -32603, "message": "inner"}}]}));
    let asked = ["well", "ill", "broken", "many"].map(|tool| ("a", tool, json!({})));
    let model = Arc::new(ScriptedModel::new(vec![calls(asked), Step::text("So."), Step::text("Again.")]));
    let server = reading(&offered, &["well", "ill", "broken", "many"]);
    let mut stage = thinks(model.clone()).server(server).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results = stage.results();
    let outcomes: Vec<_> = results.iter().map(|result| result.outcome).collect();
    let (well, ill) = (CallOutcome::Succeeded, CallOutcome::Failed);
    assert_eq!(outcomes, [well, ill, ill, well]);
    assert!(said(&results[1]).contains("no such row") && said(&results[2]).contains("inner"), "{results:?}");
    assert_eq!(results[3].content.len(), 3, "in one result");
    stage.say("And?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_acceptable(&model.requests().pop().expect("it was asked").history);
}

#[tokio::test(start_paused = true)]
async fn results_that_come_after_a_stop_are_in_no_later_turn() {
    let offered = peer(json!({"tools": [
        {"name": "quick", "reply": "quick"}, {"name": "slow", "reply": "slow", "delay_ms": 500},
    ], "faults": [{"late_reply": {"ms": 200}}]}));
    let batch = || {
        let slow = || ("a", "slow", json!({}));
        calls([("a", "quick", json!({})), slow(), slow(), slow(), slow(), slow(), slow(), slow()])
    };
    let model = Arc::new(ScriptedModel::new(vec![batch(), call("a", "quick", json!({})), Step::text("So.")]));
    let mut stage = thinks(model.clone()).server(reading(&offered, &["quick", "slow"])).raise().await;
    stage.say("first").await;
    holds("they run", || offered.executions("slow") == 7).await;
    stage.topic.stop("ann").await.expect("it is there");
    sleep(Duration::from_millis(100)).await;
    stage.say("second").await;
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let before = stage.view();
    sleep(PATIENCE).await;
    assert_eq!(stage.view(), before, "late answers change nothing");
    let of_second: Vec<_> = before.turns[1].steps.iter().map(|step| step.calls.len()).collect();
    assert_eq!(of_second, [1, 0]);
    assert_acceptable(&model.requests().pop().expect("it was asked").history);
}

#[tokio::test(start_paused = true)]
async fn batches_of_ten_calls_run_each_of_them_once_and_take_as_long_as_the_slowest() {
    let offered = peer(json!({"tools": [{"name": "count", "reply": "1", "delay_ms": 100}]}));
    let one = || ("a", "count", json!({}));
    let ten = || calls([one(), one(), one(), one(), one(), one(), one(), one(), one(), one()]);
    let batches = 100;
    let steps = (0..batches).map(|_| ten()).chain([Step::text("Counted.")]);
    let setup =
        plays(steps).server(reading(&offered, &["count"])).config(|config| config.max_steps = Some(200));
    let mut stage = setup.raise().await;
    let begun = Instant::now();
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    assert_eq!(offered.executions("count"), 10 * batches);
    let results = shown.iter().filter(|line| line.contains("succeeded: 1")).count();
    assert_eq!(results as u64, 10 * batches);
    assert!(begun.elapsed() < Duration::from_millis(120 * batches), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn messages_sent_from_two_tasks_at_once_are_answered_by_one_turn_after_the_other() {
    for _ in 0..50 {
        let stage = plays([Step::text("One."), Step::text("Two.")]).store(memory()).raise().await;
        let send = |text: &'static str| {
            let topic = stage.topic.clone();
            tokio::spawn(async move { topic.send(text).await })
        };
        let (a, b) = tokio::join!(send("a"), send("b"));
        let receipts = [a, b].map(|sent| sent.expect("the task ends").expect("it is taken").receipt);
        assert!(receipts.iter().any(|receipt| matches!(receipt, Receipt::Accepted { .. })), "{receipts:?}");
        holds("both are answered", || stage.status() == TopicStatus::Done && stage.view().turns.len() == 2)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_joined_a_turn_which_is_stopped_is_told_to_the_next_turn_once() {
    let offered = peer(json!({"tools": [{"name": "look", "reply": "seen"}]}));
    let hang = Step { hang: true, ..Step::default() };
    let steps = vec![call("a", "look", json!({})), hang, Step::text("On staging.")];
    let model = Arc::new(ScriptedModel::new(steps));
    let setup = thinks(model.clone()).peer("a", &offered);
    let mut stage = setup.config(|config| config.turns.steering = Steering::Inject).raise().await;
    offered.hold_calls();
    stage.say("deploy").await;
    stage.until_running().await;
    stage.say("use staging").await;
    offered.release_calls();
    holds("it joined", || stage.messages()[1] == "use staging injected(1.2)").await;
    stage.topic.stop("ann").await.expect("it is there");
    assert_eq!(stage.messages(), ["deploy accepted(1)", "use staging accepted(1)"]);
    stage.say("go on").await;
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let last = model.requests().pop().expect("it was asked").history;
    assert_acceptable(&last);
    let told = last.iter().filter(|item| **item == HistoryItem::User { text: "use staging".to_owned() });
    assert_eq!(told.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_messages_is_queued_or_refused_and_every_one_that_was_taken_is_known() {
    let hang = Step { hang: true, ..Step::default() };
    let stage = plays([hang]).raise().await;
    stage.say("first").await;
    let mut sending = Vec::new();
    for number in 0..2_000 {
        let topic = stage.topic.clone();
        sending.push(tokio::spawn(async move { topic.send(number.to_string()).await }));
    }
    let (mut queued, mut full, mut busy) = (0, 0, 0);
    for sent in sending {
        match sent.await.expect("the task ends") {
            Ok(_) => queued += 1,
            Err(TopicError::Rejected(TopicRejection::QueueFull { .. })) => full += 1,
            Err(TopicError::Ask(error)) if error.is_retryable() => busy += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((queued, queued + full + busy), (32, 2_000), "{full} {busy}");
    assert_eq!(stage.view().queue.len(), 32);
}

#[tokio::test(start_paused = true)]
async fn twenty_messages_over_a_turn_of_ten_calls_are_each_in_history_once() {
    let offered = peer(json!({"tools": [{"name": "look", "reply": "seen", "delay_ms": 40}]}));
    let looks = (0..10).map(|_| call("a", "look", json!({})));
    let steps: Vec<Step> = looks.chain((0..30).map(|_| Step::text("Yes."))).collect();
    for steering in [Steering::Chain, Steering::Inject] {
        let model = Arc::new(ScriptedModel::new(steps.clone()));
        let setup = thinks(model.clone()).peer("a", &offered);
        let stage = setup.config(|config| config.turns.steering = steering).raise().await;
        stage.say("begin").await;
        let mut expected = vec!["begin".to_owned()];
        for number in 0..20_u64 {
            sleep(Duration::from_millis(number * 7 % 23)).await;
            let text = format!("steer {number}");
            stage.say(&text).await;
            expected.push(text);
        }
        holds("all are answered", || {
            stage.status() == TopicStatus::Done
                && stage.messages().iter().all(|message| message.contains("answered"))
        })
        .await;
        let history = model.requests().pop().expect("it was asked").history;
        assert_acceptable(&history);
        let told: Vec<_> = history
            .iter()
            .filter_map(|item| match item {
                HistoryItem::User { text } => Some(text.clone()),
                HistoryItem::Assistant { .. } | HistoryItem::Tool { .. } => None,
            })
            .collect();
        assert_eq!(told, expected, "{steering:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_shows_its_own_topic_only() {
    let paced = |text: &str| Step { chunk_ms: Some(10), ..Step::text(text) };
    let mut first = plays([paced("a a a a a a"), paced("b b b b b b")]).raise().await;
    let mut second = Stage::on(first.runtime.clone(), "other", TopicConfig::new("main")).await;
    first.say("one").await;
    second.say("two").await;
    let texts =
        |lines: Vec<String>| lines.into_iter().filter(|line| line.starts_with('"')).collect::<String>();
    let (of_first, of_second) = (texts(first.until_rest().await), texts(second.until_rest().await));
    assert!(of_first.contains('a') && !of_first.contains('b'), "{of_first}");
    assert!(of_second.contains('b') && !of_second.contains('a'), "{of_second}");
}

#[tokio::test(start_paused = true)]
async fn places_of_events_grow_over_a_restart() {
    let store = memory();
    let mut stage = plays([Step::text("One.")]).store(store.clone()).raise().await;
    stage.say("one").await;
    stage.until_rest().await;
    let before = stage.view().sequence;
    let again = plays([]).store(store.crash()).raise().await;
    let after = again.view().sequence;
    assert!(after.epoch > before.epoch, "{before:?} {after:?}");
    assert_eq!(messages(&again.view()), ["one answered(1)"]);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_always_falls_behind_has_it_all_when_the_topic_rests() {
    let words: String = (0..300).map(|number| format!("w{number} ")).collect();
    let step = Step { chunk_ms: Some(20), ..Step::text(words.trim()) };
    let stage = plays([step]).raise().await;
    let mut window = stage.topic.attach_with(2).expect("it is open");
    stage.say("Go.").await;
    let mut attached = 1;
    while stage.status() != TopicStatus::Done {
        match timeout(Duration::from_secs(1), window.next()).await {
            Ok(Some(TopicEventOut::Update { .. })) => sleep(Duration::from_millis(100)).await,
            Ok(Some(TopicEventOut::Lagged { .. })) => {
                window = stage.topic.attach_with(2).expect("it is open");
                attached += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(_elapsed) => {}
        }
    }
    let whole = stage.topic.attach().expect("it is open");
    assert_eq!(whole.view.turns[0].steps[0].text, words.trim());
    assert!(attached > 10, "{attached}");
}
