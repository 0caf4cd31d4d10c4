use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::strict::undo;
use super::{Dialect, SHOWN_BYTES_MAX, provider_ready};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::ShownTool;

use crate::provider::{Provider, check};

#[path = "../../tests/catalogs/dialects.rs"]
mod dialects;
mod drawn;
mod hostile;
use dialects::{takers, without_nullable};

/// Each row: what a server sends, the dialect, what is shown, where something was lost.
#[test]
fn every_kind_of_schema_becomes_one_that_the_provider_takes() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let a = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let lost = |at: &[&str]| at.iter().map(|at| (*at).to_owned()).collect::<Vec<_>>();
    let at_a = || lost(&["/properties/a"]);
    let any = json!({"anyOf": [
        {"type": "string", "nullable": true}, {"type": "number"}, {"type": "boolean"},
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"anyOf": [
            {"type": "string", "nullable": true}, {"type": "number"}, {"type": "boolean"},
            {"type": "object", "properties": {}},
            {"type": "array", "items": {"anyOf": [
                {"type": "string", "nullable": true}, {"type": "number"}, {"type": "boolean"},
                {"type": "object", "properties": {}},
            ]}},
        ]}},
    ]});
    let rows = [
        // No object at the root, or nothing that is a schema.
        (json!({"type": "string"}), Dialect::Common, object(json!({})), lost(&[""])),
        (json!(null), Dialect::Common, object(json!({})), lost(&[""])),
        (json!([]), Dialect::Common, object(json!({})), lost(&[""])),
        (json!("x"), Dialect::Anthropic, object(json!({})), lost(&[""])),
        (json!(true), Dialect::Common, object(json!({})), lost(&[])),
        (json!({}), Dialect::OpenAi, object(json!({})), lost(&[])),
        // A value without a type.
        (
            a(json!({"description": "d", "default": null})),
            Dialect::Anthropic,
            a(json!({"description": "d"})),
            lost(&[]),
        ),
        (a(json!({})), Dialect::Common, a(any), at_a()),
        (a(json!({"type": "any"})), Dialect::OpenAi, a(json!({})), lost(&[])),
        (a(json!({"type": "date"})), Dialect::OpenAi, a(json!({"description": "(type: date)"})), at_a()),
        // Values.
        (a(json!({"const": "x"})), Dialect::Gemini, a(json!({"type": "string", "enum": ["x"]})), lost(&[])),
        (
            a(json!({"enum": [1, 2]})),
            Dialect::Common,
            a(json!({"type": "number", "description": "(one of 1 | 2)"})),
            at_a(),
        ),
        (
            a(json!({"anyOf": [{"const": "x"}, {"const": "y"}, {"type": "null"}]})),
            Dialect::Common,
            a(json!({"type": "string", "enum": ["x", "y"], "nullable": true})),
            lost(&[]),
        ),
        (
            a(json!({"enum": ["", "x"]})),
            Dialect::Gemini,
            a(json!({"type": "string", "description": "(one of \"\" | \"x\")"})),
            at_a(),
        ),
        // Types.
        (
            a(json!({"type": ["string", "null"], "description": "d"})),
            Dialect::OpenAi,
            a(json!({"type": ["string", "null"], "description": "d"})),
            lost(&[]),
        ),
        (
            a(json!({"type": ["string", "number"], "description": "d", "default": 1})),
            Dialect::Gemini,
            a(json!({"anyOf": [{"type": "string", "description": "d (default: 1)"}, {"type": "number"}]})),
            lost(&[]),
        ),
        // Bounds.
        (
            a(json!({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5})),
            Dialect::Common,
            a(json!({"type": "integer", "minimum": 1, "description": "(a multiple of 5)"})),
            at_a(),
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {
                "a": {"type": "number", "minimum": 1, "exclusiveMinimum": true}}}),
            Dialect::Anthropic,
            a(json!({"type": "number", "exclusiveMinimum": 1})),
            lost(&[]),
        ),
        (
            a(json!({"type": "string", "format": "uri"})),
            Dialect::Common,
            a(json!({"type": "string", "description": "(format: uri)"})),
            at_a(),
        ),
        // Tuples, in both spellings.
        (
            a(
                json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false}),
            ),
            Dialect::OpenAi,
            a(json!({
                "type": "array",
                "items": {"type": ["string", "integer"]},
                "description": "(in this order: [string, integer])",
            })),
            at_a(),
        ),
        // References.
        (
            json!({"properties": {"a": {"$ref": "#/$defs/A", "description": "d"}}, "$defs": {"A": {"type": "string"}}}),
            Dialect::Common,
            a(json!({"type": "string", "description": "d"})),
            lost(&[]),
        ),
        (
            json!({"properties": {"b": {"type": "array", "items": {"$ref": "#/properties/h"}}, "h": {"type": "string"}}}),
            Dialect::Gemini,
            object(json!({"b": {"type": "array", "items": {"type": "string"}}, "h": {"type": "string"}})),
            lost(&[]),
        ),
        (a(json!({"$ref": "https://example.com/a.json"})), Dialect::Anthropic, a(json!({})), at_a()),
        // Alternatives and conjunctions at the root.
        (
            json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                   "anyOf": [{"required": ["x"]}, {"required": ["y"]}]}),
            Dialect::Anthropic,
            json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                   "description": "(one of {x: string, y?: string} | {x?: string, y: string})"}),
            lost(&[""]),
        ),
        (
            json!({"allOf": [{"properties": {"x": {"type": "string"}}, "required": ["x"]},
                             {"properties": {"x": {"minLength": 1}}}]}),
            Dialect::OpenAi,
            json!({"type": "object", "properties": {"x": {"type": "string", "minLength": 1}}, "required": ["x"]}),
            lost(&[]),
        ),
        // Names that Anthropic refuses.
        (
            json!({"type": "object", "properties": {"filter[id]": {"type": "string"}}, "required": ["filter[id]"],
                   "additionalProperties": false}),
            Dialect::Anthropic,
            json!({"type": "object", "properties": {}, "description": "(also takes \"filter[id]\": string)"}),
            lost(&["", "", ""]),
        ),
        // Free keys.
        (
            a(json!({"type": "object", "additionalProperties": {"type": "integer"}})),
            Dialect::Common,
            a(json!({"type": "object", "properties": {}, "description": "(each other property: integer)"})),
            at_a(),
        ),
        // Strict mode.
        (
            json!({"type": "object", "properties": {"x": {"type": "string", "format": "uri"}, "y": {"enum": ["v"]}},
                   "required": ["x"]}),
            Dialect::OpenAiStrict,
            json!({"type": "object",
                   "properties": {"x": {"type": "string", "description": "(format: uri)"},
                                  "y": {"type": ["string", "null"], "enum": ["v", null]}},
                   "required": ["x", "y"], "additionalProperties": false}),
            lost(&["/properties/x"]),
        ),
    ];
    for (schema, dialect, shown, lost) in rows {
        let ready = provider_ready(&schema, dialect);
        let at: Vec<String> = ready.loosened.iter().map(|loss| loss.at.clone()).collect();
        assert_eq!((&ready.schema, at), (&shown, lost), "{schema} for {dialect:?}");
        holds(&schema);
    }
}

