//! What it costs to check a call's arguments, as a ratio to the raw limit: reading the same arguments from their text.
//!
//! `cargo bench --bench arguments` prints the figures; any other way of running it is a short check that it still works.

use std::hint::black_box;

use pilothouse_messages::json::JsonText;
use pilothouse_rules::arguments::{Cost, Settled, Validator, Verdict, cost, settle};
use serde_json::{Value, json};

#[path = "shared/rounds.rs"]
mod rounds;

use rounds::each;

fn main() {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    let rounds = if asked("--bench") && !asked("--test") { 200_000 } else { 100 };
    let schema = json!({
        "type": "object",
        "properties": {
            "owner": {"type": "string"},
            "repo": {"type": "string"},
            "state": {"enum": ["open", "closed", "all"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "sort": {"type": "string", "enum": ["created", "updated"]},
            "page": {"type": "integer", "minimum": 1},
            "since": {"type": "string", "format": "date-time"},
        },
        "required": ["owner", "repo"],
    });
    let text = r#"{"owner":"harbour","repo":"pilots","state":"open","labels":["storm","tide"],"page":2}"#;
    let arguments: Value = serde_json::from_str(text).expect("the sample is JSON");
    assert_eq!(cost(&schema), Cost::Cheap);
    let text_of_schema = JsonText::from(&schema);
    let validator = Validator::new(&text_of_schema);
    assert_eq!(validator.check(&arguments), Verdict::Valid);

    let read = each(rounds, || serde_json::from_str::<Value>(black_box(text)).is_ok());
    let check = each(rounds, || validator.check(black_box(&arguments)) == Verdict::Valid);
    let settled = each(rounds, || matches!(settle(black_box(text), &validator), Settled::Arguments { .. }));
    let compile = each(rounds.div_ceil(100), || Validator::new(black_box(&text_of_schema)).gap().is_none());
    println!("read the text    {read:>10.0?}  the raw limit");
    for (what, took) in [("check", check), ("read and check", settled), ("compile, once", compile)] {
        println!("{what:<16} {took:>10.0?}  {:.2} of it", took.as_secs_f64() / read.as_secs_f64());
    }
}
