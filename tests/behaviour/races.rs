//! Two people at once, at every moment: whoever is first, both are told the same story.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::approval::{Card, CardState, DecideAnswer};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::topic::{Receipt, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{
    LATENCY, Setup, Stage, call, call_function, holds, memory, peer, place, plays, step_back,
};

/// How far the second one is behind the first one: scheduling steps on a store that answers at once, half
/// milliseconds on one that does not.
#[derive(Debug, Clone, Copy)]
enum Behind {
    Steps(usize),
    Halves(u32),
}

impl Behind {
    /// Every distance that is worth a look.
    fn all() -> impl Iterator<Item = Self> {
        (0..40).map(Self::Steps).chain((0..24).map(Self::Halves))
    }

    fn store(self, setup: Setup) -> Setup {
        match self {
            Self::Steps(_) => setup.store(memory()),
            Self::Halves(_) => setup,
        }
    }

    async fn pass(self) {
        match self {
            Self::Steps(steps) => {
                for _ in 0..steps {
                    step_back().await;
                }
            }
            Self::Halves(halves) => sleep(LATENCY / 2 * halves).await,
        }
    }
}

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}))
}

async fn asked(behind: Behind, peer: &Arc<Peer>, config: impl FnOnce(&mut TopicConfig)) -> (Stage, Card) {
    let steps = [call("a", "drop", json!({})), Step::text("Done."), Step::text("Again.")];
    let mut stage = behind.store(plays(steps)).peer("a", peer).config(config).raise().await;
    stage.say("first").await;
    let card = stage.until_card().await;
    (stage, card)
}

async fn asked_about_function(behind: Behind, begun: &Arc<AtomicUsize>) -> (Stage, Card) {
    let counts = begun.clone();
    let drop_it = Function::new("drop", "Drops it.", &json!({"type": "object"}), move |_| {
        let counts = counts.clone();
        async move {
            counts.fetch_add(1, Ordering::Relaxed);
            Ok("dropped".to_owned())
        }
    });
    let steps = [call_function("drop", json!({})), Step::text("Done."), Step::text("Again.")];
    let mut stage = behind.store(plays(steps)).function(drop_it).raise().await;
    stage.say("first").await;
    let card = stage.until_card().await;
    (stage, card)
}

#[tokio::test(start_paused = true)]
async fn once_a_stop_has_returned_nothing_starts_whoever_decides() {
    let (mut ran, mut lapsed, mut withdrawn) = (0, 0, 0);
    for behind in Behind::all() {
        for stop_first in [true, false] {
            // A function, since it begins in this process: a server may read a call after we have sent it.
            let begun = Arc::new(AtomicUsize::new(0));
            let (stage, card) = asked_about_function(behind, &begun).await;
            let deciding = tokio::spawn({
                let (runtime, approval) = (stage.runtime.clone(), card.approval);
                async move {
                    if stop_first {
                        behind.pass().await;
                    }
                    runtime.decide(approval, Decision::allow("ann")).await
                }
            });
            let stopping = tokio::spawn({
                let (topic, begun) = (stage.topic.clone(), begun.clone());
                async move {
                    if !stop_first {
                        behind.pass().await;
                    }
                    let stopped = topic.stop("bob").await;
                    (stopped.expect("the topic is there"), begun.load(Ordering::Relaxed))
                }
            });
            let answer = deciding.await.expect("the task ends").expect("the ledger answers");
            let (stopped, by_then) = stopping.await.expect("the task ends");
            sleep(Duration::from_secs(60)).await;
            let runs = begun.load(Ordering::Relaxed);
            assert_eq!((runs, stage.runtime.approvals().len()), (by_then, 0), "{behind:?} {answer:?}");
            let told = stage.results()[0].text();
            assert!(runs == 0 || !told.contains("it never ran"), "{behind:?}: {told}");
            match (&answer, runs) {
                (DecideAnswer::Applied, 1) => ran += 1,
                (DecideAnswer::Applied, 0) if stopped.is_some() => lapsed += 1,
                (DecideAnswer::Withdrawn(word), 0) if word.state == CardState::Withdrawn => withdrawn += 1,
                (_, _) => panic!("{behind:?}: {answer:?}, and it ran {runs} times"),
            }
            stage.say("second").await;
            holds("the topic goes on", || stage.status() == TopicStatus::Done).await;
        }
    }
    assert!(ran > 3 && lapsed > 3 && withdrawn > 3, "{ran} {lapsed} {withdrawn}");
}

