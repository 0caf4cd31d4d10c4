//! Turns that end from outside: stopped, recovered after a crash, shut down.

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{Attempt, CallId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CardNews, Directive, HoldReason, Recovery, RequestedCall, StopReason, TopicAnswer, TopicCommand,
    TopicEvent, TopicRejection, TopicStatus as Is,
};

use super::words::{
    accepted, allowed, allows, approved_starts, call, call_ends, call_says, call_starts, cancel, card,
    card_of, change, done, held, look, news, open, opened, pay, replies, returns, run_change, run_look,
    run_model, says, send, sends, step_ends, step_starts, stop, took, turn_ends, turn_starts, withdraw,
};
use super::{NOW, after, check, on};

const CRASH: Recovery = Recovery::ProcessRestart;
const CRASHED: &str = "the process was restarted";

fn recover() -> TopicCommand {
    TopicCommand::Recover { cause: CRASH }
}

fn recovered() -> TopicEvent {
    TopicEvent::Recovered { cause: CRASH, at: NOW }
}

fn interrupted(words: &str) -> TopicEvent {
    turn_ends(1, StopReason::Interrupted(words.into()))
}

fn lost(id: CallId, attempt: u32) -> TopicEvent {
    let words = "the process was restarted after this call was sent: nobody knows whether it ran";
    call_says(id, attempt, CallOutcome::Unknown, words)
}

fn with_calls(calls: Vec<RequestedCall>) -> Vec<TopicCommand> {
    vec![open(), send("a"), replies(1, 1, "", calls)]
}

fn stopped(turn: Option<u64>) -> TopicAnswer {
    TopicAnswer::Stopped { turn: turn.map(TurnId) }
}

