//! Whatever is wrong with one pair of a store, or with the end of a log: the audit says so, or says the same.

use pilothouse::approval::{DecideAnswer, GrantOffer, GrantReach, GrantScope};
use pilothouse::audit::{AuditReport, audit_store};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Batch, Keyspace, Pair, Store};
use serde_json::json;

use crate::stage::{call, memory, peer, plays};

/// Enough for a checkpoint.
const TURNS: usize = 9;
/// Of the bytes of a value each so many is flipped, and the last one.
const STRIDE: usize = 29;

/// A topic that was told in each turn what a person says.
async fn kept() -> MemoryStore {
    let peer = peer(json!({"tools": [{"name": "drop", "reply": "dropped"}]}));
    let steps = (0..TURNS).flat_map(|_| [call("a", "drop", json!({})), Step::text("Done.")]);
    let store = memory();
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    for _ in 0..TURNS {
        stage.say("Go.").await;
        let card = stage.until_card().await;
        let offer = GrantOffer::new(GrantScope::Turn, GrantReach::Tool);
        assert_eq!(stage.decide(&card, Decision::allow("ann").granting(offer)).await, DecideAnswer::Applied);
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
    let left = store.crash_keeping_lazy();
    stage.runtime.shutdown().await;
    left
}

async fn audited(store: &MemoryStore) -> AuditReport {
    audit_store(store).await.expect("it reads")
}

async fn pairs(store: &MemoryStore, keyspace: Keyspace) -> Vec<Pair> {
    store.scan(keyspace, Vec::new(), None, usize::MAX).await.expect("it reads")
}

/// What may have become of a value.
fn spoilt(value: &[u8]) -> Vec<Vec<u8>> {
    let places = (0..value.len()).step_by(STRIDE).chain(value.len().checked_sub(1));
    let flipped = places.map(|at| {
        let mut value = value.to_vec();
        value[at] ^= 1;
        value
    });
    flipped.chain([vec![0; value.len()], value[..value.len() / 2].to_vec()]).collect()
}

#[tokio::test(start_paused = true)]
async fn one_spoilt_value_or_a_lost_end_is_told_or_changes_nothing() {
    let store = kept().await;
    let truth = audited(&store).await;
    assert_eq!(truth.faults, []);
    let check = async |batch: Batch, what: &str| {
        let spoilt = store.crash_keeping_lazy();
        spoilt.lane().append(batch).await.expect("it is written");
        let report = audited(&spoilt).await;
        let told = !report.faults.is_empty();
        assert!(told || report == truth, "{what}: another history, and not a word of it");
        told
    };
    let logs = [Keyspace::Ledger, Keyspace::Grants, Keyspace::Journal];
    let (mut told, mut same) = (0, 0);
    for keyspace in logs.into_iter().chain([Keyspace::Head, Keyspace::Checkpoints, Keyspace::Open]) {
        let pairs = pairs(&store, keyspace).await;
        assert!(!pairs.is_empty() || keyspace == Keyspace::Open, "{keyspace:?}");
        for (at, (key, value)) in pairs.iter().enumerate() {
            let mut batches: Vec<Batch> = Vec::new();
            for value in spoilt(value) {
                let mut batch = Batch::new();
                batch.put(keyspace, key.clone(), value);
                batches.push(batch);
            }
            let ends = if logs.contains(&keyspace) { &[at + 1, pairs.len()][..] } else { &[at + 1][..] };
            for end in ends {
                let mut batch = Batch::new();
                pairs[at..*end].iter().for_each(|(key, _)| batch.delete(keyspace, key.clone()));
                batches.push(batch);
            }
            for batch in batches {
                let what = format!("{keyspace:?} {at}: {batch:?}");
                if check(batch, &what).await { told += 1 } else { same += 1 }
            }
        }
    }
    println!("{told} damages told, {same} without effect");
    assert!(told > same, "{told} told, {same} without effect");
}
