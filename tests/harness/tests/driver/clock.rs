//! Runs in virtual time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::run::{Run, event, run};

/// Runs these lines in virtual time.
fn play(lines: &[Value]) -> Run {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    run(&["-", "--clock", "virtual", "--seed", "7"], &input)
}

fn held(lines: &[Value]) -> Run {
    let run = play(lines);
    assert_eq!(run.status.code(), Some(0), "{}{}", run.shown(), run.complaint);
    run
}

/// A server in memory whose tool asks.
fn desk() -> Value {
    json!({"server": {
        "id": "desk", "transport": {"peer": {"tools": [{"name": "add_note", "echo": true}]}},
        "effects": {"add_note": "edits"}
    }})
}

fn talk(script: &Value) -> Value {
    let config = json!({"approval_ttl_ms": 3_600_000});
    json!({"topic": {"topic": "talk", "model": {"script": script}, "config": config}})
}

fn to_talk(text: &str) -> Value {
    json!({"send": {"topic": "talk", "text": text}})
}

fn note() -> Value {
    json!({"calls": [{"tool": {"server": "desk", "tool": "add_note"}, "arguments": {"text": "ahoy"}}]})
}

fn listed() -> Value {
    event(&json!({"kind": "listing", "server": "desk", "fresh": true}))
}

#[test]
fn an_hour_of_patience_is_over_in_no_time() {
    let began = Instant::now();
    let run = held(&[
        desk(),
        listed(),
        talk(&json!([note()])),
        to_talk("Note this."),
        event(&json!({"kind": "approval_requested"})),
        json!({"expect": {
            "event": {"kind": "turn_finished", "turn": 1, "stop": "approval_expired"}, "within_ms": 4_000_000
        }}),
    ]);
    let last = run.lines.last().and_then(|line| line["at"].as_u64());
    assert!(last.is_some_and(|at| (3_600_000..4_000_000).contains(&at)), "{}", run.shown());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn after_a_crash_the_run_goes_on_with_what_was_durable() {
    let run = held(&[
        desk(),
        listed(),
        talk(&json!([note()])),
        to_talk("Note this."),
        event(&json!({"kind": "approval_requested"})),
        json!({"crash": {}}),
        talk(&json!([{"text": "It is noted."}])),
        json!({"approvals": {}}),
        listed(),
        json!({"decide": {"approval": "last", "decision": "allow", "by": "ann"}}),
        event(&json!({"kind": "tool_finished", "call": "1.1.0", "outcome": "succeeded"})),
        event(&json!({"kind": "turn_finished", "turn": 1, "stop": "completed"})),
    ]);
    let card = &run.events("approval_requested")[0]["approval"];
    assert_eq!(run.reply(8)["cards"][0]["approval"], *card, "{}", run.shown());
}

#[test]
fn what_runs_at_a_crash_is_interrupted_and_what_waits_is_held() {
    let run = held(&[
        talk(&json!([{"text": "Let me think.", "hang": true}])),
        to_talk("Think."),
        event(&json!({"kind": "text", "delta": "Let me think."})),
        to_talk("And then rest."),
        json!({"crash": {}}),
        talk(&json!([])),
        event(&json!({"kind": "turn_finished", "turn": 1, "stop": "interrupted"})),
        event(&json!({"kind": "receipt", "message": 2, "state": "held"})),
    ]);
    assert_eq!(run.events("turn_started").len(), 1, "{}", run.shown());
}

#[test]
fn what_waits_for_the_real_world_is_refused() {
    let run = play(&[json!({"server": {"id": "desk", "transport": {"stdio": {"command": "desk"}}}})]);
    assert_eq!(run.status.code(), Some(2), "{}", run.shown());
    let last = &run.lines.last().expect("it says why")["event"];
    assert_eq!((&last["line"], &last["field"]), (&json!(1), &json!("server.transport")), "{last}");
    assert!(last["message"].as_str().is_some_and(|words| words.contains("write a `peer`")), "{last}");
}
