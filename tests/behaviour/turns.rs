//! One turn: what streams, what runs, and every way in which it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::model::FinishReason;
use pilothouse::model::scripted::{ScriptedError, ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::topic::TopicStatus;
use serde_json::json;
use tokio::time::Instant;

use crate::puppet::Panicking;
use crate::stage::{
    LATENCY, PATIENCE, Setup, assert_acceptable, call, call_function, calls, holds, memory, peer, plays,
    said, settle, thinks,
};

fn look() -> Arc<pilothouse_harness::peer::Peer> {
    peer(json!({"tools": [{"name": "look", "echo": true}]}))
}

/// What a whole turn shows.
async fn check(setup: Setup, shown: &[&str]) {
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_rest().await, shown);
}

#[tokio::test(start_paused = true)]
async fn text_streams_in_order_and_the_message_is_answered() {
    let step = Step { chunk_ms: Some(20), ..Step::text("Light wind, west.") };
    check(
        plays([step]),
        &[
            "turn 1 begins with 1",
            "message 1 accepted(1)",
            "pending",
            "\"Light \"",
            "streaming",
            "\"wind, \"",
            "\"west.\"",
            "step 1.1 ends",
            "turn 1 completed",
            "message 1 answered(1)",
            "done",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_between_two_steps() {
    let peer = look();
    check(
        plays([call("a", "look", json!({"at": 1})), Step::text("Seen.")]).peer("a", &peer),
        &[
            "turn 1 begins with 1",
            "message 1 accepted(1)",
            "pending",
            "call 1.1.0 on a",
            "streaming",
            "call 1.1.0 succeeded: {\"at\":1}",
            "step 1.1 ends",
            "\"Seen.\"",
            "step 1.2 ends",
            "turn 1 completed",
            "message 1 answered(1)",
            "done",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_have_their_results_in_the_order_of_the_calls() {
    let peer = peer(json!({"tools": [
        {"name": "slow", "reply": "slow", "delay_ms": 500},
        {"name": "quick", "reply": "quick", "delay_ms": 10},
    ]}));
    let model = Arc::new(ScriptedModel::new(vec![
        calls([("a", "slow", json!({})), ("a", "quick", json!({}))]),
        Step::text("Both."),
    ]));
    let server =
        Server::in_memory("a", peer.clone()).effect("slow", Effect::Reads).effect("quick", Effect::Reads);
    let mut stage = thinks(model.clone()).server(server).raise().await;
    let begun = Instant::now();
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    let of_calls: Vec<_> = shown.iter().filter(|line| line.starts_with("call")).collect();
    assert_eq!(
        of_calls,
        ["call 1.1.0 on a", "call 1.1.1 on a", "call 1.1.1 succeeded: quick", "call 1.1.0 succeeded: slow",]
    );
    assert!(begun.elapsed() < Duration::from_millis(600), "at the same time, not one after the other");
    let history = model.requests().pop().expect("a second step").history;
    assert_acceptable(&history);
    let results: Vec<_> = history
        .iter()
        .filter_map(|item| match item {
            pilothouse::model::HistoryItem::Tool { result, .. } => Some(result.text()),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["slow", "quick"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_rejected_and_the_turn_goes_on() {
    let mut stage = plays([call_function("nothing", json!({})), Step::text("Never mind.")]).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results = stage.results();
    assert_eq!(results.len(), 1);
    assert!(said(&results[0]).starts_with("rejected: "), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_uses_all_its_steps_ends_at_the_limit() {
    let peer = look();
    let steps = (0..5).map(|_| call("a", "look", json!({})));
    let mut stage = plays(steps).peer("a", &peer).config(|config| config.max_steps = Some(3)).raise().await;
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    assert_eq!(shown.iter().filter(|line| line.starts_with("step")).count(), 3, "{shown:?}");
    assert_eq!(stage.view().turns[0].stop, Some(StopReason::StepLimit));
    assert_eq!((stage.status(), peer.executions("look")), (TopicStatus::Done, 3));
}

/// Each way in which a model ends a turn, and what the topic is then.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_as_its_model_ends() {
    let finish = |finish| Step { finish: Some(finish), ..Step::text("Well") };
    let error = ScriptedError { status: 529, message: "overloaded".to_owned(), ..Default::default() };
    let failed = "the model's provider answered 529: overloaded";
    let silent = "the model was silent for 120 s";
    let rows = [
        (finish(FinishReason::Stop), StopReason::Completed, TopicStatus::Done),
        (finish(FinishReason::Length), StopReason::OutputTruncated, TopicStatus::Done),
        (finish(FinishReason::Refused), StopReason::Refused, TopicStatus::Error),
        (
            Step { error: Some(error), ..Step::text("Well") },
            StopReason::Failed(failed.to_owned()),
            TopicStatus::Error,
        ),
        (
            Step { hang: true, ..Step::text("Well") },
            StopReason::Failed(silent.to_owned()),
            TopicStatus::Error,
        ),
    ];
    for (step, stop, status) in rows {
        let mut stage = plays([step, Step::text("Again.")]).raise().await;
        stage.say("Go.").await;
        stage.until_rest().await;
        let turn = stage.view().turns[0].clone();
        assert_eq!((turn.stop.as_ref(), stage.status()), (Some(&stop), status));
        assert_eq!(turn.steps[0].text, "Well", "what was said stays, after {stop:?}");
        stage.say("And now?").await;
        assert_eq!(stage.until_end().await, StopReason::Completed, "after {stop:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_reply_that_was_cut_off_are_not_run() {
    let peer = look();
    let cut = Step { finish: Some(FinishReason::Length), ..call("a", "look", json!({})) };
    let mut stage = plays([cut]).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::OutputTruncated);
    assert_eq!(peer.executions("look"), 0);
    assert!(said(&stage.results()[0]).starts_with("rejected: "), "{:?}", stage.results());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_fails_its_turn_and_nothing_else() {
    let rows = [(Panicking::Run, "no thought at all"), (Panicking::Stream, "lost the thread")];
    for (model, panic) in rows {
        let well = Arc::new(ScriptedModel::new(vec![Step::text("Fine.")]));
        let mut stage = thinks(model.model()).other(well).raise().await;
        stage.say("Go.").await;
        let stop = stage.until_end().await;
        assert_eq!(stop, StopReason::Failed(format!("the model panicked: {panic}")));
        let patch = pilothouse::topic::ConfigPatch { model: Some("other".to_owned()), ..Default::default() };
        stage.topic.configure(patch).await.expect("the topic is there");
        stage.say("And now?").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        assert_eq!(stage.runtime.tree().children[4].children[0].restarts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_returns_at_once_with_the_model_hanging() {
    let hanging = Step { hang: true, ..Step::text("Well, ") };
    let mut stage = plays([hanging, Step::text("Again.")]).raise().await;
    stage.say("Go.").await;
    stage.until_status(TopicStatus::Streaming).await;
    assert_eq!(
        (stage.status(), stage.view().turns[0].steps[0].text.as_str()),
        (TopicStatus::Streaming, "Well, ")
    );
    let asked = Instant::now();
    let stopped = stage.topic.stop("ann").await.expect("the topic is there");
    assert_eq!((stopped.map(|turn| turn.0), asked.elapsed()), (Some(1), LATENCY), "one commit, no wait");
    assert_eq!(stage.until_rest().await, ["turn 1 aborted", "aborted"]);
    assert_eq!(stage.topic.stop("ann").await, Ok(None), "there is nothing left to stop");
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_stop_returns_at_once_with_a_tool_hanging_and_a_late_result_changes_nothing() {
    let peer = look();
    let steps = [call("a", "look", json!({})), Step::text("Again.")];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    peer.hold_calls();
    stage.say("Go.").await;
    stage.until_running().await;
    holds("the call is under way", || peer.executions("look") == 1).await;
    let asked = Instant::now();
    stage.topic.stop("ann").await.expect("the topic is there");
    assert!(asked.elapsed() <= 2 * LATENCY, "the commits before it, and its own");
    assert_eq!(
        stage.until_rest().await,
        [
            "call 1.1.0 cancelled: stopped by ann while it ran: it may have had its effect",
            "turn 1 aborted",
            "aborted",
        ]
    );
    holds("the server is told", || peer.cancellations() == 1).await;
    let before = stage.view();
    peer.release_calls();
    tokio::time::sleep(PATIENCE).await;
    assert_eq!((stage.view(), stage.shown_already()), (before, vec![]));
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_felt_by_what_runs_before_it_is_durable() {
    let felt = Arc::new(AtomicUsize::new(0));
    let feels = felt.clone();
    let waits = function("wait", move |asked: pilothouse::tool::Invocation| {
        let feels = feels.clone();
        async move {
            asked.cancel.cancelled().await;
            feels.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }
    });
    let store = memory();
    let setup = plays([call_function("wait", json!({}))]).function(waits).store(store.clone());
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    stage.until_running().await;
    settle().await;
    store.hold();
    let stopping = tokio::spawn({
        let topic = stage.topic.clone();
        async move { topic.stop("ann").await }
    });
    settle().await;
    assert_eq!((felt.load(Ordering::Relaxed), stopping.is_finished()), (1, false));
    assert_eq!(stage.shown_already(), [""; 0], "but nobody is told");
    store.release();
    assert_eq!(stage.until_end().await, StopReason::Aborted);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_times_out_and_the_turn_goes_on() {
    let peer = peer(json!({"tools": [{"name": "look"}], "faults": [{"silence": "call"}]}));
    let mut stage =
        plays([call("a", "look", json!({})), Step::text("So be it.")]).peer("a", &peer).raise().await;
    let begun = Instant::now();
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(said(&stage.results()[0]), "timedout: no answer within 60000 ms");
    assert!(begun.elapsed() < Duration::from_secs(61));
}

fn function(name: &str, tool: impl pilothouse::tool::Tool) -> Function {
    Function::new(name, "Does it.", &json!({"type": "object"}), tool).effect(Effect::Reads)
}

#[tokio::test(start_paused = true)]
async fn a_function_says_yes_or_no_or_panics_and_the_turn_goes_on() {
    let rows = [
        ("yes", "succeeded: {\"x\":1}"),
        ("no", "failed: not today"),
        ("panic", "failed: the function panicked"),
        ("panic_at_once", "failed: the function panicked"),
    ];
    for (name, expected) in rows {
        let setup = plays([call_function(name, json!({"x": 1})), Step::text("Fine.")])
            .function(function("yes", async |asked: pilothouse::tool::Invocation| {
                Ok(asked.arguments.to_string())
            }))
            .function(function("no", async |_| Err("not today".to_owned())))
            .function(function("panic", async |_| panic!("oh")))
            .function(function("panic_at_once", AtOnce));
        let mut stage = setup.raise().await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        assert_eq!(said(&stage.results()[0]), expected);
    }
}

struct AtOnce;

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

impl pilothouse::tool::Tool for AtOnce {
    fn call(&self, _invocation: pilothouse::tool::Invocation) -> Answer {
        panic!("before it has begun")
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_cancels_a_running_function() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = dropped.clone();
    let hangs = function("hang", move |asked: pilothouse::tool::Invocation| {
        let held = Counts(counts.clone());
        async move {
            asked.cancel.cancelled().await;
            let _held = held;
            std::future::pending().await
        }
    });
    let mut stage = plays([call_function("hang", json!({}))]).function(hangs).raise().await;
    stage.say("Go.").await;
    stage.until_running().await;
    settle().await;
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    stage.topic.stop("ann").await.expect("the topic is there");
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    settle().await;
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "its future is gone, although it would wait for ever");
}

#[tokio::test(start_paused = true)]
async fn a_call_carries_a_key_that_no_other_store_gives_and_a_crash_does_not_change() {
    let store = memory();
    let key = async |store: &MemoryStore| {
        let peer = look();
        let mut stage = plays([call("a", "look", json!({})), Step::text("Seen.")])
            .peer("a", &peer)
            .store(store.clone())
            .raise()
            .await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        stage.runtime.shutdown().await;
        peer.calls()[0]["_meta"]["pilothouse/idempotency-key"].clone()
    };
    // The same topic and call each time: each copy is one store as it was before.
    let (copy, other) = (store.crash(), memory());
    let keys = [key(&store).await, key(&copy).await, key(&other).await];
    assert!(keys[0].is_string(), "{keys:?}");
    assert_eq!((keys[0] == keys[1], keys[0] == keys[2]), (true, false), "{keys:?}");
}
