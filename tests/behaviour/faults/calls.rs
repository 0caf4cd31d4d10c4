//! Calls that are cancelled, time out, or are answered when nobody waits any more: none runs twice, none is given
//! another's answer.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::audit::{AuditFact, LateWord};
use pilothouse::call::CallOutcome;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{call, calls, holds, peer, plays, said, server};

fn offers(faults: Value) -> Arc<Peer> {
    let tools = json!([{"name": "look", "reply": "seen"}, {"name": "count", "reply": "counted"}]);
    peer(json!({"tools": tools, "faults": faults}))
}

fn counting(peer: &Arc<Peer>) -> Server {
    Server::in_memory("a", peer.clone()).effect("look", Effect::Reads).effect("count", Effect::Reads)
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_second_of_five_calls_sends_none_of_the_others() {
    let offering = offers(json!([{"silence": {"tool": "count", "nth": 2}}]));
    let one = || ("a", "count", json!({}));
    let steps = [calls([one(), one(), one(), one(), one()]), Step::text("Done.")];
    let setup = plays(steps).server(counting(&offering)).limits(|limits| limits.calls_per_topic = 1);
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    holds("the second one runs", || offering.executions("count") == 2).await;
    stage.topic.stop("ann").await.expect("it stops");
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(offering.executions("count"), 2);
    let outcomes: Vec<_> = stage.results().iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes[0], CallOutcome::Succeeded);
    assert_eq!(outcomes[2..], [CallOutcome::Cancelled; 3], "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_asked_for_and_keeps_a_call_alive() {
    let offering = peer(json!({
        "tools": [{"name": "look", "reply": "seen", "delay_ms": 180_000}],
        "faults": [{"progress": {"on": "call", "every_ms": 20_000}}],
    }));
    let runtime = plays([]).peer("a", &offering).start().await;
    let result = server(&runtime, "a").call("look", &json!({})).await;
    assert_eq!(said(&result), "succeeded: seen");
    assert!(!offering.calls()[0]["_meta"]["progressToken"].is_null(), "{:?}", offering.calls());
}

#[tokio::test(start_paused = true)]
async fn progress_without_end_ends_at_the_cap_and_is_cancelled_once() {
    let offering = peer(json!({
        "tools": [{"name": "look", "delay_ms": 3_600_000}],
        "faults": [{"progress": {"on": "call", "every_ms": 1_000}}],
    }));
    let runtime = plays([]).peer("a", &offering).start().await;
    let begun = Instant::now();
    let result = server(&runtime, "a").call("look", &json!({})).await;
    assert_eq!((result.outcome, begun.elapsed().as_secs()), (CallOutcome::TimedOut, 600));
    holds("the server is told", || offering.cancellations() == 1).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(offering.cancellations(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_timed_out_is_cancelled_and_neither_sent_again_nor_taken_for_another() {
    let faults = json!([{"delay": {"on": {"tool": "count"}, "ms": 90_000}}, {"late_reply": {"on": {"tool": "count"}, "ms": 100}}]);
    let offering = offers(faults);
    let runtime = plays([]).server(counting(&offering)).start().await;
    let a = server(&runtime, "a");
    assert_eq!(a.call("count", &json!({})).await.outcome, CallOutcome::TimedOut);
    for _ in 0..3 {
        assert_eq!(said(&a.call("look", &json!({})).await), "succeeded: seen");
        sleep(Duration::from_millis(60)).await;
    }
    holds("the late answer is counted", || a.view().late_answers == 1).await;
    assert_eq!((offering.executions("count"), offering.cancellations()), (1, 1));
    assert_eq!((a.view().state, offering.connections_ever()), (ServerState::Ready, 1));
    assert!(
        !offering.methods().iter().any(|method| method == "initialize") || offering.connections_ever() == 1
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_is_in_the_audit_and_changes_nothing() {
    let faults = json!([{"delay": {"on": {"tool": "count"}, "ms": 90_000}}, {"late_reply": {"on": {"tool": "count"}, "ms": 100}}]);
    let offering = offers(faults);
    let steps = [call("a", "count", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).server(counting(&offering)).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let before = stage.view();
    let mut late = Vec::new();
    for _ in 0..600 {
        let report = stage.runtime.audit().await.expect("it reads");
        assert_eq!(report.faults, []);
        late = report
            .rows
            .iter()
            .filter_map(|row| match row.fact {
                AuditFact::AnsweredLate { call, answer } => Some((call.to_string(), answer.word)),
                _ => None,
            })
            .collect();
        if !late.is_empty() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(late, [("1.1.0".to_owned(), LateWord::Succeeded)]);
    assert_eq!((stage.view(), stage.server("a").view().late_answers), (before, 1));
    assert_eq!(stage.results()[0].outcome, CallOutcome::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn calls_that_nobody_waits_for_any_more_are_cancelled_and_leave_their_places() {
    let offering = offers(json!([{"silence": {"tool": "count"}}]));
    let runtime = plays([]).server(counting(&offering)).start().await;
    let a = server(&runtime, "a");
    for n in 1..=200 {
        assert!(timeout(Duration::from_millis(1), a.call("count", &json!({}))).await.is_err());
        holds("the server is told", || {
            offering.cancellations() >= n || offering.executions("count") < n as u64
        })
        .await;
    }
    holds("every one is cancelled", || offering.cancellations() as u64 == offering.executions("count")).await;
    assert!(offering.executions("count") >= 100, "{}", offering.executions("count"));
    assert_eq!(said(&a.call("look", &json!({})).await), "succeeded: seen", "there is a place");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_server_died_is_not_sent_again_by_anybody() {
    let offering = offers(json!([{"exit": {"on": {"tool": "count", "nth": 1}}}]));
    let unknown = Server::in_memory("a", offering.clone()).effect("count", Effect::Executes);
    let steps = [call("a", "count", json!({})), Step::text("Who knows.")];
    let mut stage = plays(steps)
        .server(unknown)
        .config(|config| config.mode = pilothouse::topic::PermissionMode::Bypass)
        .build(|builder| builder.max_mode(pilothouse::topic::PermissionMode::Bypass))
        .raise()
        .await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let a = stage.server("a");
    holds("it is back", || a.view().state == ServerState::Ready).await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!((stage.results()[0].outcome, offering.executions("count")), (CallOutcome::Unknown, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_lost_behind_a_gateway_costs_the_tools_behind_it_only() {
    let error = json!({"error": {"on": {"tool": "count"}, "code": -32000, "message": "session not found"}});
    let offering = offers(json!([error]));
    let runtime = plays([]).server(counting(&offering)).start().await;
    let a = server(&runtime, "a");
    for _ in 0..5 {
        let lost = a.call("count", &json!({})).await;
        assert!(lost.outcome == CallOutcome::Failed && lost.text().contains("session not found"), "{lost:?}");
        assert_eq!(said(&a.call("look", &json!({})).await), "succeeded: seen");
    }
    assert_eq!(offering.connections_ever(), 1);
}
