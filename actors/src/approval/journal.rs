//! How the ledger is stored: one linked record for each event, in order; cards and grants in a log each.
//!
//! Each batch marks how far the logs have come with it, so that an end that a disk has lost is noticed.

use pilothouse_adapters::store::log::{self, GRANTS, LEDGER, Log};
use pilothouse_adapters::store::{Batch, Keyspace, Mark, Store};
use pilothouse_messages::approval::ApprovalEvent;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::record::Format;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::approval::Ledger;

use crate::durable::Journal;

/// Writes the ledger's records.
#[derive(Debug)]
pub(super) struct LedgerJournal {
    cards: Tail,
    grants: Tail,
}

/// Where one log ends.
#[derive(Debug)]
struct Tail {
    keyspace: Keyspace,
    format: Format,
    next: u64,
    last: Digest,
}

/// The ledger as it was read.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Of cards and of grants; neither changes what the other does.
    pub(super) events: Vec<ApprovalEvent>,
    pub(super) journal: LedgerJournal,
    pub(super) newest: Timestamp,
}

/// Reads the whole ledger, checks its chains, and that they reach their marks. Records behind a mark, which a killed
/// process had written and not marked, are marked before anybody sees what they say.
pub(super) async fn load(store: &dyn Store) -> Result<Loaded, StoreError> {
    let cards = log::read_marked_log::<ApprovalEvent>(store, Keyspace::Ledger, &LEDGER).await?;
    let grants = log::read_marked_log::<ApprovalEvent>(store, Keyspace::Grants, &GRANTS).await?;
    let journal = LedgerJournal {
        cards: Tail::of(&cards, Keyspace::Ledger, LEDGER),
        grants: Tail::of(&grants, Keyspace::Grants, GRANTS),
    };
    journal.mark_ends(store).await?;
    let records = grants.records.into_iter().chain(cards.records);
    let events: Vec<_> = records.map(|record| record.payload).collect();
    let newest = events.iter().map(ApprovalEvent::at).max().unwrap_or_default();
    Ok(Loaded { events, journal, newest })
}

/// Events of one command are independent of each other, so that many may be spread over several batches; a decision
/// and its grant come first, and are in one.
const BATCH_EVENTS_MAX: usize = 8;

impl Journal<Ledger> for LedgerJournal {
    fn stage(&mut self, events: &[ApprovalEvent], _state: &Ledger) -> Result<Vec<Batch>, StoreError> {
        events.chunks(BATCH_EVENTS_MAX).map(|events| self.batch(events)).collect()
    }
}

impl LedgerJournal {
    /// Marks the ends of the logs where they are further than their marks.
    async fn mark_ends(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        for tail in [&self.cards, &self.grants] {
            let Some(end) = tail.mark() else { continue };
            if store.mark(tail.keyspace).await? != Some(end) {
                batch.marks.push(end);
            }
        }
        if batch.marks.is_empty() { Ok(()) } else { store.lane().append(batch).await }
    }

    fn batch(&mut self, events: &[ApprovalEvent]) -> Result<Batch, StoreError> {
        let mut batch = Batch::new();
        for event in events {
            let tail = if event.is_about_grants() { &mut self.grants } else { &mut self.cards };
            tail.put(&mut batch, event)?;
        }
        Ok(batch)
    }
}

impl Tail {
    fn of(log: &Log<ApprovalEvent>, keyspace: Keyspace, format: Format) -> Self {
        Self { keyspace, format, next: log.next_sequence, last: log.last_link }
    }

    fn put(&mut self, batch: &mut Batch, event: &ApprovalEvent) -> Result<(), StoreError> {
        let (keyspace, sequence) = (self.keyspace, self.next);
        let record = self.format.encode(sequence, self.last, event)?;
        self.last = self.format.link(&record);
        self.next += 1;
        log::put_record(batch, keyspace, &[], sequence, &record);
        batch.marks.retain(|mark| mark.keyspace != keyspace);
        batch.marks.extend(self.mark());
        Ok(())
    }

    /// Its last record; `None` if it has none.
    fn mark(&self) -> Option<Mark> {
        let sequence = self.next.checked_sub(1).filter(|sequence| *sequence > 0)?;
        Some(Mark { keyspace: self.keyspace, sequence, link: self.last })
    }
}

#[cfg(test)]
mod tests;
