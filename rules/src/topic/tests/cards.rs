//! Calls that ask a person, and what is answered to news about their cards.

use std::time::Duration;

use pilothouse_messages::approval::Card;
use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::id::CallId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CallPlan, CardNews, Directive, HoldReason, StopReason, TopicCommand, TopicConfig, TopicEvent,
    TopicRejection, TopicStatus as Is, TopicUpdate,
};

use super::words::{
    accepted, allowed, allows, approved_starts, call, call_ends, call_says, call_starts, card, card_of,
    change, denied, denies, done, held, look, news, open, open_card, opened, pay, planned, planned_change,
    planned_look, replied, replies, returns, run_change, run_look, run_model, send, step_ends, step_starts,
    stop, took, turn_ends, turn_starts, withdraw,
};
use super::{NOW, after, check, check_in, on};
use crate::decider::Decider;

fn card_opens(call: CallId) -> TopicEvent {
    TopicEvent::CardOpened { call, approval: card_of(call) }
}

/// One call that runs and one that asks.
fn mixed() -> Vec<TopicCommand> {
    vec![open(), send("a"), replies(1, 1, "", vec![look(), change()])]
}

/// Two calls that ask.
fn two_cards() -> Vec<TopicCommand> {
    vec![open(), send("a"), replies(1, 1, "", vec![change(), change()])]
}

