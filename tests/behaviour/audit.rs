//! What an auditor reads: who decided what, and on which basis each call ran.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pilothouse::approval::{
    ApprovalId, CardOwner, DecideAnswer, Decider, GrantOffer, GrantReach, GrantScope,
};
use pilothouse::audit::{
    AuditBasis, AuditFact, AuditFault, AuditGap, AuditLog, AuditReport, AuditRow, GrantEnd, audit_store,
};
use pilothouse::clock::Clock;
use pilothouse::error::{StartError, StoreError};
use pilothouse::id::{CallId, StepId, TenantId, TopicId, TurnId};
use pilothouse::json::JsonText;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::store::{Batch, Keyspace, Store};
use pilothouse::time::Timestamp;
use pilothouse_harness::peer::Peer;
use serde_json::json;

use crate::stage::{Stage, call, calls, holds, memory, peer, plays};

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}))
}

/// Why each call ran, in order.
fn bases(report: &AuditReport) -> Vec<String> {
    let basis = |fact: &AuditFact| match fact {
        AuditFact::Allowed { call, basis, .. } => Some(match basis {
            AuditBasis::Mode { mode } => format!("{call} by mode {mode:?}"),
            AuditBasis::Approved { by, .. } => format!("{call} by {by:?} on a card"),
            AuditBasis::Grant { by, .. } => format!("{call} by a grant of {by:?}"),
            AuditBasis::Classified => format!("{call} by the classifier"),
        }),
        _ => None,
    };
    report.rows.iter().filter_map(|row| basis(&row.fact)).collect()
}

/// Who decided in vain, and why it was in vain.
fn refused(report: &AuditReport) -> Vec<String> {
    let refusal = |fact: &AuditFact| match fact {
        AuditFact::DecisionRefused { by, why, .. } => Some(format!("{by} {why:?}")),
        _ => None,
    };
    report.rows.iter().filter_map(|row| refusal(&row.fact)).collect()
}

async fn audited(stage: &Stage) -> AuditReport {
    stage.runtime.audit().await.expect("the store can be read")
}

