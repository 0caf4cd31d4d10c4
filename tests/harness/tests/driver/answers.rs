//! Replies, errors, and how a run ends.

use serde_json::{Value, json};

use super::run::{PROGRAM, Run, event, held, listed, play, run, send, topic};

/// A server as a child process: the program itself, which plays a script.
fn child(id: &str, script: &Value) -> Value {
    let arguments = ["peer".to_owned(), script.to_string(), "--stdio".to_owned()];
    let transport = json!({"stdio": {"command": PROGRAM, "args": arguments}});
    json!({"server": {"id": id, "transport": transport, "effects": {"look": "reads", "wait": "reads"}}})
}

fn call(tool: &str) -> Value {
    json!({"call": {"tool": {"server": "child", "tool": tool}}})
}

#[test]
fn a_child_process_is_called_dies_comes_back_and_is_restarted() {
    let script = json!({"tools": [{"name": "look", "reply": "all well"}, {"name": "die"}], "faults": [{"exit_on_call": "die"}]});
    let mut server = child("child", &script);
    server["server"]["effects"]["die"] = json!("reads");
    let run = held(
        None,
        &[
            server,
            listed("child"),
            call("look"),
            call("die"),
            event(&json!({"kind": "server_state", "server": "child", "state": "backoff", "attempt": 1})),
            event(&json!({"kind": "server_state", "server": "child", "state": "ready"})),
            listed("child"),
            json!({"server_restart": {"id": "child"}}),
            event(&json!({"kind": "server_state", "server": "child", "state": "ready"})),
            json!({"refresh": {"server": "child"}}),
            call("look"),
            json!({"list": {"server": "child"}}),
            json!({"tree": {}}),
        ],
    );
    let well = json!([{"type": "text", "text": "all well"}]);
    assert_eq!((&run.reply(3)["outcome"], &run.reply(3)["content"]), (&json!("succeeded"), &well));
    assert_eq!(run.reply(4)["outcome"], "unknown");
    assert_eq!(run.reply(11)["outcome"], "succeeded");
    assert_eq!((&run.reply(12)["state"], &run.reply(12)["revision"]), (&json!("warm"), &json!(1)));
    let names: Vec<_> =
        run.reply(12)["tools"].as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["look", "die"]);
    let children: Vec<_> =
        run.reply(13)["children"].as_array().into_iter().flatten().map(|child| &child["name"]).collect();
    assert_eq!(children, ["approval", "catalog", "registry", "servers", "topics"]);
}

#[test]
fn a_call_in_the_background_is_answered_when_its_server_is_restarted_under_it() {
    let script = json!({"tools": [{"name": "wait", "delay_ms": 60_000}]});
    let wait = json!({"call": {"tool": {"server": "child", "tool": "wait"}, "background": true}});
    let run = held(
        None,
        &[
            child("child", &script),
            listed("child"),
            wait.clone(),
            json!({"sleep": {"ms": 200}}),
            json!({"server_restart": {"id": "child"}}),
            json!({"expect": {"reply": {"to": 3, "outcome": "unknown"}, "from": "start"}}),
            wait,
        ],
    );
    // The one that is under way at the end of the input has its reply, too.
    assert!(run.reply(7)["outcome"].is_string(), "{}", run.shown());
}

#[test]
fn a_tool_is_called_by_its_wire_name() {
    let peer = json!({"tools": [{"name": "look", "echo": true}]});
    let server = json!({"server": {"id": "eyes", "transport": {"peer": peer}, "effects": {"look": "reads"}}});
    let surface =
        held(None, &[server.clone(), listed("eyes"), topic(&json!([])), json!({"surface": {"topic": "t"}})]);
    let name = &surface.reply(4)["tools"][0]["name"];
    let called = held(
        None,
        &[
            server,
            listed("eyes"),
            json!({"call": {"tool": name, "arguments": {"at": "sea"}}}),
            json!({"call": {"tool": "mcp__eyes__look_00000000000000000000"}}),
        ],
    );
    let echoed = json!([{"type": "text", "text": "{\"at\":\"sea\"}"}]);
    assert_eq!((&called.reply(3)["outcome"], &called.reply(3)["content"]), (&json!("succeeded"), &echoed));
    assert_eq!(called.reply(4)["outcome"], "rejected");
}