#[test]
fn a_call_that_needs_nobody_starts_at_once_and_one_that_asks_waits_for_its_card() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    check(
        [open(), send("a")],
        vec![
            on(replies(1, 1, "", vec![look(), change()]), Is::Streaming)
                .records([replied(1, 1, "", vec![planned_look(a), planned_change(b)]), call_starts(a, 1)])
                .does([run_look(a, 1), open_card(b)]),
            on(opened(b), Is::Streaming).records([card_opens(b)]),
            on(opened(b), Is::Streaming)
                .does([Directive::Announce(TopicUpdate::ApprovalRequested(Box::new(card(b, "change"))))]),
            on(news(b, CardNews::Waits), Is::Streaming),
            on(returns(b, 1, "no"), Is::Streaming).refused(TopicRejection::Stale),
            on(returns(a, 1, "A"), Is::AwaitingApproval).records([call_ends(a, 1, done("A"))]),
            on(allows(b), Is::Streaming)
                .records([allowed(b), approved_starts(b)])
                .does([pay(b, Payment::Paid), run_change(b)]),
            on(returns(b, 1, "B"), Is::Streaming)
                .records([call_ends(b, 1, done("B")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
        ],
    );
}

#[test]
fn a_denied_call_has_its_result_and_the_turn_goes_on() {
    let id = call(1, 1, 0);
    check(
        [open(), send("a"), replies(1, 1, "", vec![change()]), opened(id)],
        vec![
            on(denies(id), Is::Streaming)
                .records([
                    denied(id),
                    call_says(id, 0, CallOutcome::Denied, "denied by bob: too risky"),
                    step_ends(1, 1),
                    step_starts(1, 2),
                ])
                .does([pay(id, Payment::Paid), run_model(1, 2)]),
        ],
    );
}

#[test]
fn each_call_goes_on_as_soon_as_its_own_card_is_final() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    check(
        two_cards(),
        vec![
            on(allows(b), Is::Streaming)
                .records([allowed(b), approved_starts(b)])
                .does([pay(b, Payment::Paid), run_change(b)]),
            on(denies(a), Is::Streaming)
                .records([denied(a), call_says(a, 0, CallOutcome::Denied, "denied by bob: too risky")])
                .does([pay(a, Payment::Paid)]),
            on(returns(b, 1, "B"), Is::Streaming)
                .records([call_ends(b, 1, done("B")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
        ],
    );
}

#[test]
fn an_expired_card_ends_the_turn_once_the_other_calls_have_run() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let expired = |id| TopicEvent::CallExpired { call: id, approval: card_of(id) };
    let unanswered = |id| call_says(id, 0, CallOutcome::Denied, "nobody decided in time");
    let ends =
        [step_ends(1, 1), turn_ends(1, StopReason::ApprovalExpired), held(&[2], HoldReason::TurnEnded)];
    let first = on(news(a, CardNews::Expired), Is::AwaitingApproval)
        .records([expired(a), unanswered(a)])
        .does([pay(a, Payment::Paid)]);
    let queued_first = [two_cards(), vec![send("b")]].concat();
    check(
        queued_first.clone(),
        vec![
            first,
            on(allows(b), Is::Streaming)
                .records([allowed(b), approved_starts(b)])
                .does([pay(b, Payment::Paid), run_change(b)]),
            on(returns(b, 1, "B"), Is::Done)
                .records([vec![call_ends(b, 1, done("B"))], ends.to_vec()].concat()),
        ],
    );
    let last = on(news(b, CardNews::Expired), Is::Done)
        .records([vec![expired(b), unanswered(b)], ends.to_vec()].concat())
        .does([pay(b, Payment::Paid)]);
    check([queued_first, vec![news(a, CardNews::Expired)]].concat(), vec![last]);
}

#[test]
fn a_card_that_the_ledger_refuses_denies_its_call() {
    let id = call(1, 1, 0);
    check(
        [open(), send("a"), replies(1, 1, "", vec![change()])],
        vec![
            on(news(id, CardNews::Refused("too many cards".into())), Is::Streaming)
                .records([
                    call_says(id, 0, CallOutcome::Denied, "too many cards"),
                    step_ends(1, 1),
                    step_starts(1, 2),
                ])
                .does([run_model(1, 2)]),
            on(news(id, CardNews::Refused("too many cards".into())), Is::Streaming)
                .refused(TopicRejection::Stale),
        ],
    );
}

#[test]
fn a_decision_that_is_told_again_is_paid_again_and_runs_nothing() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    check(
        two_cards(),
        vec![
            on(allows(a), Is::Streaming)
                .records([allowed(a), approved_starts(a)])
                .does([pay(a, Payment::Paid), run_change(a)]),
            on(allows(a), Is::Streaming).does([pay(a, Payment::Paid)]),
            on(returns(a, 1, "A"), Is::AwaitingApproval).records([call_ends(a, 1, done("A"))]),
            on(allows(a), Is::AwaitingApproval).does([pay(a, Payment::Paid)]),
            on(opened(a), Is::AwaitingApproval).does([withdraw(a, "the call no longer waits for it")]),
            on(denies(b), Is::Streaming)
                .records([
                    denied(b),
                    call_says(b, 0, CallOutcome::Denied, "denied by bob: too risky"),
                    step_ends(1, 1),
                    step_starts(1, 2),
                ])
                .does([pay(b, Payment::Paid), run_model(1, 2)]),
            on(denies(b), Is::Streaming).does([pay(b, Payment::Paid)]),
            on(replies(1, 2, "", vec![]), Is::Done).records([
                replied(1, 2, "", vec![]),
                step_ends(1, 2),
                turn_ends(1, StopReason::Completed),
            ]),
            on(allows(a), Is::Done).does([pay(a, Payment::Paid)]),
        ],
    );
}

#[test]
fn a_debt_that_arrives_after_a_stop_is_void_and_nothing_runs() {
    let id = call(1, 1, 0);
    check(
        [open(), send("a"), replies(1, 1, "", vec![change()]), opened(id), stop()],
        vec![
            on(allows(id), Is::Aborted).does([pay(id, Payment::Void)]),
            on(denies(id), Is::Aborted).does([pay(id, Payment::Void)]),
            on(news(id, CardNews::Expired), Is::Aborted).does([pay(id, Payment::Void)]),
            on(opened(id), Is::Aborted).does([withdraw(id, "the call no longer waits for it")]),
            on(news(id, CardNews::Waits), Is::Aborted)
                .does([withdraw(id, "the call no longer waits for it")]),
            on(allows(call(9, 9, 9)), Is::Aborted).does([pay(call(9, 9, 9), Payment::Void)]),
        ],
    );
}

#[test]
fn a_debt_of_a_turn_that_is_no_longer_known_is_void() {
    let mut limits = Limits::default();
    limits.view_turns = 1;
    let id = call(1, 1, 0);
    let given = [open(), send("a"), replies(1, 1, "", vec![change()]), denies(id), replies(1, 2, "", vec![])];
    check_in(
        &limits,
        given,
        vec![
            on(denies(id), Is::Done).does([pay(id, Payment::Paid)]),
            on(send("b"), Is::Pending)
                .answers(took(2, 2))
                .records([vec![accepted(2, "b")], turn_starts(2, 2).into()].concat())
                .does([run_model(2, 1)]),
            on(replies(2, 1, "", vec![]), Is::Done).records([
                replied(2, 1, "", vec![]),
                step_ends(2, 1),
                turn_ends(2, StopReason::Completed),
            ]),
            on(denies(id), Is::Done).does([pay(id, Payment::Void)]),
        ],
    );
}

#[test]
fn a_card_shows_the_tool_and_arguments_and_waits_as_long_as_the_topic_says() {
    let id = call(1, 1, 0);
    let mut config = TopicConfig::new("m");
    config.approval_ttl_ms = Some(5);
    let expires_at = NOW.after(Duration::from_millis(5));
    let plan = CallPlan::Ask { approval: card_of(id), reason: "this tool changes things".into(), expires_at };
    let own = Card { expires_at, ..card(id, "change") };
    check(
        [TopicCommand::Open { config }, send("a")],
        vec![
            on(replies(1, 1, "", vec![change()]), Is::AwaitingApproval)
                .records([replied(1, 1, "", vec![planned(id, &change(), plan)])])
                .does([Directive::OpenCard(Box::new(own))]),
        ],
    );
}

#[test]
fn only_cards_that_the_ledger_has_stored_are_in_the_view_and_every_open_one_is_asked_for_after_a_load() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let (state, _) = after(&Limits::default(), [two_cards(), vec![opened(b)]].concat());
    assert_eq!(state.view().cards, [card(b, "change")]);
    assert_eq!(state.resume(), [open_card(a), open_card(b)]);
    let (state, _) = after(&Limits::default(), [mixed(), vec![opened(b), allows(b)]].concat());
    assert_eq!(state.view().cards, []);
    assert_eq!(state.resume(), []);
}
