//! Servers that are dead, slow or short of breath: nobody waits for them, and each is tried as often as it deserves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse_harness::peer::{Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fake::{Fake, Mood};
use crate::stage::{PATIENCE, Stage, call, holds, peer, plays, said, server};

fn look(faults: Value) -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}], "faults": faults}))
}

fn script(value: Value) -> Script {
    Script::try_from(value).expect("the script is one")
}

#[tokio::test(start_paused = true)]
async fn a_turn_begins_at_once_with_the_tools_of_those_that_answer() {
    let (a, silent, c) =
        (look(json!([{"delay_ms": 10}])), look(json!([{"silence": "connect"}])), look(json!([])));
    let refused = Fake::new(Mood::Missing, []);
    let steps = [call("a", "look", json!({})), Step::text("Seen.")];
    let setup = plays(steps).peer("a", &a).peer("silent", &silent).peer("c", &c);
    let refused = Server::with_connector("refused", "fake", refused.connector());
    let runtime = setup.server(refused).cold().start().await;
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let mut stage = Stage::on(runtime, "t", TopicConfig::new("main")).await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(begun.elapsed() <= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert_eq!(said(&stage.results()[0]), "succeeded: seen");
    let states = ["a", "silent", "refused", "c"].map(|id| stage.server(id).view().state);
    assert_eq!(
        states,
        [ServerState::Ready, ServerState::Connecting, ServerState::Failed, ServerState::Ready]
    );
    assert!(stage.server("refused").view().reason.is_some());
    // What is cold may come later, so the meta tools are shown, too.
    let shown = stage
        .topic
        .surface()
        .map(|surface| surface.tools.iter().filter(|tool| tool.name.starts_with("mcp__")).count());
    assert_eq!(shown, Some(2));
}

#[tokio::test(start_paused = true)]
async fn many_servers_that_are_slow_to_start_are_all_ready_in_the_end() {
    let delays = (0..20).map(|n| 2_000 + 400 * n);
    let peers: Vec<_> = delays.map(|ms| look(json!([{"delay": {"on": "connect", "ms": ms}}]))).collect();
    let mut setup = plays([]).cold();
    for (n, peer) in peers.iter().enumerate() {
        setup = setup.peer(&format!("s{n}"), peer);
    }
    let runtime = setup.start().await;
    runtime.warm(PATIENCE).await;
    let views: Vec<_> = runtime.servers().iter().map(|server| server.view()).collect();
    assert!(views.iter().all(|view| view.state == ServerState::Ready && view.tools == 1), "{views:?}");
    assert!(peers.iter().all(|peer| peer.connections_ever() == 1), "none was given up");
}

#[tokio::test(start_paused = true)]
async fn no_server_and_only_dead_servers_are_told_apart_and_delay_nothing() {
    let mut none = plays([Step::text("Alone.")]).raise().await;
    assert_eq!(none.runtime.servers().len(), 0);
    none.say("Go.").await;
    assert_eq!(none.until_end().await, StopReason::Completed);

    let missing = Fake::new(Mood::Missing, []);
    let dead = |id| Server::with_connector(id, "fake", missing.connector());
    let mut all = plays([Step::text("Alone.")]).server(dead("a")).server(dead("b")).raise().await;
    all.say("Go.").await;
    assert_eq!(all.until_end().await, StopReason::Completed);
    let states: BTreeSet<_> = all.runtime.servers().iter().map(|s| format!("{:?}", s.view().state)).collect();
    assert_eq!(states, ["Failed".to_owned()].into());
    sleep(Duration::from_secs(600)).await;
    assert_eq!(missing.connects(), 2, "what cannot be helped is not tried again");
}

#[tokio::test(start_paused = true)]
async fn fifty_topics_share_one_connection_and_a_shutdown_ends_it() {
    let offering = look(json!([]));
    let steps = (0..50).flat_map(|_| [call("a", "look", json!({})), Step::text("Seen.")]);
    let runtime = plays(steps).peer("a", &offering).start().await;
    for n in 0..50 {
        let mut stage = Stage::on(runtime.clone(), &format!("t{n}"), TopicConfig::new("main")).await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
    assert_eq!((offering.connections_ever(), offering.executions("look")), (1, 50));
    assert!(runtime.shutdown().await.is_clean());
    assert_eq!(offering.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_while_idle_keeps_its_place_and_is_called_again() {
    let offering = look(json!([]));
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    offering.kill();
    holds("it is down", || a.view().state != ServerState::Ready).await;
    assert_eq!((a.list().tools().len(), a.tool_name("look").is_some()), (1, true));
    holds("it is back", || a.view().state == ServerState::Ready).await;
    assert_eq!(said(&a.call("look", &json!({})).await), "succeeded: seen");
    assert_eq!(a.view().restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_dead_server_fail_at_once_and_cause_no_connection() {
    let offering = look(json!([]));
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    offering.set_script(script(json!({"tools": [{"name": "look"}], "faults": [{"exit_after": 0}]})));
    offering.kill();
    holds("it is down for a while", || {
        let view = a.view();
        view.state == ServerState::Backoff
            && view.retry_at.is_some_and(|at| at.since(view.since) > Duration::from_secs(5))
    })
    .await;
    let (before, attempt, begun) = (offering.connections_ever(), a.view().attempt, Instant::now());
    for _ in 0..1_000 {
        let result = a.call("look", &json!({})).await;
        assert_eq!(result.outcome, CallOutcome::Unavailable, "{result:?}");
        assert!(result.retry_after_ms.is_some(), "{result:?}");
    }
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!((offering.connections_ever(), a.view().attempt), (before, attempt));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_greets_and_dies_is_tried_more_and_more_seldom() {
    let offering = look(json!([{"exit_after": 2}]));
    let _runtime = plays([]).peer("a", &offering).cold().start().await;
    sleep(Duration::from_secs(30)).await;
    let at_first = offering.connections_ever();
    assert!((2..=12).contains(&at_first), "{at_first} in 30 s");
    sleep(Duration::from_secs(30 * 60)).await;
    let later = offering.connections_ever();
    sleep(Duration::from_secs(30)).await;
    assert!(offering.connections_ever() - later <= 2, "in the last 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_server_comes_back_after_an_outage_of_any_length() {
    let offering = look(json!([]));
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    offering.set_script(script(json!({"faults": [{"exit_after": 0}]})));
    offering.kill();
    sleep(Duration::from_secs(15 * 60)).await;
    offering.set_script(script(json!({"tools": [{"name": "look", "reply": "seen"}]})));
    let begun = Instant::now();
    holds("it is back", || a.view().state == ServerState::Ready).await;
    assert!(begun.elapsed() <= Duration::from_secs(61), "{:?}", begun.elapsed());
    assert_eq!(a.warm(PATIENCE).await.tools().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ends_that_are_far_apart_are_never_added_up() {
    let offering = look(json!([]));
    let setup = plays([]).peer("a", &offering).limits(|limits| limits.restart_budget = 5);
    let runtime = setup.start().await;
    let a = server(&runtime, "a");
    for n in 1..=6 {
        sleep(Duration::from_secs(600)).await;
        offering.kill();
        holds("it is back", || a.view().state == ServerState::Ready && a.view().restarts == n).await;
        assert!(a.view().attempt <= 1, "{:?}", a.view());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_for_our_answers_is_answered_at_once() {
    for what in ["ping", "roots", "sampling", "elicitation", "unknown"] {
        let offering = look(json!([{"ask": {"what": what, "on": "call"}}, {"ask": {"what": what}}]));
        let runtime = plays([]).peer("a", &offering).start().await;
        let begun = Instant::now();
        let result = server(&runtime, "a").call("look", &json!({})).await;
        assert_eq!(result.outcome, CallOutcome::Succeeded, "{what}: {result:?}");
        assert!(begun.elapsed() <= Duration::from_millis(100), "{what}: {:?}", begun.elapsed());
        assert_eq!(offering.answers().len(), 2, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_in_the_first_call_reaches_nobody_in_the_way_of_its_result() {
    let offering = look(
        json!([{"progress": {"on": "call", "every_ms": 10, "times": 3}}, {"delay": {"on": "call", "ms": 50}}]),
    );
    let runtime = plays([]).peer("a", &offering).start().await;
    assert_eq!(said(&server(&runtime, "a").call("look", &json!({})).await), "succeeded: seen");
}

#[tokio::test]
async fn ids_of_topics_are_never_names_of_files() {
    let outer = tempfile::tempdir().expect("a directory");
    let inner = outer.path().join("data");
    let builder = Runtime::builder()
        .data_dir(&inner)
        .model("main", pilothouse::model::scripted::ScriptedModel::new(vec![]));
    let runtime = builder.start().await.expect("it starts");
    for id in ["../../etc/x", "../escaped", "/tmp/absolute", "a\u{0}b"] {
        if let Ok(topic) = runtime.open_topic(id, TopicConfig::new("main")).await {
            assert_eq!(topic.id().as_str(), id);
        }
    }
    let long = "x".repeat(300);
    assert!(runtime.open_topic(long.as_str(), TopicConfig::new("main")).await.is_err());
    assert!(runtime.shutdown().await.is_clean());
    let beside: Vec<_> =
        std::fs::read_dir(outer.path()).expect("it is read").flatten().map(|e| e.file_name()).collect();
    assert_eq!(beside, ["data"]);
    assert!(!std::path::Path::new("/etc/x").exists() && !std::path::Path::new("/tmp/absolute").exists());
}