#[test]
fn what_cannot_be_done_is_an_error_and_the_run_goes_on() {
    let peer = json!({"server": {"id": "a", "transport": {"peer": {}}}});
    let unknown = "0".repeat(64);
    let run = held(
        None,
        &[
            peer.clone(),
            peer.clone(),
            send("to nobody"),
            json!({"view": {"topic": "t"}}),
            json!({"list": {"server": "b"}}),
            json!({"refresh": {"server": "b"}}),
            json!({"server_restart": {"id": "b"}}),
            json!({"call": {"tool": {"server": "b", "tool": "x"}}}),
            json!({"decide": {"approval": "last", "decision": "allow", "by": "ann"}}),
            json!({"decide": {"approval": "half a card", "decision": "allow", "by": "ann"}}),
            json!({"decide": {"approval": unknown, "decision": "allow", "by": "ann"}}),
            json!({"decide": {"approval": "all", "decision": "deny", "by": "ann"}}),
            topic(&json!([])),
            send(""),
            json!({"send": {"topic": "t", "text": "one", "key": "k"}}),
            json!({"send": {"topic": "t", "text": "one", "key": "k"}}),
            json!({"send": {"topic": "t", "text": "two", "key": "k"}}),
            json!({"topic": {"topic": "t", "tenant": "other", "model": {"script": []}}}),
            json!({"server": {"id": "a", "transport": {"peer": {}}}}),
            json!({"call": {"tool": {"server": "a", "tool": "x"}, "topic": "t"}}),
            json!({"stop": {"topic": "t"}}),
        ],
    );
    assert_eq!(
        run.errors(),
        [
            (2, "duplicate_server"),
            (3, "unknown_topic"),
            (4, "unknown_topic"),
            (5, "unknown_server"),
            (6, "unknown_server"),
            (7, "unknown_server"),
            (8, "unknown_server"),
            (9, "unknown_approval"),
            (10, "malformed_id"),
            (14, "empty_text"),
            (17, "key_reused"),
            (18, "other_tenant"),
            (19, "duplicate_server"),
        ]
    );
    assert_eq!(run.reply(11)["answers"], json!([{"approval": unknown, "answer": "unknown"}]));
    assert_eq!(run.reply(12)["answers"], json!([]));
    assert_eq!((&run.reply(15)["message"], &run.reply(16)["message"]), (&json!(1), &json!(1)));
    assert_eq!(run.reply(21)["topic"], "t");
}

#[test]
fn a_call_for_a_topic_stays_within_what_the_topic_may_use() {
    let tools = json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "gone"}]});
    let server =
        |id: &str| json!({"server": {"id": id, "effects": {"look": "reads"}, "transport": {"peer": tools}}});
    let narrow = json!({"topic": {"topic": "t", "model": {"script": []}, "config": {"servers": ["a"]}}});
    let call =
        |server: &str, tool: &str| json!({"call": {"tool": {"server": server, "tool": tool}, "topic": "t"}});
    let calls = [call("a", "look"), call("a", "drop"), call("b", "look")];
    let lines = [vec![server("a"), listed("a"), server("b"), listed("b"), narrow], calls.to_vec()].concat();
    let run = held(None, &lines);
    let outcomes = [6, 7, 8].map(|line| run.reply(line)["outcome"].clone());
    assert_eq!(outcomes, [json!("succeeded"), json!("denied"), json!("rejected")]);
}

#[test]
fn a_server_is_switched_off_and_on() {
    let server = json!({"server": {"id": "a", "effects": {"look": "reads"}, "transport":
        {"peer": {"tools": [{"name": "look", "reply": "seen"}]}}}});
    let switch = |enabled: bool| json!({"server_enable": {"id": "a", "enabled": enabled}});
    let state = |state: &str| event(&json!({"kind": "server_state", "server": "a", "state": state}));
    let call = json!({"call": {"tool": {"server": "a", "tool": "look"}}});
    let run = held(
        None,
        &[
            server,
            listed("a"),
            switch(false),
            state("stopped"),
            call.clone(),
            switch(true),
            listed("a"),
            call,
        ],
    );
    let outcomes = [5, 8].map(|line| run.reply(line)["outcome"].clone());
    assert_eq!(outcomes, [json!("unavailable"), json!("succeeded")]);
}

#[test]
fn a_run_whose_runtime_does_not_start_ends_with_two() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let run = run(&["-", "--data", &file.path().to_string_lossy()], "{\"tree\": {}}\n");
    let said = run.lines.last().map(|line| line["event"]["code"].clone());
    assert_eq!((run.status.code(), said), (Some(2), Some(json!("directory"))), "{}", run.complaint);
}

