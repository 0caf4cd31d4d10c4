//! How the ledger is stored: one linked record for each event, in order.

use pilothouse_adapters::store::log::{self, LEDGER};
use pilothouse_adapters::store::{Batch, Keyspace, Store};
use pilothouse_messages::approval::ApprovalEvent;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::approval::Ledger;

use crate::durable::Journal;

/// Writes the ledger's records.
#[derive(Debug)]
pub(super) struct LedgerJournal {
    next: u64,
    last: Digest,
}

/// The ledger as it was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) events: Vec<ApprovalEvent>,
    pub(super) journal: LedgerJournal,
    pub(super) newest: Timestamp,
}

/// Reads the whole ledger and checks its chain.
pub(super) async fn load(store: &dyn Store) -> Result<Loaded, StoreError> {
    let log = log::read_log::<ApprovalEvent>(store, Keyspace::Ledger, &[], &LEDGER).await?;
    let events: Vec<_> = log.records.into_iter().map(|record| record.payload).collect();
    let newest = events.iter().map(stamp).max().unwrap_or_default();
    Ok(Loaded { events, journal: LedgerJournal { next: log.next_sequence, last: log.last_link }, newest })
}

fn stamp(event: &ApprovalEvent) -> Timestamp {
    match event {
        ApprovalEvent::Opened { at, .. }
        | ApprovalEvent::Decided { at, .. }
        | ApprovalEvent::Expired { at, .. }
        | ApprovalEvent::Withdrawn { at, .. }
        | ApprovalEvent::Paid { at, .. } => *at,
    }
}

/// Events of one command are independent of each other, so that many may be spread over several batches.
const BATCH_EVENTS_MAX: usize = 8;

impl Journal<Ledger> for LedgerJournal {
    fn stage(&mut self, events: &[ApprovalEvent], _state: &Ledger) -> Result<Vec<Batch>, StoreError> {
        events.chunks(BATCH_EVENTS_MAX).map(|events| self.batch(events)).collect()
    }
}

impl LedgerJournal {
    fn batch(&mut self, events: &[ApprovalEvent]) -> Result<Batch, StoreError> {
        let mut batch = Batch::new();
        for event in events {
            let record = LEDGER.encode(self.next, self.last, event)?;
            self.last = LEDGER.link(&record);
            log::put_record(&mut batch, Keyspace::Ledger, &[], self.next, &record);
            self.next += 1;
        }
        Ok(batch)
    }
}
