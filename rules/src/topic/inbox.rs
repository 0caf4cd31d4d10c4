//! What comes from people and embedders: opening, configuring, sending.

use pilothouse_messages::tool::ToolLists;
use pilothouse_messages::topic::{
    ConfigPatch, Headless, Receipt, TopicAnswer, TopicConfig, TopicEvent, TopicRejection,
};

use super::draft::Draft;
use super::{Keyed, Ruling, TopicState, key_digest, text_digest};
use crate::gate::is_within;

impl Draft<'_> {
    /// The topic's first opening.
    pub(super) fn create(self, config: &TopicConfig) -> Ruling {
        self.allows(config)?;
        self.record_config(config.clone())
    }

    /// Opening it again; its tenant cannot change.
    pub(super) fn open(self, current: &TopicConfig, config: &TopicConfig) -> Ruling {
        if config.tenant != current.tenant {
            return Err(TopicRejection::OtherTenant);
        }
        if config == current {
            return self.noted();
        }
        self.allows(config)?;
        self.record_config(config.clone())
    }

    /// A topic that was opened under a looser runtime may stay as it is: the gate keeps the bound by itself.
    fn allows(&self, config: &TopicConfig) -> Result<(), TopicRejection> {
        let (mode, max) = (config.mode, self.state.limits.max_mode);
        let unchanged = self.state.config.as_ref().is_some_and(|current| current.mode == mode);
        if unchanged || is_within(mode, max) { Ok(()) } else { Err(TopicRejection::TooLoose { mode, max }) }
    }

    pub(super) fn configure(self, current: &TopicConfig, patch: &ConfigPatch) -> Ruling {
        let patched = current.patched(patch);
        if patched == *current {
            let at_next_turn = self.state.open.is_some();
            return self.answer(TopicAnswer::Configured { at_next_turn });
        }
        self.allows(&patched)?;
        self.record_config(patched)
    }

    /// What is stricter counts at once, also for cards that wait.
    fn record_config(mut self, config: TopicConfig) -> Ruling {
        let headless = config.headless;
        let terms = (config.tools.clone(), config.context_window);
        let tightened = self.state.open.as_ref().map(|turn| (turn, config.clone()));
        // What is stored of it leaves these out; the events after it say them, where they are not the default.
        let stored = TopicConfig {
            headless: Headless::default(),
            tools: ToolLists::default(),
            context_window: None,
            ..config
        };
        self.event(TopicEvent::Configured { config: stored, at: self.now });
        if headless != Headless::default() {
            self.event(TopicEvent::HeadlessSet { headless });
        }
        if terms != (ToolLists::default(), None) {
            let (tools, context_window) = terms;
            self.event(TopicEvent::ToolTermsSet { tools, context_window });
        }
        if let Some((turn, config)) = tightened {
            self.tighten(turn, &config);
        }
        let at_next_turn = self.state.open.is_some();
        self.answer(TopicAnswer::Configured { at_next_turn })
    }

    /// Takes a message: it starts a turn, or waits for the open one.
    pub(super) fn send(mut self, text: &str, key: Option<&str>) -> Ruling {
        if text.trim().is_empty() {
            return Err(TopicRejection::EmptyText);
        }
        if let Some(keyed) = key.and_then(|key| self.state.keys.get(&key_digest(key))) {
            return self.sent_before(keyed, text);
        }
        let queued = self.state.open.is_some();
        if queued {
            self.state.has_place()?;
        }
        self.state.has_room_for(text.len() + key.map_or(0, str::len))?;
        let message = self.state.last_message.next();
        let (text, key) = (text.to_owned(), key.map(str::to_owned));
        self.event(TopicEvent::MessageAccepted { message, text, key, at: self.now });
        let receipt = if queued {
            Receipt::Queued { position: self.state.queue.len() + 1 }
        } else {
            self.start_turn(message);
            Receipt::Accepted { turn: self.state.last_turn.next() }
        };
        self.answer(TopicAnswer::Sent { message, receipt })
    }

    fn sent_before(self, keyed: &Keyed, text: &str) -> Ruling {
        let message = keyed.message;
        if keyed.text != text_digest(text) {
            return Err(TopicRejection::KeyReused { message });
        }
        let receipt = self.state.receipt_of(keyed);
        self.answer(TopicAnswer::Sent { message, receipt })
    }
}

impl TopicState {
    fn has_place(&self) -> Result<(), TopicRejection> {
        let (queued, limit) = (self.queue.len(), self.limits.queued_messages);
        if queued >= limit { Err(TopicRejection::QueueFull { queued, limit }) } else { Ok(()) }
    }

    /// A message that need not wait has the bound of one that does: any may have to, and every record has to be kept.
    fn has_room_for(&self, bytes: usize) -> Result<(), TopicRejection> {
        let waiting: usize = self.queue.iter().map(|message| message.text.len()).sum();
        let (bytes, limit) = (waiting + bytes, self.limits.queued_bytes);
        if bytes > limit {
            return Err(TopicRejection::QueueBytes { bytes, limit });
        }
        Ok(())
    }

    fn receipt_of(&self, keyed: &Keyed) -> Receipt {
        let place = || self.queue.iter().position(|message| message.id == keyed.message);
        // A keyed message without a recorded place is in the queue.
        keyed.receipt.clone().unwrap_or_else(|| Receipt::Queued { position: place().map_or(1, |i| i + 1) })
    }
}
