//! Decides what a model asks of a meta tool. Slips of the form are mended as for every tool; what is missing or of the
//! wrong kind is said.

use pilothouse_messages::digest::Digest;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::{MetaTool, SearchDetail, SearchInput};
use serde_json::{Map, Value, json};

use super::search::{LIMIT_DEFAULT, LIMIT_MAX};
use super::text::quoted;
use crate::arguments::{Settled, Validators, settle};

/// Names under which models write the arguments of the tool that they invoke, the right one first.
const PARAMS: [&str; 5] = ["params", "arguments", "input", "parameters", "args"];

/// What a call of `tool_invoke` names: the tool, and the text of its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvokeInput {
    pub(super) name: String,
    pub(super) params: String,
}

/// What a model asks of `tool_search`; `raw` is the text that it wrote. Nothing, `null` and `{}` ask for all tools.
///
/// # Errors
/// What to be told to the model.
pub fn search_input(raw: &str, validators: &Validators) -> Result<SearchInput, String> {
    let nullable = |kind: &str| json!({"type": [kind, "null"]});
    let schema = json!({
        "type": "object",
        "properties": {
            "query": nullable("string"),
            "namespace": nullable("string"),
            "verbose": nullable("boolean"),
            "limit": nullable("integer"),
        },
    });
    let fields = fields(MetaTool::Search, raw, schema, validators)?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let detail = match fields.get("verbose") {
        Some(Value::Bool(true)) => SearchDetail::Schemas,
        Some(_) | None => SearchDetail::Brief,
    };
    let limit = match fields.get("limit") {
        None | Some(Value::Null) => LIMIT_DEFAULT,
        // What is beyond the bounds, or beyond numbers, is brought within them.
        Some(limit) => {
            limit.as_i64().map_or(LIMIT_MAX, |limit| usize::try_from(limit.max(1)).unwrap_or(LIMIT_MAX))
        }
    };
    Ok(SearchInput {
        query: text("query").unwrap_or_default(),
        // An empty namespace is none: no namespace is called that.
        namespace: text("namespace").filter(|namespace| !namespace.trim().is_empty()),
        detail,
        limit: limit.min(LIMIT_MAX),
    })
}

pub(super) fn inspect_input(raw: &str, validators: &Validators) -> Result<String, String> {
    name_of(&fields(MetaTool::Inspect, raw, name_schema(), validators)?)
}

pub(super) fn invoke_input(raw: &str, validators: &Validators) -> Result<InvokeInput, String> {
    let fields = fields(MetaTool::Invoke, raw, name_schema(), validators)?;
    let name = name_of(&fields)?;
    let mut others = fields.iter().filter(|(field, _)| field.as_str() != "name");
    let params = match (PARAMS.iter().find_map(|field| fields.get(*field)), others.next()) {
        (Some(params), _) => params.to_string(),
        (None, None) => String::new(),
        // Never taken for no arguments: the tool would run with other ones than were meant.
        (None, Some((field, _))) => {
            let field = quoted(field);
            return Err(format!(
                "{field} is no parameter of tool_invoke: put the tool's own arguments into \"params\""
            ));
        }
    };
    Ok(InvokeInput { name, params })
}

fn name_schema() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

fn name_of(fields: &Map<String, Value>) -> Result<String, String> {
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().trim();
    if name.is_empty() { Err("\"name\" is empty: name a tool".to_owned()) } else { Ok(name.to_owned()) }
}

fn fields(
    tool: MetaTool,
    raw: &str,
    schema: Value,
    validators: &Validators,
) -> Result<Map<String, Value>, String> {
    let fingerprint = Digest::of_parts("pilothouse/meta/1", &[tool.name().as_bytes()]);
    let validator = validators.of_schema(&JsonText::from(schema), fingerprint);
    match settle(raw, &validator) {
        Settled::Arguments { arguments, .. } => match arguments.value() {
            Value::Object(fields) => Ok(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(format!("the arguments of {tool} must be a JSON object"))
            }
        },
        Settled::Refused { reason } => Err(format!("{tool}: {reason}")),
    }
}
