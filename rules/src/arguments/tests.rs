use std::sync::Arc;

use pilothouse_messages::json::JsonText;
use serde_json::{Value, json};

use super::{GENERATION, Validator, Validators, Verdict};
use crate::registry::sample::tool;

fn validator(schema: &Value) -> Validator {
    Validator::new(&JsonText::from(schema))
}

/// The words of a check: nothing if valid, a line for each fault, "unchecked" with the beginning of the reason.
fn said(schema: &Value, arguments: &Value) -> String {
    match validator(schema).check(arguments) {
        Verdict::Valid => String::new(),
        Verdict::Invalid(faults) => faults.to_string(),
        Verdict::Unchecked(why) => format!("unchecked: {why}"),
    }
}

fn check(rows: &[(Value, Value, &str)]) {
    for (schema, arguments, expected) in rows {
        assert_eq!(said(schema, arguments), *expected, "{schema} against {arguments}");
    }
}

#[test]
fn a_fault_says_where_it_is_what_was_expected_and_what_was_found() {
    let issue = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3},
            "state": {"enum": ["open", "closed"]},
            "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 100},
            "a/b": {"const": 1},
        },
        "required": ["title"],
        "additionalProperties": false,
    });
    let row = |arguments, expected| (issue.clone(), arguments, expected);
    check(&[
        row(json!({"title": "leak", "state": "open", "labels": ["a"], "limit": null}), ""),
        row(json!({}), "- arguments: \"title\" is required and missing"),
        row(json!({"title": 5}), "- title: expected a string, found the number 5"),
        row(json!({"title": "ab"}), "- title: expected at least 3 characters, found the string \"ab\""),
        row(
            json!({"title": "leak", "state": "shut"}),
            "- state: expected one of \"open\", \"closed\", found the string \"shut\"",
        ),
        row(
            json!({"title": "leak", "labels": ["a", 2]}),
            "- labels[1]: expected a string, found the number 2",
        ),
        row(
            json!({"title": "leak", "labels": ["a", "b", "c"]}),
            "- labels: expected at most 2 items, found an array of 3",
        ),
        row(
            json!({"title": "leak", "limit": "7"}),
            "- limit: expected an integer or null, found the string \"7\"",
        ),
        row(json!({"title": "leak", "limit": 0}), "- limit: expected at least 1, found the number 0"),
        row(json!({"title": "leak", "a/b": 2}), "- a/b: expected 1, found the number 2"),
        row(
            json!({"title": "leak", "titel": 1}),
            "- arguments: there is no \"titel\"; there are a/b, labels, limit, state, title",
        ),
    ]);
}

#[test]
fn a_failed_alternative_says_why_each_of_its_shapes_fails() {
    let schema = json!({
        "type": "object",
        "properties": {"target": {"anyOf": [{"$ref": "#/$defs/Db"}, {"type": "null"}]}},
        "$defs": {"Db": {"type": "object", "required": ["id"]}},
    });
    check(&[
        (schema.clone(), json!({"target": {"id": 1}}), ""),
        (schema.clone(), json!({"target": null}), ""),
        (
            schema,
            json!({"target": "x"}),
            "- target: expected one of several shapes, found the string \"x\"; \
             target: expected an object, found the string \"x\"; \
             or target: expected null, found the string \"x\"",
        ),
    ]);
}

#[test]
fn the_draft_that_a_schema_names_is_the_measure() {
    let tuple = json!({"items": [{"type": "string"}], "type": "array"});
    let four = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": true}, "t": tuple},
    });
    let newest = json!({"type": "object", "properties": {"t": {"prefixItems": [{"type": "string"}]}}});
    check(&[
        (four.clone(), json!({"n": 1}), "- n: expected more than 1, found the number 1"),
        (four.clone(), json!({"t": [1]}), "- t[0]: expected a string, found the number 1"),
        (four, json!({"t": ["a", 1], "n": 2}), ""),
        (newest, json!({"t": [1]}), "- t[0]: expected a string, found the number 1"),
    ]);
}

#[test]
fn formats_are_annotations_and_patterns_are_not() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"url": {"format": "uri"}, "id": {"pattern": "^[a-z]+$"}},
    });
    check(&[
        (schema.clone(), json!({"url": "no address", "id": "abc"}), ""),
        (schema, json!({"id": "A1"}), "- id: expected a text like ^[a-z]+$, found the string \"A1\""),
    ]);
}

