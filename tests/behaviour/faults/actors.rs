//! Faults of actors: floods, askers who go, calls that lead back to where they came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::Mishap;
use pilothouse::call::CallOutcome;
use pilothouse::error::{AskError, TopicError};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{PATIENCE, call, call_function, holds, memory, peer, plays, said, server, settle};
use crate::stores::Slow;

fn hangs() -> Step {
    Step { hang: true, ..Step::default() }
}

/// B245: whoever is too many is told so at once, whatever the mailbox's actor is doing, and nothing grows.
#[tokio::test(start_paused = true)]
async fn a_flood_of_askers_is_bounded_and_those_beyond_the_bound_are_told_at_once() {
    let store = memory();
    let stage = plays([hangs()]).store(store.clone()).raise().await;
    store.hold();
    let mut asked = JoinSet::new();
    for n in 0..10_000 {
        let topic = stage.topic.clone();
        asked.spawn(async move { topic.send_with_key("x", format!("{n}")).await });
    }
    let begun = Instant::now();
    let (mut busy, mut others) = (0, 0);
    while let Some(answer) = asked.join_next().await {
        match answer.expect("no task panics") {
            Err(TopicError::Ask(AskError::Busy)) => {
                assert_eq!(begun.elapsed(), Duration::ZERO, "who is too many does not wait");
                busy += 1;
            }
            Ok(_) | Err(_) => others += 1,
        }
    }
    assert!(busy > 0 && others > 0 && others <= 2 * 256, "{busy} too many, {others} taken");
    let session = &stage.runtime.tree().children[4].children[0];
    assert_eq!(session.mailbox, 0, "every place is free again");
}

