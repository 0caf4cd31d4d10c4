//! Folds a topic's events into the conversation that a model is given.
//!
//! ```text
//! User ─▶ Assistant {calls a, b} ─▶ Tool a ─▶ Tool b ─▶ Assistant ─▶ User …
//! ```
//!
//! A message enters where a turn claims it, so a message that waited comes after the results of the turn that
//! yielded to it; a held one does not enter. Results stand directly behind the reply that asked for them, in the
//! order of its calls, whatever order they came in.

use std::collections::BTreeMap;

use pilothouse_messages::call::CallResult;
use pilothouse_messages::id::{CallId, MessageId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::model::{HistoryCall, HistoryItem};
use pilothouse_messages::topic::{PlannedCall, TopicCheckpoint, TopicEvent};
use serde_json::Value;

/// What a model is told that is to go on in the middle of its text.
const GO_ON: &str = "Go on where you stopped.";

/// The conversation so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    entries: Vec<Entry>,
    /// Where each turn begins, oldest first.
    turns: Vec<(TurnId, usize)>,
    /// Messages that no turn has claimed: they wait, or are held.
    waiting: BTreeMap<MessageId, String>,
    /// Text of the reply that the model is writing.
    partial: String,
    /// Whether the model had the last word before all of it.
    spoke_before: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    User(String),
    Assistant { text: String, calls: Vec<Asked> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    call: HistoryCall,
    /// The tool that was called through the one that the model named, if it was another one.
    through: Option<String>,
    result: Option<CallResult>,
}

impl Transcript {
    /// Takes in the next event of the topic's log.
    pub fn apply(&mut self, event: &TopicEvent) {
        match event {
            TopicEvent::MessageAccepted { message, text, .. } => {
                self.waiting.insert(*message, text.clone());
            }
            TopicEvent::TurnStarted { turn, messages, .. } => {
                self.turns.push((*turn, self.entries.len()));
                self.claim(messages);
            }
            TopicEvent::MessagesInjected { messages, .. } => self.claim(messages),
            TopicEvent::MessageEdited { message, text } => {
                if let Some(waiting) = self.waiting.get_mut(message) {
                    waiting.clone_from(text);
                }
            }
            TopicEvent::MessageDropped { message, .. } => {
                self.waiting.remove(message);
            }
            TopicEvent::TurnContinued { .. } => self.ask_to_go_on(),
            TopicEvent::StepStarted { .. } => self.partial.clear(),
            TopicEvent::TextAppended { delta, .. } => self.partial.push_str(delta),
            TopicEvent::StepReplied { text, calls, .. } => self.reply(text.clone(), calls),
            TopicEvent::CallFinished { call, result, .. } => self.finish_call(*call, result),
            // The model is told what was sent, not what it had asked for.
            TopicEvent::CallEdited { call, arguments } => {
                if let Some(asked) = self.asked_mut(*call) {
                    asked.call.arguments = written(asked.through.as_deref(), arguments);
                }
            }
            TopicEvent::TurnFinished { .. } => {
                let text = std::mem::take(&mut self.partial);
                self.say(text, Vec::new());
            }
            TopicEvent::Configured { .. }
            | TopicEvent::CallStarted { .. }
            | TopicEvent::CallSent { .. }
            | TopicEvent::CallReceipted { .. }
            | TopicEvent::Slept { .. }
            | TopicEvent::CallDecided { .. }
            | TopicEvent::CallExpired { .. }
            | TopicEvent::StepFinished { .. }
            | TopicEvent::CardOpened { .. }
            | TopicEvent::Recovered { .. }
            | TopicEvent::HeadlessSet { .. }
            | TopicEvent::ToolTermsSet { .. }
            | TopicEvent::MessagesHeld { .. }
            | TopicEvent::QueueReordered { .. }
            | TopicEvent::MessageResent { .. }
            | TopicEvent::LevelSet { .. }
            | TopicEvent::TurnResumed { .. }
            | TopicEvent::TurnTermsSet { .. }
            // A model is told what its script returned.
            | TopicEvent::Nested { .. }
            | TopicEvent::CallAnsweredLate { .. } => {}
        }
    }

    /// The conversation, oldest first. Results that an open turn still waits for are left out; in a closed turn
    /// every call has its one result.
    pub fn items(&self) -> Vec<HistoryItem> {
        self.entries.iter().flat_map(Entry::items).collect()
    }

    /// The conversation of one turn, if it is kept.
    pub fn items_of(&self, turn: TurnId) -> Vec<HistoryItem> {
        let Some(place) = self.turns.iter().position(|(known, _)| *known == turn) else { return Vec::new() };
        let start = self.turns.get(place).map_or(0, |(_, start)| *start);
        let end = self.turns.get(place + 1).map_or(self.entries.len(), |(_, next)| *next);
        self.entries.get(start..end).unwrap_or_default().iter().flat_map(Entry::items).collect()
    }

    /// Forgets what was said before this turn.
    pub fn forget_before(&mut self, turn: TurnId) {
        let Some(place) = self.turns.iter().position(|(known, _)| *known == turn) else { return };
        let start = self.turns.get(place).map_or(0, |(_, start)| *start);
        drop(self.turns.drain(..place));
        drop(self.entries.drain(..start));
        self.turns.iter_mut().for_each(|(_, begin)| *begin -= start);
    }

    /// Whether the model had the last word.
    pub fn model_spoke_last(&self) -> bool {
        match self.entries.last() {
            Some(Entry::Assistant { calls, .. }) => calls.is_empty(),
            Some(Entry::User(_)) => false,
            None => self.spoke_before,
        }
    }

    /// A conversation that goes on from a checkpoint; what was said before is not in it.
    pub fn resumed(from: &TopicCheckpoint) -> Self {
        let held = from.held.iter().map(|(message, _)| message);
        let waiting = from.queue.iter().chain(held);
        Self {
            waiting: waiting.map(|message| (message.message, message.text.clone())).collect(),
            spoke_before: from.model_spoke_last,
            ..Self::default()
        }
    }

    fn reply(&mut self, text: String, calls: &[PlannedCall]) {
        self.partial.clear();
        let calls = calls.iter().map(|planned| {
            let tool = planned.tool.as_ref().filter(|_| planned.name == MetaTool::Invoke.name());
            let through = tool.map(|tool| tool.name.clone());
            let arguments = written(through.as_deref(), &planned.arguments);
            let call = HistoryCall { call: planned.call, name: planned.name.clone(), arguments };
            Asked { call, through, result: None }
        });
        self.say(text, calls.collect());
    }

    fn say(&mut self, text: String, calls: Vec<Asked>) {
        if !text.is_empty() || !calls.is_empty() {
            self.entries.push(Entry::Assistant { text, calls });
        }
    }

    fn claim(&mut self, messages: &[MessageId]) {
        let claimed = messages.iter().filter_map(|message| self.waiting.remove(message));
        self.entries.extend(claimed.map(Entry::User));
    }

    /// A turn that takes up one that was cut short in its text begins behind the model's own words, where providers
    /// expect a person's.
    fn ask_to_go_on(&mut self) {
        if self.model_spoke_last() {
            self.entries.push(Entry::User(GO_ON.to_owned()));
        }
    }

    fn asked_mut(&mut self, id: CallId) -> Option<&mut Asked> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::User(_) => None,
            Entry::Assistant { calls, .. } => calls.iter_mut().find(|asked| asked.call.call == id),
        })
    }

    fn finish_call(&mut self, id: CallId, result: &CallResult) {
        if let Some(Asked { result: open @ None, .. }) = self.asked_mut(id) {
            *open = Some(result.clone());
        }
    }
}

/// The arguments as the model writes them: a tool that is called through `tool_invoke` stands in them.
fn written(through: Option<&str>, arguments: &JsonText) -> JsonText {
    match through {
        None => arguments.clone(),
        Some(name) => {
            let whole = format!(r#"{{"name":{},"params":{arguments}}}"#, Value::from(name));
            // Two JSON texts make one.
            JsonText::parse(whole).unwrap_or_else(|_never| arguments.clone())
        }
    }
}

impl Entry {
    fn items(&self) -> Vec<HistoryItem> {
        let (text, calls) = match self {
            Self::User(text) => return vec![HistoryItem::User { text: text.clone() }],
            Self::Assistant { text, calls } => (text.clone(), calls),
        };
        let reply =
            HistoryItem::Assistant { text, calls: calls.iter().map(|asked| asked.call.clone()).collect() };
        let results = calls.iter().filter_map(|asked| {
            let (call, result) = (asked.call.call, asked.result.clone()?);
            Some(HistoryItem::Tool { call, result })
        });
        std::iter::once(reply).chain(results).collect()
    }
}

#[cfg(test)]
mod tests;
