//! Dead, slow and lying servers: they make nobody wait but who calls them, and nobody wait for long.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::error::ServerError;
use pilothouse::listing::ListingState;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::tree::RuntimeEvent;
use pilothouse_harness::peer::{Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::fake::{Fake, Mood, tool};
use crate::stage::{PATIENCE, call, holds, peer, plays, said, server};

fn look() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}]}))
}

fn script(value: Value) -> Script {
    Script::try_from(value).expect("the script is one")
}

/// A server that ends every connection before it has said a word.
fn dead() -> Script {
    script(json!({"tools": [{"name": "look", "reply": "seen"}], "faults": [{"exit_after": 0}]}))
}

fn fake(id: &str, fake: &Fake) -> Server {
    Server::with_connector(id, "fake", fake.connector()).effect("look", Effect::Reads)
}

#[tokio::test(start_paused = true)]
async fn dead_servers_do_not_delay_the_start_nor_a_turn() {
    let silent = peer(json!({"faults": [{"silence": "connect"}]}));
    let missing = Fake::new(Mood::Missing, []);
    let dying = Fake::new(Mood::Dying, []);
    let panicking = Fake::new(Mood::Panicking, []);
    let begun = Instant::now();
    let setup = plays([Step::text("Yes?")])
        .peer("silent", &silent)
        .server(fake("missing", &missing))
        .server(fake("dying", &dying))
        .server(fake("panicking", &panicking))
        .cold();
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    let state = |id| server(&stage.runtime, id).view().state;
    assert_eq!(
        [state("silent"), state("missing"), state("dying"), state("panicking")],
        [ServerState::Connecting, ServerState::Failed, ServerState::Backoff, ServerState::Backoff]
    );
    let words = server(&stage.runtime, "missing").view();
    assert_eq!(words.reason.as_deref(), Some("cannot run \"fake\": no such file"));
    assert_eq!(words.stderr, ["a word of its own"]);
    let silent = server(&stage.runtime, "silent");
    holds("it is given up", || silent.view().state == ServerState::Backoff).await;
    assert_eq!((begun.elapsed().as_secs(), silent.view().attempt), (30, 1));
    assert_eq!(silent.view().reason.as_deref(), Some("no answer to the handshake within 30000 ms"));
    assert_eq!(missing.connects(), 1, "what cannot be helped is not tried again");
    assert!(dying.connects() > 2, "what can be, is");
}

