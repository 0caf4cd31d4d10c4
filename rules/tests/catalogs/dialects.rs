//! Who takes each dialect, and how a shown schema reads in plain JSON Schema.

use super::{Dialect, Provider};
use serde_json::{Map, Value, json};

pub(crate) fn takers(dialect: Dialect) -> &'static [Provider] {
    match dialect {
        Dialect::Common => &[Provider::OpenAi, Provider::Anthropic, Provider::Gemini],
        Dialect::OpenAi => &[Provider::OpenAi],
        Dialect::OpenAiStrict => &[Provider::OpenAi, Provider::OpenAiStrict],
        Dialect::Anthropic => &[Provider::Anthropic],
        Dialect::Gemini => &[Provider::Gemini],
    }
}

/// The schema with OpenAPI's `nullable` said as JSON Schema says it.
pub(crate) fn without_nullable(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else {
        return match schema {
            Value::Array(items) => items.iter().map(without_nullable).collect(),
            other => other.clone(),
        };
    };
    let mut out: Map<String, Value> =
        keywords.iter().map(|(word, value)| (word.clone(), without_nullable(value))).collect();
    if out.get("nullable") == Some(&json!(true)) {
        out.remove("nullable");
        out["type"] = json!([out["type"], "null"]);
        if let Some(Value::Array(values)) = out.get_mut("enum") {
            values.push(Value::Null);
        }
    }
    Value::Object(out)
}
