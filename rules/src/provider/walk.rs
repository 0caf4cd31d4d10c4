//! Decides which parts of a schema are schemas.

use serde_json::Value;

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords whose value holds schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// How deep a schema is walked. A text that nests deeper is not read from JSON in the first place.
const LEVELS_MAX: usize = 128;

/// One schema within another.
pub(super) struct Node<'a> {
    pub(super) schema: &'a Value,
    pub(super) at: &'a str,
    /// The objects and arrays that it stands in.
    pub(super) depth: usize,
}

/// Looks at the schema and at every schema in it.
pub(super) fn walk(schema: &Value, look: &mut impl FnMut(&Node<'_>)) {
    step(schema, &mut String::new(), (0, 0), look);
}

fn step(schema: &Value, at: &mut String, (depth, level): (usize, usize), look: &mut impl FnMut(&Node<'_>)) {
    look(&Node { schema, at, depth });
    let Value::Object(keywords) = schema else { return };
    if level >= LEVELS_MAX {
        return;
    }
    for (word, value) in keywords {
        let word = word.as_str();
        let is_container = !matches!(
            word,
            "anyOf" | "oneOf" | "allOf" | "not" | "if" | "then" | "else" | "$defs" | "definitions"
        );
        let place = (depth + usize::from(is_container), level + 1);
        let mut enter = |names: &[&str], part: &Value| {
            let length = at.len();
            for name in names {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            step(part, at, place, look);
            at.truncate(length);
        };
        match value {
            Value::Array(parts) if LISTS.contains(&word) => {
                parts.iter().enumerate().for_each(|(index, part)| enter(&[word, &index.to_string()], part));
            }
            Value::Object(parts) if NAMED.contains(&word) => {
                parts.iter().for_each(|(name, part)| enter(&[word, name], part));
            }
            part @ (Value::Object(_) | Value::Bool(_)) if ONE.contains(&word) => enter(&[word], part),
            // A word that needs a schema and has something else.
            part if ONE.contains(&word) && !part.is_array() => enter(&[word], part),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(_) | Value::Object(_) => {}
        }
    }
}

/// Whether a reference leads to something within the document.
pub(super) fn resolves(document: &Value, reference: &Value) -> bool {
    let Some(fragment) = reference.as_str().and_then(|text| text.strip_prefix('#')) else { return false };
    fragment.is_empty() || document.pointer(fragment).is_some()
}

/// The types that a schema names.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

/// Whether the schema's type is given as JSON Schema knows it.
pub(super) fn has_known_type(schema: &Value) -> bool {
    let is_known = |name: &str| {
        matches!(name, "string" | "number" | "integer" | "boolean" | "object" | "array" | "null")
    };
    match schema.get("type") {
        Some(Value::String(name)) => is_known(name),
        Some(Value::Array(names)) => {
            !names.is_empty() && names.iter().all(|name| name.as_str().is_some_and(is_known))
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
        None => true,
    }
}