#[tokio::test(start_paused = true)]
async fn warm_waits_for_those_that_answer_and_no_longer_than_it_is_told() {
    let (good, silent) = (look(), peer(json!({"faults": [{"silence": "connect"}]})));
    let setup = plays([]).peer("good", &good).peer("silent", &silent).cold();
    let runtime = setup.start().await;
    let begun = Instant::now();
    let listing = server(&runtime, "good").warm(Duration::from_secs(5)).await;
    assert_eq!((listing.state.clone(), listing.tools().len()), (ListingState::Warm, 1));
    assert!(begun.elapsed() < Duration::from_secs(1));
    runtime.warm(Duration::from_secs(5)).await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert_eq!(server(&runtime, "silent").list().state, ListingState::Cold);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_leaves_its_listing_stale_and_comes_back_warm() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    let a = server(&runtime, "a");
    let revision = a.list().listing.as_ref().map(|listing| listing.revision);
    peer.set_script(dead());
    peer.kill();
    holds("it is down", || a.view().state == ServerState::Backoff).await;
    let listing = a.list();
    let ListingState::Stale { reason } = &listing.state else { panic!("{listing:?}") };
    assert!(!reason.is_empty());
    assert_eq!((listing.tools().len(), a.view().tools), (1, 1), "the last known good one stays");
    peer.set_script(script(json!({"tools": [{"name": "look", "reply": "seen"}]})));
    let listing = a.warm(PATIENCE).await;
    assert_eq!(listing.state, ListingState::Warm);
    assert_eq!(listing.listing.as_ref().map(|listing| listing.revision), revision, "nothing has changed");
    assert_eq!(a.view().state, ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_server_that_is_down_is_unavailable_at_once_and_says_when_to_come_back() {
    let peer = look();
    let steps = [call("a", "look", json!({})), Step::text("Later, then.")];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    let a = stage.server("a");
    peer.set_script(dead());
    peer.kill();
    // After some failures the delays are long enough to look at.
    holds("it is down for a while", || {
        let view = a.view();
        view.state == ServerState::Backoff
            && view.retry_at.is_some_and(|at| at.since(view.since) > Duration::from_secs(5))
    })
    .await;
    let begun = Instant::now();
    let outside = a.call("look", &json!({})).await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    for result in [outside, stage.results().remove(0)] {
        assert_eq!(result.outcome, CallOutcome::Unavailable, "{result:?}");
        assert!(result.text().contains("it was not called"), "{result:?}");
        assert!(result.retry_after_ms.is_some_and(|wait| wait > 1_000), "{result:?}");
    }
    assert_eq!(peer.executions("look"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_server_dies_is_unknown_and_the_turn_goes_on() {
    let dying = peer(json!({"tools": [{"name": "look"}], "faults": [{"exit_on_call": "look"}]}));
    let steps = [call("a", "look", json!({})), Step::text("Did it?")];
    let mut stage = plays(steps).peer("a", &dying).raise().await;
    let begun = Instant::now();
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let result = stage.results().remove(0);
    assert_eq!(result.outcome, CallOutcome::Unknown, "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "at once, not at the deadline");
    assert_eq!(dying.executions("look"), 1, "and it is not tried again by itself");
    let a = stage.server("a");
    holds("it is back", || a.view().state == ServerState::Ready && a.view().restarts == 1).await;
}

#[tokio::test(start_paused = true)]
async fn one_dead_server_does_not_touch_another() {
    let (bad, good) = (look(), look());
    let runtime = plays([]).peer("bad", &bad).peer("good", &good).start().await;
    let (before, good_one) = (server(&runtime, "good").view(), server(&runtime, "good"));
    bad.set_script(dead());
    for _ in 0..20 {
        bad.kill();
        assert_eq!(said(&good_one.call("look", &json!({})).await), "succeeded: seen");
        sleep(Duration::from_secs(5)).await;
    }
    assert!(server(&runtime, "bad").view().restarts > 3);
    assert_eq!((good_one.view(), good.connections_ever()), (before, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_nonsense_or_panics_is_told_apart_from_its_neighbours() {
    for mood in [Mood::Garbled, Mood::Panicking] {
        let (bad, good) = (Fake::new(Mood::Well, [tool("look", "Looks.")]), look());
        let runtime = plays([]).server(fake("bad", &bad)).peer("good", &good).start().await;
        bad.becomes(mood);
        let refused = timeout(PATIENCE, server(&runtime, "bad").refresh()).await.expect("in time");
        assert!(matches!(refused, Err(ServerError::Refresh { .. })), "{mood:?}: {refused:?}");
        let listing = server(&runtime, "bad").list();
        assert!(matches!(listing.state, ListingState::Stale { .. }), "{mood:?}: {listing:?}");
        let called = timeout(PATIENCE, server(&runtime, "bad").call("look", &json!({}))).await;
        let called = called.expect("in time");
        let expected = if mood == Mood::Panicking { CallOutcome::Unknown } else { CallOutcome::Succeeded };
        assert_eq!(called.outcome, expected, "{mood:?}: {called:?}");
        assert_eq!(said(&server(&runtime, "good").call("look", &json!({})).await), "succeeded: seen");
        bad.becomes(Mood::Well);
        let refreshed = timeout(PATIENCE, server(&runtime, "bad").refresh()).await.expect("in time");
        assert!(refreshed.is_ok(), "{mood:?}: {refreshed:?}");
        assert_eq!(runtime.tree().children.iter().map(|child| child.restarts).sum::<u64>(), 0, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_server_starts_when_it_is_told_to() {
    let program = Fake::new(Mood::Missing, [tool("look", "Looks.")]);
    let runtime = plays([]).server(fake("a", &program)).cold().start().await;
    let a = server(&runtime, "a");
    holds("it has failed", || a.view().state == ServerState::Failed).await;
    let refused = a.refresh().await;
    assert!(matches!(refused, Err(ServerError::Refresh { .. })), "{refused:?}");
    program.becomes(Mood::Well);
    sleep(PATIENCE).await;
    assert_eq!((program.connects(), a.view().state), (1, ServerState::Failed));
    assert_eq!(a.restart().await, Ok(()));
    assert_eq!(a.warm(PATIENCE).await.tools().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_switched_off_keeps_its_listing_and_comes_back_when_it_is_switched_on() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    let a = server(&runtime, "a");
    assert_eq!(a.disable().await, Ok(()));
    holds("it is off", || a.view().state == ServerState::Stopped && peer.connections() == 0).await;
    assert_eq!(a.list().tools().len(), 1);
    let result = a.call("look", &json!({})).await;
    assert_eq!(result.outcome, CallOutcome::Unavailable, "{result:?}");
    let refused = a.restart().await;
    assert!(matches!(refused, Err(ServerError::Refused { .. })), "{refused:?}");
    sleep(PATIENCE).await;
    assert_eq!(peer.connections_ever(), 1);
    assert_eq!(a.enable().await, Ok(()));
    assert_eq!(a.warm(PATIENCE).await.state, ListingState::Warm);
    assert_eq!(said(&a.call("look", &json!({})).await), "succeeded: seen");
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_what_is_under_way_and_one_connection_takes_the_place_of_the_other() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    let a = server(&runtime, "a");
    peer.hold_calls();
    let calling = tokio::spawn({
        let a = a.clone();
        async move { a.call("look", &json!({})).await }
    });
    holds("it is under way", || peer.executions("look") == 1).await;
    assert_eq!(a.restart().await, Ok(()));
    let result = timeout(Duration::from_secs(10), calling).await.expect("in time").expect("the task ends");
    assert_eq!(result.outcome, CallOutcome::Unknown, "{result:?}");
    holds("it is back", || a.view().state == ServerState::Ready && a.view().restarts == 1).await;
    assert_eq!((peer.connections(), peer.connections_ever()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_outside_a_turn_passes_the_same_gate() {
    let peer = peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop"}]}));
    let runtime = plays([]).peer("a", &peer).start().await;
    let a = server(&runtime, "a");
    let outcome = async |name: &str| a.call(name, &json!({})).await.outcome;
    assert_eq!(outcome("look").await, CallOutcome::Succeeded);
    assert_eq!(outcome("drop").await, CallOutcome::Denied);
    assert_eq!(outcome("none").await, CallOutcome::Rejected);
    assert_eq!(a.call("look", &json!([1])).await.outcome, CallOutcome::Rejected);
    assert_eq!((peer.executions("look"), peer.executions("drop")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_server_is_busy_outside_a_turn_and_waited_for_inside() {
    let peer = look();
    let steps = [call("a", "look", json!({})), Step::text("Seen.")];
    let setup = plays(steps).peer("a", &peer).limits(|limits| limits.calls_per_server = 1);
    let mut stage = setup.raise().await;
    let a = stage.server("a");
    peer.hold_calls();
    let first = tokio::spawn({
        let a = a.clone();
        async move { a.call("look", &json!({})).await }
    });
    holds("it is under way", || peer.executions("look") == 1).await;
    let busy = a.call("look", &json!({})).await;
    assert_eq!(busy.outcome, CallOutcome::Unavailable, "{busy:?}");
    stage.say("Go.").await;
    stage.until_running().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(peer.executions("look"), 1);
    peer.release_calls();
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(first.await.expect("the task ends").outcome, CallOutcome::Succeeded);
    assert_eq!(said(&stage.results()[0]), "succeeded: seen");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_added_while_the_runtime_runs_is_there_in_the_next_turn() {
    let (first, second) = (look(), look());
    let steps = [Step::text("Nothing."), call("b", "look", json!({})), Step::text("Seen.")];
    let mut stage = plays(steps).peer("a", &first).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let added = Server::in_memory("b", second.clone()).effect("look", Effect::Reads);
    let b = stage.runtime.add_server(added.clone()).await.expect("it is taken");
    assert!(stage.runtime.add_server(added).await.is_err(), "there is one of this id");
    assert_eq!(b.warm(PATIENCE).await.tools().len(), 1);
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!((said(&stage.results()[0]), second.executions("look")), ("succeeded: seen".to_owned(), 1));
    assert!(stage.runtime.shutdown().await.is_clean());
    assert_eq!((first.connections(), second.connections()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_runtimes_events_tell_the_life_of_a_server() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    let mut events = runtime.events();
    peer.kill();
    let a = server(&runtime, "a");
    holds("it is back", || a.view().state == ServerState::Ready && a.view().restarts == 1).await;
    a.warm(PATIENCE).await;
    drop(runtime);
    let mut told = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_secs(1), events.next()).await {
        match event {
            RuntimeEvent::Server(view) => told.push(format!("{:?}", view.state).to_lowercase()),
            RuntimeEvent::Listing { tools, fresh, .. } => told.push(format!("{tools} fresh {fresh}")),
            other => told.push(format!("{other:?}")),
        }
    }
    // The listing is told by another actor than the state, so only its place among itself is fixed.
    let (listings, states): (Vec<_>, Vec<_>) = told.iter().partition(|word| word.contains("fresh"));
    assert_eq!(states[..3], ["backoff", "connecting", "ready"], "{told:?}");
    assert_eq!(listings, ["1 fresh false", "1 fresh true"], "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_added_while_a_topic_is_open_serves_its_next_turn() {
    let late = look();
    let mut stage =
        plays([Step::text("Yes?"), call("late", "look", json!({})), Step::text("Seen.")]).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let define = || Server::in_memory("late", late.clone()).effect("look", Effect::Reads);
    let added = stage.runtime.add_server(define()).await.expect("it is taken in");
    added.warm(PATIENCE).await;
    stage.say("Look.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(late.executions("look"), 1);
    let again = stage.runtime.add_server(define()).await.map(drop);
    assert_eq!(again, Err(ServerError::Duplicate { server: added.id().clone() }));
    let nameless = stage.runtime.add_server(Server::in_memory("", late.clone())).await.map(drop);
    assert!(matches!(nameless, Err(ServerError::Id { .. })), "{nameless:?}");
}

#[tokio::test(start_paused = true)]
async fn warming_up_ends_at_once_for_a_server_without_hope() {
    let missing = Fake::new(Mood::Missing, []);
    let setup = plays([])
        .server(fake("missing", &missing))
        .server(fake("off", &Fake::new(Mood::Well, [])).disabled());
    let runtime = setup.cold().start().await;
    let begun = Instant::now();
    runtime.warm(PATIENCE).await;
    for id in ["missing", "off"] {
        assert_eq!(server(&runtime, id).warm(PATIENCE).await.state, ListingState::Cold, "{id}");
    }
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
}
