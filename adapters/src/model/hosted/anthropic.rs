//! Anthropic's messages: the request, and its events (Anthropic, "Messages", "Streaming messages").

use std::collections::{BTreeMap, VecDeque};

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::model::{FinishReason, ModelEvent, ModelRequest, Usage};
use serde_json::{Value, json};

use super::conversation::{Said, id, name, said, told};
use super::failure;
use super::site::Site;
use crate::model::ModelError;
use crate::response::sse::Event;
use crate::words::Words;

/// The longest reply, in tokens, where the account names none: the API wants one.
const MAX_OUTPUT: u64 = 8_192;
/// Blocks of one reply that are told apart.
const BLOCKS_MAX: usize = 1 << 10;

/// The body of a request. What stays the same from step to step is marked to be cached.
pub(super) fn body(model: &str, site: &Site, request: &ModelRequest) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for part in said(request) {
        let (role, blocks) = match part {
            Said::User(texts) => ("user", texts.into_iter().map(text).collect::<Vec<_>>()),
            Said::Assistant { texts, calls } => {
                let calls = calls.into_iter().map(|call| {
                    json!({"type": "tool_use", "id": id(call.call), "name": name(&call.name), "input": call.arguments.value()})
                });
                ("assistant", texts.into_iter().map(text).chain(calls).collect())
            }
            Said::Results(results) => {
                let results = results.into_iter().map(|(call, result)| {
                    let failed = result.outcome != CallOutcome::Succeeded;
                    json!({"type": "tool_result", "tool_use_id": id(call), "content": told(result), "is_error": failed})
                });
                ("user", results.collect())
            }
        };
        match messages.last_mut() {
            // What a person says after results stands in one message with them, behind them.
            Some((last, before)) if *last == role => before.extend(blocks),
            Some(_) | None => messages.push((role, blocks)),
        }
    }
    mark_conversation(&mut messages, request);
    let messages: Vec<_> =
        messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
    let mut body = json!({
        "model": model,
        "max_tokens": site.max_output.unwrap_or(MAX_OUTPUT),
        "messages": messages,
        "stream": true,
    });
    let system = site.system.as_deref().into_iter().chain(request.tool_notes.as_deref());
    let mut system: Vec<_> = system.filter(|words| !words.trim().is_empty()).map(text).collect();
    let mut tools: Vec<_> = request
        .surface
        .tools
        .iter()
        .map(|shown| {
            let schema = shown.input_schema.value();
            json!({"name": shown.name, "description": shown.description, "input_schema": schema})
        })
        .collect();
    // Tools come before the system prompt, so a mark at its end covers both.
    if let Some(last) = system.last_mut().or(tools.last_mut()) {
        mark(last);
    }
    if !system.is_empty() {
        body["system"] = system.into();
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    body
}

