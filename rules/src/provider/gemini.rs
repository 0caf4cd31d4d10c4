//! Decides whether Gemini takes a tool, with its schema in `parameters`.

use serde_json::Value;

use super::walk::{Node, types, walk};
use super::{Found, Rule};

/// The formats of texts.
pub(crate) const TEXT_FORMATS: [&str; 2] = ["enum", "date-time"];

/// The words of Gemini's `Schema`; any other fails the request.
const KEYWORDS: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

/// How many objects and arrays may stand in each other. Gemini has such a limit and does not publish it.
const DEPTH_MAX: usize = 16;

pub(super) fn check(name: &str, schema: &Value, found: &mut Found) {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if !starts_well || !is_plain || name.len() > 64 {
        found.add(Rule::GeminiName, "", "a name is a letter or _ and at most 63 of A-Z a-z 0-9 _ . -");
    }
    if !schema.get("type").and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case("object")) {
        found.add(Rule::GeminiRoot, "", "the root's type is not object");
    }
    walk(schema, &mut |node| look(node, found));
}

fn look(node: &Node<'_>, found: &mut Found) {
    let Value::Object(keywords) = node.schema else {
        found.add(Rule::GeminiType, node.at, "a schema that is no object");
        return;
    };
    for word in keywords.keys().filter(|word| !KEYWORDS.contains(&word.as_str())) {
        found.add(Rule::GeminiKeyword, node.at, &format!("`{word}` is not known"));
    }
    let has_any_of = keywords.contains_key("anyOf");
    if has_any_of && keywords.len() > 1 {
        found.add(Rule::GeminiAnyOfAlone, node.at, "words stand beside `anyOf`");
    }
    kind(node, has_any_of, found);
    let is = |name: &str| types(node.schema).iter().any(|kind| kind.eq_ignore_ascii_case(name));
    if is("array") && !node.schema.get("items").is_some_and(Value::is_object) {
        found.add(Rule::GeminiItems, node.at, "an array without items");
    }
    values(node, is("string"), found);
    let format = node.schema.get("format").and_then(Value::as_str);
    let known = match format {
        Some(format) if is("string") => TEXT_FORMATS.contains(&format),
        Some(format) if is("number") => matches!(format, "float" | "double"),
        Some(format) if is("integer") => matches!(format, "int32" | "int64"),
        Some(_) => false,
        None => true,
    };
    if !known {
        found.add(Rule::GeminiFormat, node.at, "no such format");
    }
    let properties = node.schema.get("properties");
    let required = node.schema.get("required").and_then(Value::as_array);
    let is_there = |name: &Value| Some(properties?.get(name.as_str()?).is_some());
    if !required.into_iter().flatten().all(|name| is_there(name) == Some(true)) {
        found.add(Rule::GeminiRequired, node.at, "`required` names what is no property");
    }
    if node.depth > DEPTH_MAX {
        found.add(Rule::GeminiDepth, node.at, "more than 16 levels");
    }
}

fn kind(node: &Node<'_>, has_any_of: bool, found: &mut Found) {
    let is_known = |name: &str| {
        let known = ["string", "number", "integer", "boolean", "array", "object"];
        known.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    match node.schema.get("type") {
        Some(Value::String(name)) if is_known(name) => {}
        None if has_any_of => {}
        Some(_) => found.add(Rule::GeminiType, node.at, "no such type, or several"),
        None => found.add(Rule::GeminiType, node.at, "a value without a type"),
    }
}

fn values(node: &Node<'_>, is_text: bool, found: &mut Found) {
    let Some(values) = node.schema.get("enum") else { return };
    let are_texts = values.as_array().is_some_and(|values| {
        !values.is_empty() && values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()))
    });
    if !is_text || !are_texts {
        found.add(Rule::GeminiEnum, node.at, "listed values are texts that are not empty, of a string");
    }
}
