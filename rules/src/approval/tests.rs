use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalDirective, ApprovalEvent, ApprovalRejection, Card, CardState,
    DecideAnswer, Decision as Said, RefusedDecision, Settlement, Verdict,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, CallId, StepId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::command::{CardNews, Payment};
use proptest::prelude::*;
use serde_json::json;

use super::{Ledger, Outcome};
use crate::{Decider, Decision};

mod faces;
mod protocol;
mod questions;
mod refused;

/// When every card of these tests expires, unless a test says otherwise.
const EXPIRY: Timestamp = Timestamp(100);

fn topic(name: &str) -> TopicId {
    TopicId::new(name).unwrap()
}

fn call(index: u32) -> CallId {
    CallId { turn: TurnId(1), step: StepId(1), index }
}

fn id(name: &str, index: u32) -> ApprovalId {
    ApprovalId::of(&topic(name), call(index))
}

fn card(name: &str, index: u32) -> Card {
    Card {
        approval: id(name, index),
        tenant: TenantId::default(),
        topic: topic(name),
        call: call(index),
        tool: "write".to_owned(),
        source: ToolSource::Builtin { name: "write".to_owned() },
        label: "files".to_owned(),
        title: None,
        effect: Effect::Edits,
        arguments: JsonText::from(json!({"index": index})),
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
        reason: "it edits".to_owned(),
        expires_at: EXPIRY,
    }
}

fn open(name: &str, index: u32) -> ApprovalCommand {
    ApprovalCommand::Open(Box::new(card(name, index)))
}

fn decide(name: &str, index: u32, decision: Said) -> ApprovalCommand {
    ApprovalCommand::Decide { approval: id(name, index), decision: Box::new(decision), present: vec![] }
}

fn allow(name: &str, index: u32) -> ApprovalCommand {
    decide(name, index, Said::allow("ann"))
}

fn deny(name: &str, index: u32) -> ApprovalCommand {
    decide(name, index, Said::deny("bob", "too risky"))
}

fn withdraw(name: &str, approvals: &[ApprovalId]) -> ApprovalCommand {
    let approvals = approvals.to_vec();
    ApprovalCommand::Withdraw { topic: topic(name), approvals, reason: "stopped".to_owned() }
}

fn pay(name: &str, approval: ApprovalId) -> ApprovalCommand {
    ApprovalCommand::Pay { topic: topic(name), approval, payment: Payment::Paid }
}

fn allowed() -> CardNews {
    CardNews::Decided { verdict: Verdict::Allow, by: "ann".to_owned(), reason: None, arguments: None }
}

fn tell(name: &str, index: u32, news: CardNews) -> ApprovalDirective {
    ApprovalDirective::TellTopic { topic: topic(name), approval: id(name, index), news }
}

fn expired(name: &str, index: u32, at: u64) -> ApprovalEvent {
    ApprovalEvent::Expired { approval: id(name, index), at: Timestamp(at) }
}

fn last_word(state: CardState, by: Option<&str>, at: u64) -> Settlement {
    Settlement { state, by: by.map(str::to_owned), at: Timestamp(at) }
}

/// A decision of somebody at a time that changed nothing, and is recorded.
fn refused(
    (by, at, why): (&str, u64, RefusedDecision),
    answer: DecideAnswer,
) -> Result<Outcome, ApprovalRejection> {
    let (approval, by, at) = (id("t", 0), by.to_owned(), Timestamp(at));
    let events = vec![ApprovalEvent::DecisionRefused { approval, by, why, at }];
    Ok(Decision { events, ..Decision::answer(ApprovalAnswer::Decide(answer)) })
}

fn noted(events: Vec<ApprovalEvent>) -> Result<Outcome, ApprovalRejection> {
    Ok(Decision { events, ..Decision::answer(ApprovalAnswer::Noted) })
}

fn two_cards_a_topic() -> Arc<Limits> {
    let mut limits = Limits::default();
    limits.cards_per_topic = 2;
    Arc::new(limits)
}

/// The ledger after these commands; the n-th is decided at n ms, counted from 1.
fn ledger_after(history: &[ApprovalCommand]) -> Ledger {
    let mut ledger = Ledger::new(two_cards_a_topic());
    for (command, now) in history.iter().zip(1..) {
        let decision = ledger.decide(Timestamp(now), command).unwrap();
        decision.events.iter().for_each(|event| ledger.apply(event));
    }
    ledger
}

