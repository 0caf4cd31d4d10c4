use std::collections::BTreeSet;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::ShownTool;
use serde_json::{Value, json};

use super::{Provider, Rule, check};

fn broken(name: &str, schema: &Value, provider: Provider) -> BTreeSet<Rule> {
    let tool = ShownTool {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        input_schema: JsonText::from(schema),
    };
    check(&tool, provider).into_iter().map(|violation| violation.rule).collect()
}

/// Each row: what breaks the rule, as servers sent it.
#[test]
fn every_rule_refuses_what_it_is_for() {
    let a = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let strict = |schema: Value| json!({"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": false});
    let deep = |levels: usize| (0..levels).fold(json!({"type": "string"}), |inner, _| strict(inner));
    let rooted = json!({"type": "object", "properties": {}, "anyOf": [{"required": ["x"]}]});
    let dangling = a(json!({"$ref": "#/$defs/Issue"}));
    let bracket = json!({"type": "object", "properties": {"filter[id]": {"type": "string"}}});
    let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    let rows = [
        (Rule::OpenAiName, "cal.update", a(json!({"type": "string"}))),
        (Rule::OpenAiRoot, "t", json!({"type": "string", "properties": {}})),
        (Rule::OpenAiRoot, "t", rooted.clone()),
        (Rule::OpenAiRootProperties, "t", json!({"type": "object"})),
        (Rule::OpenAiType, "t", a(json!({"type": "date"}))),
        (Rule::OpenAiItems, "t", a(json!({"type": "array"}))),
        (Rule::OpenAiReference, "t", dangling.clone()),
        (Rule::StrictClosed, "t", a(json!({"type": "string"}))),
        (Rule::StrictRequired, "t", a(json!({"type": "string"}))),
        (Rule::StrictKeyword, "t", strict(json!({"oneOf": [{"type": "string"}, {"type": "number"}]}))),
        (Rule::StrictTyped, "t", strict(json!({"description": "d", "default": null}))),
        (Rule::StrictFormat, "t", strict(json!({"type": "string", "format": "uri"}))),
        (Rule::StrictReferenceAlone, "t", strict(json!({"$ref": "#", "description": "d"}))),
        (Rule::StrictDepth, "t", deep(12)),
        (Rule::StrictSize, "t", strict(json!({"type": "string", "enum": many}))),
        (Rule::AnthropicName, "查询", a(json!({"type": "string"}))),
        (Rule::AnthropicRoot, "t", rooted),
        (Rule::AnthropicDraft, "t", a(json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}))),
        (Rule::AnthropicPropertyName, "t", bracket),
        (Rule::AnthropicReference, "t", dangling),
        (Rule::GeminiName, "2fa", a(json!({"type": "string"}))),
        (Rule::GeminiRoot, "t", json!({"anyOf": [{"type": "object"}]})),
        (Rule::GeminiKeyword, "t", a(json!({"type": "number", "exclusiveMinimum": 0}))),
        (Rule::GeminiType, "t", a(json!({"type": ["string", "null"]}))),
        (Rule::GeminiItems, "t", a(json!({"type": "array"}))),
        (Rule::GeminiEnum, "t", a(json!({"type": "integer", "enum": [1, 2]}))),
        (Rule::GeminiEnum, "t", a(json!({"type": "string", "enum": ["x", ""]}))),
        (Rule::GeminiFormat, "t", a(json!({"type": "string", "format": "uri"}))),
        (Rule::GeminiRequired, "t", json!({"type": "object", "properties": {}, "required": ["tags"]})),
        (Rule::GeminiAnyOfAlone, "t", a(json!({"description": "d", "anyOf": [{"type": "string"}]}))),
        (Rule::GeminiDepth, "t", deep(18)),
    ];
    let mut seen = BTreeSet::new();
    for (rule, name, schema) in rows {
        let providers = Provider::ALL.into_iter();
        let refusing = providers.filter(|provider| broken(name, &schema, *provider).contains(&rule)).count();
        assert!(refusing > 0, "{rule} takes {schema}");
        seen.insert(rule);
    }
    assert_eq!(seen, BTreeSet::from(Rule::ALL), "every rule has a row");
}

#[test]
fn every_provider_takes_a_plain_tool() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": "d"}},
                        "required": ["a"]});
    for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Gemini] {
        assert_eq!(broken("files_read", &schema, provider), BTreeSet::new(), "{provider:?}");
    }
    let mut strict = schema;
    strict["additionalProperties"] = json!(false);
    assert_eq!(broken("files_read", &strict, Provider::OpenAiStrict), BTreeSet::new());
}

#[test]
fn every_rule_has_its_row_on_the_page_of_providers() {
    let page = include_str!("../../../docs/providers.md");
    let missing: Vec<&str> =
        Rule::ALL.iter().map(|rule| rule.id()).filter(|id| !page.contains(&format!("| `{id}` |"))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
