//! Drawn schemas and drawn arguments.

use super::*;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "a b"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    let values =
        [json!(null), json!(true), json!(0), json!(3), json!(2.5), json!("x"), json!(""), json!("long text")];
    prop::sample::select(values.to_vec())
}

fn value() -> impl Strategy<Value = Value> {
    let list = prop::collection::vec(scalar(), 0..3).prop_map(Value::from);
    let flat = prop_oneof![3 => scalar(), 1 => list];
    flat.prop_recursive(3, 16, 3, |inner| {
        prop::collection::btree_map(name(), inner, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value(), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// One keyword with a value that fits it.
fn keyword(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = (String, Value)> {
    let list = prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from);
    let named = prop::collection::btree_map(name(), inner.clone(), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        .boxed();
    let kinds = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let kind = prop::sample::select(kinds.to_vec()).prop_map(Value::from);
    let kinds = prop::collection::vec(kind.clone(), 1..3).prop_map(|mut kinds| {
        kinds.dedup();
        Value::from(kinds)
    });
    let number = prop::sample::select(vec![json!(0), json!(1), json!(2), json!(10)]);
    let target = prop::sample::select(vec!["#/$defs/a", "#/$defs/b", "#/properties/c", "#", "#/nowhere"]);
    let of = |word: &'static str, value: BoxedStrategy<Value>| {
        value.prop_map(move |value| (word.to_owned(), value))
    };
    prop_oneof![
        4 => of("type", kind.boxed()),
        1 => of("type", kinds.boxed()),
        4 => of("properties", named.clone()),
        2 => of("required", prop::collection::btree_set(name(), 0..3).prop_map(|n| n.into_iter().collect()).boxed()),
        2 => of("additionalProperties", inner.clone().boxed()),
        1 => of("patternProperties", inner.clone().prop_map(|schema| json!({"^a": schema})).boxed()),
        2 => of("items", inner.clone().boxed()),
        1 => of("prefixItems", list.clone().boxed()),
        3 => of("anyOf", list.clone().boxed()),
        2 => of("oneOf", list.clone().boxed()),
        2 => of("allOf", list.boxed()),
        1 => of("not", inner.clone().boxed()),
        1 => of("if", inner.boxed()),
        2 => of("$ref", target.prop_map(Value::from).boxed()),
        1 => of("$defs", named),
        2 => of("enum", prop::collection::vec(scalar(), 1..4).prop_map(Value::from).boxed()),
        1 => of("const", scalar().boxed()),
        1 => of("minimum", number.clone().boxed()),
        1 => of("exclusiveMaximum", number.clone().boxed()),
        1 => of("maxLength", number.clone().boxed()),
        1 => of("minItems", number.clone().boxed()),
        1 => of("maxProperties", number.boxed()),
        1 => of("uniqueItems", Just(json!(true)).boxed()),
        1 => of("pattern", Just(json!("^x")).boxed()),
        1 => of("nullable", Just(json!(true)).boxed()),
        1 => of("description", Just(json!("says *something*")).boxed()),
        1 => of("title", Just(json!("A title")).boxed()),
        1 => of("default", scalar().boxed()),
        1 => of("$schema", Just(json!("http://json-schema.org/draft-07/schema#")).boxed()),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(json!({})), Just(json!(true)), Just(json!(false)), Just(json!({"type": "string"}))];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop::collection::vec(keyword(inner), 0..4)
            .prop_map(|words| Value::Object(words.into_iter().collect()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_shown_schema_is_taken_and_is_left_alone(schema in schema()) {
        holds(&schema);
    }

    #[test]
    fn what_the_server_admits_the_shown_schema_admits(
        schema in schema(),
        arguments in prop::collection::vec(arguments(), 12),
    ) {
        let Some(original) = validator(&schema) else { return Ok(()) };
        let shown = [Dialect::Common, Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini]
            .map(|dialect| provider_ready(&schema, dialect).schema);
        for arguments in arguments.iter().filter(|arguments| original.is_valid(arguments)) {
            for shown in &shown {
                let validator = validator(&without_nullable(shown));
                prop_assert!(validator.is_some_and(|shown| shown.is_valid(arguments)), "{arguments} for {shown}");
            }
        }
    }
}
