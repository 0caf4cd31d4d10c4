//! A person before a risky tool: who is asked, whose word counts, and when it is seen.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::{CardState, DecideAnswer, Settlement};
use pilothouse::error::{AskError, DecideError};
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::topic::TopicStatus;
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{
    LATENCY, PATIENCE, Stage, assert_acceptable, call, calls, holds, memory, peer, plays, said, settle,
    thinks,
};

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [
        {"name": "look", "reply": "seen"},
        {"name": "drop", "reply": "dropped"},
        {"name": "burn", "reply": "burnt"},
    ]}))
}

/// A topic with a card for `drop`.
async fn asked(peer: &Arc<Peer>, then: &str) -> (Stage, pilothouse::approval::Card) {
    let steps = [call("a", "drop", json!({"what": "it"})), Step::text(then)];
    let mut stage = plays(steps).peer("a", peer).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    (stage, card)
}

fn settlement(stage: &Stage, answer: &DecideAnswer) -> Settlement {
    match answer {
        DecideAnswer::Already(settlement)
        | DecideAnswer::Conflict(settlement)
        | DecideAnswer::Expired(settlement)
        | DecideAnswer::Withdrawn(settlement) => settlement.clone(),
        DecideAnswer::Applied | DecideAnswer::Changed { .. } | DecideAnswer::Unknown => {
            panic!("{answer:?} of {:?}", stage.topic)
        }
    }
}

/// Which tools a person is asked about, by their effect as the embedder states it.
#[tokio::test(start_paused = true)]
async fn only_a_tool_that_is_known_to_read_runs_unasked() {
    let server = |peer: &Arc<Peer>| Server::in_memory("a", peer.clone());
    type States = fn(Server) -> Server;
    let rows: [(States, Option<&str>); 6] = [
        (|server| server.effect("drop", Effect::Reads), None),
        (|server| server.effect("drop", Effect::Edits), Some("this tool changes things")),
        (|server| server.effect("drop", Effect::Executes), Some("this tool runs programs")),
        (|server| server.effect("drop", Effect::OpenWorld), Some("this tool talks to the outside world")),
        (|server| server, Some("nobody has said what this tool may do")),
        (
            |server| server.effect("drop", Effect::Reads).force_prompt("drop"),
            Some("this tool always asks before it runs"),
        ),
    ];
    for (states, reason) in rows {
        let peer = tools();
        let steps = [call("a", "drop", json!({})), Step::text("Done.")];
        let mut stage = plays(steps).server(states(server(&peer))).raise().await;
        stage.say("Go.").await;
        if let Some(reason) = reason {
            assert_eq!(stage.until_card().await.reason, reason);
        } else {
            assert_eq!(stage.until_end().await, StopReason::Completed);
        }
        let runs = u64::from(reason.is_none());
        assert_eq!((peer.executions("drop"), stage.runtime.approvals().len() as u64), (runs, 1 - runs));
    }
}

