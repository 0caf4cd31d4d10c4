//! Runs of the program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    /// The lines out; their numbers have no gaps.
    pub(crate) lines: Vec<Value>,
    pub(crate) complaint: String,
}

/// Runs `pilothouse-harness run` with these arguments and this input.
pub(crate) fn run(arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(PROGRAM)
        .arg("run")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that ends early does not read everything.
    let _gone = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the program ends");
    let text = String::from_utf8(output.stdout).expect("lines are UTF-8");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["n"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(1..=lines.len() as u64), "numbers without gaps: {numbers:?}");
    Run { status: output.status, lines, complaint: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Runs these lines, with data in a directory if one is given.
pub(crate) fn play(data: Option<&Path>, lines: &[Value]) -> Run {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match data {
        Some(data) => run(&["-", "--data", &data.to_string_lossy()], &input),
        None => run(&[], &input),
    }
}

/// Runs these lines, all of whose expectations hold.
pub(crate) fn held(data: Option<&Path>, lines: &[Value]) -> Run {
    let run = play(data, lines);
    assert_eq!(run.status.code(), Some(0), "{}{}", run.shown(), run.complaint);
    run
}

impl Run {
    pub(crate) fn shown(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The events of this kind.
    pub(crate) fn events(&self, kind: &str) -> Vec<&Value> {
        self.lines.iter().map(|line| &line["event"]).filter(|event| event["kind"] == kind).collect()
    }

    /// The reply to this line.
    pub(crate) fn reply(&self, to: usize) -> &Value {
        let mut replies = self.lines.iter().map(|line| &line["reply"]).filter(|reply| reply["to"] == to);
        match (replies.next(), replies.next()) {
            (Some(reply), None) => reply,
            other => panic!("line {to} has one reply, not {other:?}: {}", self.shown()),
        }
    }

    /// The `error` events, as line and code.
    pub(crate) fn errors(&self) -> Vec<(u64, &str)> {
        let errors = self.events("error").into_iter();
        errors
            .map(|error| (error["line"].as_u64().unwrap_or(0), error["code"].as_str().unwrap_or("")))
            .collect()
    }

    pub(crate) fn last(&self) -> &Value {
        self.lines.last().expect("there is a last line")
    }
}

/// A server in memory with one tool that edits, `add_note`, which echoes and leaves a mark for each execution.
pub(crate) fn notes(marks: &Path) -> Value {
    let script = json!({"tools": [{"name": "add_note", "echo": true}], "faults": [{"count_file": marks}]});
    json!({"server": {"id": "notes", "transport": {"peer": script}, "effects": {"add_note": "edits"}}})
}

/// A topic `t` that plays this script.
pub(crate) fn topic(script: &Value) -> Value {
    json!({"topic": {"topic": "t", "model": {"script": script}}})
}

pub(crate) fn send(text: &str) -> Value {
    json!({"send": {"topic": "t", "text": text}})
}

/// Expects an event.
pub(crate) fn event(fields: &Value) -> Value {
    json!({"expect": {"event": fields}})
}

pub(crate) fn listed(server: &str) -> Value {
    event(&json!({"kind": "listing", "server": server, "fresh": true}))
}
