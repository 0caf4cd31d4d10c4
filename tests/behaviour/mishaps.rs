//! Every actor may panic, fail, hang or be killed at any message: readers keep their snapshots, whoever waits gets an
//! answer, what was owed is taken up again, and no sibling notices.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::Mishap;
use pilothouse::approval::Card;
use pilothouse::call::CallOutcome;
use pilothouse::error::{AskError, TopicError};
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::topic::TopicStatus;
use pilothouse::tree::{RuntimeEvent, TreeNode};
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{
    PATIENCE, Stage, assert_acceptable, call, holds, memory, messages, peer, said, server, thinks,
};

const ALL: [Mishap; 4] = [Mishap::Panic, Mishap::Fail, Mishap::Hang, Mishap::Kill];

/// Whether a failure of an actor says that this befell it.
fn tells_of(mishap: Mishap, failure: &str) -> bool {
    match mishap {
        Mishap::Panic => failure.contains("a planned mishap: it panics"),
        Mishap::Fail => failure.contains("a planned mishap: it fails"),
        // A connection that is to end and does not is killed by its supervisor before that.
        Mishap::Hang => failure.contains("it was stuck in one message for 5s") || failure.contains("killed"),
        Mishap::Kill => failure.contains("killed"),
    }
}

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}))
}

/// Every actor below the root.
fn actors(tree: &TreeNode) -> Vec<&TreeNode> {
    tree.children.iter().flat_map(|child| std::iter::once(child).chain(actors(child))).collect()
}

fn actor<'a>(tree: &'a TreeNode, name: &str) -> &'a TreeNode {
    actors(tree).into_iter().find(|actor| actor.name == name).expect("it is in the tree")
}

/// Asks until there is an answer, as a careful caller does, and holds that each try ends.
async fn answered<T, E: std::fmt::Debug>(mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..40 {
        let answer = timeout(Duration::from_secs(30), ask()).await.expect("whoever asks gets an answer");
        match answer {
            Ok(answer) => return answer,
            Err(_again) => sleep(Duration::from_millis(200)).await,
        }
    }
    panic!("it does not come back")
}

/// One runtime in which everything is under way: a card waits, a call of another topic hangs at another server, and a
/// third server has nothing to do.
struct Scene {
    stage: Stage,
    other: Stage,
    store: MemoryStore,
    model: Arc<ScriptedModel>,
    a: Arc<Peer>,
    b: Arc<Peer>,
    card: Card,
}

impl Scene {
    async fn set() -> Self {
        let (a, b, c, store) = (tools(), tools(), tools(), memory());
        let steps = vec![call("a", "drop", json!({})), Step::text("Done."), Step::text("And again.")];
        let model = Arc::new(ScriptedModel::new(steps));
        let others = Arc::new(ScriptedModel::new(vec![call("b", "look", json!({})), Step::text("Seen.")]));
        let setup = thinks(model.clone()).other(others).store(store.clone());
        let setup = setup.peer("a", &a).peer("b", &b).peer("c", &c);
        let mut stage = setup.raise().await;
        b.hold_calls();
        let mut other = Stage::on(stage.runtime.clone(), "other", TopicConfig::new("other")).await;
        other.say("go").await;
        other.until_running().await;
        stage.say("first").await;
        let card = stage.until_card().await;
        Self { stage, other, store, model, a, b, card }
    }

    /// Has every actor handle something, and every asker wait for it.
    async fn stir(&self, round: usize) {
        let runtime = &self.stage.runtime;
        let decided = answered(async || {
            runtime.decide(self.card.approval, Decision::allow("ann").of(&self.card)).await
        });
        let sent = answered(async || self.stage.topic.send_with_key("second", "second").await);
        let opened = answered(async || {
            runtime.open_topic(format!("new {round}"), TopicConfig::new("main")).await.map(drop)
        });
        let c = server(runtime, "c");
        let restarted = answered(async || c.restart().await);
        let listed = async {
            c.warm(PATIENCE).await;
            // A server that is being restarted is not listed, and says so.
            drop(timeout(Duration::from_secs(60), c.refresh()).await.expect("a refresh ends"));
        };
        tokio::join!(decided, sent, opened, restarted, listed);
    }

