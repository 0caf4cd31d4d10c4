use pilothouse_messages::json::JsonText;
use serde_json::{Value, json};

use super::{Fix, Settled, settle};
use crate::arguments::Validator;

fn validator(schema: &Value) -> Validator {
    Validator::new(&JsonText::from(schema))
}

/// A tool that needs a query.
fn query() -> Value {
    json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false})
}

/// A tool that needs nothing, and takes anything.
fn open() -> Value {
    json!({"type": "object"})
}

/// What was written; what it becomes and how, or why it is refused.
type Row<'a> = (&'a str, Result<(&'a str, &'a [Fix]), &'a str>);

fn check(schema: &Value, rows: &[Row<'_>]) {
    let validator = validator(schema);
    for (raw, expected) in rows {
        match (settle(raw, &validator), expected) {
            (Settled::Arguments { arguments, fixes, unchecked: None }, Ok((text, fixed))) => {
                assert_eq!((arguments.as_str(), fixes.as_slice()), (*text, *fixed), "{raw}");
            }
            (Settled::Refused { reason }, Err(beginning)) => {
                assert!(reason.starts_with(beginning), "{raw}: {reason}");
                assert!(reason.len() < 1_000, "bounded: {reason}");
            }
            (settled, expected) => panic!("{raw}: {settled:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn null_for_what_may_be_left_out_is_left_out_where_the_schema_takes_no_null() {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"},
        "maybe": {"type": ["string", "null"]}}, "required": ["q"]});
    check(
        &schema,
        &[
            (r#"{"q":"a","n":null}"#, Ok((r#"{"q":"a"}"#, &[Fix::NullsLeftOut]))),
            (r#"{"q":"a","maybe":null}"#, Ok((r#"{"q":"a","maybe":null}"#, &[]))),
            (r#"{"q":null}"#, Err("the arguments do not match its schema")),
            (r#"{"q":"a","n":"x","maybe":null}"#, Err("the arguments do not match its schema")),
        ],
    );
}

#[test]
fn a_slip_of_the_form_is_mended_where_the_result_is_what_the_schema_asks_for() {
    let good = r#"{"q":"a"}"#;
    check(
        &query(),
        &[
            (r#" {"q": "a"} "#, Ok((r#"{"q": "a"}"#, &[]))),
            (r#""{\"q\":\"a\"}""#, Ok((good, &[Fix::Decoded]))),
            (r#"{"arguments":{"q":"a"}}"#, Ok((good, &[Fix::Unwrapped]))),
            (r#"{"params":{"q":"a"}}"#, Ok((good, &[Fix::Unwrapped]))),
            (r#"{"input":{"q":"a"}}"#, Ok((good, &[Fix::Unwrapped]))),
            (r#"{"arguments":"{\"q\":\"a\"}"}"#, Ok((good, &[Fix::Unwrapped, Fix::Decoded]))),
            (r#"{"q":"a"} I call it now."#, Ok((good, &[Fix::Trimmed]))),
            ("```json\n{\"q\": \"a\"}\n```", Ok((good, &[Fix::Unfenced]))),
            (r#"{"q":"a",}"#, Ok((good, &[Fix::CommaRemoved]))),
            ("```\n{\"q\": \"a\", }\n```", Ok((good, &[Fix::Unfenced, Fix::CommaRemoved]))),
        ],
    );
}

#[test]
fn nothing_written_is_no_arguments_where_none_are_needed() {
    let rows: [Row<'_>; 5] = [
        ("", Ok(("{}", &[Fix::Empty]))),
        ("   ", Ok(("{}", &[Fix::Empty]))),
        ("null", Ok(("{}", &[Fix::Empty]))),
        (r#""""#, Ok(("{}", &[Fix::Decoded, Fix::Empty]))),
        ("{}", Ok(("{}", &[]))),
    ];
    check(&open(), &rows);
    let missing = "the arguments do not match its schema:\n- arguments: \"q\" is required and missing";
    check(&query(), &[("", Err(missing)), ("null", Err(missing)), ("{}", Err(missing))]);
}

#[test]
fn nothing_is_guessed() {
    let schema = "the arguments do not match its schema";
    check(
        &query(),
        &[
            // A value of the wrong type stays wrong.
            (
                r#"{"q":5}"#,
                Err("the arguments do not match its schema:\n- q: expected a string, found the number 5"),
            ),
            (r#"{"arguments":{"q":5}}"#, Err(schema)),
            (r#"{"arguments":{"q":"a"},"why":"because"}"#, Err(schema)),
            (r#"{"args":{"q":"a"}}"#, Err(schema)),
            // Two calls in one text are not one call.
            (r#"{"q":"a"}{"q":"b"}"#, Err("the arguments are not valid JSON (")),
            (r#"[{"q":"a"}]"#, Err("the arguments must be a JSON object, this is an array")),
            ("7", Err("the arguments must be a JSON object, this is a number")),
            (r#""a""#, Err("the arguments must be a JSON object, this is a string")),
            (r#"{"q":"a",,}"#, Err("the arguments are not valid JSON (")),
            (r#"{'q':'a'}"#, Err("the arguments are not valid JSON (")),
            ("{q:\"a\"}", Err("the arguments are not valid JSON (")),
            // Cut off by the model's own limit.
            (r#"{"slider_id": "#, Err("the arguments are not valid JSON: they end too early")),
            (r#"{"q": "a"#, Err("the arguments are not valid JSON: they end too early")),
        ],
    );
    check(
        &json!({"properties": {"on": {"type": "boolean"}}}),
        &[(r#"{"on":"false"}"#, Err("the arguments do not match its schema:\n- on: expected a boolean"))],
    );
}

#[test]
fn a_wrapper_stays_where_the_tool_has_such_a_parameter() {
    let own =
        json!({"type": "object", "properties": {"arguments": {"type": "object"}}, "required": ["arguments"]});
    let raw = r#"{"arguments":{"q":"a"}}"#;
    check(&own, &[(raw, Ok((raw, &[])))]);
    // A tool that takes anything takes this, too.
    check(&open(), &[(raw, Ok((raw, &[])))]);
}

#[test]
fn a_string_in_a_string_in_a_string_is_given_up() {
    let mut text = r#"{"q":"a"}"#.to_owned();
    for _ in 0..8 {
        text = Value::String(text).to_string();
    }
    check(&query(), &[(text.as_str(), Err("the arguments must be a JSON object, this is a string"))]);
}

#[test]
fn arguments_that_nobody_can_check_are_taken_as_an_object() {
    let blind = validator(&json!({"type": "object", "properties": {"x": {"$ref": "#/gone"}}}));
    for (raw, expected) in [(r#"{"x": 1}"#, r#"{"x": 1}"#), (r#""{\"x\":1}""#, r#"{"x":1}"#)] {
        let Settled::Arguments { arguments, unchecked: Some(_), .. } = settle(raw, &blind) else {
            panic!("{raw} is an object, and nobody can say more")
        };
        assert_eq!(arguments.as_str(), expected);
    }
    assert!(matches!(settle("[]", &blind), Settled::Refused { .. }));
}
