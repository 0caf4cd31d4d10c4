//! Decides whether OpenAI takes a tool, strict or not.

use serde_json::Value;

use super::walk::{Node, has_known_type, resolves, types, walk};
use super::{Found, Rule, composed};
use crate::name::is_wire_name_for_provider;

/// The formats that strict mode knows.
pub(crate) const STRICT_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The words that strict mode knows.
const STRICT_KEYWORDS: [&str; 22] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

const DEPTH_MAX: usize = 10;
const PROPERTIES_MAX: usize = 5_000;
const VALUES_MAX: usize = 1_000;
const TEXT_MAX: usize = 120_000;
/// An enumeration with more values than this has its own bound of text.
const LARGE_ENUM: usize = 250;
const LARGE_ENUM_TEXT_MAX: usize = 15_000;

pub(super) fn check(name: &str, schema: &Value, found: &mut Found) {
    if !is_wire_name_for_provider(name) {
        found.add(Rule::OpenAiName, "", "a name is 1 to 64 of A-Z a-z 0-9 _ -");
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        found.add(Rule::OpenAiRoot, "", "the root's type is not object");
    }
    if let Some(word) = composed(schema, &["anyOf", "oneOf", "allOf", "enum", "const", "not"]) {
        found.add(Rule::OpenAiRoot, "", &format!("`{word}` stands at the root"));
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        found.add(Rule::OpenAiRootProperties, "", "the root has no properties");
    }
    walk(schema, &mut |node| {
        if !has_known_type(node.schema) || !matches!(node.schema, Value::Object(_) | Value::Bool(_)) {
            found.add(Rule::OpenAiType, node.at, "no such type");
        }
        if types(node.schema).contains(&"array") && node.schema.get("items").is_none() {
            found.add(Rule::OpenAiItems, node.at, "an array without items");
        }
        if let Some(reference) = node.schema.get("$ref")
            && !resolves(schema, reference)
        {
            found.add(Rule::OpenAiReference, node.at, "a reference that leads nowhere");
        }
    });
}

#[derive(Default)]
struct Size {
    properties: usize,
    values: usize,
    text: usize,
}

pub(super) fn check_strict(schema: &Value, found: &mut Found) {
    let mut size = Size::default();
    walk(schema, &mut |node| {
        strict_object(node, found);
        strict_words(node, found);
        if node.depth > DEPTH_MAX {
            found.add(Rule::StrictDepth, node.at, "more than 10 levels");
        }
        strict_size(node, &mut size, found);
    });
    if size.properties > PROPERTIES_MAX || size.values > VALUES_MAX || size.text > TEXT_MAX {
        found.add(Rule::StrictSize, "", "too many properties, listed values or characters");
    }
}

fn strict_object(node: &Node<'_>, found: &mut Found) {
    let Some(properties) = node.schema.get("properties").and_then(Value::as_object) else {
        if types(node.schema).contains(&"object") {
            found.add(Rule::StrictClosed, node.at, "an object without properties");
        }
        return;
    };
    if node.schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        found.add(Rule::StrictClosed, node.at, "`additionalProperties` is not false");
    }
    let required = node.schema.get("required").and_then(Value::as_array);
    let names: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let all = properties.keys().all(|name| names.contains(&name.as_str()));
    if !all || names.iter().any(|name| !properties.contains_key(*name)) {
        found.add(Rule::StrictRequired, node.at, "`required` does not name every property, and only those");
    }
}

fn strict_words(node: &Node<'_>, found: &mut Found) {
    if *node.schema == Value::Bool(false) && node.at.ends_with("/additionalProperties") {
        return;
    }
    let Value::Object(keywords) = node.schema else {
        found.add(Rule::StrictTyped, node.at, "a schema that is no object");
        return;
    };
    for word in keywords.keys().filter(|word| !STRICT_KEYWORDS.contains(&word.as_str())) {
        found.add(Rule::StrictKeyword, node.at, &format!("`{word}` is not known"));
    }
    if composed(node.schema, &["type", "anyOf", "$ref"]).is_none() {
        found.add(Rule::StrictTyped, node.at, "a value without a type");
    }
    let format = node.schema.get("format").and_then(Value::as_str);
    if let Some(format) = format.filter(|format| !STRICT_FORMATS.contains(format)) {
        found.add(Rule::StrictFormat, node.at, &format!("`{format}` is not known"));
    }
    if keywords.contains_key("$ref") && keywords.len() > 1 {
        found.add(Rule::StrictReferenceAlone, node.at, "words stand beside a reference");
    }
}

fn strict_size(node: &Node<'_>, size: &mut Size, found: &mut Found) {
    for word in ["properties", "$defs", "definitions"] {
        let names = node.schema.get(word).and_then(Value::as_object);
        size.text += names.into_iter().flatten().map(|(name, _)| name.chars().count()).sum::<usize>();
        size.properties += names.filter(|_| word == "properties").map_or(0, serde_json::Map::len);
    }
    let characters = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    size.text += node.schema.get("const").map_or(0, characters);
    let values = node.schema.get("enum").and_then(Value::as_array);
    let text: usize = values.into_iter().flatten().map(characters).sum();
    let count = values.map_or(0, Vec::len);
    size.values += count;
    size.text += text;
    if count > LARGE_ENUM && text > LARGE_ENUM_TEXT_MAX {
        found.add(Rule::StrictSize, node.at, "more than 250 listed values with more than 15000 characters");
    }
}