#[track_caller]
fn check(
    history: &[ApprovalCommand],
    now: u64,
    command: ApprovalCommand,
    expected: Result<Outcome, ApprovalRejection>,
) {
    assert_eq!(ledger_after(history).decide(Timestamp(now), &command), expected, "{history:?}");
}

#[test]
fn a_card_is_opened_once_under_its_own_name_and_within_the_bound() {
    let opened = Ok(Decision::answer(ApprovalAnswer::Opened));
    let event = ApprovalEvent::Opened { card: card("t", 0), at: Timestamp(50) };
    let new = Ok(Decision { events: vec![event], ..Decision::answer(ApprovalAnswer::Opened) });
    let foreign = ApprovalCommand::Open(Box::new(Card { approval: id("other", 0), ..card("t", 0) }));
    let full = ApprovalRejection::TooManyCards { open: 2, limit: 2 };
    for (history, command, expected) in [
        (vec![], open("t", 0), new.clone()),
        (vec![open("t", 0)], open("t", 0), opened.clone()),
        (vec![open("t", 0), open("t", 1)], open("t", 1), opened),
        (vec![open("t", 0), open("t", 1)], open("t", 2), Err(full)),
        (vec![open("other", 0), open("other", 1)], open("t", 0), new.clone()),
        (vec![open("t", 1), open("t", 2), allow("t", 1)], open("t", 0), new),
        (vec![], foreign, Err(ApprovalRejection::ForeignName)),
    ] {
        check(&history, 50, command, expected);
    }
}

#[test]
fn a_settled_card_that_is_opened_again_tells_its_last_word_and_what_is_still_owed() {
    let approved = ApprovalAnswer::Settled(last_word(CardState::Approved, Some("ann"), 2));
    let withdrawn = ApprovalAnswer::Settled(last_word(CardState::Withdrawn, None, 2));
    let told = vec![tell("t", 0, allowed())];
    for (history, expected) in [
        (
            vec![open("t", 0), allow("t", 0)],
            Decision { directives: told, ..Decision::answer(approved.clone()) },
        ),
        (vec![open("t", 0), allow("t", 0), pay("t", id("t", 0))], Decision::answer(approved)),
        (vec![open("t", 0), withdraw("t", &[id("t", 0)])], Decision::answer(withdrawn)),
    ] {
        check(&history, 50, open("t", 0), Ok(expected));
    }
}

