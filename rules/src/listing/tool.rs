//! Decides whether one tool of a server is good (MCP 2025-11-25, "Tools").

use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::DroppedTool;
use pilothouse_messages::tool::ToolDefinition;
use serde_json::{Map, Value};

/// The longest name, in UTF-8 bytes.
const NAME_BYTES_MAX: usize = 256;
/// How deep a tool's JSON may nest: deeper text would not be read back from the store.
const NESTING_MAX: usize = 100;

/// Reads one tool as a server sent it.
///
/// The name and both schemas must be right; a title or annotations of the wrong kind are left out, since nothing
/// depends on them. An optional field that is `null` counts as absent.
///
/// # Errors
/// The tool with the reason why it is left out of its listing.
pub fn tool_of(value: Value) -> Result<ToolDefinition, DroppedTool> {
    if nests_deeper(&value, NESTING_MAX) {
        let name = value.get("name").and_then(Value::as_str);
        return Err(dropped(name, &format!("it nests deeper than {NESTING_MAX} levels")));
    }
    let Value::Object(mut fields) = value else {
        return Err(dropped(None, "it is not an object"));
    };
    let name = name_of(fields.remove("name"))?;
    match body_of(&name, fields) {
        Ok(definition) => Ok(definition),
        Err(reason) => Err(dropped(Some(&name), reason)),
    }
}

fn name_of(field: Option<Value>) -> Result<String, DroppedTool> {
    let Some(Value::String(name)) = field else {
        return Err(dropped(None, "its name is not a string"));
    };
    if name.is_empty() {
        return Err(dropped(None, "its name is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(dropped(Some(&name), &format!("its name is longer than {NAME_BYTES_MAX} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(dropped(Some(&name), "its name holds a control character"));
    }
    Ok(name)
}

fn body_of(name: &str, mut fields: Map<String, Value>) -> Result<ToolDefinition, &'static str> {
    Ok(ToolDefinition {
        name: name.to_owned(),
        title: string(fields.remove("title")).unwrap_or_default(),
        description: string(fields.remove("description")).map_err(|_| "its description is not a string")?,
        input_schema: input_schema(fields.remove("inputSchema"))?,
        output_schema: object(fields.remove("outputSchema"))
            .map_err(|_| "its output schema is not an object")?,
        annotations: object(fields.remove("annotations")).unwrap_or_default(),
    })
}

fn input_schema(field: Option<Value>) -> Result<JsonText, &'static str> {
    let Some(schema @ Value::Object(_)) = field else {
        return Err("its input schema is not an object");
    };
    match schema.get("type") {
        None => Ok(JsonText::from(schema)),
        Some(Value::String(kind)) if kind == "object" => Ok(JsonText::from(schema)),
        Some(_) => Err("its input schema is for something other than an object"),
    }
}

/// The field is there and of another kind.
struct WrongKind;

fn string(field: Option<Value>) -> Result<Option<String>, WrongKind> {
    match field {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Err(WrongKind),
    }
}

fn object(field: Option<Value>) -> Result<Option<JsonText>, WrongKind> {
    match field {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Object(_)) => Ok(Some(JsonText::from(value))),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => Err(WrongKind),
    }
}

fn nests_deeper(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_deeper(item, left)),
        Value::Object(fields) => fields.values().any(|field| nests_deeper(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The name goes into diagnostics, so it is cut and its control characters are made visible.
fn dropped(name: Option<&str>, reason: &str) -> DroppedTool {
    DroppedTool { name: name.map(shown), reason: reason.to_owned() }
}

fn shown(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        let piece = if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
        if out.len() + piece.len() > NAME_BYTES_MAX {
            break;
        }
        out.push_str(&piece);
    }
    out
}