/// B246: a panic in one of ten askers' messages leaves none of them without an answer.
#[tokio::test(start_paused = true)]
async fn of_ten_askers_of_an_actor_that_panics_at_the_third_each_gets_an_answer() {
    let stage = plays([hangs()]).raise().await;
    settle().await;
    assert!(stage.runtime.plan_mishap("session/t", 3, Mishap::Panic));
    let mut asked = JoinSet::new();
    for n in 0..10 {
        let topic = stage.topic.clone();
        asked.spawn(async move { (n, topic.send_with_key("x", format!("{n}")).await) });
    }
    let (mut taken, mut told) = (0, 0);
    while let Some(answer) = timeout(Duration::from_secs(1), asked.join_next()).await.expect("nobody hangs") {
        match answer.expect("no task panics").1 {
            Ok(_) => taken += 1,
            Err(TopicError::Ask(AskError::Interrupted)) => told += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(taken + told, 10);
    assert!(told >= 1, "the third one at least was in vain");
    for n in 0..10 {
        let sent = stage.topic.send_with_key("x", format!("{n}")).await;
        assert!(sent.is_ok(), "the same key again tells: {sent:?}");
    }
    let places: Vec<_> = stage.messages();
    assert_eq!(places.len(), 10, "each once: {places:?}");
}

/// B247: what ends a turn takes effect at once with the topic's mailbox and queue full.
#[tokio::test(start_paused = true)]
async fn a_stop_takes_effect_with_the_mailbox_full() {
    let stage = plays([hangs()]).limits(|limits| limits.mailbox = 4).raise().await;
    stage.say("first").await;
    settle().await;
    let mut asked = JoinSet::new();
    for n in 0..1_000 {
        let topic = stage.topic.clone();
        asked.spawn(async move { topic.send_with_key("x", format!("{n}")).await.map(drop) });
    }
    crate::stage::step_back().await;
    assert_eq!(stage.runtime.tree().children[4].children[0].mailbox, 4, "it is full");
    let begun = Instant::now();
    let stopped = stage.topic.stop("ann").await;
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert!(matches!(stopped, Ok(Some(_))), "{stopped:?}");
    let mut full = 0;
    while let Some(answer) = asked.join_next().await {
        full += usize::from(matches!(answer.expect("no task panics"), Err(TopicError::Ask(AskError::Busy))));
    }
    assert!(full > 0, "others were told that it was full");
}

async fn leads_back(runtime: Runtime) -> Result<String, String> {
    let topic = runtime.topic("t").await.map_err(|error| error.to_string())?;
    let sent = topic.send("from within").await.map_err(|error| error.to_string())?;
    let seen = server(&runtime, "a").call("look", &json!({})).await;
    let inner = topic.call("back2", &json!({})).await.map_err(|error| error.to_string())?;
    Ok(format!("{} {} {}", sent.message, said(&seen), said(&inner)))
}

/// B249, B256: a function that asks the runtime which calls it: its own topic, its own server, the end of all.
#[tokio::test(start_paused = true)]
async fn a_function_that_asks_the_runtime_it_runs_in_gets_an_answer() {
    let cell: Arc<OnceCell<Runtime>> = Arc::default();
    let runtime = cell.clone();
    let back = Function::new("back", "Leads back.", &json!({"type": "object"}), move |_| {
        let runtime = runtime.get().expect("it has started").clone();
        leads_back(runtime)
    });
    let inner = Function::new("back2", "Says so.", &json!({"type": "object"}), async |_| {
        Ok::<_, String>("here".to_owned())
    });
    let a = peer(json!({"tools": [{"name": "look", "reply": "seen"}]}));
    let steps = [call_function("back", json!({})), Step::text("Done.")];
    let setup = plays(steps).peer("a", &a);
    let setup = setup.function(back.effect(Effect::Reads)).function(inner.effect(Effect::Reads));
    let mut stage = setup.raise().await;
    cell.set(stage.runtime.clone()).expect("it is set once");
    stage.say("go").await;
    stage.until_end().await;
    let results = stage.results();
    assert_eq!(said(&results[0]), "succeeded: 2 succeeded: seen succeeded: here");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_shuts_the_runtime_down_gets_an_answer_within_the_bound() {
    let cell: Arc<OnceCell<Runtime>> = Arc::default();
    let (runtime, ends) = (cell.clone(), Arc::new(AtomicUsize::new(0)));
    let ended = ends.clone();
    let end = Function::new("end", "Ends all.", &json!({"type": "object"}), move |_| {
        let runtime = runtime.get().expect("it has started").clone();
        let guard = Counted(ended.clone());
        async move {
            let end = runtime.shutdown().await;
            drop(guard);
            Ok::<_, String>(format!("{:?}", end.forced))
        }
    });
    let stage = plays([call_function("end", json!({}))]).function(end.effect(Effect::Reads)).raise().await;
    cell.set(stage.runtime.clone()).expect("it is set once");
    let begun = Instant::now();
    stage.say("go").await;
    holds("it is over", || stage.runtime.tree().state == "stopped").await;
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(ends.load(Ordering::SeqCst), 1, "the function was let go of");
    assert!(stage.runtime.shutdown().await.is_clean());
}

/// Counts its own end.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// B253: a connection belongs to its actor, not to whoever used it first.
#[tokio::test(start_paused = true)]
async fn callers_of_one_connection_come_and_go_and_it_stays() {
    let a = peer(json!({"tools": [{"name": "look", "reply": "seen"}]}));
    let stage = plays([]).limits(|limits| limits.calls_per_server = 64).peer("a", &a).raise().await;
    a.hold_calls();
    let mut callers: Vec<_> = (0..50)
        .map(|_| {
            let server = stage.server("a");
            tokio::spawn(async move { server.call("look", &json!({})).await })
        })
        .collect();
    settle().await;
    callers.remove(0).abort();
    settle().await;
    a.release_calls();
    for caller in callers {
        assert_eq!(said(&caller.await.expect("it is answered")), "succeeded: seen");
    }
    assert_eq!((a.connections_ever(), stage.server("a").view().restarts), (1, 0));
    let again = stage.server("a").call("look", &json!({})).await;
    assert_eq!(again.outcome, CallOutcome::Succeeded);
}

/// B251: what is done leaves the memory, and comes back when it is asked for.
#[tokio::test(start_paused = true)]
async fn thousands_of_topics_that_have_had_their_turn_leave_no_actor() {
    const TOPICS: usize = 2_000;
    let steps = (0..=TOPICS).map(|_| Step::text("Yes?"));
    let setup = plays(steps).limits(|limits| limits.topic_idle = Duration::from_secs(1));
    let runtime = setup.start().await;
    for n in 0..TOPICS {
        let topic = runtime.open_topic(format!("t{n}"), TopicConfig::new("main")).await.expect("it opens");
        topic.send("go").await.expect("it is taken");
        if n % 100 == 99 {
            sleep(Duration::from_secs(5)).await;
            let live = runtime.tree().children[4].children.len();
            assert!(live <= 120, "{live} topics live after {n}");
        }
    }
    let topic = runtime.topic("t0").await.expect("it is stored");
    topic.send("again").await.expect("it is taken");
    holds("its past is there", || topic.view().is_some_and(|view| view.turns.len() == 2)).await;
}

/// B257: the house's own messages take none of the places of askers.
#[tokio::test(start_paused = true)]
async fn a_mailbox_of_one_place_is_enough_for_a_whole_turn() {
    let a = peer(json!({"tools": [{"name": "drop", "reply": "dropped"}]}));
    let steps = [call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).limits(|limits| limits.mailbox = 1).peer("a", &a).raise().await;
    stage.say("go").await;
    let card = timeout(PATIENCE, stage.until_card()).await.expect("it is asked");
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(timeout(PATIENCE, stage.until_end()).await, Ok(StopReason::Completed));
    assert_eq!(stage.results().iter().map(said).collect::<Vec<_>>(), ["succeeded: dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_those_who_open_a_topic_that_is_being_removed_is_bounded() {
    let slow = Slow::over(memory(), Duration::from_millis(100));
    let stage = plays([Step::text("Yes?")]).store(slow).raise().await;
    stage.topic.send("first").await.expect("it is taken");
    holds("it is answered", || stage.view().turns.iter().any(|turn| turn.stop.is_some())).await;
    let runtime = stage.runtime.clone();
    let removal = tokio::spawn(async move { runtime.delete_topic("t").await });
    let state = || stage.runtime.tree().children[4].children[0].state.clone();
    holds("its records are being removed", || state() == "failed").await;
    let mut asked = JoinSet::new();
    for _ in 0..10 {
        // Fewer at once than the mailbox holds: each is handled, and waits.
        for _ in 0..200 {
            let runtime = stage.runtime.clone();
            asked.spawn(async move { runtime.open_topic("t", TopicConfig::new("main")).await.map(drop) });
        }
        settle().await;
    }
    let mut told = 0;
    while let Some(answer) = asked.try_join_next() {
        assert_eq!(answer.expect("no task panics"), Err(TopicError::Ask(AskError::Interrupted)));
        told += 1;
    }
    assert_eq!(told, 2_000 - 256, "who is too many is told at once");
    removal.await.expect("no panic").expect("it is removed");
    while let Some(answer) = asked.join_next().await {
        assert_eq!(answer.expect("no task panics"), Ok(()), "the others get the new topic");
    }
}