#[test]
fn a_stop_ends_the_turn_gives_every_open_call_its_result_and_holds_the_queue() {
    let (a, b, c) = (call(1, 1, 0), call(1, 1, 1), call(1, 1, 2));
    let ran = "stopped by ann while it ran: it may have had its effect";
    let waited = "stopped by ann while it waited for a decision: it never ran";
    let given = [with_calls(vec![look(), look(), change()]), vec![returns(a, 1, "A"), send("b")]];
    check(
        given.concat(),
        vec![
            on(stop(), Is::Aborted)
                .answers(stopped(Some(1)))
                .records([
                    call_says(b, 1, CallOutcome::Cancelled, ran),
                    call_says(c, 0, CallOutcome::Cancelled, waited),
                    turn_ends(1, StopReason::Aborted),
                    held(&[2], HoldReason::Aborted),
                ])
                .does([cancel(1), withdraw(c, "stopped by ann")]),
            on(returns(b, 1, "late"), Is::Aborted).refused(TopicRejection::Stale),
            on(stop(), Is::Aborted).answers(stopped(None)),
            on(send("c"), Is::Pending)
                .answers(took(3, 2))
                .records([vec![accepted(3, "c")], turn_starts(2, 3).into()].concat())
                .does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_stop_while_the_model_writes_ends_the_turn_and_its_late_reply_is_stale() {
    check(
        [open(), send("a"), says(1, 1, "x")],
        vec![
            on(stop(), Is::Aborted)
                .answers(stopped(Some(1)))
                .records([turn_ends(1, StopReason::Aborted)])
                .does([cancel(1)]),
            on(replies(1, 1, "x", vec![look()]), Is::Aborted).refused(TopicRejection::Stale),
        ],
    );
}

#[test]
fn a_topic_with_nothing_open_needs_no_recovery() {
    check([open()], vec![on(recover(), Is::Idle), on(TopicCommand::ShutDown, Is::Idle)]);
    let given = [open(), send("a"), replies(1, 1, "", vec![])];
    check(given, vec![on(recover(), Is::Done), on(TopicCommand::ShutDown, Is::Done)]);
}

#[test]
fn a_crash_while_the_model_runs_interrupts_the_turn_and_holds_the_queue() {
    let events =
        [recovered(), interrupted("the process was restarted"), held(&[2], HoldReason::ProcessRestart)];
    check([open(), send("a"), send("b")], vec![on(recover(), Is::Error).records(events)]);
}

#[test]
fn a_call_that_was_sent_before_a_crash_is_unknown_and_is_not_run_again() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let given = [with_calls(vec![look(), change()]), vec![allows(b), sends(b, 1)]];
    check(
        given.concat(),
        vec![
            on(recover(), Is::Error).records([recovered(), lost(a, 1), lost(b, 1), interrupted(CRASHED)]),
            on(returns(b, 1, "late"), Is::Error).refused(TopicRejection::Stale),
        ],
    );
}

#[test]
fn a_turn_that_waits_for_a_person_survives_a_crash_and_goes_on_when_it_is_answered() {
    let (a, b, c) = (call(1, 1, 0), call(1, 1, 1), call(1, 1, 2));
    let given = [with_calls(vec![look(), change(), change()]), vec![allows(b), opened(c), send("b")]];
    check(
        given.concat(),
        vec![
            on(recover(), Is::Streaming)
                .records([recovered(), call_starts(a, 2), lost(b, 1), held(&[2], HoldReason::ProcessRestart)])
                .does([run_look(a, 2)]),
            on(returns(a, 1, "old"), Is::Streaming).refused(TopicRejection::Stale),
            on(recover(), Is::Streaming).records([recovered(), call_starts(a, 3)]).does([run_look(a, 3)]),
            on(returns(a, 3, "A"), Is::AwaitingApproval).records([call_ends(a, 3, done("A"))]),
            on(recover(), Is::AwaitingApproval).records([recovered()]),
            on(allows(c), Is::Streaming)
                .records([allowed(c), approved_starts(c)])
                .does([pay(c, Payment::Paid), run_change(c)]),
            on(returns(c, 1, "C"), Is::Streaming)
                .records([call_ends(c, 1, done("C")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
        ],
    );
}

#[test]
fn a_call_that_was_not_run_again_may_have_run_before_the_crash() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let given = [with_calls(vec![look(), change()]), vec![opened(b), recover()]].concat();
    let words = "nobody knows whether an earlier attempt ran; the last one did not: it has changed";
    for outcome in [CallOutcome::Rejected, CallOutcome::Denied, CallOutcome::Unavailable] {
        let result = CallResult::said(outcome, "it has changed");
        let second = TopicCommand::CallReturned { call: a, attempt: Attempt(2), result };
        check(
            given.clone(),
            vec![on(second, Is::AwaitingApproval).records([call_says(a, 2, CallOutcome::Unknown, words)])],
        );
    }
}

#[test]
fn a_shutdown_interrupts_what_runs() {
    let shut = || on(TopicCommand::ShutDown, Is::Error);
    let ends = || vec![interrupted("the runtime shut down"), held(&[2], HoldReason::ShutDown)];
    check([open(), send("a"), send("b")], vec![shut().records(ends()).does([cancel(1)])]);
    let id = call(1, 1, 0);
    let words = "the runtime shut down while it ran: it may have had its effect";
    let events = [vec![call_says(id, 1, CallOutcome::Cancelled, words)], ends()].concat();
    let given = [with_calls(vec![look()]), vec![send("b")]].concat();
    check(given, vec![shut().records(events).does([cancel(1)])]);
}

#[test]
fn a_shutdown_leaves_a_turn_that_waits_for_people_as_it_is() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let given = [with_calls(vec![change()]), vec![opened(a), send("b")]].concat();
    check(given, vec![on(TopicCommand::ShutDown, Is::AwaitingApproval)]);
    let words = "the runtime shut down while it ran: it may have had its effect";
    let given = [with_calls(vec![look(), change()]), vec![send("b")]].concat();
    check(
        given,
        vec![
            on(TopicCommand::ShutDown, Is::AwaitingApproval)
                .records([call_says(a, 1, CallOutcome::Cancelled, words), held(&[2], HoldReason::ShutDown)])
                .does([cancel(1)]),
            on(news(b, CardNews::Opened(Box::new(card(b, "change")))), Is::AwaitingApproval)
                .records([TopicEvent::CardOpened { call: b, approval: card_of(b) }]),
        ],
    );
}

#[test]
fn a_topic_says_what_a_start_has_to_look_at_and_what_it_has_to_recover() {
    let id = call(1, 1, 0);
    let waiting = || [with_calls(vec![change()]), vec![opened(id)]].concat();
    for (given, open, recovery) in [
        (vec![], false, false),
        (vec![open()], false, false),
        (vec![open(), send("a")], true, true),
        (vec![open(), send("a"), replies(1, 1, "", vec![])], false, false),
        (with_calls(vec![look(), change()]), true, true),
        (waiting(), true, false),
        ([waiting(), vec![send("b")]].concat(), true, true),
        ([waiting(), vec![send("b"), stop()]].concat(), false, false),
    ] {
        let (state, log) = after(&Limits::default(), given);
        assert_eq!((state.is_open(), state.needs_recovery()), (open, recovery), "{log:?}");
    }
}

#[test]
fn what_is_open_does_not_sleep_and_the_sleep_of_the_rest_is_recorded_first() {
    let asleep = || TopicEvent::Slept { at: NOW };
    let sleep = || TopicCommand::Sleep;
    check([], vec![on(sleep(), Is::Idle).does([Directive::FallAsleep])]);
    check(
        [open()],
        vec![
            on(sleep(), Is::Idle).records([asleep()]).does([Directive::FallAsleep]),
            on(sleep(), Is::Idle).records([asleep()]).does([Directive::FallAsleep]),
        ],
    );
    check([open(), send("a")], vec![on(sleep(), Is::Pending)]);
    check(with_calls(vec![change()]), vec![on(sleep(), Is::AwaitingApproval)]);
    let closed = [open(), send("a"), send("b"), stop()];
    check(closed, vec![on(sleep(), Is::Aborted).records([asleep()]).does([Directive::FallAsleep])]);
}
