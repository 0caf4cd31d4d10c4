//! Names: whatever servers call their tools, a provider takes every name, and a call reaches the tool that was meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse::model::scripted::{ScriptedCall, Step, ToolRef};
use pilothouse::prelude::*;
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, peer, plays, said, server};

fn offers(tools: &[&str]) -> Arc<Peer> {
    let tools: Vec<_> =
        tools.iter().map(|name| json!({"name": name, "reply": format!("did {name}")})).collect();
    peer(json!({ "tools": tools }))
}

/// A tool: its server and its raw name.
type Raw = (String, String);

/// The wire names of all tools of these servers, which are started in this order.
async fn named(servers: &[(&str, &[&str])]) -> BTreeMap<Raw, String> {
    let mut setup = plays([]);
    for (id, tools) in servers {
        setup = setup.peer(id, &offers(tools));
    }
    let runtime = setup.start().await;
    let mut names = BTreeMap::new();
    for (id, _) in servers {
        let server = server(&runtime, id);
        for tool in server.list().tools() {
            let name = server.tool_name(&tool.name).expect("a listed tool has a name");
            names.insert(((*id).to_owned(), tool.name.clone()), name);
        }
    }
    names
}

fn assert_acceptable(shown: &[String]) {
    for name in shown {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        assert!(plain && (1..=64).contains(&name.len()), "{name}");
    }
    let distinct: BTreeSet<_> = shown.iter().collect();
    assert_eq!(distinct.len(), shown.len(), "{shown:?}");
}

/// Starts these servers and has a model call every tool in one step. Each call reaches its own server under the
/// server's own name, and no other; the tools that are `lost` are told with their server.
async fn check(servers: &[(&str, &[&str])], lost: &[(&str, &str)]) {
    let peers: Vec<_> = servers.iter().map(|(id, tools)| (*id, *tools, offers(tools))).collect();
    let mut expected = Vec::new();
    for (id, tools, _) in &peers {
        let unique: BTreeSet<_> = tools.iter().filter(|tool| !lost.contains(&(*id, **tool))).collect();
        expected.extend(unique.into_iter().map(|tool| ((*id).to_owned(), (*tool).to_owned())));
    }
    let call = |(server, tool): &Raw| ScriptedCall {
        tool: ToolRef::of_server(server.as_str(), tool.as_str()),
        arguments: json!({}),
    };
    let calls = Step { calls: expected.iter().map(call).collect(), ..Step::default() };
    let mut setup = plays([calls, Step::text("Done.")]);
    for (id, tools, peer) in &peers {
        let reads = |server: Server, tool: &&str| server.effect(*tool, Effect::Reads);
        setup = setup.server(tools.iter().fold(Server::in_memory(*id, peer.clone()), reads));
    }
    let mut stage = setup.raise().await;
    let surface = stage.topic.surface().expect("the topic is open");
    let shown: Vec<_> = surface.tools.iter().map(|tool| tool.name.clone()).collect();
    assert_acceptable(&shown);
    assert_eq!(shown.len(), expected.len(), "{shown:?}");
    for (id, tool) in lost {
        let listing = stage.server(id).warm(PATIENCE).await;
        let dropped = &listing.listing.as_ref().expect("it is listed").dropped;
        let told = |name: &str| tool.starts_with(name) || name.contains("u{");
        assert!(dropped.iter().any(|one| one.name.as_deref().is_none_or(told)), "{tool:?}: {dropped:?}");
    }

    stage.say("All of them.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let said: Vec<_> = stage.results().iter().map(said).collect();
    let wanted: Vec<_> =
        expected.iter().map(|(_, tool)| format!("succeeded: did {tool}").to_lowercase()).collect();
    assert_eq!(said, wanted);
    for (id, _, peer) in &peers {
        let mut heard: Vec<_> = peer.calls().iter().map(|call| call["name"].clone()).collect();
        heard.sort_by_key(Value::to_string);
        let mut own: Vec<_> =
            expected.iter().filter(|(server, _)| server == id).map(|(_, t)| json!(t)).collect();
        own.sort_by_key(Value::to_string);
        assert_eq!(heard, own, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_one_name_on_two_servers_are_two_tools() {
    check(&[("a", &["run", "search"]), ("b", &["run", "search"])], &[]).await;
    check(&[("db-staging", &["query", "insert"]), ("db-prod", &["query", "insert"])], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_provider_takes_is_shown_as_one_that_every_provider_takes() {
    check(&[("a", &["cal.update", "user-profile/update", "scan file", "查询", "a"])], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_without_sense_costs_its_own_tool_only() {
    let long = "n".repeat(300);
    let bad = [long.as_str(), "", "line\n\"two\""];
    let lost = bad.map(|tool| ("a", tool));
    check(&[("a", &[&long, "", "line\n\"two\"", "good"]), ("b", &["also good"])], &lost).await;
    check(&[("a", &[&"m".repeat(200), "good"])], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn long_ids_and_names_that_differ_in_their_last_character_stay_apart() {
    let id = "s".repeat(40);
    let stem = "t".repeat(59);
    let (first, second) = (format!("{stem}a"), format!("{stem}b"));
    check(&[(&id, &[&first, &second])], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_listed_twice_is_there_once_and_its_server_is_told() {
    let twice = peer(json!({"tools": [
        {"name": "x", "reply": "first"}, {"name": "y"},
        {"name": "x", "reply": "first", "schema": {"type": "object", "properties": {"other": {}}}},
    ]}));
    let runtime = plays([]).peer("a", &twice).start().await;
    let view = server(&runtime, "a").list();
    let listing = view.listing.as_ref().expect("it is listed");
    let kept: Vec<_> =
        listing.tools.iter().map(|tool| (tool.name.as_str(), tool.input_schema.as_str())).collect();
    assert_eq!(kept, [("x", r#"{"type":"object"}"#), ("y", r#"{"type":"object"}"#)]);
    assert_eq!(listing.dropped[0].name.as_deref(), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn names_that_become_alike_stay_apart_and_are_the_same_after_every_start() {
    let stem = "u".repeat(62);
    let (first, second) = (format!("{stem}aa"), format!("{stem}bb"));
    let tools = ["a.b", "a_b", "get-user", "get user", first.as_str(), second.as_str()];
    let other = ["a.b", "search"];
    let wanted = named(&[("one", &tools), ("two", &other)]).await;
    assert_acceptable(&wanted.values().cloned().collect::<Vec<_>>());
    assert_eq!(wanted.len(), 8);
    let mut backwards = tools;
    backwards.reverse();
    for _ in 0..10 {
        assert_eq!(named(&[("two", &other), ("one", &backwards)]).await, wanted);
        backwards.rotate_left(1);
    }
    check(&[("one", &tools)], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_servers_tool_with_the_name_of_one_of_ours_takes_nothing_from_it() {
    let names = ["tool_search", "tool_invoke", "tool_inspect", "ask_user"];
    check(&[("a", &names)], &[]).await;
    let names = named(&[("a", &names)]).await;
    assert!(names.values().all(|name| name.starts_with("mcp__a__")), "{names:?}");
}
