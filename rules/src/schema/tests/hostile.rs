//! Schemas that are made to cost something.

use super::*;

#[test]
fn a_hostile_schema_is_shown_within_bounds() {
    let nested = |levels: usize| {
        (0..levels).fold(
            json!({"type": "string"}),
            |inner, _| json!({"type": "object", "properties": {"a": inner}, "required": ["a"]}),
        )
    };
    let doubling: Map<String, Value> = (0..30)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"type": "object", "properties": {"l": next, "r": next}}))
        })
        .collect();
    let conjoined: Map<String, Value> = (0..30)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"allOf": [next, next]}))
        })
        .collect();
    let chained: Map<String, Value> =
        (0..2_000).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}))).collect();
    let many = |count: usize| (0..count).map(|n| json!(format!("value {n}"))).collect::<Value>();
    let wide: Map<String, Value> =
        (0..100_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let forms: Vec<Value> =
        (0..40).map(|n| json!({"properties": {format!("p{n}"): {"type": "string"}}})).collect();
    let product: Vec<Value> = (0..40).map(|_| json!({"anyOf": forms})).collect();
    let rows = [
        ("deep", nested(90)),
        ("doubling", json!({"$ref": "#/$defs/d0", "$defs": doubling})),
        ("conjoined", json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": conjoined})),
        ("chained", json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": chained})),
        (
            "cyclic",
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ),
        ("itself", json!({"$ref": "#"})),
        ("enum", json!({"properties": {"a": {"enum": many(1_000_000)}}})),
        ("wide", json!({"properties": wide})),
        ("product", json!({"allOf": product})),
        (
            "text",
            json!({"description": "x".repeat(10 << 20), "properties": {"a": {"description": "y".repeat(1 << 20)}}}),
        ),
        ("pattern", json!({"properties": {"a": {"type": "string", "pattern": "(".repeat(1 << 20)}}})),
        ("default", json!({"properties": {"a": {"default": many(10_000)}}})),
    ];
    for (what, schema) in rows {
        for dialect in Dialect::ALL {
            let ready = provider_ready(&schema, dialect);
            assert!(ready.schema.to_string().len() <= SHOWN_BYTES_MAX, "{what}");
            assert!(
                !ready.loosened.is_empty() || matches!(what, "text" | "default"),
                "{what}: {}",
                ready.schema
            );
            assert_eq!(provider_ready(&ready.schema, dialect).schema, ready.schema, "{what}");
        }
    }
}

/// Such a value cannot come from a text, which is not read that deep, but from an embedder's code.
#[test]
fn a_schema_that_is_100_000_levels_deep_is_read_on_any_stack() {
    let mut schema = json!({"type": "string"});
    for _ in 0..100_000 {
        let mut keywords = Map::new();
        keywords.insert("items".to_owned(), schema);
        keywords.insert("type".to_owned(), json!("array"));
        schema = Value::Object(keywords);
    }
    // Not by `json!`, which copies, and so recurses.
    let properties = Map::from_iter([("a".to_owned(), schema)]);
    let keywords =
        [("type".to_owned(), json!("object")), ("properties".to_owned(), Value::Object(properties))];
    let mut schema = Value::Object(Map::from_iter(keywords));
    let ready = provider_ready(&schema, Dialect::Common);
    assert!(ready.loosened.iter().any(|loss| loss.what.contains("too deeply")), "{:?}", ready.loosened);
    // Dropped level by level: the drop of a value itself is recursive.
    while let Value::Object(keywords) = &mut schema {
        let inner = keywords.remove("items").or_else(|| keywords.remove("properties"));
        match inner.or_else(|| keywords.remove("a")) {
            Some(inner) => schema = inner,
            None => break,
        }
    }
}
