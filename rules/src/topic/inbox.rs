//! What comes from people and embedders: opening, configuring, sending.

use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::ToolLists;
use pilothouse_messages::topic::{
    ConfigPatch, Configured, Headless, Level, Receipt, TopicAnswer, TopicConfig, TopicEvent, TopicRejection,
    TurnTerms,
};

use super::draft::Draft;
use super::settings::{Turn, changed};
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
            return self.answer(TopicAnswer::Configured(Configured::default()));
        }
        self.allows(&patched)?;
        self.record_config(patched)
    }

    /// What is stricter counts at once, also for cards that wait.
    fn record_config(mut self, config: TopicConfig) -> Ruling {
        let turn = if self.state.open.is_some() { Turn::Open } else { Turn::Closed };
        // Of a topic that was never opened everything is new, and counts.
        let changed = self.state.config.as_ref().map(|current| changed(current, &config, turn));
        let tightened = self.state.open.as_ref().map(|turn| (turn, config.clone()));
        self.record_parts(config);
        if let Some((turn, config)) = tightened {
            self.tighten(turn, &config);
        }
        self.answer(TopicAnswer::Configured(changed.unwrap_or_default()))
    }

    /// What is stored of a configuration leaves some of it out; the events after it say those, where they are not the
    /// default.
    fn record_parts(&mut self, config: TopicConfig) {
        let TopicConfig { headless, tools, context_window, turns, .. } = config.clone();
        let stored = TopicConfig {
            headless: Headless::default(),
            tools: ToolLists::default(),
            context_window: None,
            turns: TurnTerms::default(),
            ..config
        };
        self.event(TopicEvent::Configured { config: stored, at: self.now });
        if headless != Headless::default() {
            self.event(TopicEvent::HeadlessSet { headless });
        }
        if (&tools, context_window) != (&ToolLists::default(), None) {
            self.event(TopicEvent::ToolTermsSet { tools, context_window });
        }
        if turns != TurnTerms::default() {
            self.event(TopicEvent::TurnTermsSet { terms: turns });
        }
    }

    /// The events that record a configuration.
    pub(super) fn recorded(state: &TopicState, config: &TopicConfig, now: Timestamp) -> Vec<TopicEvent> {
        let mut draft = Draft::new(state, now);
        draft.record_parts(config.clone());
        draft.into_events()
    }

    /// Takes a message: it starts a turn, or waits for the open one.
    pub(super) fn send(mut self, text: &str, key: Option<&str>, level: Level) -> Ruling {
        if text.trim().is_empty() {
            return Err(TopicRejection::EmptyText);
        }
        if let Some(keyed) = key.and_then(|key| self.state.keys.get(&key_digest(key))) {
            return self.sent_before(keyed, text);
        }
        if self.state.open.is_some() {
            self.state.has_place()?;
            self.state.has_place_for_holding()?;
            self.state.has_room_for_holding(text.len(), 0)?;
        }
        self.state.has_room_for(text.len() + key.map_or(0, str::len), 0)?;
        let message = self.state.last_message.next();
        let (text, key) = (text.to_owned(), key.map(str::to_owned));
        self.event(TopicEvent::MessageAccepted { message, text, key, at: self.now });
        if level != Level::default() {
            self.event(TopicEvent::LevelSet { message, level });
        }
        self.arrive(message, level);
        self.answer_place(message)
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
    fn receipt_of(&self, keyed: &Keyed) -> Receipt {
        let place = || self.queue.iter().position(|message| message.id == keyed.message);
        // A keyed message without a recorded place is in the queue.
        keyed.receipt.clone().unwrap_or_else(|| Receipt::Queued { position: place().map_or(1, |i| i + 1) })
    }
}