    /// What readers see, without waiting for anybody.
    fn is_read(&self, when: &str) {
        let runtime = &self.stage.runtime;
        for id in ["a", "b"] {
            assert_eq!(server(runtime, id).list().tools().len(), 2, "{when}: the tools of {id} are read");
        }
        assert!(self.stage.topic.view().is_some() && self.other.topic.view().is_some(), "{when}");
    }
}

/// Whether an actor ends with another one, which supervises it.
fn falls_with(actor: &str, struck: &str) -> bool {
    match struck {
        "servers" => actor.starts_with("connection/"),
        "topics" => actor.starts_with("session/"),
        _ => false,
    }
}

async fn check(struck: &str, mishap: Mishap, letter: u64) {
    let when = format!("{struck}, {mishap:?} at letter {letter}");
    let scene = Scene::set().await;
    let runtime = scene.stage.runtime.clone();
    let mut events = runtime.events();
    let before = actor(&runtime.tree(), struck).restarts;
    assert!(runtime.plan_mishap(struck, letter, mishap), "{when}");
    let has_failed = || {
        let tree = runtime.tree();
        tells_of(mishap, actor(&tree, struck).last_failure.as_deref().unwrap_or_default())
    };
    let stirred = async {
        for round in 0..10 {
            scene.stir(round).await;
            // One that hangs is told by the time alone.
            sleep(Duration::from_secs(6)).await;
            if has_failed() {
                return;
            }
        }
        panic!("{when}: it never came to that: {:?}", runtime.tree());
    };
    let read = async {
        loop {
            scene.is_read(&when);
            sleep(Duration::from_millis(7)).await;
        }
    };
    tokio::select! {
        () = stirred => {}
        () = read => {}
    }
    holds(&format!("{when}: the tree heals"), || {
        let tree = runtime.tree();
        actors(&tree).iter().all(|actor| matches!(actor.state.as_str(), "running" | "ready" | "asleep"))
    })
    .await;
    let tree = runtime.tree();
    assert!(actor(&tree, struck).restarts > before, "{when}: {tree:?}");
    let fell: Vec<_> = actors(&tree).into_iter().filter(|actor| actor.restarts > 0).collect();
    let others = fell.iter().filter(|actor| {
        actor.name != struck && actor.name != "connection/c" && !falls_with(&actor.name, struck)
    });
    assert_eq!(others.map(|actor| &actor.name).collect::<Vec<_>>(), Vec::<&String>::new(), "{when}");
    assert!(told(&mut events, struck, mishap).await, "{when}: no event tells of it");
    is_whole(scene, struck, &when).await;
}

/// Whether an event tells that this actor was restarted for this reason.
async fn told(events: &mut pilothouse::RuntimeEvents, struck: &str, mishap: Mishap) -> bool {
    let mut told = false;
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
        told |= match event {
            RuntimeEvent::Restarted { actor, reason } => actor == struck && tells_of(mishap, &reason),
            _ => false,
        };
    }
    told
}