/// Marks the end of the conversation; what is said of late tools changes, so it stays behind the mark.
fn mark_conversation(messages: &mut [(&str, Vec<Value>)], request: &ModelRequest) {
    let behind = usize::from(request.late_tools.is_some());
    let mut blocks = messages.iter_mut().rev().flat_map(|(_, blocks)| blocks.iter_mut().rev());
    if let Some(last) = blocks.nth(behind) {
        mark(last);
    }
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

/// What has been read of a reply.
#[derive(Default)]
pub(super) struct Reply {
    usage: Counted,
    /// Calls by their block's index, with the arguments that came at once, until their block ends.
    calls: BTreeMap<u32, AtOnce>,
    blocks: usize,
    finish: Option<FinishReason>,
}

/// Arguments that stand in a block's start. Only some gateways send them there; they count if no pieces come.
enum AtOnce {
    Arguments(String),
    Pieces,
}

/// Tokens as the events tell them, each in place of the one before.
#[derive(Default)]
struct Counted {
    input: u64,
    cache_made: u64,
    cache_read: u64,
    output: u64,
}

impl Reply {
    pub(super) fn take(
        &mut self,
        event: &Event,
        words: &Words,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        let said: Value = serde_json::from_slice(data)
            .map_err(|error| ModelError::Broken(words.reason(format!("an event is no JSON: {error}"))))?;
        match said.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => out.push_back(self.count(said.pointer("/message/usage"))),
            "content_block_start" => self.begin(&said, out)?,
            "content_block_delta" => self.add(&said, out)?,
            "content_block_stop" => self.complete(&said, out),
            "message_delta" => {
                if let Some(reason) = said.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.finish = Some(finish(reason));
                }
                out.push_back(self.count(said.get("usage")));
            }
            "message_stop" => {
                let Some(finish) = self.finish else {
                    return Err(ModelError::Broken("it ended without a reason".to_owned()));
                };
                out.push_back(ModelEvent::Finish(finish));
            }
            "error" => return Err(failure::of_event(&said, words)),
            // `ping`, and what later versions add.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, said: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        self.blocks += 1;
        if self.blocks > BLOCKS_MAX {
            return Err(ModelError::Broken(format!("it has more than {BLOCKS_MAX} blocks")));
        }
        let words =
            |pointer: &str| said.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        match words("/content_block/type").as_str() {
            "text" => out.extend(unless_empty(words("/content_block/text")).map(ModelEvent::Text)),
            "thinking" => {
                out.extend(unless_empty(words("/content_block/thinking")).map(ModelEvent::Reasoning))
            }
            "tool_use" => {
                let index = index_of(said)?;
                let input = said
                    .pointer("/content_block/input")
                    .filter(|input| input.as_object().is_some_and(|fields| !fields.is_empty()));
                self.calls.insert(index, AtOnce::Arguments(input.map(Value::to_string).unwrap_or_default()));
                let provider_id = unless_empty(words("/content_block/id"));
                out.push_back(ModelEvent::CallStart {
                    index,
                    provider_id,
                    name: words("/content_block/name"),
                });
            }
            // Redacted thinking, and what only a provider's own tools do.
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, said: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let words = |pointer: &str| {
            unless_empty(said.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        match said.pointer("/delta/type").and_then(Value::as_str).unwrap_or_default() {
            "text_delta" => out.extend(words("/delta/text").map(ModelEvent::Text)),
            "thinking_delta" => out.extend(words("/delta/thinking").map(ModelEvent::Reasoning)),
            "input_json_delta" => {
                let index = index_of(said)?;
                if let (Some(arguments), Some(at_once)) =
                    (words("/delta/partial_json"), self.calls.get_mut(&index))
                {
                    *at_once = AtOnce::Pieces;
                    out.push_back(ModelEvent::CallDelta { index, arguments });
                }
            }
            // Signatures and citations.
            _ => {}
        }
        Ok(())
    }

    fn complete(&mut self, said: &Value, out: &mut VecDeque<ModelEvent>) {
        let Ok(index) = index_of(said) else { return };
        match self.calls.remove(&index) {
            Some(AtOnce::Arguments(arguments)) if !arguments.is_empty() => {
                out.push_back(ModelEvent::CallDelta { index, arguments });
            }
            Some(AtOnce::Arguments(_) | AtOnce::Pieces) | None => {}
        }
    }

    /// What a request reads from or writes to a cache is read, too.
    fn count(&mut self, usage: Option<&Value>) -> ModelEvent {
        let Counted { input, cache_made, cache_read, output } = &mut self.usage;
        let fields = [
            (input, "input_tokens"),
            (cache_made, "cache_creation_input_tokens"),
            (cache_read, "cache_read_input_tokens"),
            (output, "output_tokens"),
        ];
        for (count, field) in fields {
            if let Some(tokens) = usage.and_then(|usage| usage.get(field)?.as_u64()) {
                *count = tokens;
            }
        }
        let Counted { input, cache_made, cache_read, output } = &self.usage;
        let input = input.saturating_add(*cache_made).saturating_add(*cache_read);
        ModelEvent::Usage(Usage { input, output: *output })
    }
}

fn unless_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn index_of(said: &Value) -> Result<u32, ModelError> {
    let index = said.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok());
    index.ok_or_else(|| ModelError::Broken("a block has no index".to_owned()))
}

/// Anthropic, "Handling stop reasons"; a word that nobody knows ends a reply like any other.
fn finish(reason: &str) -> FinishReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ => FinishReason::Stop,
    }
}
