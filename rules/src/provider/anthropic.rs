//! Decides whether Anthropic takes a tool.

use serde_json::Value;

use super::walk::{resolves, walk};
use super::{Found, Rule, composed, is_property_name};
use crate::name::is_wire_name_for_provider;

pub(super) fn check(name: &str, schema: &Value, found: &mut Found) {
    if !is_wire_name_for_provider(name) {
        found.add(Rule::AnthropicName, "", "a name is 1 to 64 of A-Z a-z 0-9 _ -");
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        found.add(Rule::AnthropicRoot, "", "the root's type is not object");
    }
    if let Some(word) = composed(schema, &["anyOf", "oneOf", "allOf"]) {
        found.add(Rule::AnthropicRoot, "", &format!("`{word}` stands at the root"));
    }
    if !jsonschema::draft202012::meta::is_valid(schema) {
        found.add(Rule::AnthropicDraft, "", "the schema is not valid in draft 2020-12");
    }
    walk(schema, &mut |node| {
        let properties = node.schema.get("properties").and_then(Value::as_object);
        for name in properties.into_iter().flat_map(serde_json::Map::keys) {
            if !is_property_name(name) {
                found.add(
                    Rule::AnthropicPropertyName,
                    node.at,
                    "a property's name is 1 to 64 of A-Z a-z 0-9 _ . -",
                );
            }
        }
        if let Some(reference) = node.schema.get("$ref")
            && !resolves(schema, reference)
        {
            found.add(Rule::AnthropicReference, node.at, "a reference that leads nowhere");
        }
    });
}
