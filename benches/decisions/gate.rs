//! What the gate takes for a call that a grant allows, with every layer, while thousands of grants hold.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pilothouse_actors::gate::{Caller, findings};
use pilothouse_messages::approval::Decision;
use pilothouse_messages::grant::{GrantOffer, GrantReach, GrantScope};
use pilothouse_messages::id::TurnId;
use pilothouse_messages::topic::{PermissionMode, ResolvedTool};
use pilothouse_rules::gate::{Modes, Need, need};

use super::ledger::{BY, Ledger, all, card};
use super::{Plan, median};

/// The target, in microseconds.
const TARGET_US: f64 = 5.0;

pub(crate) async fn run(plan: Plan) {
    let directory = tempfile::tempdir().expect("a directory for the bench");
    let ledger = Arc::new(Ledger::open(directory.path(), plan.most_callers()).await);
    all(&ledger, 0..plan.grants, plan.most_callers(), async |ledger, n| {
        let approval = ledger.open_card(n).await;
        let offer = GrantOffer::new(GrantScope::Always, GrantReach::Tool);
        ledger.decide(approval, Decision::allow(BY).granting(offer)).await;
    })
    .await;
    let held = ledger.wiring.approval.grants.all().len();
    assert_eq!(u64::try_from(held), Ok(plan.grants), "every grant holds");

    let card = card(plan.grants / 2);
    let tool = ResolvedTool {
        name: card.tool,
        source: card.source,
        label: card.label,
        title: None,
        effect: card.effect,
        force_prompt: false,
        interruptible: false,
        fingerprint: card.fingerprint,
        definition: card.definition,
    };
    let caller = Caller { tenant: card.tenant, topic: Some(card.topic), turn: Some(TurnId(7)) };
    let modes = Modes::of(PermissionMode::Default, PermissionMode::Bypass);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let start = Instant::now();
        for _ in 0..plan.asked {
            let found = findings(&ledger.wiring, &caller, black_box(&tool), &card.arguments, modes).await;
            assert!(matches!(need(&tool, &found, modes), Need::Run(_)), "a grant covers it");
        }
        rounds.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(plan.asked));
    }
    let took = median(rounds);
    let word = if took <= TARGET_US { "met" } else { "MISSED" };
    println!("gate of an allowed call, {held} grants: {took:.2} us (target {TARGET_US} us: {word})");
}