#[test]
fn the_first_decision_is_the_last_word() {
    use RefusedDecision::{Conflict, Expired, Repeated, Unknown, Withdrawn};
    let said_late = |at| ApprovalEvent::DecisionRefused {
        approval: id("t", 0),
        by: "ann".to_owned(),
        why: Expired,
        at: Timestamp(at),
    };
    let yes = last_word(CardState::Approved, Some("ann"), 2);
    let no = last_word(CardState::Denied, Some("bob"), 2);
    let gone = last_word(CardState::Withdrawn, None, 2);
    let late = last_word(CardState::Expired, None, 200);
    let decided = Decision {
        answer: ApprovalAnswer::Decide(DecideAnswer::Applied),
        events: vec![ApprovalEvent::Decided {
            approval: id("t", 0),
            verdict: Verdict::Deny,
            by: "bob".to_owned(),
            reason: Some("too risky".to_owned()),
            digest: card("t", 0).digest(),
            at: Timestamp(50),
        }],
        directives: vec![tell(
            "t",
            0,
            CardNews::Decided {
                verdict: Verdict::Deny,
                by: "bob".to_owned(),
                reason: Some("too risky".to_owned()),
                arguments: None,
            },
        )],
    };
    let too_late = Decision {
        answer: ApprovalAnswer::Decide(DecideAnswer::Expired(late)),
        events: vec![expired("t", 0, 200), said_late(200)],
        directives: vec![tell("t", 0, CardNews::Expired)],
    };
    let at_once = Decision {
        answer: ApprovalAnswer::Decide(DecideAnswer::Expired(last_word(CardState::Expired, None, EXPIRY.0))),
        events: vec![expired("t", 0, EXPIRY.0), said_late(EXPIRY.0)],
        directives: vec![tell("t", 0, CardNews::Expired)],
    };
    for (history, now, command, expected) in [
        (vec![], 50, allow("t", 0), refused(("ann", 50, Unknown), DecideAnswer::Unknown)),
        (vec![open("t", 0)], 50, deny("t", 0), Ok(decided)),
        (
            vec![open("t", 0), allow("t", 0)],
            50,
            allow("t", 0),
            refused(("ann", 50, Repeated), DecideAnswer::Already(yes.clone())),
        ),
        (
            vec![open("t", 0), allow("t", 0)],
            50,
            deny("t", 0),
            refused(("bob", 50, Conflict), DecideAnswer::Conflict(yes.clone())),
        ),
        (
            vec![open("t", 0), allow("t", 0)],
            200,
            allow("t", 0),
            refused(("ann", 200, Repeated), DecideAnswer::Already(yes)),
        ),
        (
            vec![open("t", 0), deny("t", 0)],
            50,
            deny("t", 0),
            refused(("bob", 50, Repeated), DecideAnswer::Already(no.clone())),
        ),
        (
            vec![open("t", 0), deny("t", 0)],
            50,
            allow("t", 0),
            refused(("ann", 50, Conflict), DecideAnswer::Conflict(no)),
        ),
        (
            vec![open("t", 0), withdraw("t", &[id("t", 0)])],
            50,
            allow("t", 0),
            refused(("ann", 50, Withdrawn), DecideAnswer::Withdrawn(gone)),
        ),
        (vec![open("t", 0)], 200, allow("t", 0), Ok(too_late)),
        (vec![open("t", 0)], EXPIRY.0, allow("t", 0), Ok(at_once)),
    ] {
        check(&history, now, command, expected);
    }
}

#[test]
fn a_decision_about_another_card_than_the_one_that_was_shown_is_refused() {
    let altered = Card { arguments: JsonText::from(json!({"index": 9})), ..card("t", 0) };
    let changed = DecideAnswer::Changed { digest: card("t", 0).digest() };
    check(
        &[open("t", 0)],
        50,
        decide("t", 0, Said::allow("ann").of(&altered)),
        refused(("ann", 50, RefusedDecision::Changed), changed),
    );
    let named = decide("t", 0, Said::allow("ann").of(&card("t", 0)));
    let answer = ledger_after(&[open("t", 0)]).decide(Timestamp(50), &named).unwrap().answer;
    assert_eq!(answer, ApprovalAnswer::Decide(DecideAnswer::Applied));
}

#[test]
fn what_people_say_is_kept_within_bounds() {
    let long = "é".repeat(10 << 10);
    let (by, reason) = ("é".repeat(128), "é".repeat(4 << 10));
    let event = ApprovalEvent::Decided {
        approval: id("t", 0),
        verdict: Verdict::Deny,
        by: by.clone(),
        reason: Some(reason.clone()),
        digest: card("t", 0).digest(),
        at: Timestamp(5),
    };
    let told =
        tell("t", 0, CardNews::Decided { verdict: Verdict::Deny, by, reason: Some(reason), arguments: None });
    let outcome = Decision {
        events: vec![event],
        directives: vec![told],
        ..Decision::answer(ApprovalAnswer::Decide(DecideAnswer::Applied))
    };
    check(&[open("t", 0)], 5, decide("t", 0, Said::deny(long.clone(), long)), Ok(outcome));
}

