//! What has come of a reply: its text, its calls by index, its usage; all of it bounded.

use std::collections::BTreeMap;

use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, ModelEvent, Usage};
use pilothouse_rules::retry::Said;

use crate::session::deltas::Deltas;

/// One reply while it comes in.
pub(super) struct Gathered {
    text: String,
    /// What the session has not been told yet.
    deltas: Deltas,
    calls: BTreeMap<u32, DraftCall>,
    usage: Usage,
    reply: Room,
    reasoning: Room,
    /// Events that say nothing, such as empty pieces.
    empty: Room,
}

/// Events without a word in one reply; a model that sends nothing but those does not go on for ever.
const EMPTY_MAX: usize = 64 << 10;

/// How much of something may come.
struct Room {
    used: usize,
    most: usize,
}

/// A call as far as it has come.
#[derive(Default)]
pub(in crate::session) struct DraftCall {
    pub(super) provider_id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Gathered {
    pub(super) fn within(limits: &Limits) -> Self {
        Self {
            text: String::new(),
            deltas: Deltas::default(),
            calls: BTreeMap::new(),
            usage: Usage::default(),
            reply: Room::of(limits.reply_bytes),
            reasoning: Room::of(limits.reasoning_bytes),
            empty: Room::of(EMPTY_MAX),
        }
    }

    /// Takes the next event in; answers why the model stopped, if it did.
    pub(super) fn take(&mut self, event: ModelEvent) -> Result<Option<FinishReason>, String> {
        match event {
            ModelEvent::Text(text) => {
                self.fill_reply(text.len())?;
                self.text.push_str(&text);
                self.deltas.text(&text);
            }
            // Reasoning is shown, but neither stored nor sent back.
            ModelEvent::Reasoning(text) => {
                self.note(text.len())?;
                let most = self.reasoning.most;
                self.reasoning
                    .fill(text.len())
                    .map_err(|Full| format!("the model's reasoning is larger than {most} bytes"))?;
                self.deltas.reasoning(&text);
            }
            ModelEvent::CallStart { index, provider_id, name } => {
                // A call without a name takes room, too.
                self.fill_reply(1 + name.len() + provider_id.as_ref().map_or(0, String::len))?;
                self.deltas.input(index, &name, "");
                let draft = DraftCall { provider_id, name, arguments: String::new() };
                if self.calls.insert(index, draft).is_some() {
                    return Err(format!("the model began call {index} twice"));
                }
            }
            ModelEvent::CallDelta { index, arguments } => {
                self.fill_reply(arguments.len())?;
                let Some(call) = self.calls.get_mut(&index) else {
                    return Err(format!("the model sent arguments for call {index}, which it had not begun"));
                };
                call.arguments.push_str(&arguments);
                self.deltas.input(index, &call.name, &arguments);
            }
            ModelEvent::Usage(usage) => {
                self.note(0)?;
                self.usage = usage;
            }
            ModelEvent::Finish(finish) => return Ok(Some(finish)),
        }
        Ok(None)
    }

    /// Everything that it has said, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.reply.used.saturating_add(self.reasoning.used)
    }

    pub(super) fn said(&self) -> Said {
        if self.bytes() == 0 { Said::Nothing } else { Said::Something }
    }

    /// What the session has not been told.
    pub(super) fn deltas(&mut self) -> &mut Deltas {
        &mut self.deltas
    }

    /// The text, the tokens, and the calls in the order of their places.
    pub(super) fn into_parts(self) -> (String, Usage, Vec<DraftCall>) {
        (self.text, self.usage, self.calls.into_values().collect())
    }

    fn fill_reply(&mut self, bytes: usize) -> Result<(), String> {
        self.note(bytes)?;
        let most = self.reply.most;
        self.reply.fill(bytes).map_err(|Full| format!("the model's reply is larger than {most} bytes"))
    }

    /// Counts the events that say nothing.
    fn note(&mut self, bytes: usize) -> Result<(), String> {
        let says_nothing = usize::from(bytes == 0);
        let said = self.empty.fill(says_nothing);
        said.map_err(|Full| format!("the model sent more than {EMPTY_MAX} events that say nothing"))
    }
}

/// There is no room.
struct Full;

impl Room {
    fn of(most: usize) -> Self {
        Self { used: 0, most }
    }

    fn fill(&mut self, more: usize) -> Result<(), Full> {
        self.used = self.used.saturating_add(more);
        if self.used > self.most { Err(Full) } else { Ok(()) }
    }
}