/// What was under way has come to its end, once, and the next process finds the same.
async fn is_whole(scene: Scene, struck: &str, when: &str) {
    let Scene { stage, other, store, model, a, b, card: _ } = scene;
    b.release_calls();
    let rests = |stage: &Stage| {
        let status = stage.topic.view().map(|view| view.status);
        matches!(status, Some(TopicStatus::Done | TopicStatus::Error))
    };
    holds(&format!("{when}: both topics come to rest"), || rests(&stage) && rests(&other)).await;
    let answered = stage.topic.send_with_key("last", "last");
    answered.await.unwrap_or_else(|error| panic!("{when}: {error}"));
    holds(&format!("{when}: the topic goes on"), || {
        messages(&stage.view()).last().is_some_and(|line| line.starts_with("last answered"))
    })
    .await;
    let places = messages(&stage.view());
    let texts: Vec<_> = places.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(texts, ["first", "second", "last"], "{when}: each message once");
    let dropped = stage.results().first().map(|result| result.outcome);
    let neighbour = other.results().iter().map(said).collect::<Vec<_>>();
    match struck {
        // The calls that were under way went with their actors, and nobody knows.
        "servers" => assert!(a.executions("drop") <= 1 && neighbour.len() == 1, "{when}: {neighbour:?}"),
        "topics" => assert!(a.executions("drop") <= 1, "{when}"),
        // Its own call may have been cut off; a decision of a person stands.
        "session/t" => {
            assert!(a.executions("drop") <= 1, "{when}");
            assert_eq!(neighbour, ["succeeded: seen"], "{when}: the neighbour has noticed nothing");
        }
        _ => {
            assert_eq!((a.executions("drop"), dropped), (1, Some(CallOutcome::Succeeded)), "{when}");
            assert_eq!(neighbour, ["succeeded: seen"], "{when}: the neighbour has noticed nothing");
        }
    }
    assert_eq!(stage.results().len(), 1, "{when}: the call has one result");
    assert_acceptable(&model.requests().pop().expect("it was asked").history);
    assert_eq!(stage.runtime.approvals(), [], "{when}: no card is left");

    let next = thinks(model).peer("a", &a).store(store.crash()).start().await;
    let kept = next.topic("t").await.expect("it is stored");
    holds("it is read back", || kept.view().is_some_and(|view| !view.turns.is_empty())).await;
    assert_eq!(messages(&kept.view().expect("it is read back")), places, "{when}");
}

async fn each(struck: &str, letters: u64) {
    for mishap in ALL {
        for letter in 1..=letters {
            check(struck, mishap, letter).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_ledger_may_fail_at_any_message_and_the_tree_heals() {
    each("approval", 6).await;
}

#[tokio::test(start_paused = true)]
async fn the_catalog_may_fail_at_any_message_and_the_tree_heals() {
    each("catalog", 6).await;
}

#[tokio::test(start_paused = true)]
async fn the_registry_may_fail_at_any_message_and_the_tree_heals() {
    each("registry", 3).await;
}

#[tokio::test(start_paused = true)]
async fn the_supervisor_of_servers_may_fail_at_any_message_and_the_tree_heals() {
    each("servers", 6).await;
}

#[tokio::test(start_paused = true)]
async fn the_supervisor_of_topics_may_fail_at_any_message_and_the_tree_heals() {
    each("topics", 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_fail_at_any_message_and_the_tree_heals() {
    each("connection/c", 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_may_fail_at_any_message_and_the_tree_heals() {
    each("session/t", 8).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_hangs_keeps_no_shutdown_beyond_its_bound() {
    let names = ["approval", "catalog", "registry", "servers", "topics", "connection/a", "session/t"];
    for name in names {
        let scene = Scene::set().await;
        let runtime = scene.stage.runtime.clone();
        assert!(runtime.plan_mishap(name, 1, Mishap::Hang));
        let begun = Instant::now();
        let end = runtime.shutdown().await;
        assert!(begun.elapsed() <= Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
        assert_eq!(runtime.tree().state, "stopped", "{name}");
        assert_eq!(scene.a.connections(), 0, "{name}: {end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_fails_without_end_is_parked_and_says_why_until_it_is_asked_for_again() {
    let scene = Scene::set().await;
    let runtime = scene.stage.runtime.clone();
    // The first message of each life is what it has read.
    while actor(&runtime.tree(), "session/t").state != "failed" {
        assert!(actor(&runtime.tree(), "session/t").restarts <= 9, "it is parked after nine ends");
        assert!(runtime.plan_mishap("session/t", 1, Mishap::Panic));
        sleep(Duration::from_millis(100)).await;
        drop(scene.stage.topic.stop("ann").await);
    }
    let tree = runtime.tree();
    let parked = actor(&tree, "session/t");
    assert_eq!((parked.restarts, parked.last_failure.as_deref().unwrap_or_default().is_empty()), (9, false));
    let refused = scene.stage.topic.send("x").await;
    let Err(TopicError::Ask(AskError::Absent { reason })) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("it failed too often"), "{reason}");
    let topic = runtime.topic("t").await.expect("opening it again starts it");
    answered(async || topic.send_with_key("second", "second").await).await;
    assert_eq!(actor(&runtime.tree(), "session/other").restarts, 0);
}
