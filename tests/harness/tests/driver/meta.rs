//! Tools that a model is not shown.

use serde_json::{Value, json};

use super::run::{event, held, listed, send};

#[test]
fn a_script_searches_and_invokes_a_tool_that_is_not_shown() {
    let about = "Gives a chart. It is bound in leather and smells of tar. ".repeat(20);
    let tools: Vec<_> =
        (0..6).map(|n| json!({"name": format!("chart{n}"), "description": about, "echo": true})).collect();
    let effects = json!({"chart3": "reads"});
    let server =
        json!({"server": {"id": "library", "transport": {"peer": {"tools": tools}}, "effects": effects}});
    let invoke = json!({"calls": [{"tool": "tool_invoke", "arguments": {"name": "chart3", "params": {"port": "Brest"}}}]});
    let search = json!({"calls": [{"tool": "tool_search", "arguments": {"query": "chart3", "verbose": true, "limit": 1}}]});
    let topic = json!({"topic": {
        "topic": "t", "config": {"context_window": 8_000}, "model": {"script": [search, invoke, {"text": "Done."}]},
    }});
    let end = event(&json!({"kind": "turn_finished", "turn": 1}));
    let run = held(None, &[server, listed("library"), topic, send("Go."), end]);
    assert_eq!(run.errors(), [], "{}", run.shown());
    let outcomes: Vec<_> = run.events("tool_finished").iter().map(|event| event["outcome"].clone()).collect();
    assert_eq!(outcomes, ["succeeded", "succeeded"], "{}", run.shown());
    let started = run.events("tool_started");
    let servers: Vec<_> = started.iter().map(|event| &event["server"]).collect();
    assert_eq!(servers, [&Value::from("library")], "the real tool is what is shown");
}