#[tokio::test(start_paused = true)]
async fn every_call_says_why_it_was_allowed() {
    let both = [("a", "look", json!({})), ("a", "drop", json!({}))];
    let steps = [calls(both), Step::text("Done."), call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &tools()).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let offer = GrantOffer::new(GrantScope::Topic, GrantReach::Tool);
    let decision = Decision::allow("ann").of(&card).granting(offer);
    assert_eq!(stage.decide(&card, decision).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    stage.say("Once more.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);

    let report = audited(&stage).await;
    let expected =
        ["1.1.0 by mode Default", "1.1.1 by Some(\"ann\") on a card", "2.1.0 by a grant of Some(\"ann\")"];
    assert_eq!((bases(&report), &report.faults[..]), (expected.map(str::to_owned).into(), &[][..]));
    assert_eq!((report.ledger, report.grants, report.topics), (3, 1, 1));
    let theirs = report.clone().of_tenant(&TenantId::default());
    assert_eq!(theirs.rows, report.rows);
    assert_eq!(report.of_tenant(&TenantId::new("other").expect("an id")).rows, []);
}

#[tokio::test(start_paused = true)]
async fn decisions_that_change_nothing_are_recorded_with_who_and_why() {
    let steps = [call("a", "drop", json!({})), Step::text("Done.")];
    let mut stage = plays(steps).peer("a", &tools()).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let altered = pilothouse::approval::Card { arguments: JsonText::from(json!({"x": 1})), ..card.clone() };
    let topic = TopicId::new("t").expect("an id");
    let unknown = ApprovalId::of(&topic, CallId { turn: TurnId(9), step: StepId(1), index: 0 });
    let tenant = TenantId::new("other").expect("an id");
    let no_rule = pilothouse::approval::ArgumentRule::Equals {
        pointer: "no pointer".to_owned(),
        value: JsonText::from(json!(1)),
    };
    let offer = GrantOffer::new(GrantScope::Topic, GrantReach::Tool).when(no_rule);
    stage.decide(&card, Decision::allow("eve").for_tenant(tenant)).await;
    stage.decide(&card, Decision::allow("ann").of(&altered)).await;
    let edit = Decision::allow("ben").with_arguments(JsonText::from(json!([])));
    assert!(stage.runtime.decide(card.approval, edit).await.is_err());
    assert!(stage.runtime.decide(card.approval, Decision::allow("cat").granting(offer)).await.is_err());
    let answer = stage.runtime.decide(unknown, Decision::allow("dan")).await;
    assert_eq!(answer, Ok(DecideAnswer::Unknown));
    assert_eq!(stage.decide(&card, Decision::deny("ann", "no")).await, DecideAnswer::Applied);
    stage.decide(&card, Decision::deny("ann", "no")).await;
    stage.decide(&card, Decision::allow("bob")).await;

    let report = audited(&stage).await;
    let expected = [
        "eve Foreign",
        "ann Changed",
        "ben Unfit",
        "cat Unfit",
        "dan Unknown",
        "ann Repeated",
        "bob Conflict",
    ];
    assert_eq!((refused(&report), &report.faults[..]), (expected.map(str::to_owned).into(), &[][..]));
    assert_eq!(bases(&report), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_late_or_somebody_elses_is_told_so_and_recorded() {
    let policy = |_: &CardOwner, decider: Decider<'_>| decider.by != "eve";
    let drop = || call("a", "drop", json!({}));
    let setup = plays([drop(), drop()])
        .peer("a", &tools())
        .build(|builder| builder.decide_policy(policy))
        .limits(|limits| limits.approval = Duration::from_secs(60));
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    let expired = stage.until_card().await;
    assert_eq!(stage.decide(&expired, Decision::allow("eve").of(&expired)).await, DecideAnswer::Unknown);
    assert_eq!(stage.until_end().await, StopReason::ApprovalExpired);
    stage.say("Again.").await;
    let withdrawn = stage.until_card().await;
    stage.topic.stop("ann").await.expect("the topic is there");
    holds("the card is taken back", || stage.runtime.approvals().is_empty()).await;

    let late = stage.decide(&expired, Decision::allow("ann").of(&expired)).await;
    assert!(matches!(&late, DecideAnswer::Expired(_)), "{late:?}");
    let late = stage.decide(&withdrawn, Decision::deny("bob", "no").of(&withdrawn)).await;
    assert!(matches!(&late, DecideAnswer::Withdrawn(_)), "{late:?}");
    assert_eq!(stage.decide(&withdrawn, Decision::allow("eve")).await, DecideAnswer::Unknown);
    let report = audited(&stage).await;
    let expected = ["eve Foreign", "ann Expired", "bob Withdrawn", "eve Foreign"];
    assert_eq!((refused(&report), &report.faults[..]), (expected.map(str::to_owned).into(), &[][..]));
    assert_eq!(bases(&report), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_and_comes_back_brings_no_grant_and_no_card_back() {
    let hour = 3_600_000;
    let clock = Wanders(Arc::new(AtomicU64::new(100 * hour)));
    let turn = || [call("a", "drop", json!({})), Step::text("Done.")];
    let wanders = clock.clone();
    let steps = turn().into_iter().chain(turn());
    let mut stage = plays(steps).peer("a", &tools()).build(|builder| builder.clock(wanders)).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let offer = GrantOffer::new(GrantScope::Always, GrantReach::Tool).until(Timestamp(150 * hour));
    let allowed = Decision::allow("ann").of(&card).granting(offer);
    assert_eq!(stage.decide(&card, allowed).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);

    // Somebody who decides in vain has the ledger look at its clock.
    clock.0.store(200 * hour, Relaxed);
    stage.decide(&card, Decision::deny("bob", "late")).await;
    clock.0.store(101 * hour, Relaxed);
    assert_eq!(stage.runtime.grants(), [], "it has ended for good");
    stage.say("Again.").await;
    let asked = stage.until_card().await;
    assert_ne!(asked.approval, card.approval);
    assert_eq!(stage.decide(&asked, Decision::allow("ann").of(&asked)).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed, "a card has its patience by any clock");
    let report = audited(&stage).await;
    let ended = |row: &AuditRow| matches!(row.fact, AuditFact::GrantEnded { end: GrantEnd::Expired, .. });
    assert_eq!((report.rows.iter().filter(|row| ended(row)).count(), &report.faults[..]), (1, &[][..]));
}

#[derive(Clone)]
struct Wanders(Arc<AtomicU64>);

impl Clock for Wanders {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Relaxed))
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_is_recorded_and_no_stamp_falls() {
    let hour = 3_600_000;
    let clock = Wanders(Arc::new(AtomicU64::new(100 * hour)));
    let (steps, wanders) = ([call("a", "drop", json!({})), Step::text("Done.")], clock.clone());
    let mut stage = plays(steps).peer("a", &tools()).build(|builder| builder.clock(wanders)).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    clock.0.store(97 * hour, Relaxed);
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    let report = audited(&stage).await;
    let jumps: Vec<_> = report
        .rows
        .iter()
        .filter_map(|row| match row.fact {
            AuditFact::ClockJumped { from, to } => Some((from.0 / hour, to.0 / hour)),
            _ => None,
        })
        .collect();
    assert_eq!((jumps, &report.faults[..]), (vec![(100, 97)], &[][..]));
    assert!(report.rows.iter().all(|row| row.at.0 / hour == 100), "{:?}", report.rows);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_ledger_is_told_as_far_as_it_is_whole_and_no_runtime_starts_on_it() {
    let (steps, store) = ([call("a", "drop", json!({})), Step::text("Done.")], memory());
    let mut stage = plays(steps).peer("a", &tools()).store(store.clone()).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);

    let store = store.crash();
    let key = [2u64.to_be_bytes().as_slice(), &[0, 0]].concat();
    let mut rotten = store.get(Keyspace::Ledger, key.clone()).await.expect("it is read").expect("a record");
    rotten[30] ^= 1;
    let mut batch = Batch::new();
    batch.put(Keyspace::Ledger, key, rotten);
    store.lane().append(batch).await.expect("it is written");

    let report = audit_store(&store).await.expect("the store can be read");
    let damaged = &report.faults[0];
    assert!(
        matches!(damaged, AuditFault::Damaged { log: AuditLog::Ledger, whole: 1, .. }),
        "{:?}",
        report.faults
    );
    let AuditFault::RanUndecided { approval, .. } = &report.faults[1] else { panic!("{:?}", report.faults) };
    assert_eq!((*approval, report.faults.len(), report.ledger), (card.approval, 2, 1));

    let refused = Runtime::builder().store(Arc::new(store.clone())).start().await.map(drop);
    assert!(matches!(refused, Err(StartError::Store(StoreError::Damaged { .. }))), "{refused:?}");
    assert_eq!(audit_store(&store.crash()).await, Ok(report), "and the evidence stays");
}

/// Turns that drop something, the first one with a standing approval for the others.
async fn drops(stage: &mut Stage, turns: usize) {
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let offer = GrantOffer::new(GrantScope::Topic, GrantReach::Tool);
    assert_eq!(stage.decide(&card, Decision::allow("ann").granting(offer)).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    for _ in 1..turns {
        stage.say("Go on.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
}

fn dropping(turns: usize) -> impl Iterator<Item = Step> {
    (0..turns).flat_map(|_| [call("a", "drop", json!({})), Step::text("Done.")])
}

#[tokio::test(start_paused = true)]
async fn what_retention_or_a_removal_took_is_named_and_no_damage() {
    let store = memory();
    let setup = plays(dropping(60)).peer("a", &tools()).store(store.clone());
    let mut stage = setup.limits(|limits| limits.keep_turns = Some(24)).raise().await;
    drops(&mut stage, 60).await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    let report = audited(&stage).await;
    let topic = TopicId::new("t").expect("an id");
    let [AuditGap::Trimmed { tenant, topic: of, through }] = &report.gaps[..] else {
        panic!("{:?}", report.gaps)
    };
    assert_eq!((tenant.as_ref(), of), (Some(&TenantId::default()), &topic));
    let ran: Vec<_> =
        (through.0 + 1..=60).map(|turn| format!("{turn}.1.0 by a grant of Some(\"ann\")")).collect();
    assert!((1..60).contains(&through.0), "{through}");
    assert_eq!((bases(&report), &report.faults[..]), (ran, &[][..]));

    stage.runtime.delete_topic("t").await.expect("it is there");
    let report = audited(&stage).await;
    let removed = AuditGap::Removed { tenant: Some(TenantId::default()), topic };
    assert_eq!((&report.gaps[..], &report.faults[..], report.topics), (&[removed][..], &[][..], 0));
    assert!(report.rows.iter().any(|row| matches!(row.fact, AuditFact::Decided { .. })), "the ledger stays");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_lost_what_the_ledger_says_it_had_is_told() {
    let store = memory();
    let mut stage = plays(dropping(2)).peer("a", &tools()).store(store.clone()).raise().await;
    drops(&mut stage, 2).await;
    assert_eq!(audited(&stage).await.faults, []);
    let store = store.crash();
    let keys = store.scan(Keyspace::Journal, Vec::new(), None, usize::MAX).await.expect("it reads");
    // All records up to the one that has the decision may be lost from the end, or all of the topic.
    let word = keys.iter().position(|(_, value)| value.windows(3).any(|bytes| bytes == b"ann"));
    let word = word.expect("the decision is recorded");
    let spoilt = async |from: usize, head: bool| {
        let (lost, mut batch) = (store.crash(), Batch::new());
        for (key, _) in &keys[from..] {
            batch.delete(Keyspace::Journal, key.clone());
        }
        if head {
            let (key, _) = lost.scan(Keyspace::Head, Vec::new(), None, 1).await.expect("it reads").remove(0);
            batch.delete(Keyspace::Head, key);
        }
        lost.lane().append(batch).await.expect("it is written");
        audit_store(&lost).await.expect("it reads").faults
    };
    let topic = TopicId::new("t").expect("an id");
    let call = CallId { turn: TurnId(1), step: StepId(1), index: 0 };
    let lost = AuditFault::WordLost { approval: ApprovalId::of(&topic, call), topic, call };
    assert_eq!(spoilt(word, false).await.last(), Some(&lost));
    assert_eq!(spoilt(0, true).await, [lost]);
}
