//! Decides what becomes of a call of `tool_invoke`. The order of the checks is part of the promise.

use std::sync::Arc;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::registry::Entry;
use serde_json::Value;

use super::input::{InvokeInput, invoke_input};
use super::refusal::Refusal;
use super::{Executor, Inspected, Mismatch, Named, Sight};
use crate::arguments::{Fix, Settled, Validator, settle};

/// What becomes of a call of `tool_invoke`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvokeDecision {
    /// Nothing runs; the model is told this.
    Refuse(String),
    /// Nothing runs, only because the arguments are not what the tool asks for.
    Mismatch(Mismatch),
    /// This tool is called with these arguments, past the same gate as a direct call of it.
    Run {
        /// The real tool.
        entry: Arc<Entry>,
        /// Its arguments, a JSON object.
        arguments: JsonText,
        /// What was mended in them.
        fixes: Vec<Fix>,
    },
}

/// Decides about a call of `tool_invoke`. `raw` is the text of its arguments.
///
/// A tool that had not been inspected is recorded as such before it is refused, with its signature, so that the model's
/// next call passes. A tool that the model is shown as it is now needs no inspection.
pub fn invoke(raw: &str, sight: &Sight<'_>, inspected: &mut Inspected) -> InvokeDecision {
    checked(raw, sight, inspected).unwrap_or_else(InvokeDecision::Refuse)
}

/// Decides about a direct call of a tool that the model is not shown, by the same checks; `raw` is the text of the tool's
/// own arguments.
pub(super) fn invoke_unlisted(
    entry: Arc<Entry>,
    raw: &str,
    sight: &Sight<'_>,
    inspected: &mut Inspected,
) -> InvokeDecision {
    let input = InvokeInput { name: entry.name.clone(), params: raw.to_owned() };
    admitted(input, entry, sight, inspected).unwrap_or_else(InvokeDecision::Refuse)
}

fn checked(raw: &str, sight: &Sight<'_>, inspected: &mut Inspected) -> Result<InvokeDecision, String> {
    let refused = |refusal: Refusal<'_>| refusal.words(sight);
    let input = invoke_input(raw, sight.validators).map_err(|reason| refused(Refusal::Input(reason)))?;
    // Available to this topic, and registered.
    let entry = match sight.named(&input.name) {
        Named::Tool(entry) => entry,
        Named::Meta(tool) => return Err(refused(Refusal::Meta(tool))),
        Named::Gone => return Err(refused(Refusal::Gone(&input.name))),
        Named::Unknown => return Err(refused(Refusal::Unavailable(&input.name))),
    };
    admitted(input, entry, sight, inspected)
}

fn admitted(
    input: InvokeInput,
    entry: Arc<Entry>,
    sight: &Sight<'_>,
    inspected: &mut Inspected,
) -> Result<InvokeDecision, String> {
    let refused = |refusal: Refusal<'_>| refusal.words(sight);
    match (sight.executor)(&entry) {
        Executor::Present => {}
        Executor::Absent => return Err(refused(Refusal::NoExecutor(entry))),
    }
    // One that always asks but is not shown (it was deferred when that was set) has no other way: it gets a card.
    if entry.force_prompt && sight.shows(&entry.name) {
        return Err(refused(Refusal::Direct(entry)));
    }
    if !sight.shows_as_it_is(&entry) && !inspected.contains(entry.fingerprint) {
        inspected.record(entry.fingerprint);
        return Err(refused(Refusal::Uninspected(entry)));
    }
    let validator = sight.validators.of(&entry.definition, entry.fingerprint);
    match params_of(&input, &entry, &validator) {
        Settled::Arguments { arguments, fixes, unchecked: _ } => {
            Ok(InvokeDecision::Run { entry, arguments, fixes })
        }
        Settled::Refused { reason } => {
            Ok(InvokeDecision::Mismatch(Mismatch::new(entry, input.params, reason, sight)))
        }
    }
}

/// The arguments; also where the model wrote the whole call once more inside them.
fn params_of(input: &InvokeInput, entry: &Entry, validator: &Validator) -> Settled {
    let settled = settle(&input.params, validator);
    match &settled {
        Settled::Arguments { .. } => settled,
        Settled::Refused { .. } => match written_again(input, entry) {
            Some(inner) => match settle(&inner, validator) {
                Settled::Arguments { arguments, mut fixes, unchecked } => {
                    fixes.insert(0, Fix::Unwrapped);
                    Settled::Arguments { arguments, fixes, unchecked }
                }
                Settled::Refused { .. } => settled,
            },
            None => settled,
        },
    }
}

/// The arguments of a call that stands inside the arguments: `{name, arguments}` with the same name and nothing else.
fn written_again(input: &InvokeInput, entry: &Entry) -> Option<String> {
    let mut value: Value = serde_json::from_str(&input.params).ok()?;
    if let Value::String(text) = &value {
        value = serde_json::from_str(text).ok()?;
    }
    let name = value.get("name")?.as_str()?;
    let is_same = name == input.name || name == entry.name;
    let fields = value.as_object().filter(|fields| is_same && fields.len() == 2)?;
    let inner = ["params", "arguments", "input"].iter().find_map(|field| fields.get(*field))?;
    Some(inner.to_string())
}
