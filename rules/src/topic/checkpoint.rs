//! A topic between two turns as a record, and back: what was closed before it is read only where somebody asks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{MessageId, TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    StoredKey, TopicAnswer, TopicCheckpoint, TopicRejection, TurnView, WaitingMessage,
};

use super::draft::Draft;
use super::{DroppedKeys, Held, Keyed, Message, TopicState, key_digest, text_digest};
use crate::decider::Decider;

impl TopicState {
    /// The topic as a record; `None` while a turn is open, and before the topic was opened. What only its shell knows
    /// (where its journal is, what was said last) is left at nothing.
    pub fn checkpoint(&self) -> Option<TopicCheckpoint> {
        // Every field is looked at here, so that a new one is not forgotten.
        let Self {
            topic: _,
            limits: _,
            config,
            last_message,
            last_turn,
            keys,
            // A topic that goes on from a checkpoint asks the store about every key that it does not know.
            dropped: _,
            queue,
            held,
            open: None,
            closed,
            earlier_turns,
            last_stop,
        } = self
        else {
            return None;
        };
        let taken: BTreeSet<MessageId> = closed.iter().flat_map(|closed| messages_of(&closed.view)).collect();
        let waiting = keys.iter().filter(|(_, keyed)| !taken.contains(&keyed.message));
        Some(TopicCheckpoint {
            next: 0,
            previous: TurnId::default(),
            at: Timestamp::default(),
            config: Draft::recorded(self, config.as_ref()?, Timestamp::default()),
            last_message: *last_message,
            last_turn: *last_turn,
            turns: earlier_turns + closed.len() as u64,
            stop: last_stop.clone(),
            model_spoke_last: false,
            queue: queue.iter().map(Message::stored).collect(),
            held: held.iter().map(|held| (held.message.stored(), held.reason)).collect(),
            keys: waiting.map(|(key, keyed)| keyed.stored(*key)).collect(),
        })
    }

    /// The topic as it was at a checkpoint. The events after it make it what it is now.
    pub fn resumed(topic: TopicId, limits: Arc<Limits>, from: &TopicCheckpoint) -> Self {
        let keyed = |stored: &StoredKey| {
            let StoredKey { key, message, text, receipt } = stored.clone();
            (key, Keyed { message, text, receipt })
        };
        let mut state = Self {
            last_message: from.last_message,
            last_turn: from.last_turn,
            keys: from.keys.iter().map(keyed).collect::<BTreeMap<_, _>>(),
            queue: from.queue.iter().map(Message::of).collect::<VecDeque<_>>(),
            held: from
                .held
                .iter()
                .map(|(message, reason)| Held { message: Message::of(message), reason: *reason })
                .collect(),
            earlier_turns: from.turns,
            last_stop: from.stop.clone(),
            ..Self::new(topic, limits)
        };
        from.config.iter().for_each(|event| state.apply(event));
        state
    }

    /// The keys of the messages of a closed turn that the view still shows.
    pub fn keys_of(&self, turn: TurnId) -> Vec<StoredKey> {
        let closed = self.closed.iter().rev().find(|closed| closed.view.turn == turn);
        let messages: BTreeSet<_> = closed.iter().flat_map(|closed| messages_of(&closed.view)).collect();
        let theirs = self.keys.iter().filter(|(_, keyed)| messages.contains(&keyed.message));
        theirs.map(|(key, keyed)| keyed.stored(*key)).collect()
    }

    /// The key of a message that is not in a turn, if it has one.
    pub fn key_of(&self, message: MessageId) -> Option<StoredKey> {
        let (key, keyed) = self.keys.iter().find(|(_, keyed)| keyed.message == message)?;
        Some(keyed.stored(*key))
    }

    /// The digest of a client key that is not known here and may be stored, since turns were closed or messages
    /// dropped that nothing is known of any more.
    pub fn may_be_stored(&self, key: &str) -> Option<Digest> {
        let digest = key_digest(key);
        let some_are_stored = self.earlier_turns > 0 || self.dropped == DroppedKeys::Stored;
        (some_are_stored && !self.keys.contains_key(&digest)).then_some(digest)
    }

    /// How many turns have ended.
    pub fn closed_turns(&self) -> u64 {
        self.earlier_turns + self.closed.len() as u64
    }

    /// The newest turn, open or closed.
    pub fn last_turn(&self) -> TurnId {
        self.last_turn
    }

    /// The newest message.
    pub fn last_message(&self) -> MessageId {
        self.last_message
    }

    /// A topic under a name whose earlier one was removed: its numbers go on, so that none is given twice.
    pub fn numbered(topic: TopicId, limits: Arc<Limits>, last_turn: TurnId, last_message: MessageId) -> Self {
        Self { last_turn, last_message, ..Self::new(topic, limits) }
    }

    /// Whether a turn is open.
    pub fn has_open_turn(&self) -> bool {
        self.open.is_some()
    }

    /// Closed turns that are still held, oldest first.
    pub fn closed_views(&self) -> impl DoubleEndedIterator<Item = &Arc<TurnView>> {
        self.closed.iter().map(|closed| &closed.view)
    }
}

/// What a sender is told whose key was found among those of closed turns.
///
/// # Errors
/// [`TopicRejection::KeyReused`] if it came with another text.
pub fn sent_before(stored: &StoredKey, text: &str) -> Result<TopicAnswer, TopicRejection> {
    let message = stored.message;
    match &stored.receipt {
        _ if stored.text != text_digest(text) => Err(TopicRejection::KeyReused { message }),
        Some(receipt) => Ok(TopicAnswer::Sent { message, receipt: receipt.clone() }),
        // Only messages of closed turns and dropped ones are stored, and those have a place.
        None => Err(TopicRejection::KeyReused { message }),
    }
}

fn messages_of(turn: &TurnView) -> impl Iterator<Item = MessageId> {
    turn.messages.iter().map(|message| message.message)
}

impl Message {
    fn stored(&self) -> WaitingMessage {
        let Self { id, text, key, at, level } = self;
        WaitingMessage { message: *id, text: text.clone(), key: *key, at: *at, level: *level }
    }

    fn of(stored: &WaitingMessage) -> Self {
        let WaitingMessage { message, text, key, at, level } = stored.clone();
        Self { id: message, text, key, at, level }
    }
}

impl Keyed {
    fn stored(&self, key: Digest) -> StoredKey {
        let Self { message, text, receipt } = self.clone();
        StoredKey { key, message, text, receipt }
    }
}
