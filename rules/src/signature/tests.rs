use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::tool::ToolDefinition;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;

#[derive(Deserialize)]
struct Vector {
    name: String,
    description: Option<String>,
    schema: Value,
    stub: String,
}

fn tool(description: Option<String>, schema: &Value) -> ToolDefinition {
    let schema = if schema.is_null() { json!({"type": "object"}) } else { schema.clone() };
    ToolDefinition {
        name: "t".to_owned(),
        title: None,
        description,
        input_schema: JsonText::from(schema),
        output_schema: None,
        annotations: None,
    }
}

/// Where we say more than the stub of others, the row says what and why.
#[test]
fn signatures_agree_with_the_stubs_of_others_but_for_what_they_lack() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../tests/vectors/signatures.json")).expect("the vectors parse");
    let ours: [(&str, &[(&str, &str)]); 8] = [
        ("as others", &[]),
        ("as others", &[]),
        ("as others", &[]),
        (
            "integers are told from numbers, and no line of a text is dropped",
            &[("{number} [params.b] - second\n", "{integer} [params.b] - second\\nline\n")],
        ),
        ("an array says what is in it", &[("{Array} [params.l]", "{Array<Object>} [params.l]")]),
        ("as others", &[]),
        (
            "a line break stays within its field, and names are ordered by bytes",
            &[
                ("multi\nline desc", "multi\\nline desc"),
                (
                    " * @param {string} [params._x]\n * @param {string} [params.1]\n",
                    " * @param {string} [params.1]\n",
                ),
                (
                    " * @param {string} [params.a]\n * @param {string} [params.B]\n",
                    " * @param {string} [params.B]\n * @param {string} [params._x]\n * @param {string} [params.a]\n",
                ),
            ],
        ),
        ("as others", &[]),
    ];
    assert_eq!(vectors.len(), ours.len());
    for (vector, (why, changes)) in vectors.into_iter().zip(ours) {
        let expected = changes.iter().fold(vector.stub, |stub, (from, to)| {
            assert!(stub.contains(from), "{why}: {stub}");
            stub.replace(from, to)
        });
        let rendered = render(&tool(vector.description, &vector.schema), &vector.name, &Limits::default());
        assert_eq!(rendered, expected, "{why}");
    }
}

/// Each row: a property's schema, its lines.
#[test]
fn a_property_is_said_with_all_that_a_model_needs() {
    let rows = [
        (json!({"enum": ["a", "b\"c"]}), vec![r#"@param {"a"|"b\"c"} [params.p]"#]),
        (
            json!({"type": "integer", "default": 5, "maximum": 9}),
            vec!["@param {integer} [params.p=5] - (at most 9)"],
        ),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), vec!["@param {string|null} [params.p]"]),
        (json!({}), vec!["@param {any} [params.p]"]),
        (json!({"type": "array", "items": {"type": "string"}}), vec!["@param {Array<string>} [params.p]"]),
        (
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
            vec!["@param {Object} [params.p]", "@param {boolean} [params.p.*]"],
        ),
        (
            json!({"$ref": "#/$defs/N"}),
            vec![
                "@param {Object} [params.p]",
                "@param {Array<Object>} [params.p.kids]",
                "@param {string} params.p.v - (required)",
            ],
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"properties": {"a b": {"const": 1}}, "type": "object"}]}),
            vec![r#"@param {string|Object} [params.p]"#, r#"@param {1} [params.p["a b"]]"#],
        ),
        (
            json!({"type": "string", "format": "uri", "description": "where"}),
            vec!["@param {string} [params.p] - where (format: uri)"],
        ),
    ];
    let defs = json!({"N": {"type": "object", "required": ["v"], "properties": {
        "v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}});
    for (property, lines) in rows {
        let schema = json!({"type": "object", "properties": {"p": property}, "$defs": defs});
        let rendered = render(&tool(None, &schema), "t", &Limits::default());
        let said: Vec<&str> = rendered.lines().filter_map(|line| line.strip_prefix(" * ")).skip(2).collect();
        assert_eq!(said, lines, "{property}");
    }
}

#[test]
fn a_signature_is_bounded_and_says_what_it_leaves_out() {
    let wide: Value = (0..3_000).map(|n| (format!("property{n}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": wide});
    let rendered = render(&tool(Some("x".repeat(1 << 20)), &schema), "t", &Limits::default());
    assert!(rendered.len() < 48 << 10, "{}", rendered.len());
    assert!(rendered.contains(" are left out)\n */"), "{rendered}");
}
