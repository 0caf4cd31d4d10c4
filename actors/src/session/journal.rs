//! How a topic is stored: its events in order, its epoch, and a mark while a start has to look at it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::store::head::{Head, Present};
use pilothouse_adapters::store::log::{self, CHECKPOINTS, JOURNAL, KEYS};
use pilothouse_adapters::store::{Batch, Change, Durability, Keyspace, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{StepRef, TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{StoredKey, TopicCheckpoint, TopicEvent};
use pilothouse_rules::Decider;

use super::Conversation;
use super::conversation::CHECKPOINT_TURNS;
use super::{history, removal};
use crate::durable::Journal;

/// Records of a journal are not linked.
const UNLINKED: Digest = Digest([0; 32]);

/// Writes one topic's records.
#[derive(Debug)]
pub(super) struct TopicJournal {
    topic: TopicId,
    prefix: Vec<u8>,
    next: u64,
    head: Head,
    /// The newest stamp that was stored.
    newest: Timestamp,
    marked: Mark,
    /// Text that windows are told already. A step's reply, which holds it all, takes its place.
    unsaved: Option<(StepRef, String)>,
}

/// Text is saved at least this often while a model writes, so that 500 ms of it are lost at most.
pub(super) const SAVE_TEXT_AFTER: Duration = Duration::from_millis(400);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Open,
    Closed,
}

impl Mark {
    fn of(conversation: &Conversation) -> Self {
        if conversation.is_open() { Self::Open } else { Self::Closed }
    }
}

/// A topic as it was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) conversation: Conversation,
    pub(super) journal: TopicJournal,
    pub(super) newest: Timestamp,
}

/// Reads a topic's records: from a checkpoint on, if there is one that is old enough for the view.
pub(super) async fn load(
    store: &dyn Store,
    topic: TopicId,
    limits: Arc<Limits>,
) -> Result<Loaded, StoreError> {
    let prefix = log::topic_prefix(&topic);
    let mut head = Head::read(store, &prefix).await?.unwrap_or_default();
    if head.presence == Present::Removed {
        removal::clean(store, store.lane().as_ref(), &prefix).await?;
    }
    let start = start(store, &topic, &prefix, &head, limits.view_turns).await?;
    let (mut conversation, first, mut newest) = match &start {
        Some(Start { from, turns }) => {
            (Conversation::resumed(topic.clone(), limits, from, *turns), from.next, from.at)
        }
        None => (Conversation::new(topic.clone(), limits, head.used), 1, Timestamp::default()),
    };
    let next =
        log::read_log_from::<TopicEvent>(store, Keyspace::Journal, &prefix, &JOURNAL, first, |record| {
            conversation.apply(&record.payload);
            newest = newest.max(record.payload.at().unwrap_or_default());
            ControlFlow::Continue(())
        })
        .await?;
    head.epoch += 1;
    let marked = Mark::of(&conversation);
    let journal = TopicJournal { topic, prefix, next, head, newest, marked, unsaved: None };
    Ok(Loaded { conversation, journal, newest })
}

/// Where reading starts.
struct Start {
    from: Box<TopicCheckpoint>,
    /// How many turns had ended at the newest checkpoint.
    turns: u64,
}

