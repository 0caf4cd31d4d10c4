//! Calls that go on after a restart by what their server handed out.

use pilothouse_messages::call::{CallOutcome, CallReceipt};
use pilothouse_messages::id::{Attempt, CallId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::secret::Opaque;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    HoldReason, Recovery, RunBasis, StopReason, TopicCommand, TopicEvent, TopicRejection, TopicStatus as Is,
};

use super::words::{
    allows, call, call_ends, call_says, call_starts, cancel, card_of, change, done, held, look, open,
    receipted, receipts, replies, returns, run_look, run_model, send, sends, step_ends, step_starts,
    take_up_change, turn_ends,
};
use super::{NOW, check, on};

const CAUSE: Recovery = Recovery::ProcessRestart;

fn recover() -> TopicCommand {
    TopicCommand::Recover { cause: CAUSE }
}

fn recovered() -> TopicEvent {
    TopicEvent::Recovered { cause: CAUSE, at: NOW }
}

fn task() -> CallReceipt {
    let expires_at = Some(Timestamp(5_000));
    CallReceipt::Task { id: Opaque::new("t"), poll_after_ms: Some(50), expires_at }
}

fn asked(round: u32, requests: &str) -> CallReceipt {
    let requests = JsonText::parse(requests).expect("JSON");
    CallReceipt::Asked { round, requests, state: Some(Opaque::new("s")) }
}

fn starts_again(id: CallId, attempt: u32) -> TopicEvent {
    let basis = RunBasis::Approved { approval: card_of(id) };
    TopicEvent::CallStarted { call: id, attempt: Attempt(attempt), basis }
}

fn lost(id: CallId, attempt: u32) -> TopicEvent {
    let words = "the process was restarted after this call was sent: nobody knows whether it ran";
    call_says(id, attempt, CallOutcome::Unknown, words)
}

/// A call that a person allowed, sent.
fn sent() -> Vec<TopicCommand> {
    let id = call(1, 1, 0);
    vec![open(), send("a"), replies(1, 1, "", vec![change()]), allows(id), sends(id, 1)]
}

#[test]
fn a_call_goes_on_by_its_receipt_and_its_turn_with_it() {
    let id = call(1, 1, 0);
    for receipt in [task(), asked(2, r#"{"who":{}}"#)] {
        let given = [sent(), vec![receipts(id, 1, receipt.clone()), send("b")]].concat();
        check(
            given,
            vec![
                on(recover(), Is::Streaming)
                    .records([recovered(), starts_again(id, 2), held(&[2], HoldReason::ProcessRestart)])
                    .does([take_up_change(id, 2, receipt.clone())]),
                on(receipts(id, 1, task()), Is::Streaming).refused(TopicRejection::Stale),
                // What the next attempt is not handed anew it keeps.
                on(recover(), Is::Streaming)
                    .records([recovered(), starts_again(id, 3)])
                    .does([take_up_change(id, 3, receipt.clone())]),
                on(returns(id, 3, "A"), Is::Streaming)
                    .records([call_ends(id, 3, done("A")), step_ends(1, 1), step_starts(1, 2)])
                    .does([run_model(1, 2)]),
            ],
        );
    }
}

#[test]
fn a_call_whose_answers_went_out_may_have_run_and_does_not_go_on() {
    let id = call(1, 1, 0);
    let answered = CallReceipt::Answered { round: 1 };
    let given = [sent(), vec![receipts(id, 1, asked(1, "{}")), receipts(id, 1, answered)]].concat();
    let ends = turn_ends(1, StopReason::Interrupted("the process was restarted".into()));
    check(given, vec![on(recover(), Is::Error).records([recovered(), lost(id, 1), ends])]);
}

#[test]
fn a_call_that_ends_the_process_each_time_is_not_taken_up_for_ever() {
    let id = call(1, 1, 0);
    let given = [sent(), vec![receipts(id, 1, task()), recover(), recover()]].concat();
    let ends = turn_ends(1, StopReason::Interrupted("the process was restarted".into()));
    check(given, vec![on(recover(), Is::Error).records([recovered(), lost(id, 3), ends])]);
}

#[test]
fn a_read_beside_a_call_that_goes_on_is_run_again() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let given = vec![open(), send("a"), replies(1, 1, "", vec![look(), change()]), allows(b), sends(b, 1)];
    let given = [given, vec![receipts(b, 1, task())]].concat();
    check(
        given,
        vec![
            on(recover(), Is::Streaming)
                .records([recovered(), call_starts(a, 2), starts_again(b, 2)])
                .does([run_look(a, 2), take_up_change(b, 2, task())]),
        ],
    );
}

#[test]
fn a_receipt_is_kept_within_its_bound_and_no_shutdown_waits_for_it() {
    let id = call(1, 1, 0);
    let huge = asked(1, &format!("{{\"q\":\"{}\"}}", "x".repeat(64 << 10)));
    let words = "the runtime shut down while it ran: it may have had its effect";
    let ends = turn_ends(1, StopReason::Interrupted("the runtime shut down".into()));
    check(
        sent(),
        vec![
            on(receipts(id, 1, huge), Is::Streaming),
            on(receipts(id, 1, task()), Is::Streaming).records([receipted(id, 1, task())]),
            on(TopicCommand::ShutDown, Is::Error)
                .records([call_says(id, 1, CallOutcome::Cancelled, words), ends])
                .does([cancel(1)]),
        ],
    );
}
