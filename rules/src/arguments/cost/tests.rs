use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Cost, Weight, cost};

#[test]
fn a_plain_schema_is_cheap_and_one_that_repeats_itself_is_dear() {
    let plain = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}});
    let shared = json!({
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"type": "object"}},
    });
    let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    let itself = json!({"$ref": "#"});
    let anchored = json!({"$ref": "#here", "$defs": {"x": {"$anchor": "here"}}});
    let document = json!({"properties": {"a": {"$id": "http://a/", "$ref": "#/$defs/x"}}});
    let wide = json!({"allOf": vec![json!({"type": "object"}); 5_000]});
    let rows = [
        (plain, Cost::Cheap),
        (shared, Cost::Cheap),
        (tree, Cost::Dear),
        (itself, Cost::Dear),
        (anchored, Cost::Dear),
        (document, Cost::Dear),
        (wide, Cost::Dear),
    ];
    for (schema, expected) in rows {
        assert_eq!(cost(&schema), expected, "{schema}");
    }
}

#[test]
fn visits_are_counted_with_the_arguments_in_hand() {
    let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    let leaf = json!({"left": {}, "right": {}});
    let weight = Weight::of(&tree);
    // A place is met by the property's schema and by the one that it refers to.
    assert_eq!(weight.steps(&tree, &json!({})), Some(1));
    assert_eq!(weight.steps(&tree, &leaf), Some(5));
    assert_eq!(weight.steps(&tree, &json!({"left": leaf, "right": leaf})), Some(13));
}

/// Schemas of the keywords that multiply visits, with references to any of three definitions.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "object"})),
        Just(json!(true)),
        (0..3_u8).prop_map(|n| json!({"$ref": format!("#/$defs/d{n}")})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            several.clone().prop_map(|all| json!({"allOf": all})),
            several.prop_map(|any| json!({"anyOf": any})),
            inner.clone().prop_map(|a| json!({"properties": {"a": a}})),
            inner.prop_map(|a| json!({"additionalProperties": a, "unevaluatedProperties": false})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a schema is, a check of it ends: it is counted first, and what cannot be counted is not made.
    #[test]
    fn any_schema_is_weighed_and_checked_within_a_bound(
        defs in prop::collection::vec(schema(), 3),
        root in schema(),
        levels in 0..60_usize,
    ) {
        let defs: serde_json::Map<_, _> =
            defs.into_iter().enumerate().map(|(n, def)| (format!("d{n}"), def)).collect();
        let schema = json!({"allOf": [root], "$defs": defs});
        let arguments = (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        let validator = crate::arguments::Validator::new(&(&schema).into());
        // Without the count this would go on for years.
        let _whatever_it_says = validator.check(&arguments);
    }
}