/// The newest checkpoint before the turns that the view shows; `None` to start at the first record.
async fn start(
    store: &dyn Store,
    topic: &TopicId,
    prefix: &[u8],
    head: &Head,
    view_turns: usize,
) -> Result<Option<Start>, StoreError> {
    let (mut at, mut newest, mut oldest) = (head.checkpoint, None, None);
    if at == TurnId::default() {
        return Ok(None);
    }
    // Those that are likely to be wanted, by one read.
    let reach = (view_turns as u64).saturating_add(CHECKPOINT_TURNS);
    let near = at.0.saturating_sub(reach)..=at.0;
    let mut near = log::encoded_records(store, Keyspace::Checkpoints, prefix, near).await?;
    while at != TurnId::default() {
        let found = match near.remove(&at.0) {
            Some(record) => CHECKPOINTS.decode(&record).map(|record| Some(record.payload)),
            None => history::checkpoint(store, prefix, at).await,
        };
        let from: Box<TopicCheckpoint> = match found {
            Ok(Some(from)) if from.next >= head.kept_from => Box::new(from),
            Ok(_) => break,
            Err(error @ StoreError::Damaged { .. }) if head.kept_from <= 1 => {
                tracing::error!(target: "pilothouse", %topic, %error, "a checkpoint cannot be read: the topic is read from its first record");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        at = from.previous;
        let turns = *newest.get_or_insert(from.turns);
        if from.turns.saturating_add(view_turns as u64) <= turns {
            return Ok(Some(Start { from, turns }));
        }
        oldest = Some(Start { from, turns });
    }
    // What is not kept cannot be read; else the first record is the oldest checkpoint of all.
    Ok(if head.kept_from > 1 { oldest } else { None })
}

impl TopicJournal {
    /// The epoch of this life.
    pub(super) fn epoch(&self) -> u64 {
        self.head.epoch
    }

    /// The batch that begins this life: its epoch.
    pub(super) fn begin(&self) -> Batch {
        let mut batch = Batch::new();
        batch.put(Keyspace::Head, self.prefix.clone(), self.head.to_bytes());
        batch
    }

    /// The batches of a checkpoint, behind that of the turn's end, whatever waits and is held. The head names it in the
    /// last one: after a crash between them the topic is read from the checkpoint before it. Parts that are left over
    /// then are those of a turn that has ended for good, so that no other checkpoint is ever written over them.
    fn checkpoint(&mut self, due: &TopicCheckpoint) -> Result<Vec<Batch>, StoreError> {
        let (next, previous, at) = (self.next, self.head.checkpoint, self.newest);
        let checkpoint = TopicCheckpoint { next, previous, at, ..due.clone() };
        let turn = checkpoint.last_turn;
        let record = CHECKPOINTS.encode(turn.0, UNLINKED, &checkpoint)?;
        self.head.checkpoint = turn;
        let head = Change::Put(Keyspace::Head, self.prefix.clone(), self.head.to_bytes());
        Ok(log::switched_record(Keyspace::Checkpoints, &self.prefix, turn.0, &record, head))
    }

    /// The batch that says from where records are kept.
    pub(super) fn keep_from(&mut self, first: u64) -> Batch {
        self.head.kept_from = self.head.kept_from.max(first);
        self.begin()
    }

    /// Stores what keys stand for: those of messages that a closed turn has taken, or that were dropped.
    fn put_keys(
        &self,
        batch: &mut Batch,
        keys: impl IntoIterator<Item = StoredKey>,
    ) -> Result<(), StoreError> {
        for stored in keys {
            let record = KEYS.encode(0, UNLINKED, &stored)?;
            batch.put(Keyspace::Keys, key_of(&self.prefix, stored.key), record);
        }
        Ok(())
    }

    /// Whether text waits to be saved.
    pub(super) fn has_unsaved(&self) -> bool {
        self.unsaved.is_some()
    }

    /// The batch that saves the text so far.
    ///
    /// # Errors
    /// As for [`stage`](Journal::stage).
    pub(super) fn save(&mut self) -> Result<Vec<Batch>, StoreError> {
        let mut batch = Batch::new();
        self.put_unsaved(&mut batch)?;
        Ok(if batch.changes.is_empty() { Vec::new() } else { vec![batch] })
    }

    fn put_unsaved(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        match self.unsaved.take() {
            Some((at, delta)) => self.put(batch, &TopicEvent::TextAppended { at, delta }),
            None => Ok(()),
        }
    }

    fn put(&mut self, batch: &mut Batch, event: &TopicEvent) -> Result<(), StoreError> {
        let record = JOURNAL.encode(self.next, UNLINKED, event)?;
        log::put_record(batch, Keyspace::Journal, &self.prefix, self.next, &record);
        self.next += 1;
        Ok(())
    }

    /// Keeps text until it is saved with other text, or with the next record.
    fn keep(&mut self, step: StepRef, more: &str) -> Option<TopicEvent> {
        match &mut self.unsaved {
            Some((at, delta)) if *at == step => {
                delta.push_str(more);
                None
            }
            unsaved => unsaved
                .replace((step, more.to_owned()))
                .map(|(at, delta)| TopicEvent::TextAppended { at, delta }),
        }
    }
}

impl Journal<Conversation> for TopicJournal {
    fn stage(&mut self, events: &[TopicEvent], state: &Conversation) -> Result<Vec<Batch>, StoreError> {
        let mut batch = Batch::new();
        let mut checkpoint = Vec::new();
        if events.iter().all(TopicEvent::is_lazy) {
            batch.durability = Durability::Lazy;
        }
        for (event, after) in events.iter().zip(1..) {
            self.newest = self.newest.max(event.at().unwrap_or_default());
            if let TopicEvent::TextAppended { at, delta } = event {
                if let Some(earlier) = self.keep(*at, delta) {
                    self.put(&mut batch, &earlier)?;
                }
                continue;
            }
            if let TopicEvent::StepReplied { at, .. } = event {
                self.unsaved.take_if(|(step, _)| step == at);
            }
            self.put_unsaved(&mut batch)?;
            self.put(&mut batch, event)?;
            if let TopicEvent::TurnFinished { turn, .. } = event {
                self.put_keys(&mut batch, state.state().keys_of(*turn))?;
            }
            if let TopicEvent::MessageDropped { message, .. } = event {
                self.put_keys(&mut batch, state.state().key_of(*message))?;
            }
            if let Some(due) = state.due().filter(|due| due.after == after) {
                checkpoint = self.checkpoint(&due.checkpoint)?;
            }
        }
        if self.head.presence == Present::Removed {
            self.head.presence = Present::Yes;
            batch.put(Keyspace::Head, self.prefix.clone(), self.head.to_bytes());
        }
        let mark = Mark::of(state);
        if mark != self.marked {
            self.marked = mark;
            match mark {
                Mark::Open => batch.put(Keyspace::Open, self.prefix.clone(), self.topic.as_str()),
                Mark::Closed => batch.delete(Keyspace::Open, self.prefix.clone()),
            }
        }
        Ok(Some(batch).filter(|batch| !batch.changes.is_empty()).into_iter().chain(checkpoint).collect())
    }
}

/// Where a client key is stored.
fn key_of(prefix: &[u8], key: Digest) -> Vec<u8> {
    [prefix, &key.0].concat()
}

/// Reads what a client key stands for, if that is stored.
pub(super) async fn stored_key(
    store: &dyn Store,
    topic: &TopicId,
    key: Digest,
) -> Result<Option<StoredKey>, StoreError> {
    let bytes = store.get(Keyspace::Keys, key_of(&log::topic_prefix(topic), key)).await?;
    bytes.map(|bytes| KEYS.decode(&bytes).map(|record| record.payload)).transpose()
}