/// Each is called all the same: the verdict says only that nobody looked.
#[test]
fn a_schema_that_cannot_be_used_is_not_checked_and_says_why() {
    let rows = [
        (json!({"type": "objekt"}), "the schema cannot be used"),
        (
            json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/gone"}}}),
            "the schema cannot be used",
        ),
        (
            json!({"type": "object", "properties": {"x": {"$ref": "http://example.org/x.json"}}}),
            "the schema cannot",
        ),
        (
            json!({"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}}),
            "the schema cannot be used",
        ),
        (json!({"type": "object", "properties": {"x": {"pattern": "^(?=a)"}}}), "the schema cannot be used"),
        (json!({"type": "object", "description": "x".repeat(300_000)}), "the schema is longer than"),
    ];
    for (schema, expected) in rows {
        let validator = validator(&schema);
        let gap = validator.gap().unwrap_or_default().to_owned();
        assert!(gap.starts_with(expected), "{gap}");
        assert!(gap.len() < 200, "bounded: {gap}");
        assert_eq!(validator.check(&json!({"x": 1})), Verdict::Unchecked(gap));
    }
}

#[test]
fn what_is_told_is_bounded_whatever_was_written() {
    let long = "y".repeat(100_000);
    let names: serde_json::Map<_, _> = (0..50).map(|n| (format!("{n}{long}"), json!(n))).collect();
    let schema = json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "integer"}}, "text": {"enum": [long]}},
        "additionalProperties": false,
    });
    let list = vec![json!("x"); 100];
    let words = said(&schema, &json!({"list": list, "text": long}));
    assert!(words.contains("list[0]: expected an integer, found the string \"x\""), "{words}");
    assert!(words.ends_with("- and 92 more"), "{words}");
    assert!(words.len() < 2_000, "{} bytes", words.len());
    let words = said(&schema, &Value::Object(names));
    assert!(words.len() < 500, "{} bytes", words.len());
}

/// 2²⁶ visits, patterns that backtrack, recursion that never ends: none of them takes long.
#[test]
fn no_schema_and_no_arguments_make_a_check_take_long() {
    let level = |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/l{}", n + 1)}, {"$ref": format!("#/$defs/l{}", n + 1)}]});
    let mut levels: serde_json::Map<_, _> = (0..40).map(|n| (format!("l{n}"), level(n))).collect();
    levels.insert("l40".to_owned(), json!({"type": "object"}));
    let exponential = json!({"type": "object", "$ref": "#/$defs/l0", "$defs": levels});
    let twice =
        json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
    let nested = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
    let chain: serde_json::Map<_, _> =
        (0..20_000).map(|n| (format!("c{n}"), json!({"$ref": format!("#/$defs/c{}", n + 1)}))).collect();
    let chain = json!({"type": "object", "$ref": "#/$defs/c0", "$defs": chain});
    let wide = json!({"type": "object", "allOf": vec![json!({"properties": {"a": {"items": {"type": "integer"}}}}); 3_000]});
    let backtracking = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
    let rows = [
        (exponential, json!({}), Some("checking these arguments would take too long")),
        (twice, nested, Some("checking these arguments would take too long")),
        (chain, json!({}), Some("the schema")),
        (wide, json!({"a": vec![1; 10_000]}), Some("checking these arguments would take too long")),
        (backtracking, json!({"a": format!("{}!", "a".repeat(10_000))}), None),
    ];
    for (schema, arguments, unchecked) in rows {
        // Without a bound each of these would go on for hours, and the test with it.
        let verdict = validator(&schema).check(&arguments);
        let shown = schema.to_string();
        match (unchecked, verdict) {
            (Some(reason), Verdict::Unchecked(why)) => assert!(why.starts_with(reason), "{why}"),
            (None, Verdict::Invalid(_)) => {}
            (_, verdict) => panic!("{verdict:?} for {}", &shown[..100.min(shown.len())]),
        }
    }
}

#[test]
fn a_recursive_schema_is_checked_at_every_depth() {
    let node = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["name"],
    });
    let schema = json!({"$ref": "#/$defs/node", "type": "object", "$defs": {"node": node}});
    let deep =
        |leaf: Value| (0..40).fold(leaf, |inner, n| json!({"name": n.to_string(), "children": [inner]}));
    check(&[(schema.clone(), deep(json!({"name": "leaf"})), "")]);
    let words = said(&schema, &deep(json!({"name": 7})));
    assert!(words.ends_with("…: expected a string, found the number 7"), "{words}");
}

/// The deepest that is let through, on the smallest stack that Tokio and the standard library give a thread.
#[test]
fn the_deepest_check_fits_a_threads_stack() {
    let schema = json!({
        "type": "object",
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"anyOf": [{"allOf": [{"$ref": "#/$defs/b"}]}, {"type": "null"}]},
            "b": {"oneOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]}]},
        },
    });
    let deep = (0..100).fold(json!({}), |inner, _| json!({"x": inner, "y": 1}));
    let run = move || matches!(validator(&schema).check(&deep), Verdict::Invalid(_) | Verdict::Unchecked(_));
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread starts");
    assert!(thread.join().expect("it does not overflow"));
}

#[test]
fn a_schema_is_compiled_once_for_each_fingerprint_and_the_cache_is_bounded() {
    let validators = Validators::default();
    let of = |name: &str| {
        let tool = tool(name);
        validators.of(&tool, tool.fingerprint())
    };
    let first = of("first");
    assert!(Arc::ptr_eq(&first, &of("first")), "compiled once");
    for n in 0..GENERATION * 3 {
        of(&n.to_string());
        of("first");
    }
    assert!(Arc::ptr_eq(&first, &of("first")), "what is asked for stays");
    let generations = validators.lock();
    assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
}
