//! What people do with messages that wait or are held: other words, another place, another try, or none.
//!
//! ```text
//!            Edit, Reorder, Relevel             Edit, Relevel
//!            ┌──────┐                           ┌──────┐
//!   Send ───▶ QUEUED ────── the turn ends ill ─▶ HELD   │
//!            │   ▲  │                           │  │   │
//!            │   └──┼─────────── Resend ────────┘  │   ▼
//!            │      └──────────── Drop ────────────┴──▶ DROPPED
//!            ▼
//!       in a turn
//! ```
//!
//! Illegal: anything about a message that is in a turn, answered or dropped; `Resend` of one that waits; an order that
//! is not one of the queue as it is now, so that a person who looks at an older one changes nothing.

use pilothouse_messages::id::MessageId;
use pilothouse_messages::topic::{
    HoldReason, Level, QueueCommand, Receipt, TopicAnswer, TopicEvent, TopicRejection,
};

use super::draft::{Draft, Waiting};
use super::{Message, Ruling, TopicState};
use crate::cut::{NAME_BYTES, cut};

/// Where a message is that can be changed.
#[derive(Clone, Copy)]
enum Kept<'a> {
    Queued(&'a Message),
    Held(&'a Message, HoldReason),
}

impl<'a> Kept<'a> {
    fn message(self) -> &'a Message {
        match self {
            Self::Queued(message) | Self::Held(message, _) => message,
        }
    }
}

impl Draft<'_> {
    pub(super) fn queue_command(self, command: &QueueCommand) -> Ruling {
        match command {
            QueueCommand::Edit { message, text } => self.edit(*message, text),
            QueueCommand::Drop { message, by } => self.drop_message(*message, by),
            QueueCommand::Reorder { messages } => self.reorder(messages),
            QueueCommand::Resend { message } => self.resend(*message),
            QueueCommand::Relevel { message, level } => self.relevel(*message, *level),
        }
    }

    fn edit(mut self, message: MessageId, text: &str) -> Ruling {
        let kept = self.state.kept(message)?;
        if text.trim().is_empty() {
            return Err(TopicRejection::EmptyText);
        }
        let old = kept.message();
        if old.text != text {
            match kept {
                Kept::Queued(_) => self.state.has_room_for(text.len(), old.text.len())?,
                // A held one takes no room in the queue before it is sent again.
                Kept::Held(_, _) => self.state.is_within_bound(text.len())?,
            }
            self.state.has_room_for_holding(text.len(), old.text.len())?;
            self.event(TopicEvent::MessageEdited { message, text: text.to_owned() });
        }
        self.answer_kept(kept)
    }

    fn drop_message(mut self, message: MessageId, by: &str) -> Ruling {
        self.state.kept(message)?;
        let by = cut(by, NAME_BYTES).to_owned();
        self.event(TopicEvent::MessageDropped { message, by, at: self.now });
        self.noted()
    }

    fn reorder(mut self, messages: &[MessageId]) -> Ruling {
        let mut sorted = messages.to_vec();
        sorted.sort_unstable();
        let mut waiting: Vec<_> = self.queue.iter().map(|waiting| waiting.id).collect();
        let is_new = waiting != messages;
        waiting.sort_unstable();
        let level = |id: &MessageId| self.queue.iter().find(|waiting| waiting.id == *id).map(|one| one.level);
        let steers = messages.iter().filter_map(level).map(Level::steers);
        if sorted != waiting || !steers.is_sorted_by(|first, second| first >= second) {
            return Err(TopicRejection::WrongOrder);
        }
        if is_new {
            self.event(TopicEvent::QueueReordered { messages: messages.to_vec() });
        }
        self.noted()
    }

    fn resend(mut self, message: MessageId) -> Ruling {
        let held = match self.state.kept(message)? {
            Kept::Held(held, _) => held,
            Kept::Queued(_) => return Err(TopicRejection::NotHeld { message }),
        };
        if self.state.open.is_some() {
            self.state.has_place()?;
        }
        self.state.has_room_for(held.text.len(), 0)?;
        self.event(TopicEvent::MessageResent { message, at: self.now });
        self.arrive(message, held.level);
        self.answer_place(message)
    }

    fn relevel(mut self, message: MessageId, level: Level) -> Ruling {
        let kept = self.state.kept(message)?;
        if kept.message().level != level {
            self.event(TopicEvent::LevelSet { message, level });
            if let Kept::Queued(_) = kept {
                self.move_to(message, level);
                self.interrupt(level);
            }
        }
        self.answer_kept(kept)
    }

    /// A message that is new in the queue: it starts a turn if none is open, and cancels what it may if it cannot wait.
    pub(super) fn arrive(&mut self, message: MessageId, level: Level) {
        self.enqueue(message, level);
        if self.state.open.is_some() {
            self.interrupt(level);
        } else {
            let turn = self.start_turn(vec![message]);
            self.start_first_step(turn);
        }
    }

    fn move_to(&mut self, message: MessageId, level: Level) {
        let Some(place) = self.queue.iter().position(|waiting| waiting.id == message) else { return };
        let before = self.queue.remove(place);
        if before.level.steers() == level.steers() {
            self.queue.insert(place, Waiting { id: message, level });
        } else {
            self.enqueue(message, level);
        }
    }

    fn answer_kept(self, kept: Kept<'_>) -> Ruling {
        match kept {
            Kept::Queued(message) => self.answer_place(message.id),
            Kept::Held(message, reason) => {
                let receipt = Receipt::Held { reason };
                self.answer(TopicAnswer::Sent { message: message.id, receipt })
            }
        }
    }
}