#[test]
fn a_server_line_that_comes_late_adds_the_server() {
    let late = json!({"server": {"id": "late", "effects": {"look": "reads"}, "transport":
        {"peer": {"tools": [{"name": "look", "reply": "seen"}]}}}});
    let called = json!({"call": {"tool": {"server": "late", "tool": "look"}}});
    let run = held(
        None,
        &[topic(&json!([])), late, listed("late"), called, json!({"restart": {}}), listed("late")],
    );
    assert_eq!(run.reply(4)["outcome"], "succeeded");
}

/// Ends with two; the last line names the line and the field, and says this.
fn check_wrong(input: &str, line: u64, field: Option<&str>, words: &str) {
    let Run { status, lines, .. } = run(&[], input);
    let error = lines.last().map(|line| &line["event"]).expect("there is a last line");
    assert_eq!((status.code(), &error["code"]), (Some(2), &json!("wrong_input")), "{input}: {error}");
    assert_eq!((error["line"].as_u64(), error["field"].as_str()), (Some(line), field), "{input}: {error}");
    assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{input}: {error}");
}

#[test]
fn a_wrong_line_ends_the_run_with_two_and_says_where() {
    check_wrong("{\"tree\": {}}\n\n# a comment\nahoy\n", 4, None, "not JSON");
    check_wrong("{\"sail\": {}}\n", 1, Some("sail"), "no such verb");
    check_wrong("{\"send\": {\"topic\": 7, \"text\": \"\"}}\n", 1, Some("send.topic"), "expected a string");
    check_wrong("{\"list\": {}}", 1, Some("list"), "missing field `server`");
    check_wrong("{\"metrics\": {}}\n", 1, Some("metrics"), "not available in this version");
}

#[test]
fn wrong_arguments_end_with_two_and_the_reason() {
    let virtual_on_disk = ["-", "--clock", "virtual", "--data", "/no/such/directory"];
    for (arguments, words) in [
        (&virtual_on_disk[..], "--clock virtual keeps its data in memory"),
        (&["/no/such/file", "--seed", "1"], "\"/no/such/file\" cannot be read"),
        (&["/no/such/file", "--clock", "virtual"], "\"/no/such/file\" cannot be read"),
        (&["-", "--clock", "sand"], "invalid value 'sand'"),
        (&["-", "--seed", "many"], "invalid value 'many'"),
    ] {
        let run = run(arguments, "");
        assert_eq!((run.status.code(), run.lines.len()), (Some(2), 0), "{arguments:?}");
        assert!(run.complaint.contains(words), "{arguments:?}: {}", run.complaint);
    }
}

#[test]
fn an_expectation_that_does_not_hold_ends_the_run_with_one_and_the_last_line_says_why() {
    let missing =
        json!({"expect": {"event": {"kind": "turn_finished", "stop": "aborted"}, "within_ms": 100}});
    let ahead = [topic(&json!([])), send("Go."), event(&json!({"kind": "turn_finished"}))];
    let input: String = ahead
        .iter()
        .chain([&send("Again."), &missing, &json!({"tree": {}})])
        .map(|line| format!("{line}\n"))
        .collect();
    let missed = run(&["-", "--seed", "7"], &input);
    assert_eq!(missed.status.code(), Some(1), "{}", missed.shown());
    let said = missed.lines.iter().map(|line| &line["expect"]).find(|expect| expect["ok"] == false);
    let said = said.expect("the expectation has its line");
    assert_eq!((&said["line"], &said["seed"]), (&json!(5), &json!(7)));
    let last = &missed.last()["event"];
    assert_eq!(
        (&last["kind"], &last["code"], &last["line"]),
        (&json!("error"), &json!("expectation"), &json!(5))
    );
    let words = last["message"].as_str().unwrap_or_default();
    assert!(words.contains("\"stop\":\"aborted\"") && words.contains("\"stop\":\"completed\""), "{words}");
    assert!(words.ends_with("seed 7"), "{words}");
    assert!(missed.lines.iter().all(|line| line["reply"]["to"] != 6), "nothing is done after it");

    let absent = json!({"expect_absent": {"event": {"kind": "turn_finished"}, "for_ms": 5_000}});
    let broken = play(None, &[topic(&json!([])), send("Go."), absent]);
    assert_eq!(broken.status.code(), Some(1), "{}", broken.shown());
    let words = broken.last()["event"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(words.contains("not to come") && words.contains("\"stop\":\"completed\""), "{words}");
}
