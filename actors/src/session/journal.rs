//! How a topic is stored: its events in order, its epoch, and a mark while a start has to look at it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::store::log::{self, JOURNAL};
use pilothouse_adapters::store::{Batch, Durability, Keyspace, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{StepRef, TopicId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::TopicEvent;
use pilothouse_rules::Decider;

use super::Conversation;
use crate::durable::Journal;

/// Records of a journal are not linked.
const UNLINKED: Digest = Digest([0; 32]);

/// Writes one topic's records.
#[derive(Debug)]
pub(super) struct TopicJournal {
    topic: TopicId,
    prefix: Vec<u8>,
    next: u64,
    epoch: u64,
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

/// Reads a topic's records.
pub(super) async fn load(
    store: &dyn Store,
    topic: TopicId,
    limits: Arc<Limits>,
) -> Result<Loaded, StoreError> {
    let prefix = log::topic_prefix(&topic);
    let epoch = match store.get(Keyspace::Head, prefix.clone()).await? {
        Some(bytes) => epoch_of(&bytes)?,
        None => 0,
    };
    let log = log::read_log::<TopicEvent>(store, Keyspace::Journal, &prefix, &JOURNAL).await?;
    let mut conversation = Conversation::new(topic.clone(), limits);
    let mut newest = Timestamp::default();
    for record in &log.records {
        conversation.apply(&record.payload);
        newest = newest.max(stamp(&record.payload));
    }
    let marked = Mark::of(&conversation);
    let journal =
        TopicJournal { topic, prefix, next: log.next_sequence, epoch: epoch + 1, marked, unsaved: None };
    Ok(Loaded { conversation, journal, newest })
}

fn epoch_of(bytes: &[u8]) -> Result<u64, StoreError> {
    let bytes: [u8; 8] = bytes.try_into().map_err(|_length| StoreError::Damaged {
        reason: "the epoch of a topic is not 8 bytes long".to_owned(),
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The stamp of an event, where it has one.
fn stamp(event: &TopicEvent) -> Timestamp {
    match event {
        TopicEvent::Configured { at, .. }
        | TopicEvent::MessageAccepted { at, .. }
        | TopicEvent::TurnStarted { at, .. }
        | TopicEvent::TurnFinished { at, .. }
        | TopicEvent::Recovered { at, .. }
        | TopicEvent::MessageDropped { at, .. }
        | TopicEvent::MessageResent { at, .. }
        | TopicEvent::TurnResumed { at, .. } => *at,
        TopicEvent::StepStarted { .. }
        | TopicEvent::TextAppended { .. }
        | TopicEvent::StepReplied { .. }
        | TopicEvent::CallStarted { .. }
        | TopicEvent::CallSent { .. }
        | TopicEvent::CallFinished { .. }
        | TopicEvent::CallDecided { .. }
        | TopicEvent::CallExpired { .. }
        | TopicEvent::StepFinished { .. }
        | TopicEvent::MessagesHeld { .. }
        | TopicEvent::CardOpened { .. }
        | TopicEvent::HeadlessSet { .. }
        | TopicEvent::ToolTermsSet { .. }
        | TopicEvent::CallEdited { .. }
        | TopicEvent::CallReceipted { .. }
        | TopicEvent::MessageEdited { .. }
        | TopicEvent::QueueReordered { .. }
        | TopicEvent::LevelSet { .. }
        | TopicEvent::MessagesInjected { .. }
        | TopicEvent::TurnContinued { .. }
        | TopicEvent::TurnTermsSet { .. } => Timestamp::default(),
    }
}

impl TopicJournal {
    /// The epoch of this life.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch that begins this life: its epoch.
    pub(super) fn begin(&self) -> Batch {
        let mut batch = Batch::new();
        batch.put(Keyspace::Head, self.prefix.clone(), self.epoch.to_be_bytes());
        batch
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
        if events.iter().all(TopicEvent::is_lazy) {
            batch.durability = Durability::Lazy;
        }
        for event in events {
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
        }
        let mark = Mark::of(state);
        if mark != self.marked {
            self.marked = mark;
            match mark {
                Mark::Open => batch.put(Keyspace::Open, self.prefix.clone(), self.topic.as_str()),
                Mark::Closed => batch.delete(Keyspace::Open, self.prefix.clone()),
            }
        }
        Ok(if batch.changes.is_empty() { Vec::new() } else { vec![batch] })
    }
}
