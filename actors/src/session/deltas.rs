//! Gathers what a model writes, so that windows are told of it a few dozen times in a second and not for each token.

use std::time::Duration;

use pilothouse_messages::id::StepRef;
use pilothouse_messages::topic::{Shown, TopicCommand};

/// What has come in is told at least this often …
pub(super) const FLUSH_AFTER: Duration = Duration::from_millis(16);
/// … or when this much has gathered.
const FLUSH_BYTES: usize = 2 << 10;

/// What has come in and is not told yet. What came in turns is told together: each kind is shown in a place of its own.
#[derive(Default)]
pub(super) struct Deltas {
    reasoning: String,
    text: String,
    inputs: Vec<Input>,
    bytes: usize,
}

struct Input {
    index: u32,
    tool: String,
    delta: String,
}

impl Deltas {
    pub(super) fn text(&mut self, words: &str) {
        self.bytes += words.len();
        self.text.push_str(words);
    }

    pub(super) fn reasoning(&mut self, words: &str) {
        self.bytes += words.len();
        self.reasoning.push_str(words);
    }

    /// More of the call at this place; providers may write several calls in turns.
    pub(super) fn input(&mut self, place: u32, name: &str, arguments: &str) {
        self.bytes += arguments.len();
        if let Some(input) = self.inputs.iter_mut().find(|input| input.index == place) {
            return input.delta.push_str(arguments);
        }
        // The name counts, too: a reply of a thousand empty calls is not nothing.
        self.bytes += name.len();
        self.inputs.push(Input { index: place, tool: name.to_owned(), delta: arguments.to_owned() });
    }

    pub(super) fn are_none(&self) -> bool {
        self.bytes == 0 && self.inputs.is_empty()
    }

    pub(super) fn are_many(&self) -> bool {
        self.bytes >= FLUSH_BYTES
    }

    /// What to tell the session, in the order in which models write; nothing is left.
    pub(super) fn take(&mut self, at: StepRef) -> Vec<TopicCommand> {
        let Self { reasoning, text, inputs, bytes: _ } = std::mem::take(self);
        let reasoning = (!reasoning.is_empty()).then_some(Shown::Reasoning(reasoning));
        let input = |Input { index, tool, delta }| Shown::ToolInput { index, tool, delta };
        let showed = |shown: Vec<_>| (!shown.is_empty()).then_some(TopicCommand::ModelShowed { at, shown });
        let text = (!text.is_empty()).then_some(TopicCommand::ModelText { at, delta: text });
        let parts =
            [showed(reasoning.into_iter().collect()), text, showed(inputs.into_iter().map(input).collect())];
        parts.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
