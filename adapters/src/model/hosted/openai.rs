//! OpenAI's chat completions: the request, and its chunks (OpenAI, API reference, "Chat", "Streaming").
//!
//! Others speak the same with slips: calls without an index, or all of them under one; arguments that are no text; no
//! `[DONE]`. All of that is read as it is meant.

use std::collections::VecDeque;

use pilothouse_messages::model::{FinishReason, ModelEvent, ModelRequest, Usage};
use pilothouse_messages::tool::ShownTool;
use serde_json::{Map, Value, json};

use super::conversation::{Said, id, name, said, told};
use super::site::Site;
use super::talk::cut_off;
use super::{Api, failure};
use crate::model::ModelError;
use crate::response::sse::Event;
use crate::words::Words;

/// Calls in one reply; the session takes fewer.
const CALLS_MAX: usize = 1 << 10;

/// The body of a request.
pub(super) fn body(model: &str, site: &Site, request: &ModelRequest) -> Value {
    let system: Vec<&str> = site.system.as_deref().into_iter().chain(request.tool_notes.as_deref()).collect();
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    for part in said(request) {
        match part {
            Said::User(texts) => messages.push(json!({"role": "user", "content": texts.join("\n\n")})),
            Said::Assistant { texts, calls } => {
                let mut message = Map::new();
                message.insert("role".to_owned(), "assistant".into());
                let content = if texts.is_empty() { Value::Null } else { texts.join("\n\n").into() };
                message.insert("content".to_owned(), content);
                let calls: Vec<_> = calls
                    .into_iter()
                    .map(|call| {
                        let function =
                            json!({"name": name(&call.name), "arguments": call.arguments.as_str()});
                        json!({"id": id(call.call), "type": "function", "function": function})
                    })
                    .collect();
                // An empty list is refused.
                if !calls.is_empty() {
                    message.insert("tool_calls".to_owned(), calls.into());
                }
                messages.push(message.into());
            }
            Said::Results(results) => messages.extend(results.into_iter().map(
                |(call, result)| json!({"role": "tool", "tool_call_id": id(call), "content": told(result)}),
            )),
        }
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let tools: Vec<_> = request.surface.tools.iter().map(tool).collect();
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if let Some(most) = site.max_output {
        // OpenAI's newer models refuse the older word, others do not know the newer one.
        let word = if site.api == Api::Compatible { "max_tokens" } else { "max_completion_tokens" };
        body[word] = most.into();
    }
    body
}

fn tool(shown: &ShownTool) -> Value {
    let function = json!({
        "name": shown.name,
        "description": shown.description,
        "parameters": shown.input_schema.value(),
    });
    json!({"type": "function", "function": function})
}

/// What has been read of a reply.
#[derive(Default)]
pub(super) struct Reply {
    calls: Vec<Call>,
    finish: Option<FinishReason>,
}

/// One call as its pieces come.
struct Call {
    index: Option<u64>,
    id: Option<String>,
    begun: Begun,
}

/// A call begins for us when its name is known; arguments that come earlier wait.
enum Begun {
    Yes,
    NotYet { arguments: String },
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
        if data == b"[DONE]" {
            return self.end(out);
        }
        let chunk: Value = serde_json::from_slice(data)
            .map_err(|error| ModelError::Broken(words.reason(format!("a chunk is no JSON: {error}"))))?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::of_event(&chunk, words));
        }
        if let Some(usage) = chunk.get("usage").or_else(|| chunk.pointer("/x_groq/usage")) {
            out.extend(used(usage).map(ModelEvent::Usage));
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        if let Some(delta) = choice.get("delta") {
            self.take_delta(delta, out)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            // A refusal in words stays one.
            if self.finish != Some(FinishReason::Refused) {
                self.finish = Some(finish(reason));
            }
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let text = |field: &str| {
            delta.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        out.extend(text("reasoning_content").or_else(|| text("reasoning")).map(ModelEvent::Reasoning));
        out.extend(text("content").map(ModelEvent::Text));
        if let Some(refusal) = text("refusal") {
            self.finish = Some(FinishReason::Refused);
            out.push_back(ModelEvent::Text(refusal));
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.take_piece(piece, out)?;
        }
        Ok(())
    }

    fn take_piece(&mut self, piece: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let index = piece.get("index").and_then(Value::as_u64);
        let text = |field: &str| piece.pointer(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (id, name) = (text("/id"), text("/function/name"));
        let place = match self.place(index, id, name) {
            Some(place) => place,
            None if self.calls.len() < CALLS_MAX => {
                let begun = Begun::NotYet { arguments: String::new() };
                self.calls.push(Call { index, id: id.map(str::to_owned), begun });
                self.calls.len() - 1
            }
            None => return Err(ModelError::Broken(format!("it asks for more than {CALLS_MAX} calls"))),
        };
        let Some(call) = self.calls.get_mut(place) else { return Ok(()) };
        let ours = u32::try_from(place).unwrap_or(u32::MAX);
        if let (Some(name), Begun::NotYet { arguments }) = (name, &mut call.begun) {
            let waited = std::mem::take(arguments);
            call.begun = Begun::Yes;
            out.push_back(ModelEvent::CallStart {
                index: ours,
                provider_id: call.id.clone(),
                name: name.to_owned(),
            });
            if !waited.is_empty() {
                out.push_back(ModelEvent::CallDelta { index: ours, arguments: waited });
            }
        }
        let more = match piece.pointer("/function/arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if more.is_empty() {
            return Ok(());
        }
        match &mut call.begun {
            Begun::Yes => out.push_back(ModelEvent::CallDelta { index: ours, arguments: more }),
            Begun::NotYet { arguments } => {
                arguments.push_str(&more);
                if arguments.len() > ARGUMENTS_MAX {
                    return Err(ModelError::Broken("a call without a name is too large".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The call that a piece belongs to, if it has begun. Another id under the same index, with a name, is another call.
    fn place(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let place = match (index, id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == index)?,
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id.as_deref() == Some(id))?,
            (None, None) if name.is_none() => self.calls.len().checked_sub(1)?,
            (None, None) => return None,
        };
        let known = self.calls.get(place)?.id.as_deref();
        let is_another = name.is_some() && id.is_some() && known.is_some() && id != known;
        (!is_another).then_some(place)
    }

    /// The end of the stream, with `[DONE]` or without.
    pub(super) fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let Some(finish) = self.finish else { return Err(cut_off()) };
        for (place, call) in (0..).zip(&mut self.calls) {
            if let Begun::NotYet { arguments } = &mut call.begun {
                // A call of nothing is refused by its name.
                out.push_back(ModelEvent::CallStart {
                    index: place,
                    provider_id: call.id.clone(),
                    name: String::new(),
                });
                out.push_back(ModelEvent::CallDelta { index: place, arguments: std::mem::take(arguments) });
            }
        }
        out.push_back(ModelEvent::Finish(finish));
        Ok(())
    }
}

/// Arguments that wait for their call's name (256 KiB); the session bounds all others.
const ARGUMENTS_MAX: usize = 256 << 10;

/// OpenAI, API reference, `finish_reason`; a word that nobody knows ends a reply like any other.
fn finish(reason: &str) -> FinishReason {
    match reason {
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::Refused,
        _ => FinishReason::Stop,
    }
}

fn used(usage: &Value) -> Option<Usage> {
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let (input, output) = (tokens("prompt_tokens"), tokens("completion_tokens"));
    (input.is_some() || output.is_some())
        .then(|| Usage { input: input.unwrap_or_default(), output: output.unwrap_or_default() })
}
