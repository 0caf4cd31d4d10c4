//! Listings that can always be read, and the surface that topics show their models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::error::ServerError;
use pilothouse::id::Revision;
use pilothouse::listing::ListingState;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse_harness::peer::{Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fake::{Fake, Mood, tool};
use crate::stage::{PATIENCE, call, holds, memory, peer, plays, said, server, settle, thinks};

fn look() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}]}))
}

fn fake(fake: &Fake) -> Server {
    Server::with_connector("a", "fake", fake.connector()).effect("look", Effect::Reads)
}

fn script(value: Value) -> Script {
    Script::try_from(value).expect("the script is one")
}

#[tokio::test(start_paused = true)]
async fn the_first_look_at_a_cold_server_lists_it_once_in_the_background() {
    let shy = Fake::new(Mood::Garbled, [tool("look", "Looks.")]);
    let runtime = plays([]).server(fake(&shy)).cold().start().await;
    let a = server(&runtime, "a");
    sleep(Duration::from_secs(1)).await;
    assert_eq!((shy.listings(), a.view().state), (1, ServerState::Ready));
    shy.becomes(Mood::Well);
    let begun = Instant::now();
    for _ in 0..10 {
        assert_eq!(a.list().state, ListingState::Cold);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(a.warm(PATIENCE).await.tools().len(), 1);
    assert_eq!(shy.listings(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tools_is_warm_and_looking_at_it_asks_nobody() {
    let empty = Fake::new(Mood::Well, []);
    let runtime = plays([]).server(fake(&empty)).start().await;
    for _ in 0..10 {
        let listing = server(&runtime, "a").list();
        assert_eq!((listing.state.clone(), listing.tools().len()), (ListingState::Warm, 0));
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(empty.listings(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_who_refresh_at_once_share_one_listing() {
    let shared = Fake::new(Mood::Well, [tool("look", "Looks.")]);
    let runtime = plays([]).server(fake(&shared)).start().await;
    shared.offers([tool("look", "Looks."), tool("leap", "Leaps.")]);
    let asking = (0..20).map(|_| {
        let a = server(&runtime, "a");
        tokio::spawn(async move { a.refresh().await })
    });
    for asking in asking.collect::<Vec<_>>() {
        assert_eq!(asking.await.expect("the task ends"), Ok(Revision(2)));
    }
    assert_eq!(shared.listings(), 2);
    assert_eq!(server(&runtime, "a").refresh().await, Ok(Revision(2)), "nothing has changed since");
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_keeps_the_last_known_good_listing() {
    let moody = Fake::new(Mood::Well, [tool("look", "Looks.")]);
    let runtime = plays([]).server(fake(&moody)).start().await;
    let a = server(&runtime, "a");
    let before = a.list();
    moody.becomes(Mood::Garbled);
    let refused = a.refresh().await;
    let Err(ServerError::Refresh { reason, .. }) = refused else { panic!("{refused:?}") };
    let listing = a.list();
    assert_eq!(listing.state, ListingState::Stale { reason });
    assert_eq!(listing.listing, before.listing);
}

#[tokio::test(start_paused = true)]
async fn a_bad_tool_leaves_out_only_itself() {
    let odd = Fake::new(
        Mood::Well,
        [
            tool("look", "Looks."),
            json!({"name": "bad", "inputSchema": "none"}),
            json!(17),
            tool("look", "Looks twice."),
            tool("leap", "Leaps."),
        ],
    );
    let runtime = plays([]).server(fake(&odd)).start().await;
    let view = server(&runtime, "a").list();
    let listing = view.listing.as_ref().expect("it is listed");
    let names: Vec<_> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["look", "leap"]);
    assert_eq!(listing.tools[0].description.as_deref(), Some("Looks."), "the first of its name stays");
    assert_eq!(listing.dropped.len(), 3, "{:?}", listing.dropped);
    assert_eq!(said(&server(&runtime, "a").call("look", &json!({})).await), "succeeded: look did it");
}

#[tokio::test(start_paused = true)]
async fn a_listing_has_all_its_pages_and_one_without_end_is_none() {
    let tools: Vec<_> = (0..25).map(|n| json!({"name": format!("tool{n}")})).collect();
    let paged = peer(json!({"tools": tools, "page_size": 10}));
    let endless = peer(json!({"tools": tools, "page_size": 10, "faults": [{"repeat_cursor": true}]}));
    let runtime = plays([]).peer("paged", &paged).peer("endless", &endless).cold().start().await;
    assert_eq!(server(&runtime, "paged").warm(PATIENCE).await.tools().len(), 25);
    let refused = server(&runtime, "endless").refresh().await;
    assert!(matches!(refused, Err(ServerError::Refresh { .. })), "{refused:?}");
    assert_eq!(server(&runtime, "endless").list().state, ListingState::Cold);
}

#[tokio::test(start_paused = true)]
async fn the_surface_stays_byte_for_byte_while_a_server_flaps() {
    let (flapping, steady) = (look(), peer(json!({"tools": [{"name": "peek", "delay_ms": 2_000}]})));
    let steps = (0..12).map(|_| call("steady", "peek", json!({})));
    let model = Arc::new(ScriptedModel::new(steps.collect()));
    let server_of = |id, peer: &Arc<Peer>| Server::in_memory(id, peer.clone()).effect("peek", Effect::Reads);
    let setup = thinks(model.clone()).peer("flapping", &flapping).server(server_of("steady", &steady));
    let mut stage = setup.config(|config| config.max_steps = Some(3)).raise().await;
    for _ in 0..4 {
        stage.say("Go.").await;
        for _ in 0..3 {
            stage.until_running().await;
            flapping.kill();
            sleep(Duration::from_millis(1_500)).await;
        }
        assert_eq!(stage.until_end().await, StopReason::StepLimit);
        sleep(Duration::from_secs(20)).await;
    }
    let hashes: Vec<_> = model.requests().iter().map(|request| request.surface.hash).collect();
    assert_eq!((hashes.len(), stage.server("flapping").view().restarts >= 4), (12, true));
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    assert_eq!(model.requests()[0].surface.tools.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_cold_in_one_turn_is_shown_in_the_next() {
    let late = peer(json!({"tools": [{"name": "look", "reply": "seen"}], "faults": [{"delay_ms": 2_000}]}));
    let steps = [Step::text("Nothing yet."), call("a", "look", json!({})), Step::text("Seen.")];
    let model = Arc::new(ScriptedModel::new(steps.into()));
    let mut stage = thinks(model.clone()).peer("a", &late).cold().raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    stage.server("a").warm(PATIENCE).await;
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let shown: Vec<_> = model.requests().iter().map(|request| request.surface.tools.len()).collect();
    assert_eq!(shown, [3, 1, 1], "the meta tools, then it");
    assert_eq!(said(&stage.results()[0]), "succeeded: seen");
}

#[tokio::test(start_paused = true)]
async fn a_surface_does_not_change_within_a_turn() {
    let peer = peer(json!({
        "tools": [{"name": "look", "reply": "seen"}],
        "faults": [{"add_tool_after_list": {"name": "late"}}, {"list_changed_after_ms": 500}],
    }));
    let steps = [call("a", "look", json!({})), call("a", "late", json!({})), Step::text("No.")];
    let model = Arc::new(ScriptedModel::new(steps.into_iter().chain([Step::text("Now.")]).collect()));
    let mut stage = thinks(model.clone()).peer("a", &peer).raise().await;
    peer.hold_calls();
    stage.say("Go.").await;
    stage.until_running().await;
    let a = stage.server("a");
    holds("the new tool is listed", || a.list().tools().len() == 2).await;
    peer.release_calls();
    assert_eq!(stage.until_end().await, StopReason::Completed);
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let shown: Vec<_> = model.requests().iter().map(|request| request.surface.tools.len()).collect();
    assert_eq!(shown, [1, 1, 1, 2]);
    assert_eq!(stage.topic.surface().map(|surface| surface.tools.len()), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_stored_listing_is_there_before_any_server_and_a_call_waits_for_the_servers_own() {
    let store = memory();
    let first = look();
    let runtime = plays([]).peer("a", &first).store(store.clone()).start().await;
    assert_eq!(server(&runtime, "a").list().state, ListingState::Warm);
    drop(runtime);

    let later =
        peer(json!({"tools": [{"name": "look", "reply": "seen again"}], "faults": [{"delay_ms": 2_000}]}));
    let steps = [call("a", "look", json!({})), Step::text("Seen.")];
    let mut stage = plays(steps).peer("a", &later).store(store.crash()).cold().raise().await;
    let a = stage.server("a");
    let listing = a.list();
    assert!(matches!(listing.state, ListingState::Stale { .. }), "{listing:?}");
    assert_eq!((listing.tools().len(), later.executions("look")), (1, 0));
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(said(&stage.results()[0]), "succeeded: seen again");
    assert_eq!(a.list().state, ListingState::Warm);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_has_changed_since_it_was_shown_is_not_called() {
    let store = memory();
    let before = Fake::new(Mood::Well, [tool("look", "Looks.")]);
    drop(plays([]).server(fake(&before)).store(store.clone()).start().await);

    let after = Fake::new(Mood::Well, [tool("look", "Looks, and takes a copy.")]);
    let steps = [call("a", "look", json!({})), call("a", "look", json!({})), Step::text("Seen.")];
    let mut stage = plays(steps).server(fake(&after)).store(store.crash()).cold().raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results = stage.results();
    assert_eq!(results[0].outcome, CallOutcome::Rejected, "{results:?}");
    assert_eq!(said(&results[1]), "succeeded: look did it", "the new one can be called");
    assert_eq!(after.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_card_for_a_tool_that_has_changed_runs_nothing() {
    let tools = Fake::new(Mood::Well, [tool("drop", "Drops one.")]);
    let mut stage =
        plays([call("a", "drop", json!({})), Step::text("I see.")]).server(fake(&tools)).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    tools.offers([tool("drop", "Drops all.")]);
    assert!(stage.server("a").refresh().await.is_ok());
    stage.decide(&card, Decision::allow("ann").of(&card)).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!((stage.results()[0].outcome, tools.calls()), (CallOutcome::Rejected, 0));
}

#[tokio::test(start_paused = true)]
async fn another_definition_drops_the_stored_listing_at_once() {
    let store = memory();
    let tools = Fake::new(Mood::Well, [tool("look", "Looks.")]);
    let labelled = |label: &str| Server::with_connector("a", label, tools.connector());
    drop(plays([]).server(labelled("one")).store(store.clone()).start().await);
    tools.becomes(Mood::Missing);
    let state = async |label: &str| {
        let runtime = plays([]).server(labelled(label)).store(store.crash()).cold().start().await;
        let view = server(&runtime, "a").list();
        (matches!(view.state, ListingState::Cold), view.tools().len())
    };
    assert_eq!((state("one").await, state("two").await), ((false, 1), (true, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_name_survives_the_rename_of_its_server() {
    let store = memory();
    let peer = look();
    let name = async |label: &str| {
        let server = Server::in_memory("a", peer.clone()).name(label);
        let stage = plays([]).server(server).store(store.clone()).raise().await;
        let name = stage.topic.surface().expect("it is open").tools[0].name.clone();
        // The store closes with its runtime.
        (name, store.crash())
    };
    let (first, kept) = name("Lookout").await;
    let renamed = Server::in_memory("a", peer.clone()).name("Watch");
    let stage = plays([]).server(renamed).store(kept).raise().await;
    let second = stage.topic.surface().expect("it is open").tools[0].name.clone();
    assert!(first.starts_with("mcp__lookout__look_"), "{first}");
    assert_eq!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_topic_uses_only_the_servers_and_functions_that_it_was_given() {
    let (a, b) = (look(), look());
    let count = Arc::new(AtomicUsize::new(0));
    let counts = count.clone();
    let function = Function::new("note", "Notes it.", &json!({"type": "object"}), move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok("noted".to_owned()) }
    });
    let steps =
        [call("b", "look", json!({})), crate::stage::call_function("note", json!({})), Step::text("No.")];
    let setup = plays(steps).peer("a", &a).peer("b", &b).function(function.effect(Effect::Reads));
    let id = pilothouse::id::ServerId::new("a").expect("it is an id");
    let setup = setup.config(|config| {
        config.servers = Some(vec![id]);
        config.builtins = Some(vec![]);
    });
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    settle().await;
    assert!(stage.results().iter().all(|result| result.outcome == CallOutcome::Rejected));
    assert_eq!((b.executions("look"), count.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(stage.topic.surface().map(|surface| surface.tools.len()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn tools_of_any_size_and_shape_spoil_nothing_but_themselves() {
    let long = "x".repeat(1 << 20);
    let huge = json!({"name": "drop", "title": long, "description": long, "inputSchema": {"type": "object"}});
    let fake_tools = Fake::new(Mood::Well, [huge, tool("look", "Looks.")]);
    let steps = [
        crate::stage::calls([("a", "drop", json!({})), ("a", "drop", json!({})), ("a", "look", json!({}))]),
        Step::text("Seen."),
    ];
    let mut stage = plays(steps).server(fake(&fake_tools)).raise().await;
    stage.say("Go.").await;
    let (first, second) = (stage.until_card().await, stage.until_card().await);
    for card in [first, second] {
        assert!(card.title.as_ref().is_some_and(|title| title.len() <= 1 << 10));
        stage.decide(&card, Decision::deny("ann", "too much")).await;
    }
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(said(&stage.results()[2]), "succeeded: look did it");
}

#[tokio::test(start_paused = true)]
async fn list_changed_is_followed_and_a_storm_of_it_is_not_a_storm_of_listings() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    peer.set_script(script(json!({"tools": [{"name": "look"}, {"name": "leap"}]})));
    for _ in 0..200 {
        peer.announce_tools();
        sleep(Duration::from_millis(5)).await;
    }
    let a = server(&runtime, "a");
    holds("the new one is listed", || a.list().tools().len() == 2).await;
    assert_eq!(a.list().state, ListingState::Warm);
}