#[test]
fn a_topic_withdraws_its_own_waiting_cards_only() {
    let withdrawn = |index| ApprovalEvent::Withdrawn {
        approval: id("t", index),
        reason: "stopped".to_owned(),
        at: Timestamp(50),
    };
    let cards = [id("t", 0), id("t", 1)];
    let mut both = vec![withdrawn(0), withdrawn(1)];
    both.sort_by_key(|event| match event {
        ApprovalEvent::Withdrawn { approval, .. } => *approval,
        ApprovalEvent::Opened { .. }
        | ApprovalEvent::Decided { .. }
        | ApprovalEvent::Expired { .. }
        | ApprovalEvent::Paid { .. }
        | ApprovalEvent::DecidedWith { .. }
        | ApprovalEvent::ForeignDecider { .. }
        | ApprovalEvent::DecisionRefused { .. }
        | ApprovalEvent::ClockJumped { .. }
        | ApprovalEvent::Asked { .. }
        | ApprovalEvent::Answered { .. }
        | ApprovalEvent::QuestionOver { .. }
        | ApprovalEvent::Granted { .. }
        | ApprovalEvent::GrantEnded { .. }
        | ApprovalEvent::OpenedShowing { .. } => unreachable!(),
    });
    for (history, command, events) in [
        (vec![open("t", 0), open("t", 1)], withdraw("t", &cards), both),
        (vec![open("t", 0)], withdraw("t", &[cards[0], cards[0]]), vec![withdrawn(0)]),
        (vec![open("t", 0), open("t", 1)], withdraw("t", &cards[..1]), vec![withdrawn(0)]),
        (vec![open("t", 0), allow("t", 0), open("t", 1)], withdraw("t", &cards), vec![withdrawn(1)]),
        (vec![open("t", 0)], withdraw("other", &cards), vec![]),
        (vec![], withdraw("t", &cards), vec![]),
    ] {
        check(&history, 50, command, noted(events));
    }
}

#[test]
fn a_debt_is_paid_once_and_by_its_own_topic() {
    let paid = ApprovalEvent::Paid { approval: id("t", 0), payment: Payment::Paid, at: Timestamp(50) };
    let owed = [open("t", 0), allow("t", 0)];
    let settled = [open("t", 0), allow("t", 0), pay("t", id("t", 0))];
    for (history, command, events) in [
        (&owed[..], pay("t", id("t", 0)), vec![paid]),
        (&owed[..], pay("other", id("t", 0)), vec![]),
        (&settled[..], pay("t", id("t", 0)), vec![]),
        (&owed[..1], pay("t", id("t", 0)), vec![]),
    ] {
        check(history, 50, command, noted(events));
    }
    assert!(!ledger_after(&owed).debts.is_empty());
    assert!(ledger_after(&settled).debts.is_empty());
    assert!(ledger_after(&[open("t", 0), withdraw("t", &[id("t", 0)])]).debts.is_empty());
}

#[test]
fn a_tick_ends_the_cards_whose_time_has_come_and_tells_again_what_is_owed() {
    let later = Card { expires_at: Timestamp(300), ..card("other", 1) };
    let history = [open("t", 0), ApprovalCommand::Open(Box::new(later)), open("other", 0), allow("other", 0)];
    let owed = tell("other", 0, allowed());
    let news = vec![owed.clone(), tell("t", 0, CardNews::Expired)];
    for (now, events, directives) in [(99, vec![], vec![owed]), (100, vec![expired("t", 0, 100)], news)] {
        let expected = Decision { answer: ApprovalAnswer::Noted, events, directives };
        check(&history, now, ApprovalCommand::Tick, Ok(expected));
    }
}

#[test]
fn the_ledger_shows_waiting_cards_in_order_and_last_words_afterwards() {
    let early = Card { expires_at: Timestamp(60), ..card("b", 1) };
    let history = [
        open("b", 0),
        open("a", 1),
        ApprovalCommand::Open(Box::new(early.clone())),
        open("a", 0),
        allow("a", 0),
    ];
    let ledger = ledger_after(&history);
    assert_eq!(ledger.open_cards(), [card("a", 1), card("b", 0), early.clone()].map(Arc::new));
    assert_eq!(ledger.next_deadline(), Some(Timestamp(60)));
    assert_eq!(ledger.card(early.approval), Some(&Arc::new(early.clone())));
    assert_eq!(ledger.card(id("a", 0)), None);
    let approved = last_word(CardState::Approved, Some("ann"), 5);
    assert_eq!(ledger.settled.get(&id("a", 0)).map(|settled| &settled.settlement), Some(&approved));
    assert_eq!(ledger.settled.get(&id("a", 1)), None);
    assert_eq!(Ledger::new(two_cards_a_topic()).next_deadline(), None);
}

