//! What a process that is killed leaves to the next one.

use std::os::unix::process::ExitStatusExt;

use serde_json::json;

use super::run::{event, held, listed, notes, play, send, topic};

const SIGKILL: i32 = 9;

#[test]
fn a_card_that_was_open_at_a_crash_is_decided_in_the_next_run_and_its_tool_runs_once() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let call =
        json!({"calls": [{"tool": {"server": "notes", "tool": "add_note"}, "arguments": {"text": "ahoy"}}]});
    let first = play(
        Some(&data),
        &[
            notes(&marks),
            listed("notes"),
            topic(&json!([call])),
            send("Note this."),
            event(&json!({"kind": "approval_requested"})),
            json!({"crash": {}}),
            json!({"tree": {}}),
        ],
    );
    assert_eq!(first.status.signal(), Some(SIGKILL), "{}", first.shown());
    assert!(!marks.exists(), "nothing ran before a person was asked");
    let card = first.events("approval_requested")[0];

    let second = held(
        Some(&data),
        &[
            notes(&marks),
            topic(&json!([{"text": "It is noted."}])),
            event(&json!({"kind": "topic_status", "status": "awaiting_approval"})),
            event(
                &json!({"kind": "approval_requested", "approval": card["approval"], "digest": card["digest"]}),
            ),
            json!({"approvals": {}}),
            json!({"decide": {"approval": "last", "decision": "allow", "by": "ann", "digest": "of another card"}}),
            json!({"decide": {"approval": "last", "decision": "allow", "by": "ann", "digest": card["digest"]}}),
            event(&json!({"kind": "tool_finished", "call": "1.1.0", "outcome": "succeeded"})),
            event(&json!({"kind": "text", "delta": "It is noted."})),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "completed"})),
            json!({"decide": {"approval": "last", "decision": "allow", "by": "ben"}}),
        ],
    );
    assert_eq!(second.reply(5)["cards"][0]["approval"], card["approval"]);
    let changed = json!([{"approval": card["approval"], "answer": "changed", "digest": card["digest"]}]);
    assert_eq!(second.reply(6)["answers"], changed);
    assert_eq!(second.reply(7)["answers"], json!([{"approval": card["approval"], "answer": "applied"}]));
    let again =
        json!([{"approval": card["approval"], "answer": "already", "state": "approved", "by": "ann"}]);
    assert_eq!(second.reply(11)["answers"], again);
    assert_eq!(second.events("approval_requested").len(), 1, "a card is printed once: {}", second.shown());
    assert_eq!(std::fs::read_to_string(&marks).expect("it ran"), "add_note\n");
}

#[test]
fn a_turn_that_ran_at_a_crash_is_interrupted_and_what_waited_behind_it_is_held() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let first = play(
        Some(directory.path()),
        &[
            topic(&json!([{"text": "Let me think.", "hang": true}])),
            send("Think."),
            event(&json!({"kind": "text", "delta": "Let me think."})),
            send("And then rest."),
            json!({"expect": {"reply": {"receipt": "queued", "position": 1}}}),
            json!({"crash": {}}),
        ],
    );
    assert_eq!(first.status.signal(), Some(SIGKILL), "{}", first.shown());

    let second = held(
        Some(directory.path()),
        &[
            topic(&json!([{"text": "Well rested."}])),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "interrupted"})),
            event(&json!({"kind": "receipt", "message": 2, "state": "held", "reason": "process_restart"})),
            event(&json!({"kind": "topic_status", "status": "error"})),
            json!({"expect_absent": {"event": {"kind": "turn_started"}, "for_ms": 100}}),
            send("Are you rested?"),
            event(&json!({"kind": "turn_finished", "turn": 2, "stop": "completed"})),
            json!({"view": {"topic": "t"}}),
        ],
    );
    let view = second.reply(8);
    assert_eq!(view["held"][0]["text"], "And then rest.", "{view}");
    let stops: Vec<_> = view["turns"].as_array().into_iter().flatten().map(|turn| &turn["stop"]).collect();
    assert_eq!(stops, ["interrupted", "completed"]);
}

#[test]
fn a_restart_ends_the_open_turn_and_repeats_nothing_that_was_printed() {
    let run = held(
        None,
        &[
            topic(&json!([{"text": "Hm.", "hang": true}, {"text": "Here I am."}])),
            send("Hello?"),
            event(&json!({"kind": "text"})),
            json!({"restart": {}}),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "interrupted"})),
            send("Hello again."),
            event(&json!({"kind": "text", "delta": "Here I am."})),
            event(&json!({"kind": "turn_finished", "turn": 2, "stop": "completed"})),
        ],
    );
    assert_eq!(run.reply(4)["forced"], json!([]));
    assert_eq!(run.events("turn_finished").len(), 2, "{}", run.shown());
}

#[test]
fn a_card_that_is_open_over_a_restart_is_printed_once_more_and_runs_once() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let marks = directory.path().join("marks");
    let call = json!({"calls": [{"tool": {"server": "notes", "tool": "add_note"}}]});
    let run = held(
        None,
        &[
            notes(&marks),
            listed("notes"),
            topic(&json!([call, {"text": "It is noted."}])),
            send("Note this."),
            event(&json!({"kind": "approval_requested"})),
            json!({"restart": {}}),
            event(&json!({"kind": "approval_requested"})),
            json!({"sleep": {"ms": 100}}),
            json!({"decide": {"approval": "all", "decision": "allow", "by": "ann"}}),
            event(&json!({"kind": "text", "delta": "It is noted."})),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "completed"})),
        ],
    );
    assert_eq!(run.events("approval_requested").len(), 2, "{}", run.shown());
    assert_eq!(run.reply(9)["answers"].as_array().map(Vec::len), Some(1), "{}", run.shown());
    assert_eq!(std::fs::read_to_string(&marks).expect("it ran"), "add_note\n");
}
