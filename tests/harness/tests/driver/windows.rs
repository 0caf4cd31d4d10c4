//! Attached names: who is told what, and how often.

use serde_json::{Value, json};

use super::run::{Run, event, held, send, topic};

fn attach(name: &str, buffer: Option<usize>) -> Value {
    match buffer {
        Some(buffer) => json!({"attach": {"topic": "t", "as": name, "buffer": buffer}}),
        None => json!({"attach": {"topic": "t", "as": name}}),
    }
}

fn detach(name: &str) -> Value {
    json!({"detach": {"topic": "t", "as": name}})
}

fn finished(turn: u64) -> Value {
    event(&json!({"kind": "turn_finished", "turn": turn}))
}

/// For each name, what it was told of this turn's end.
fn told(run: &Run, turn: u64) -> Vec<&Value> {
    let mut told: Vec<_> =
        run.events("turn_finished").into_iter().filter(|end| end["turn"] == turn).collect();
    told.sort_by_key(|end| end["as"].to_string());
    told.into_iter().map(|end| &end["as"]).collect()
}

#[test]
fn each_name_is_told_once_and_is_named_only_beside_others() {
    let settled = json!({"sleep": {"ms": 50}});
    let run = held(
        None,
        &[
            topic(&json!([])),
            send("one"),
            finished(1),
            attach("left", None),
            send("two"),
            finished(2),
            attach("right", None),
            attach("right", None),
            send("three"),
            finished(3),
            settled.clone(),
            detach("left"),
            send("four"),
            finished(4),
            detach("right"),
            detach("right"),
            send("five"),
            finished(5),
            settled,
        ],
    );
    let nobody = Value::Null;
    assert_eq!(told(&run, 1), [&nobody]);
    assert_eq!(told(&run, 2), [&nobody]);
    assert_eq!(told(&run, 3), ["left", "right"]);
    assert_eq!(told(&run, 4), [&nobody]);
    assert_eq!(told(&run, 5), [&nobody]);
    assert_eq!(run.reply(4)["view"]["status"], "done");
    assert_eq!(run.errors(), [(8, "already_attached"), (16, "not_attached")]);
}

#[test]
fn a_window_that_is_too_slow_is_told_so_and_the_others_notice_nothing() {
    let run = held(
        None,
        &[
            topic(&json!([{"text": "Here you are."}])),
            attach("slow", Some(1)),
            attach("quick", None),
            send("Go."),
            event(&json!({"kind": "turn_finished", "as": "quick"})),
            json!({"expect": {"event": {"kind": "lagged", "as": "slow"}, "from": "start"}}),
            attach("slow", None),
            send("Again."),
            event(&json!({"kind": "turn_finished", "turn": 2, "as": "slow"})),
        ],
    );
    let lagged = run.events("lagged")[0];
    assert!(lagged["missed"].as_u64().is_some_and(|missed| missed > 0), "{lagged}");
    assert!(lagged["resume_from"]["epoch"].is_u64(), "{lagged}");
}

#[test]
fn when_the_only_name_lags_the_driver_looks_on_by_itself() {
    held(
        None,
        &[
            topic(&json!([{"text": "Here you are."}])),
            attach("slow", Some(1)),
            send("Go."),
            event(&json!({"kind": "lagged", "as": "slow"})),
            json!({"sleep": {"ms": 50}}),
            send("Again."),
            finished(2),
        ],
    );
}