#[tokio::test(start_paused = true)]
async fn a_message_beside_a_stop_is_held_or_answered() {
    let (mut held, mut answered) = (0, 0);
    for behind in Behind::all() {
        let peer = tools();
        peer.hold_calls();
        let steps = [call("a", "look", json!({})), Step::text("Yes?")];
        let mut stage = behind.store(plays(steps)).peer("a", &peer).raise().await;
        stage.say("first").await;
        stage.until_running().await;
        let stopping = tokio::spawn({
            let topic = stage.topic.clone();
            async move { topic.stop("bob").await }
        });
        behind.pass().await;
        let receipt = stage.say("second").await;
        stopping.await.expect("the task ends").expect("the topic is there");
        holds("it comes to rest", || matches!(stage.status(), TopicStatus::Done | TopicStatus::Aborted))
            .await;
        sleep(Duration::from_secs(1)).await;
        match (&receipt, stage.messages()[1].as_str()) {
            (Receipt::Queued { .. }, "second held(aborted)") => held += 1,
            (Receipt::Accepted { .. }, "second answered(2)") => answered += 1,
            (receipt, now) => panic!("{behind:?}: {} became {now}", place(receipt)),
        }
    }
    assert!(held > 0 && answered > 3, "{held} {answered}");
}

#[tokio::test(start_paused = true)]
async fn a_decision_at_the_last_moment_is_applied_and_runs_or_is_too_late_and_does_not() {
    let (mut ran, mut late) = (0, 0);
    for quarters in 0..40 {
        let behind = Behind::Halves(0);
        let peer = tools();
        let (stage, card) = asked(behind, &peer, |config| config.approval_ttl_ms = Some(10_000)).await;
        sleep(Duration::from_millis(9_990) + LATENCY / 4 * quarters).await;
        let answer = stage.decide(&card, Decision::allow("ann")).await;
        sleep(Duration::from_secs(60)).await;
        let stop = stage.view().turns[0].stop.clone();
        match (&answer, peer.executions("drop"), &stop) {
            (DecideAnswer::Applied, 1, Some(StopReason::Completed)) => ran += 1,
            (DecideAnswer::Expired(_), 0, Some(StopReason::ApprovalExpired)) => late += 1,
            (answer, runs, stop) => panic!("after {quarters}: {answer:?}, {runs}, {stop:?}"),
        }
    }
    assert!(ran > 3 && late > 3, "{ran} {late}");
}

#[tokio::test(start_paused = true)]
async fn a_steer_at_any_moment_of_a_turn_on_a_slow_store_is_answered_once() {
    let (mut queued, mut accepted) = (0, 0);
    for halves in 0..40 {
        let peer = tools();
        let steps = [call("a", "look", json!({})), Step::text("A."), Step::text("B.")];
        let stage = plays(steps).peer("a", &peer).raise().await;
        stage.say("first").await;
        Behind::Halves(halves).pass().await;
        match stage.say("second").await {
            Receipt::Queued { .. } => queued += 1,
            Receipt::Accepted { .. } => accepted += 1,
            other => panic!("{halves}: {other:?}"),
        }
        sleep(Duration::from_secs(60)).await;
        assert_eq!(stage.messages(), ["first answered(1)", "second answered(2)"], "{halves}");
        assert_eq!(stage.view().turns.len(), 2, "{halves}");
    }
    assert!(queued > 3 && accepted > 3, "{queued} {accepted}");
}
