//! Listings: endless, repeated, shouted about, late or failed, they cost their own server only.

use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::listing::ListingState;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse_harness::peer::{Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{PATIENCE, call, holds, peer, plays, server};

fn script(value: Value) -> Script {
    Script::try_from(value).expect("the script is one")
}

fn listings(peer: &Peer) -> usize {
    peer.methods().iter().filter(|method| *method == "tools/list").count()
}

fn numbered(n: usize) -> Vec<Value> {
    (0..n).map(|n| json!({"name": format!("tool{n}")})).collect()
}

/// How many tools a listing with this script comes to, and after how many requests; its neighbour is listed too.
async fn check(what: &str, odd: Value, expected: (usize, usize)) -> Vec<String> {
    let (odd, sound) = (peer(odd), peer(json!({"tools": [{"name": "look"}]})));
    let runtime = plays([]).peer("odd", &odd).peer("sound", &sound).start().await;
    let view = server(&runtime, "odd").list();
    assert_eq!((view.tools().len(), listings(&odd)), expected, "{what}");
    assert_eq!(server(&runtime, "sound").list().tools().len(), 1, "{what}");
    let listing = view.listing.as_ref();
    listing.map_or_else(Vec::new, |listing| listing.dropped.iter().map(|one| one.reason.clone()).collect())
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_leads_in_a_circle_is_what_it_gave_each_once() {
    let circle = json!({"tools": numbered(8), "faults": [{"cursor": "repeat"}]});
    let told = check("the same page for ever", circle, (8, 2)).await;
    assert!(told.len() == 1 && told[0].contains("twice"), "{told:?}");
    let empty = json!({"tools": numbered(3), "faults": [{"cursor": "empty"}]});
    assert_eq!(check("an empty cursor for ever", empty, (3, 2)).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_end_is_refused_at_its_bound() {
    let endless =
        json!({"tools": numbered(1), "faults": [{"cursor": "endless"}, {"delay": {"on": "list", "ms": 10}}]});
    let (odd, sound) = (peer(endless), peer(json!({"tools": [{"name": "look"}]})));
    let runtime = plays([]).peer("odd", &odd).peer("sound", &sound).cold().start().await;
    let begun = Instant::now();
    assert_eq!(server(&runtime, "sound").warm(PATIENCE).await.tools().len(), 1);
    let refused = server(&runtime, "odd").refresh().await.expect_err("there is no end");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}: {refused}", begun.elapsed());
    assert!(refused.to_string().contains("more than 200 pages"), "{refused}");
    assert_eq!(server(&runtime, "odd").list().tools().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_while_nothing_runs_is_listed_within_a_second_and_in_the_next_turn() {
    let offering = peer(json!({"tools": [{"name": "look", "reply": "seen"}]}));
    let steps = [Step::text("Nothing."), call("a", "leap", json!({})), Step::text("Leapt.")];
    let definition = Server::in_memory("a", offering.clone()).effect("leap", Effect::Reads);
    let mut stage = plays(steps).server(definition).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let a = stage.server("a");
    let before = a.view().revision.expect("it is listed");
    offering.set_script(script(json!({"tools": [{"name": "look"}, {"name": "leap", "reply": "done"}]})));
    let begun = Instant::now();
    offering.announce_tools();
    holds("it is listed", || a.list().tools().len() == 2).await;
    assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(a.view().revision.map(|revision| revision.0), Some(before.0 + 1));
    stage.say("Leap.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(offering.executions("leap"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_notices_costs_a_few_listings_and_ends_with_the_last_state() {
    for count in [200, 10_000] {
        let offering = peer(json!({
            "tools": [{"name": "look"}],
            "faults": [{"list_changed_storm": {"count": count, "after_ms": 500}}, {"add_tool_after_list": {"name": "late"}}],
        }));
        let runtime = plays([]).peer("a", &offering).start().await;
        let a = server(&runtime, "a");
        holds("the last state is listed", || a.list().tools().len() == 2).await;
        sleep(Duration::from_secs(10)).await;
        assert!(listings(&offering) <= 4, "{count}: {}", listings(&offering));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_a_change_whenever_it_is_asked_is_asked_once_a_second_at_most() {
    let offering = peer(json!({"tools": [{"name": "look"}], "faults": [{"list_changed_on_list": true}]}));
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    let (before, revision) = (listings(&offering), a.view().revision);
    sleep(Duration::from_secs(60)).await;
    let asked = listings(&offering) - before;
    assert!(asked <= 61, "{asked} listings in a minute");
    assert_eq!(a.view().revision, revision, "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn tools_stay_and_can_be_called_after_a_refresh_that_failed() {
    let offering = peer(json!({"tools": [{"name": "look", "reply": "seen"}]}));
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    assert_eq!(a.call("look", &json!({})).await.outcome, CallOutcome::Succeeded);
    let error = json!({"error": {"on": "list", "code": -32603, "message": "not now"}});
    offering.set_script(script(json!({"tools": [{"name": "look", "reply": "seen"}], "faults": [error]})));
    offering.announce_tools();
    holds("the refresh failed", || matches!(a.list().state, ListingState::Stale { .. })).await;
    assert_eq!(a.list().tools().len(), 1);
    assert_eq!(a.call("look", &json!({})).await.outcome, CallOutcome::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_in_the_listing_is_never_forwarded() {
    let offering = peer(json!({"tools": [{"name": "drop_table"}]}));
    let runtime = plays([]).server(Server::in_memory("a", offering.clone()).hide("drop_table")).start().await;
    let a = server(&runtime, "a");
    offering.set_script(script(json!({"tools": [{"name": "drop_table_v2"}]})));
    offering.announce_tools();
    let renamed = a.call("drop_table_v2", &json!({})).await;
    assert_eq!((renamed.outcome, offering.executions("drop_table_v2")), (CallOutcome::Rejected, 0));
    holds("it is listed", || a.list().tools().iter().any(|tool| tool.name == "drop_table_v2")).await;
    let unvetted = a.call("drop_table_v2", &json!({})).await;
    assert_ne!(unvetted.outcome, CallOutcome::Succeeded, "nobody said that it only reads: {unvetted:?}");
    assert_eq!(offering.executions("drop_table_v2"), 0);
}

#[tokio::test(start_paused = true)]
async fn every_listing_is_that_of_its_own_server_whoever_answers_first() {
    let slow = peer(json!({"tools": [{"name": "slow"}], "faults": [{"delay": {"on": "list", "ms": 500}}]}));
    let fast = peer(json!({"tools": [{"name": "fast"}]}));
    let runtime = plays([]).peer("slow", &slow).peer("fast", &fast).cold().start().await;
    let names =
        |id| -> Vec<_> { server(&runtime, id).list().tools().iter().map(|tool| tool.name.clone()).collect() };
    server(&runtime, "fast").warm(PATIENCE).await;
    assert_eq!((names("slow"), names("fast")), (vec![], vec!["fast".to_owned()]));
    server(&runtime, "slow").warm(PATIENCE).await;
    assert_eq!((names("slow"), names("fast")), (vec!["slow".to_owned()], vec!["fast".to_owned()]));
}

/// Which version a server says, whether we work with it, and what it says of itself otherwise.
#[tokio::test(start_paused = true)]
async fn a_version_is_taken_if_it_is_understood_and_else_named() {
    let rows = [
        (json!("2024-11-05"), None),
        (json!("2025-03-26"), None),
        (json!("2025-06-18"), None),
        (json!("2099-01-01"), Some("it speaks MCP \"2099-01-01\"")),
        (json!("1999-01-01"), Some("it speaks MCP \"1999-01-01\"")),
        (json!(null), Some("its answer to `initialize` is malformed")),
    ];
    for (version, refusal) in rows {
        let offering = peer(json!({"tools": [{"name": "look"}], "faults": [{"version": version}]}));
        let runtime = plays([]).peer("a", &offering).cold().start().await;
        let a = server(&runtime, "a");
        match refusal {
            None => {
                assert_eq!(a.warm(PATIENCE).await.tools().len(), 1);
                assert_eq!(a.view().protocol.as_deref(), version.as_str());
                let asked = offering.methods();
                let strange =
                    |method: &String| method.starts_with("resources/") || method.starts_with("prompts/");
                assert!(!asked.iter().any(strange), "{asked:?}");
            }
            Some(words) => {
                sleep(Duration::from_secs(30)).await;
                let view = a.view();
                assert!(view.reason.as_deref().is_some_and(|reason| reason.contains(words)), "{view:?}");
                assert!(offering.connections_ever() <= 12, "{}", offering.connections_ever());
                assert_eq!(offering.connections(), 0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_before_and_beside_its_handshake_does_not_break_it() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    let refused = |method: &str| json!({"error": {"on": method, "code": -32601, "message": "no"}});
    let rows = [
        ("a ping before the answer", json!({}), json!([{"ask": {"what": "ping", "on": "initialize"}}])),
        ("a change before the answer", json!({}), json!([{"say": {"on": "initialize", "message": changed}}])),
        ("a log line before the answer", json!({}), json!([{"say": {"on": "initialize", "message": log}}])),
        ("everything else refused", json!({}), json!([refused("ping"), refused("logging/setLevel")])),
        ("a change that it never declared", json!({"tools": {}}), json!([{"list_changed_after_ms": 50}])),
    ];
    for (what, capabilities, faults) in rows {
        let mut value = json!({"tools": [{"name": "look", "reply": "seen"}], "faults": faults});
        if capabilities != json!({}) {
            value["capabilities"] = capabilities;
        }
        let offering = peer(value);
        let runtime = plays([]).peer("a", &offering).start().await;
        let a = server(&runtime, "a");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(a.call("look", &json!({})).await.outcome, CallOutcome::Succeeded, "{what}");
        assert_eq!((offering.connections_ever(), listings(&offering) <= 2), (1, true), "{what}");
        let undeclared = what.ends_with("declared");
        assert_eq!(listings(&offering) == 2, undeclared || what.starts_with("a change"), "{what}");
    }
}
