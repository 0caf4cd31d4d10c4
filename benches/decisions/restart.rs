//! How long it takes from opening the store until the open cards can be read, over a long past.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_adapters::store::pages::each_pair;
use pilothouse_adapters::store::sled::SledStore;
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_messages::approval::{ApprovalCommand, Decision};
use pilothouse_messages::topic::command::Payment;

use super::Plan;
use super::ledger::{BY, Ledger, all, card};

const TARGET: Duration = Duration::from_secs(1);

pub(crate) async fn run(plan: Plan) {
    let directory = tempfile::tempdir().expect("a directory for the bench");
    let ledger = Arc::new(Ledger::open(directory.path(), plan.most_callers()).await);
    all(&ledger, 0..plan.settled, plan.most_callers(), async |ledger, n| {
        let approval = ledger.open_card(n).await;
        ledger.decide(approval, Decision::allow(BY)).await;
        let (topic, payment) = (card(n).topic, Payment::Paid);
        ledger.ask(ApprovalCommand::Pay { topic, approval, payment }).await;
    })
    .await;
    let open = plan.settled..plan.settled + plan.open;
    all(&ledger, open, plan.most_callers(), async |ledger, n| ledger.open_card(n).await).await;
    Arc::into_inner(ledger).expect("nobody else holds it").close().await;

    let start = Instant::now();
    let store = SledStore::open(directory.path()).await.expect("the store opens");
    let opened = start.elapsed();
    let (mut records, mut bytes) = (0, 0);
    let counted = each_pair(&store, Keyspace::Ledger, &[], |(_, value)| {
        (records, bytes) = (records + 1, bytes + value.len());
        Ok(())
    });
    counted.await.expect("it can be read");
    let bare = start.elapsed();
    store.close().await.expect("the store closes");
    drop(store);

    let start = Instant::now();
    let ledger = Ledger::open(directory.path(), 1).await;
    // The first answer comes once the ledger is read and its open cards can be seen.
    ledger.ask(ApprovalCommand::Find { approval: card(0).approval }).await;
    let took = start.elapsed();
    let cards = ledger.wiring.approval.open.cards().len();
    assert_eq!(u64::try_from(cards), Ok(plan.open), "every open card is there");
    ledger.close().await;
    let word = if took <= TARGET { "met" } else { "MISSED" };
    println!(
        "restart with {} settled and {} open cards ({records} records, {} KiB): {took:.0?} (target {TARGET:?}: {word})",
        plan.settled,
        plan.open,
        bytes >> 10,
    );
    println!("  of that, opening sled takes {opened:.0?}; opening it and reading the bytes alone {bare:.0?}");
}