/// Any command about three topics of three calls each; names that do not belong together are among them.
fn any_command() -> impl Strategy<Value = ApprovalCommand> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let card = || (name(), 0..3u32);
    let verdict = (any::<bool>(), 0..8u8).prop_map(|(yes, looked_away)| {
        let said = if yes { Said::allow("ann") } else { Said::deny("bob", "no") };
        let digest = (looked_away == 0).then_some(Digest([7; 32]));
        Said { digest, ..said }
    });
    prop_oneof![
        (card(), 0..60u64).prop_map(|((name, index), expires)| {
            let card = Card { expires_at: Timestamp(expires), ..self::card(name, index) };
            ApprovalCommand::Open(Box::new(card))
        }),
        (card(), verdict).prop_map(|((name, index), said)| decide(name, index, said)),
        (name(), prop::collection::vec(card(), 0..4)).prop_map(|(name, cards)| {
            let approvals: Vec<_> = cards.into_iter().map(|(name, index)| id(name, index)).collect();
            withdraw(name, &approvals)
        }),
        (name(), card()).prop_map(|(payer, (name, index))| pay(payer, id(name, index))),
        Just(ApprovalCommand::Tick),
    ]
}

/// What the log alone says: who has a last word, and who is owed what.
#[derive(Default)]
struct Told {
    settled: BTreeSet<ApprovalId>,
    owed: BTreeMap<ApprovalId, CardNews>,
}

impl Told {
    fn read(&mut self, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Opened { .. }
            | ApprovalEvent::ForeignDecider { .. }
            | ApprovalEvent::DecisionRefused { .. }
            | ApprovalEvent::ClockJumped { .. }
            | ApprovalEvent::Asked { .. }
            | ApprovalEvent::Answered { .. }
            | ApprovalEvent::QuestionOver { .. }
            | ApprovalEvent::Granted { .. }
            | ApprovalEvent::GrantEnded { .. }
            | ApprovalEvent::OpenedShowing { .. } => {}
            ApprovalEvent::Decided { approval, verdict, by, reason, .. }
            | ApprovalEvent::DecidedWith { approval, verdict, by, reason, .. } => {
                self.last_word(*approval);
                let news = CardNews::Decided {
                    verdict: *verdict,
                    by: by.clone(),
                    reason: reason.clone(),
                    arguments: None,
                };
                self.owed.insert(*approval, news);
            }
            ApprovalEvent::Expired { approval, .. } => {
                self.last_word(*approval);
                self.owed.insert(*approval, CardNews::Expired);
            }
            ApprovalEvent::Withdrawn { approval, .. } => self.last_word(*approval),
            ApprovalEvent::Paid { approval, .. } => {
                assert!(self.owed.remove(approval).is_some(), "paid twice");
            }
        }
    }

    fn last_word(&mut self, approval: ApprovalId) {
        assert!(self.settled.insert(approval), "two last words");
    }
}

proptest! {
    #[test]
    fn a_replayed_log_is_the_live_ledger_with_one_last_word_a_card_and_no_debt_lost(
        script in prop::collection::vec((0..4u64, any_command()), 0..60),
    ) {
        let mut live = Ledger::new(two_cards_a_topic());
        let (mut log, mut told, mut now) = (Vec::new(), Told::default(), Timestamp(0));
        for (wait, command) in script {
            now = now.after(Duration::from_millis(wait));
            let Ok(decision) = live.decide(now, &command) else { continue };
            for event in &decision.events {
                live.apply(event);
                told.read(event);
            }
            log.extend(decision.events);

            let owed: BTreeMap<_, _> = live
                .resume()
                .into_iter()
                .filter_map(|directive| match directive {
                    ApprovalDirective::TellTopic { approval, news, .. } => Some((approval, news)),
                    ApprovalDirective::TellAsker { .. } => None,
                })
                .collect();
            prop_assert_eq!(&owed, &told.owed);
            prop_assert_eq!(live.debts.is_empty(), owed.is_empty());
            let open = live.open_cards();
            prop_assert!(open.iter().all(|card| !told.settled.contains(&card.approval)));
            prop_assert_eq!(live.next_deadline(), open.iter().map(|card| card.expires_at).min());
        }
        let mut replayed = Ledger::new(two_cards_a_topic());
        log.iter().for_each(|event| replayed.apply(event));
        prop_assert_eq!(replayed, live);
    }
}
