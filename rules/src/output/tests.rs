use pilothouse_messages::json::JsonText;
use serde_json::{Value, json};

use super::{SCHEMA_BYTES_MAX, mismatch};

fn check(schema: Value, content: Value, expected: Option<&str>) {
    let found = mismatch(&JsonText::from(&schema), &JsonText::from(&content));
    assert_eq!(found.as_deref(), expected, "{schema} {content}");
}

#[test]
fn content_is_compared_with_its_schema_and_the_words_name_the_place() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    check(schema.clone(), json!({"n": 1}), None);
    check(schema.clone(), json!({"n": "1"}), Some("/n: \"1\" is not of type \"integer\""));
    check(schema, json!({}), Some("the whole: \"n\" is a required property"));
}

#[test]
fn what_cannot_be_checked_is_no_mismatch() {
    check(json!({"$ref": "https://example.com/schema.json"}), json!({}), None);
    check(json!({"type": "no such type"}), json!({}), None);
    check(json!({"type": "string", "pattern": "(?=a)b"}), json!("b"), None);
    let long = "x".repeat(SCHEMA_BYTES_MAX);
    check(json!({"type": "integer", "description": long}), json!("1"), None);
}

#[test]
fn a_hostile_pattern_takes_no_time() {
    let schema = json!({"type": "string", "pattern": "^(a+)+$"});
    let content = "a".repeat(40) + "!";
    let words = format!("the whole: \"{content}\" does not match \"^(a+)+$\"");
    check(schema, json!(content), Some(&words));
}
