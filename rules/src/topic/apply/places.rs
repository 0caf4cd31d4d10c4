//! How messages change their places, and what is told of it.

use std::collections::BTreeMap;

use pilothouse_messages::id::{MessageId, StepId, TurnId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{HoldReason, Level, Receipt, TopicUpdate};

use super::{Told, moved};
use crate::topic::{DroppedKeys, Held, Keyed, Message, TopicState, key_digest, place_for, text_digest};

/// Keys of dropped messages that are known without the store.
const DROPPED_KEYS: usize = 64;

/// The queue as it was, by place.
pub(super) type Places = BTreeMap<MessageId, usize>;

impl TopicState {
    pub(super) fn places(&self) -> Places {
        self.queue.iter().map(|message| message.id).zip(1..).collect()
    }

    /// What is told of the messages whose places in the queue are not what they were.
    pub(super) fn told_places(&self, before: &Places) -> Told {
        let now = self.queue.iter().zip(1..);
        let moved_ones = now.filter(|(message, position)| before.get(&message.id) != Some(position));
        moved_ones.map(|(message, position)| moved(message.id, Receipt::Queued { position })).collect()
    }

    pub(super) fn accept(&mut self, id: MessageId, text: &str, key: Option<&str>, at: Timestamp) -> Told {
        let key = key.map(key_digest);
        if let Some(key) = key {
            self.keys.insert(key, Keyed { message: id, text: text_digest(text), receipt: None });
        }
        self.last_message = id;
        self.join_queue(Message { id, text: text.to_owned(), key, at, level: Level::default() })
    }

    /// Without an open turn the message starts one in the same batch, and is told as accepted by it.
    fn join_queue(&mut self, message: Message) -> Told {
        let before = self.places();
        let place = place_for(message.level, self.queue.iter().map(|waiting| waiting.level));
        self.queue.insert(place, message);
        if self.open.is_some() { self.told_places(&before) } else { Told::new() }
    }

    pub(super) fn edit(&mut self, id: MessageId, text: &str) -> Told {
        let Some(message) = self.kept_mut(id) else { return Told::new() };
        text.clone_into(&mut message.text);
        vec![changed(message)]
    }

    pub(super) fn drop_message(&mut self, id: MessageId, by: &str) -> Told {
        let before = self.places();
        let held = self.held.iter().position(|held| held.message.id == id);
        let mut gone = self.take_queued(&[id]);
        gone.extend(held.map(|place| self.held.remove(place).message));
        let mut told: Told =
            gone.iter().map(|message| self.place(message, Receipt::Dropped { by: by.to_owned() })).collect();
        told.extend(self.told_places(&before));
        self.forget_dropped_before(id);
        told
    }

    /// Lets go of the oldest keys of dropped messages, but never of that of the one that was dropped just now: its shell
    /// stores it from here.
    fn forget_dropped_before(&mut self, latest: MessageId) {
        let dropped =
            self.keys.iter().filter(|(_, keyed)| matches!(keyed.receipt, Some(Receipt::Dropped { .. })));
        let mut dropped: Vec<_> = dropped.map(|(key, keyed)| (keyed.message, *key)).collect();
        if dropped.len() <= DROPPED_KEYS {
            return;
        }
        dropped.sort_unstable();
        let oldest = dropped.iter().find(|(message, _)| *message != latest);
        if let Some((_, key)) = oldest {
            self.keys.remove(key);
            self.dropped = DroppedKeys::Stored;
        }
    }

    pub(super) fn reorder(&mut self, order: &[MessageId]) -> Told {
        let before = self.places();
        let place = |id: MessageId| order.iter().position(|wanted| *wanted == id);
        self.queue.make_contiguous().sort_by_key(|message| place(message.id));
        self.told_places(&before)
    }

    pub(super) fn resend(&mut self, id: MessageId) -> Told {
        let Some(place) = self.held.iter().position(|held| held.message.id == id) else { return Told::new() };
        let message = self.held.remove(place).message;
        if let Some(keyed) = message.key.and_then(|key| self.keys.get_mut(&key)) {
            keyed.receipt = None;
        }
        self.join_queue(message)
    }

    pub(super) fn set_level(&mut self, id: MessageId, level: Level) -> Told {
        let before = self.places();
        let stays = self.kept_mut(id).is_none_or(|message| message.level.steers() == level.steers());
        let Some(message) = self.kept_mut(id) else { return Told::new() };
        message.level = level;
        let mut told = vec![changed(message)];
        if !stays {
            for message in self.take_queued(&[id]) {
                let place = place_for(level, self.queue.iter().map(|waiting| waiting.level));
                self.queue.insert(place, message);
            }
        }
        if self.open.is_some() {
            told.extend(self.told_places(&before));
        }
        told
    }

    pub(super) fn inject(&mut self, (turn, step): (TurnId, StepId), messages: &[MessageId]) -> Told {
        let before = self.places();
        let joining = self.take_queued(messages);
        let receipt = Receipt::Injected { turn, step };
        let mut told: Told = joining.iter().map(|message| self.place(message, receipt.clone())).collect();
        told.extend(self.told_places(&before));
        if let Some(open) = self.open.as_mut().filter(|open| open.turn == turn) {
            open.injected.extend(joining.iter().map(|message| (message.id, step)));
            open.messages.extend(joining);
            // Its model is told something new, so it may ask the same once more.
            open.refusals.clear();
        }
        told
    }

    pub(super) fn hold(&mut self, messages: &[MessageId], reason: HoldReason) -> Told {
        let before = self.places();
        let mut told = Told::new();
        for message in self.take_queued(messages) {
            told.push(self.place(&message, Receipt::Held { reason }));
            self.held.push(Held { message, reason });
        }
        told.extend(self.told_places(&before));
        told
    }

    /// Takes these messages out of the queue, in the queue's order.
    pub(super) fn take_queued(&mut self, messages: &[MessageId]) -> Vec<Message> {
        let all = std::mem::take(&mut self.queue);
        let (taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|held| messages.contains(&held.id));
        self.queue = left.into();
        taken
    }

    /// Keeps where a message is now, for a sender that asks again by its key.
    pub(super) fn place(&mut self, message: &Message, receipt: Receipt) -> TopicUpdate {
        if let Some(keyed) = message.key.and_then(|key| self.keys.get_mut(&key)) {
            keyed.receipt = Some(receipt.clone());
        }
        moved(message.id, receipt)
    }

    /// A message that waits or is held.
    fn kept_mut(&mut self, id: MessageId) -> Option<&mut Message> {
        let held = self.held.iter_mut().map(|held| &mut held.message);
        self.queue.iter_mut().chain(held).find(|message| message.id == id)
    }
}

fn changed(message: &Message) -> TopicUpdate {
    let (text, level) = (message.text.clone(), message.level);
    TopicUpdate::MessageChanged { message: message.id, text, level }
}
