//! What the real providers refuse of a request, each with its status and in words like theirs.

use std::collections::BTreeSet;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::ShownTool;
use pilothouse_rules::provider::{Provider, check};
use serde_json::Value;

/// Why OpenAI, or who speaks like it, refuses a body.
pub(crate) fn openai(body: &Value) -> Result<(), String> {
    ensure(
        body["model"].as_str().is_some_and(|model| !model.is_empty()),
        "you must provide a model parameter",
    )?;
    ensure(body["stream"] == true, "the stub answers with streams only")?;
    let messages = items(body, "messages")?;
    ensure(!messages.is_empty(), "[] is too short - 'messages'")?;
    let (mut owed, mut known) = (Vec::new(), BTreeSet::new());
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let place = owed.iter().position(|owed| owed == id);
            let place =
                place.ok_or("messages with role 'tool' must be a response to a preceding 'tool_calls'")?;
            owed.remove(place);
            ensure(message["content"].is_string(), "a tool's content is no string")?;
            continue;
        }
        ensure(owed.is_empty(), &format!("no response to the tool_call_ids {owed:?} before messages[{at}]"))?;
        match role {
            "system" => {
                ensure(at == 0 && message["content"].is_string(), "a system message out of its place")?
            }
            "user" => ensure(message["content"].is_string(), "a user's content is no string")?,
            "assistant" => {
                let calls = message["tool_calls"].as_array();
                ensure(calls.is_none_or(|calls| !calls.is_empty()), "[] is too short - 'tool_calls'")?;
                ensure(message["content"].is_string() || calls.is_some(), "expected a string, got null")?;
                for call in calls.into_iter().flatten() {
                    let id = call["id"].as_str().unwrap_or_default().to_owned();
                    ensure(call["type"] == "function", "a call has no type")?;
                    ensure(!id.is_empty() && id.len() <= 40, "a call's id is too short or too long")?;
                    ensure(known.insert(id.clone()), &format!("the id {id} comes twice"))?;
                    named(&call["function"]["name"])?;
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    let object =
                        serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
                    ensure(object, "a call's arguments are no JSON object in a string")?;
                    owed.push(id);
                }
            }
            other => return Err(format!("invalid value: '{other}'")),
        }
    }
    ensure(owed.is_empty(), &format!("no response to the tool_call_ids {owed:?}"))?;
    let is_last_ours = messages.last().is_some_and(|last| last["role"] == "user" || last["role"] == "tool");
    ensure(is_last_ours, "some templates want the last word to be the user's")?;
    tools(body, |tool| &tool["function"], "parameters", Provider::OpenAi)
}

/// Why Anthropic refuses a body.
pub(crate) fn anthropic(body: &Value) -> Result<(), String> {
    ensure(body["model"].as_str().is_some_and(|model| !model.is_empty()), "model: field required")?;
    ensure(body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "max_tokens: field required")?;
    ensure(body["stream"] == true, "the stub answers with streams only")?;
    let marks = body.to_string().matches("cache_control").count();
    ensure(marks <= 4, "a maximum of 4 blocks with cache_control may be provided")?;
    if let Some(system) = body.get("system") {
        for block in system.as_array().ok_or("system: no list of blocks")? {
            worded(block)?;
        }
    }
    let messages = items(body, "messages")?;
    ensure(!messages.is_empty(), "messages: at least one message is required")?;
    let (mut owed, mut known): (Vec<String>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        ensure(role == expected, &format!("messages.{at}: roles must alternate, and user is the first"))?;
        let blocks = items(message, "content")?;
        ensure(!blocks.is_empty(), &format!("messages.{at}: must have non-empty content"))?;
        for block in blocks {
            match (role, block["type"].as_str().unwrap_or_default()) {
                ("user", "tool_result") => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    let place = owed.iter().position(|owed| owed == id);
                    let place =
                        place.ok_or(format!("unexpected tool_use_id found in tool_result blocks: {id}"))?;
                    owed.remove(place);
                    ensure(
                        block["content"].as_str().is_some_and(|text| !text.is_empty()),
                        "an empty result",
                    )?;
                    ensure(block["is_error"].is_boolean(), "is_error: no boolean")?;
                }
                ("user" | "assistant", "text") => {
                    let words = "tool_use ids were found without tool_result blocks immediately after";
                    ensure(role == "assistant" || owed.is_empty(), words)?;
                    worded(block)?;
                }
                ("assistant", "tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                    ensure(
                        !id.is_empty() && id.chars().all(plain),
                        "tool_use.id: does not match its pattern",
                    )?;
                    ensure(known.insert(id.clone()), "tool_use ids must be unique")?;
                    ensure(block["input"].is_object(), "tool_use.input: should be an object")?;
                    named(&block["name"])?;
                    owed.push(id);
                }
                (role, kind) => return Err(format!("a block {kind:?} of {role}")),
            }
        }
        ensure(role == "assistant" || owed.is_empty(), &format!("no tool_result for {owed:?}"))?;
    }
    let ends = messages.last().is_some_and(|last| last["role"] == "user");
    ensure(ends, "the conversation must end with a user message")?;
    tools(body, |tool| tool, "input_schema", Provider::Anthropic)
}

fn ensure(holds: bool, refusal: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(refusal.to_owned()) }
}

fn items<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    value[field].as_array().ok_or_else(|| format!("{field}: no list"))
}

fn worded(block: &Value) -> Result<(), String> {
    let text = block["text"].as_str().unwrap_or_default();
    ensure(!text.trim().is_empty(), "text content blocks must contain non-whitespace text")
}

fn named(name: &Value) -> Result<(), String> {
    let name = name.as_str().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let fits = (1..=64).contains(&name.len()) && name.chars().all(plain);
    ensure(fits, &format!("the name {name:?} does not match '^[a-zA-Z0-9_-]{{1,64}}$'"))
}

fn tools(
    body: &Value,
    function: impl Fn(&Value) -> &Value,
    schema: &str,
    provider: Provider,
) -> Result<(), String> {
    let Some(tools) = body.get("tools") else { return Ok(()) };
    let tools = tools.as_array().ok_or("tools: no list")?;
    ensure(!tools.is_empty(), "[] is too short - 'tools'")?;
    let mut names = BTreeSet::new();
    for tool in tools {
        let function = function(tool);
        named(&function["name"])?;
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let description = function["description"].as_str().ok_or("a tool's description is no string")?;
        let input_schema = JsonText::from(&function[schema]);
        let shown = ShownTool { name: name.clone(), description: description.to_owned(), input_schema };
        if let Some(violation) = check(&shown, provider).first() {
            return Err(format!("invalid schema for function '{name}': {violation}"));
        }
        ensure(names.insert(name), "tool names must be unique")?;
    }
    Ok(())
}
