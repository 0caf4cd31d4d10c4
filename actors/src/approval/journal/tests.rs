use pilothouse_adapters::store::log::GENESIS;
use pilothouse_adapters::store::memory::MemoryStore;

use super::*;

fn jumped(at: u64) -> ApprovalEvent {
    let at = Timestamp(at);
    ApprovalEvent::ClockJumped { from: at, to: at, at }
}

/// A killed process had written the last records and was not done with their mark. What they say is shown from now on,
/// so that their loss is to be noticed.
#[tokio::test]
async fn records_that_a_killed_process_did_not_mark_are_marked_before_they_are_shown() {
    let store = MemoryStore::new();
    let empty = Log { records: Vec::new(), next_sequence: 1, last_link: GENESIS };
    let mut journal = LedgerJournal {
        cards: Tail::of(&empty, Keyspace::Ledger, LEDGER),
        grants: Tail::of(&empty, Keyspace::Grants, GRANTS),
    };
    let mut batches = Vec::new();
    for at in 1..=3 {
        batches.push(journal.batch(&[jumped(at)]).expect("it is a record"));
    }
    let end = batches[2].marks.clone();
    batches[2].marks.clear();
    let lane = store.lane();
    for batch in batches {
        lane.append(batch).await.expect("it is written");
    }

    let loaded = load(&store).await.expect("it reads");
    assert_eq!(loaded.events, [jumped(1), jumped(2), jumped(3)]);
    assert_eq!(end.len(), 1);
    let crashed = store.crash();
    assert_eq!(crashed.mark(Keyspace::Ledger).await, Ok(end.first().copied()));
    assert_eq!(crashed.mark(Keyspace::Grants).await, Ok(None), "there is nothing to mark");
    let mut lost = Batch::new();
    lost.delete(Keyspace::Ledger, [3_u64.to_be_bytes().as_slice(), &[0, 0]].concat());
    crashed.lane().append(lost).await.expect("it is written");
    assert!(matches!(load(&crashed).await, Err(StoreError::Damaged { .. })));
}