impl TopicState {
    fn kept(&self, id: MessageId) -> Result<Kept<'_>, TopicRejection> {
        if id == MessageId::default() || id > self.last_message {
            return Err(TopicRejection::UnknownMessage { message: id });
        }
        let queued = self.queue.iter().find(|message| message.id == id).map(Kept::Queued);
        let held = || self.held.iter().find(|held| held.message.id == id);
        let kept = queued.or_else(|| held().map(|held| Kept::Held(&held.message, held.reason)));
        kept.ok_or(TopicRejection::NotWaiting { message: id })
    }

    pub(super) fn has_place(&self) -> Result<(), TopicRejection> {
        let (queued, limit) = (self.queue.len(), self.limits.queued_messages);
        if queued >= limit { Err(TopicRejection::QueueFull { queued, limit }) } else { Ok(()) }
    }

    /// Whatever waits may have to be held.
    pub(super) fn has_place_for_holding(&self) -> Result<(), TopicRejection> {
        let (held, limit) = (self.queue.len() + self.held.len(), self.limits.held_messages);
        if held >= limit { Err(TopicRejection::HeldFull { held, limit }) } else { Ok(()) }
    }

    /// As much text as waits or is held may have to be held.
    pub(super) fn has_room_for_holding(&self, bytes: usize, instead: usize) -> Result<(), TopicRejection> {
        let held = self.held.iter().map(|held| &held.message);
        let texts: usize = self.queue.iter().chain(held).map(|message| message.text.len()).sum();
        let (bytes, limit) = (texts.saturating_sub(instead) + bytes, self.limits.held_bytes);
        if bytes > limit { Err(TopicRejection::HeldBytes { bytes, limit }) } else { Ok(()) }
    }

    /// A message that need not wait has the bound of one that does: any may have to, and every record has to be kept.
    /// `instead` is what it takes the place of.
    pub(super) fn has_room_for(&self, bytes: usize, instead: usize) -> Result<(), TopicRejection> {
        let waiting: usize = self.queue.iter().map(|message| message.text.len()).sum();
        self.is_within_bound(waiting.saturating_sub(instead) + bytes)
    }

    fn is_within_bound(&self, bytes: usize) -> Result<(), TopicRejection> {
        let limit = self.limits.queued_bytes;
        if bytes > limit { Err(TopicRejection::QueueBytes { bytes, limit }) } else { Ok(()) }
    }
}