#[tokio::test(start_paused = true)]
async fn an_allowed_call_runs_once_and_the_turn_goes_on() {
    let peer = tools();
    let (mut stage, card) = asked(&peer, "Done.").await;
    assert_eq!(
        (card.tool.contains("drop"), card.arguments.value(), stage.runtime.approvals()),
        (true, json!({"what": "it"}), vec![card.clone()])
    );
    assert_eq!(stage.view().cards, vec![card.clone()]);
    assert_eq!(stage.status(), TopicStatus::AwaitingApproval);
    assert_eq!(peer.executions("drop"), 0);
    let answer = stage.decide(&card, Decision::allow("ann").of(&card)).await;
    assert_eq!((answer, stage.runtime.approvals()), (DecideAnswer::Applied, vec![]));
    assert_eq!(
        stage.until_rest().await,
        [
            "card approved by ann",
            "call 1.1.0 on a",
            "streaming",
            "call 1.1.0 succeeded: dropped",
            "step 1.1 ends",
            "\"Done.\"",
            "step 1.2 ends",
            "turn 1 completed",
            "message 1 answered(1)",
            "done",
        ]
    );
    assert_eq!((peer.executions("drop"), stage.view().cards.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    let peer = tools();
    let model = Arc::new(ScriptedModel::new(vec![call("a", "drop", json!({})), Step::text("I see.")]));
    let mut stage = thinks(model.clone()).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let answer = stage.decide(&card, Decision::deny("ann", "it is not ours")).await;
    assert_eq!(answer, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(said(&stage.results()[0]), "denied: denied by ann: it is not ours");
    let told = model.requests().pop().expect("a second step").history;
    assert!(format!("{told:?}").contains("it is not ours"), "{told:?}");
    assert_acceptable(&told);
    assert_eq!(peer.executions("drop"), 0);
}

#[tokio::test(start_paused = true)]
async fn of_many_deciders_exactly_one_decides_and_the_others_are_told_who() {
    let peer = tools();
    let (mut stage, card) = asked(&peer, "Done.").await;
    let runtime = stage.runtime.clone();
    let decide = |by: &'static str, yes: bool| {
        let runtime = runtime.clone();
        let decision = if yes { Decision::allow(by) } else { Decision::deny(by, "no") };
        async move { runtime.decide(card.approval, decision).await.expect("the ledger answers") }
    };
    let (ann, bob, eve) = tokio::join!(decide("ann", true), decide("bob", true), decide("eve", false));
    assert_eq!(ann, DecideAnswer::Applied);
    let word = settlement(&stage, &bob);
    assert_eq!((word.state, word.by.as_deref()), (CardState::Approved, Some("ann")));
    assert_eq!((bob, eve), (DecideAnswer::Already(word.clone()), DecideAnswer::Conflict(word.clone())));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(decide("zoe", true).await, DecideAnswer::Already(word), "also afterwards");
    assert_eq!(peer.executions("drop"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_decision_about_another_card_than_was_shown_is_refused() {
    let peer = tools();
    let (mut stage, card) = asked(&peer, "Done.").await;
    let mut other = card.clone();
    other.arguments = json!({"what": "all"}).into();
    let answer = stage.decide(&card, Decision::allow("ann").of(&other)).await;
    assert_eq!(answer, DecideAnswer::Changed { digest: card.digest() });
    assert_eq!((stage.runtime.approvals(), peer.executions("drop")), (vec![card.clone()], 0));
    assert_eq!(stage.decide(&card, Decision::allow("ann").of(&card)).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_card_that_never_was_is_unknown() {
    let stage = plays([]).raise().await;
    let call =
        pilothouse::id::CallId { turn: pilothouse::id::TurnId(1), step: pilothouse::id::StepId(1), index: 0 };
    let none = pilothouse::approval::ApprovalId::of(stage.topic.id(), call);
    assert_eq!(stage.runtime.decide(none, Decision::allow("ann")).await, Ok(DecideAnswer::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_card_that_nobody_decides_expires_and_the_turn_stops_after_the_others_ran() {
    let peer = tools();
    let steps = [calls([("a", "drop", json!({})), ("a", "look", json!({})), ("a", "burn", json!({}))])];
    let setup = plays(steps).peer("a", &peer).config(|config| config.approval_ttl_ms = Some(60_000));
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    let (drop, burn) = (stage.until_card().await, stage.until_card().await);
    assert_eq!((drop.call.index, burn.call.index), (0, 2));
    stage.decide(&burn, Decision::allow("ann")).await;
    let begun = Instant::now();
    assert_eq!(stage.until_end().await, StopReason::ApprovalExpired);
    assert_eq!(begun.elapsed().as_secs_f64().round(), 60.0);
    let results: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!(results, ["denied: nobody decided in time", "succeeded: seen", "succeeded: burnt"]);
    assert_eq!((peer.executions("drop"), stage.status()), (0, TopicStatus::Done));
    let late = stage.decide(&drop, Decision::allow("ann")).await;
    assert!(matches!(late, DecideAnswer::Expired(_)), "{late:?}");
    assert_eq!(stage.runtime.approvals(), []);
}

#[tokio::test(start_paused = true)]
async fn a_stop_withdraws_the_cards_of_its_turn() {
    let peer = tools();
    let (mut stage, card) = asked(&peer, "Again.").await;
    stage.topic.stop("bob").await.expect("the topic is there");
    assert_eq!(
        stage.until_rest().await,
        [
            "call 1.1.0 cancelled: stopped by bob while it waited for a decision: it never ran",
            "card withdrawn by nobody",
            "turn 1 aborted",
            "aborted",
        ]
    );
    sleep(10 * LATENCY).await;
    assert_eq!(stage.runtime.approvals(), [], "at once, not when the ledger asks again");
    let late = stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(settlement(&stage, &late).state, CardState::Withdrawn);
    sleep(PATIENCE).await;
    assert_eq!(peer.executions("drop"), 0);
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_needs_nobody_runs_while_a_card_waits() {
    let peer = tools();
    let steps = [calls([("a", "drop", json!({})), ("a", "look", json!({}))]), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    stage.until_status(TopicStatus::AwaitingApproval).await;
    assert_eq!((peer.executions("look"), peer.executions("drop")), (1, 0));
    let card = stage.runtime.approvals().pop().expect("it is shown");
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!(results, ["succeeded: dropped", "succeeded: seen"]);
}

#[tokio::test(start_paused = true)]
async fn each_call_runs_as_soon_as_its_own_card_is_decided() {
    let peer = tools();
    let steps = [calls([("a", "drop", json!({})), ("a", "burn", json!({}))]), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    let (drop, burn) = (stage.until_card().await, stage.until_card().await);
    stage.decide(&burn, Decision::allow("ann")).await;
    holds("it has run", || peer.executions("burn") == 1).await;
    stage.until_status(TopicStatus::AwaitingApproval).await;
    assert_eq!(peer.executions("drop"), 0);
    stage.decide(&drop, Decision::deny("ann", "no")).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!(results, ["denied: denied by ann: no", "succeeded: burnt"]);
}

#[tokio::test(start_paused = true)]
async fn a_card_is_shown_only_once_it_is_durable() {
    let (peer, store) = (tools(), memory());
    let steps = [call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    store.hold();
    let sending = tokio::spawn({
        let topic = stage.topic.clone();
        async move { topic.send("Go.").await }
    });
    // Each release lets one more of the records through that lead to the card.
    let mut looked = 0;
    while stage.runtime.approvals().is_empty() {
        settle().await;
        let crashed = store.crash();
        let kept = ledger_of(&crashed).await;
        assert_eq!((stage.runtime.approvals(), kept), (vec![], 0), "before it is durable");
        assert_eq!(stage.view().cards, [], "in the view neither");
        assert!(stage.shown_already().iter().all(|line| !line.starts_with("card")));
        store.release();
        store.hold();
        settle().await;
        looked += 1;
        assert!(looked < 20, "the card never comes");
    }
    assert_eq!(ledger_of(&store.crash()).await, 1);
    store.release();
    sending.await.expect("the task ends").expect("the message is taken");
    assert_eq!(stage.until_card().await, stage.runtime.approvals()[0]);
}

/// How many records the ledger has.
async fn ledger_of(store: &pilothouse::store::memory::MemoryStore) -> usize {
    use pilothouse::store::{Keyspace, Store};
    store.scan(Keyspace::Ledger, Vec::new(), None, 100).await.expect("it can be read").len()
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_answered_and_takes_effect_only_once_it_is_durable() {
    let (peer, store) = (tools(), memory());
    let steps = [call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    store.hold();
    let deciding = tokio::spawn({
        let (runtime, approval) = (stage.runtime.clone(), card.approval);
        async move { runtime.decide(approval, Decision::allow("ann")).await }
    });
    settle().await;
    assert!(!deciding.is_finished(), "nobody is told");
    assert_eq!((stage.runtime.approvals(), peer.executions("drop")), (vec![card], 0));
    store.release();
    assert_eq!(deciding.await.expect("the task ends"), Ok(DecideAnswer::Applied));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(peer.executions("drop"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_does_not_become_durable_is_none_and_nothing_is_approved_until_a_restart() {
    let (peer, store) = (tools(), memory());
    let steps = [call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let full = pilothouse::error::StoreError::Io { reason: "the disk is full".to_owned() };
    store.fail_next(full.clone());
    let answer = stage.runtime.decide(card.approval, Decision::allow("ann")).await;
    let source = AskError::Unconfirmed(full);
    assert_eq!(answer, Err(DecideError::Ask { approval: card.approval, source }));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((stage.runtime.approvals(), peer.executions("drop")), (vec![card.clone()], 0));
    let again = stage.runtime.decide(card.approval, Decision::allow("ann")).await;
    let stopped =
        |source: &AskError| matches!(source, AskError::Store(pilothouse::error::StoreError::Stopped { .. }));
    assert!(matches!(&again, Err(DecideError::Ask { source, .. }) if stopped(source)), "{again:?}");
    assert_eq!(stage.runtime.tree().children[0].state, "failed");

    let next = plays([Step::text("Done.")]).peer("a", &peer).store(store.crash());
    let next = Stage::on(next.start().await, "t", stage.view().config.clone()).await;
    assert_eq!(next.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    holds("the call runs", || next.status() == TopicStatus::Done).await;
    assert_eq!(peer.executions("drop"), 1);
}