#[test]
fn what_strict_mode_cannot_say_is_shown_without_it() {
    let free = [json!({}), json!({"type": "object"}), json!({"type": "array"})];
    for value in free {
        let schema = json!({"type": "object", "properties": {"a": value}});
        let ready = provider_ready(&schema, Dialect::OpenAiStrict);
        let plain = provider_ready(&schema, Dialect::OpenAi);
        assert_eq!((ready.dialect, &ready.schema), (Dialect::OpenAi, &plain.schema), "{schema}");
        assert!(ready.loosened[0].what.starts_with("strict mode cannot say this"), "{schema}");
    }
}

#[test]
fn undo_takes_out_the_nulls_of_properties_that_may_be_left_out() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": ["string", "null"]},
        "o": {"type": "string"},
        "deep": {"type": "array", "items": {"anyOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": ["integer", "null"]}},
             "required": ["kind", "x"]},
        ]}},
    }});
    let rows = [
        (json!({"n": null, "o": null, "deep": null}), json!({"n": null})),
        (
            json!({"n": "", "o": "x", "deep": [{"kind": "a", "x": null}, {"kind": "b", "x": null}]}),
            json!({"n": "", "o": "x", "deep": [{"kind": "a"}, {"kind": "b", "x": null}]}),
        ),
        (json!("no object"), json!("no object")),
    ];
    for (arguments, undone) in rows {
        assert_eq!(undo(&schema, arguments.clone()), undone, "{arguments}");
    }
}

/// What holds for any schema, in every dialect.
fn holds(schema: &Value) {
    for dialect in Dialect::ALL {
        let ready = provider_ready(schema, dialect);
        assert_eq!(ready, provider_ready(schema, dialect), "the same again");
        assert!(ready.schema.to_string().len() <= SHOWN_BYTES_MAX && ready.loosened.len() <= 33);
        let again = provider_ready(&ready.schema, dialect);
        assert_eq!(again.schema, ready.schema, "{dialect:?} leaves alone what it made of {schema}");
        let tool = ShownTool {
            name: "tool".to_owned(),
            description: "A tool.".to_owned(),
            input_schema: JsonText::from(&ready.schema),
        };
        for provider in takers(ready.dialect) {
            assert_eq!(check(&tool, *provider), [], "{dialect:?} of {schema}: {}", ready.schema);
        }
    }
}

fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::validator_for(schema).ok()
}
