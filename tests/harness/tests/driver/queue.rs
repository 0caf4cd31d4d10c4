//! Lines about messages that wait or are held, and about turns that go on.

use serde_json::{Value, json};

use super::run::{event, held, listed, send};

/// A server whose tool `look` reads and takes a minute.
fn eyes() -> Value {
    let script = json!({"tools": [{"name": "look", "reply": "seen", "delay_ms": 60_000}]});
    json!({"server": {"id": "eyes", "transport": {"peer": script}, "effects": {"look": "reads"}}})
}

fn topic(config: &Value, script: &Value) -> Value {
    json!({"topic": {"topic": "t", "model": {"script": script}, "config": config}})
}

fn about(verb: &str, mut fields: Value) -> Value {
    fields["topic"] = json!("t");
    json!({verb: fields})
}

#[test]
fn messages_are_edited_reordered_dropped_and_resent_by_lines() {
    let script = json!([{"hang": true}, {"text": "Three."}, {"text": "Two."}]);
    let run = held(
        None,
        &[
            topic(&json!({}), &script),
            send("one"),
            send("two"),
            send("three"),
            about("send", json!({"text": "four", "level": "next_turn"})),
            about("edit", json!({"message": 3, "text": "three, mended"})),
            about("reorder", json!({"messages": [3, 2, 4]})),
            about("reorder", json!({"messages": [4, 3, 2]})),
            about("drop", json!({"message": 4})),
            about("edit", json!({"message": 1, "text": "x"})),
            about("edit", json!({"message": 9, "text": "x"})),
            about("relevel", json!({"message": 2, "level": "now"})),
            about("resend", json!({"message": 2})),
            about("stop", json!({})),
            about("resend", json!({"message": 3})),
            event(&json!({"kind": "turn_finished", "turn": 2, "stop": "completed"})),
            about("view", json!({})),
            about("continue", json!({})),
        ],
    );
    let errors = [
        (8, "wrong_order"),
        (10, "not_waiting"),
        (11, "unknown_message"),
        (13, "not_held"),
        (18, "nothing_to_continue"),
    ];
    assert_eq!(run.errors(), errors, "{}", run.shown());
    assert_eq!((&run.reply(5)["receipt"], &run.reply(5)["position"]), (&json!("queued"), &json!(3)));
    assert_eq!(run.reply(9)["receipt"], "dropped");
    assert_eq!((&run.reply(15)["receipt"], &run.reply(15)["turn"]), (&json!("accepted"), &json!(2)));
    let view = run.reply(17);
    assert_eq!(view["turns"][1]["messages"][0]["text"], "three, mended");
    assert_eq!((&view["held"][0]["message"], &view["held"][0]["level"]), (&json!(2), &json!("now")));
    let changed: Vec<_> =
        run.events("message_changed").iter().map(|event| event["message"].clone()).collect();
    assert_eq!(changed, [json!(4), json!(3), json!(2)], "{}", run.shown());
}

#[test]
fn a_message_that_cannot_wait_interrupts_and_joins_where_the_topic_injects() {
    let look = json!({"calls": [{"tool": {"server": "eyes", "tool": "look"}}]});
    let script = json!([look, {"text": "Well?"}]);
    let run = held(
        None,
        &[
            eyes(),
            listed("eyes"),
            topic(&json!({"steering": "inject"}), &script),
            send("one"),
            event(&json!({"kind": "tool_started", "turn": 1})),
            about("send", json!({"text": "two", "level": "now"})),
            event(&json!({"kind": "tool_finished", "call": "1.1.0", "outcome": "cancelled"})),
            event(&json!({"kind": "receipt", "message": 2, "state": "injected", "turn": 1, "step": 2})),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "completed"})),
        ],
    );
    assert_eq!((&run.reply(6)["receipt"], &run.reply(6)["step"]), (&json!("injected"), &json!(2)));
}

#[test]
fn a_turn_that_was_cut_short_goes_on_by_a_line_and_a_change_says_what_counts_when() {
    let script = json!([{"text": "Once", "finish": "length"}, {"text": "more."}, {"hang": true}]);
    let run = held(
        None,
        &[
            topic(
                &json!({"budget": {"tokens": 100_000, "cost": {"limit": 5, "input": 1, "output": 2}}}),
                &script,
            ),
            send("one"),
            event(&json!({"kind": "turn_finished", "turn": 1, "stop": "output_truncated"})),
            about("continue", json!({})),
            event(&json!({"kind": "receipt", "message": 1, "state": "answered", "turn": 2})),
            send("two"),
            about("configure", json!({"mode": "plan", "claim": "batch", "after_crash": "resume_once"})),
            about("continue", json!({})),
            about("view", json!({})),
        ],
    );
    assert_eq!(run.reply(4)["turn"], 2);
    let answered = run.reply(7);
    assert_eq!(
        (&answered["now"], &answered["next_turn"]),
        (&json!(["mode"]), &json!(["claim", "after_crash"]))
    );
    assert_eq!(answered["at_next_turn"], true);
    assert_eq!(run.errors(), [(8, "turn_open")]);
    let view = run.reply(9);
    assert_eq!(view["turns"][1]["continues"], 1);
    assert_eq!(
        (&view["config"]["claim"], &view["config"]["budget"]["cost"]["limit"]),
        (&json!("batch"), &json!(5))
    );
}
