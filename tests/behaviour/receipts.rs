//! What the next process knows of servers and their calls: a task, a question that nobody has answered yet, and which
//! protocol was spoken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::error::StoreError;
use pilothouse::mcp::{Ask, AskKind, Asks, Question, Reply};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::topic::{PermissionMode, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::stage::{Setup, Stage, call, holds, memory, peer, plays, said, server, settle};

/// A person who answers after this long.
#[derive(Clone)]
struct Person {
    takes: Duration,
    asked: Arc<AtomicUsize>,
}

impl Person {
    fn taking(seconds: u64) -> Self {
        Self { takes: Duration::from_secs(seconds), asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Asks for Person {
    fn kinds(&self) -> BTreeSet<AskKind> {
        [AskKind::Form].into()
    }

    fn answer(&self, question: Question) -> std::pin::Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        assert!(matches!(question.ask, Ask::Form { .. }), "{question:?}");
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            sleep(self.takes).await;
            Reply::Accepted(Map::from_iter([("name".to_owned(), json!("Ada"))]))
        })
    }
}

/// A server that works on `work` for five minutes, and on `ask` once it knows who asks.
fn slow(protocol: &str) -> Arc<Peer> {
    peer(json!({"protocol": protocol, "tools": [
        {"name": "work", "task": true, "delay_ms": 300_000, "reply": "worked"},
        {"name": "ask", "reply": "told"},
    ], "faults": [{"ask": {"what": "elicitation", "on": {"tool": "ask"}}}]}))
}

fn setup(peer: &Arc<Peer>, person: &Person, steps: impl IntoIterator<Item = Step>) -> Setup {
    let server =
        Server::in_memory("a", peer.clone()).effect("work", Effect::Edits).effect("ask", Effect::Edits);
    let person = person.clone();
    plays(steps)
        .server(server.call_timeout(Duration::from_secs(60)))
        .build(|builder| builder.asks(person))
        .config(|config| config.mode = PermissionMode::AcceptEdits)
}

fn count(peer: &Peer, method: &str) -> usize {
    peer.methods().iter().filter(|heard| *heard == method).count()
}

fn key(call: &Value) -> Value {
    call["_meta"]["pilothouse/idempotency-key"].clone()
}

/// The one call of the topic has this last word, and its turn goes on to its end.
async fn check_ends(stage: &mut Stage, expected: &str) {
    holds("the turn is over", || stage.status() == TopicStatus::Done).await;
    assert_eq!(stage.results().iter().map(said).collect::<Vec<_>>(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_settled_by_the_next_process_and_not_begun_again() {
    let (peer, store, person) = (slow("modern"), memory(), Person::taking(0));
    let stage = setup(&peer, &person, [call("a", "work", json!({}))]).store(store.clone()).raise().await;
    stage.say("first").await;
    holds("the task is asked for", || count(&peer, "tasks/get") > 0).await;
    stage.say("second").await;
    let (crashed, polls) = (store.crash(), count(&peer, "tasks/get"));

    let mut next = setup(&peer, &person, [Step::text("Done.")]).store(crashed).raise().await;
    assert_eq!(next.status(), TopicStatus::Streaming);
    check_ends(&mut next, "succeeded: worked").await;
    assert!(count(&peer, "tasks/get") > polls);
    assert_eq!((peer.executions("work"), count(&peer, "tasks/cancel")), (1, 0));
    assert_eq!(next.messages(), ["first answered(1)", "second held(process_restart)"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_has_forgotten_is_unknown_and_not_begun_again() {
    let (old, store, person) = (slow("modern"), memory(), Person::taking(0));
    let stage = setup(&old, &person, [call("a", "work", json!({}))]).store(store.clone()).raise().await;
    stage.say("first").await;
    holds("the task is asked for", || count(&old, "tasks/get") > 0).await;

    let new = slow("modern");
    let mut next = setup(&new, &person, [Step::text("Done.")]).store(store.crash()).raise().await;
    let words = "unknown: the server worked on it as a task, and does not say what became of it: \
                 the server answered error -32602: there is no such task";
    check_ends(&mut next, words).await;
    assert_eq!(new.executions("work"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_taken_up_is_cancelled_when_its_turn_is_stopped_and_outlives_its_session() {
    let (peer, store, person) = (slow("modern"), memory(), Person::taking(0));
    let stage = setup(&peer, &person, [call("a", "work", json!({}))]).store(store.clone()).raise().await;
    stage.say("first").await;
    holds("the task is asked for", || count(&peer, "tasks/get") > 0).await;
    store.fail_next(StoreError::Io { reason: "the disk is full".to_owned() });
    assert!(stage.topic.send("second").await.is_err(), "the session ends");
    settle().await;
    let polls = count(&peer, "tasks/get");
    holds("the next session asks for it", || count(&peer, "tasks/get") > polls + 2).await;
    assert_eq!((stage.status(), count(&peer, "tasks/cancel")), (TopicStatus::Streaming, 0));

    stage.topic.stop("ann").await.expect("the topic is there");
    holds("the server is told", || count(&peer, "tasks/cancel") == 1).await;
    assert_eq!(stage.status(), TopicStatus::Aborted);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_put_again_after_a_crash_and_its_call_runs_once_under_the_same_key() {
    let (peer, store, person) = (slow("modern"), memory(), Person::taking(300));
    let stage = setup(&peer, &person, [call("a", "ask", json!({"n": 1}))]).store(store.clone()).raise().await;
    stage.say("first").await;
    holds("a person is asked", || person.asked() == 1).await;
    let crashed = store.crash();
    // The old process is gone for good: only the next one answers.
    stage.runtime.shutdown().await;

    let again = Person::taking(100);
    let mut next = setup(&peer, &again, [Step::text("Done.")]).store(crashed).raise().await;
    check_ends(&mut next, "succeeded: told\n{\"action\":\"accept\",\"content\":{\"name\":\"ada\"}}").await;
    assert_eq!((again.asked(), peer.executions("ask")), (1, 1));
    let calls = peer.calls();
    let [run] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((&run["arguments"], &run["requestState"]), (&json!({"n": 1}), &json!("state-1")));
    assert!(key(run).is_string(), "{run}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answers_went_out_before_a_crash_is_unknown_and_not_sent_again() {
    let (peer, store, person) = (slow("modern"), memory(), Person::taking(1));
    let stage = setup(&peer, &person, [call("a", "ask", json!({}))]).store(store.clone()).raise().await;
    peer.hold_calls();
    stage.say("first").await;
    holds("it runs", || peer.executions("ask") == 1).await;

    let next = setup(&peer, &person, []).store(store.crash()).raise().await;
    settle().await;
    let words = "unknown: the process was restarted after this call was sent: nobody knows whether it ran";
    assert_eq!(next.results().iter().map(said).collect::<Vec<_>>(), [words]);
    assert_eq!((next.status(), peer.executions("ask"), person.asked()), (TopicStatus::Error, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_modern_is_not_talked_down_by_the_next_process_until_it_is_defined_anew() {
    let (store, person) = (memory(), Person::taking(0));
    let before = setup(&slow("modern"), &person, []).store(store.clone()).start().await;
    assert_eq!(server(&before, "a").view().protocol.as_deref(), Some("2026-07-28"));

    let legacy = slow("legacy");
    let after = setup(&legacy, &person, []).store(store.crash()).cold().start().await;
    let a = server(&after, "a");
    holds("it is refused", || a.view().state == ServerState::Backoff).await;
    let reason = a.view().reason.expect("a reason");
    assert!(reason.contains("it spoke MCP 2026-07-28 before"), "{reason}");
    assert_eq!(count(&legacy, "initialize"), 0);
    after.remove_server(a.id()).await.expect("it is removed");
    after.add_server(Server::in_memory("a", legacy)).await.expect("it is added");
    holds("it is spoken to afresh", || server(&after, "a").view().protocol.as_deref() == Some("2025-11-25"))
        .await;
}
