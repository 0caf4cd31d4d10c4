//! Arguments made from a server's own schema, by a reading of it that shares nothing with the one under test.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// What a text may have to look like.
const TEXTS: [&str; 17] = [
    "text",
    "a",
    "A1",
    "1",
    "2026-01-31",
    "2026-01-31T10:00:00Z",
    "2026-01-31T10:00:00",
    "https://example.com/a",
    "6f1b1a52-0a41-4c6a-9f0e-2f5d3a8f5f11",
    "0123456789abcdef01234567",
    "0123456789abcdef0123456789abcdef01234567",
    "a@example.com",
    "10:00",
    "12345678",
    "#FF0000",
    "PROJ-123",
    "text text text text text text text text",
];

pub(crate) struct Maker<'a> {
    pub(crate) document: &'a Value,
    /// Which alternative is taken.
    pub(crate) turn: usize,
}

impl Maker<'_> {
    /// A value with every property that the schema names; none if the schema is too deep or admits no such value.
    pub(crate) fn value(&self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > 12 {
            return None;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.value(self.document.pointer(reference.strip_prefix('#')?)?, depth + 1);
        }
        if let Some(only) = schema.get("const") {
            return Some(only.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.get(self.turn % values.len().max(1)).cloned();
        }
        for word in ["anyOf", "oneOf"] {
            let Some(all) = schema.get(word).and_then(Value::as_array) else { continue };
            let made =
                (0..all.len()).filter_map(|n| self.value(&all[(self.turn + n) % all.len()], depth + 1));
            return match (made.into_iter().next(), schema.get("properties")) {
                (Some(Value::Object(mut fields)), Some(_)) => {
                    fields.extend(self.fields(schema, depth)?);
                    Some(Value::Object(fields))
                }
                (made, _) => made,
            };
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds[self.turn % kinds.len()].as_str()?,
            _ if schema.get("properties").is_some() => "object",
            _ => "string",
        };
        self.of(kind, schema, depth)
    }

    fn of(&self, kind: &str, schema: &Value, depth: usize) -> Option<Value> {
        match kind {
            "null" => Some(Value::Null),
            "boolean" => Some(json!(self.turn.is_multiple_of(2))),
            "string" => TEXTS.iter().map(|text| json!(text)).find(|text| self.fits(schema, text)),
            "integer" | "number" => {
                let bounds =
                    ["minimum", "exclusiveMinimum", "maximum"].map(|word| schema.get(word)?.as_f64());
                let near = bounds.into_iter().flatten().flat_map(|bound| [bound as i64, bound as i64 + 1]);
                [1, 0]
                    .into_iter()
                    .chain(near)
                    .map(|number| json!(number))
                    .find(|number| self.fits(schema, number))
            }
            "array" => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).max(1) as usize;
                let item =
                    schema.get("items").map_or(Some(json!("text")), |items| self.value(items, depth + 1));
                Some(item.map_or(json!([]), |item| vec![item; least].into()))
            }
            _ => Some(Value::Object(self.fields(schema, depth)?)),
        }
    }

    fn fields(&self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut fields = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            match self.value(property, depth + 1).filter(|value| self.fits(property, value)) {
                Some(value) => {
                    fields.insert(name.clone(), value);
                }
                None if required.contains(&json!(name)) => return None,
                None => {}
            }
        }
        if let Some(rest @ Value::Object(_)) = schema.get("additionalProperties") {
            fields.extend(self.value(rest, depth + 1).map(|value| ("other".to_owned(), value)));
        }
        Some(fields)
    }

    /// Whether a part's value is right; parts that refer elsewhere are judged with the whole.
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        if schema.to_string().contains("\"$ref\"") {
            return true;
        }
        // Up to draft 7 a format is a rule.
        let options = jsonschema::options().should_validate_formats(true);
        options.build(schema).is_ok_and(|validator| validator.is_valid(value))
    }
}

/// The arguments with one thing wrong; none if every change is admitted.
pub(crate) fn mutant(original: &Validator, arguments: &Value) -> Option<Value> {
    let wrong =
        [json!(null), json!(-7.5), json!("\u{1}wrong"), json!([[]]), json!({"wrong": [1]}), json!(true)];
    let names = arguments.as_object().into_iter().flat_map(Map::keys);
    let changed = names.flat_map(|name| {
        wrong.iter().map(move |wrong| {
            let mut arguments = arguments.clone();
            arguments[name] = wrong.clone();
            arguments
        })
    });
    changed.chain([json!([])]).find(|arguments| !original.is_valid(arguments))
}
