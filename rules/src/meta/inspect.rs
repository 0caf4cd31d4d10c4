//! Decides what `tool_inspect` answers.

use pilothouse_messages::call::{CallOutcome, CallResult};

use super::input::inspect_input;
use super::refusal::{Refusal, signature};
use super::{Inspected, Named, Sight};

/// Answers a call of `tool_inspect`: the full signature, which makes the tool inspected. `raw` is the text of its
/// arguments.
pub fn inspect(raw: &str, sight: &Sight<'_>, inspected: &mut Inspected) -> CallResult {
    let refused = |refusal: Refusal<'_>| CallResult::said(CallOutcome::Rejected, refusal.words(sight));
    let name = match inspect_input(raw, sight.validators) {
        Ok(name) => name,
        Err(reason) => return refused(Refusal::Input(reason)),
    };
    match sight.named(&name) {
        Named::Tool(entry) => {
            inspected.record(entry.fingerprint);
            CallResult::said(CallOutcome::Succeeded, signature(&entry, sight))
        }
        Named::Meta(tool) => refused(Refusal::Meta(tool)),
        Named::Gone => refused(Refusal::Gone(&name)),
        Named::Unknown => refused(Refusal::Unavailable(&name)),
    }
}
