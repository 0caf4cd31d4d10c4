//! How soon a message is seen: levels, joining a turn, and several at once.

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::id::{CallId, StepId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::{
    Claim, Directive, HoldReason, Level, Receipt, Steering, StopReason, TopicCommand, TopicEvent,
    TopicStatus as Is, TurnTerms,
};

use super::words::{
    accepted, call, call_ends, call_says, change, done, fails, held, injected, leveled, look, missing, open,
    opens_with, planned, queued, relevels, replied, replies, returns, run_model, send, send_at, sent,
    step_ends, step_starts, turn_ends, turn_starts, turn_starts_with,
};
use super::{after, check, check_in, on};

pub(super) fn interrupted(id: CallId) -> TopicEvent {
    let words = "interrupted by a message while it ran: it may have had its effect";
    call_says(id, 1, CallOutcome::Cancelled, words)
}

pub(super) fn cancels(calls: &[CallId]) -> Directive {
    Directive::CancelCalls { calls: calls.to_vec() }
}

fn injects() -> TopicCommand {
    opens_with(TurnTerms { steering: Steering::Inject, ..TurnTerms::default() })
}

fn batches() -> TopicCommand {
    opens_with(TurnTerms { claim: Claim::Batch, ..TurnTerms::default() })
}

#[test]
fn what_is_for_the_next_turn_waits_behind_all_else_and_does_not_end_a_turn() {
    let id = call(1, 1, 0);
    check(
        [open(), send("a"), replies(1, 1, "", vec![look()])],
        vec![
            on(send_at(Level::NextTurn, "b"), Is::Streaming)
                .answers(queued(2, 1))
                .records([accepted(2, "b"), leveled(2, Level::NextTurn)]),
            on(returns(id, 1, "A"), Is::Streaming)
                .records([call_ends(id, 1, done("A")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
            on(send("c"), Is::Streaming).answers(queued(3, 1)).records([accepted(3, "c")]),
            on(send_at(Level::NextTurn, "d"), Is::Streaming)
                .answers(queued(4, 3))
                .records([accepted(4, "d"), leveled(4, Level::NextTurn)]),
            on(relevels(4, Level::NextStep), Is::Streaming)
                .answers(queued(4, 2))
                .records([leveled(4, Level::NextStep)]),
            on(replies(1, 2, "x", vec![]), Is::Pending)
                .records(
                    [
                        vec![
                            replied(1, 2, "x", vec![]),
                            step_ends(1, 2),
                            turn_ends(1, StopReason::Completed),
                        ],
                        turn_starts(2, 3).into(),
                    ]
                    .concat(),
                )
                .does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_message_that_cannot_wait_cancels_what_may_be_interrupted_and_waits_for_the_rest() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let mut stubborn = look();
    if let pilothouse_messages::topic::Resolution::Tool(tool) = &mut stubborn.resolution {
        tool.interruptible = false;
    }
    let yields = [
        vec![call_ends(b, 1, done("B")), step_ends(1, 1), turn_ends(1, StopReason::Yielded)],
        turn_starts(2, 2).into(),
    ];
    check(
        [open(), send("a"), replies(1, 1, "", vec![look(), stubborn])],
        vec![
            on(send_at(Level::Now, "b"), Is::Streaming)
                .answers(queued(2, 1))
                .records([accepted(2, "b"), leveled(2, Level::Now), interrupted(a)])
                .does([cancels(&[a])]),
            // Whatever comes of the cancelled one now is of an attempt that is over.
            on(returns(a, 1, "late"), Is::Streaming)
                .refused(pilothouse_messages::topic::TopicRejection::Stale),
            on(returns(b, 1, "B"), Is::Pending).records(yields.concat()).does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_message_that_waits_can_still_be_made_one_that_cannot() {
    let id = call(1, 1, 0);
    let yields = [
        vec![leveled(2, Level::Now), interrupted(id), step_ends(1, 1), turn_ends(1, StopReason::Yielded)],
        turn_starts(2, 2).into(),
    ];
    check(
        [open(), send("a"), replies(1, 1, "", vec![look()]), send("b")],
        vec![
            on(relevels(2, Level::NextStep), Is::Streaming).answers(queued(2, 1)),
            on(relevels(2, Level::Now), Is::Pending)
                .answers(sent(2, Receipt::Accepted { turn: TurnId(2) }))
                .records(yields.concat())
                .does([cancels(&[id]), run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_model_that_writes_and_a_person_who_is_asked_are_not_interrupted() {
    check(
        [open(), send("a")],
        vec![
            on(send_at(Level::Now, "b"), Is::Pending)
                .answers(queued(2, 1))
                .records([accepted(2, "b"), leveled(2, Level::Now)]),
        ],
    );
    check(
        [open(), send("a"), replies(1, 1, "", vec![change()])],
        vec![
            on(send_at(Level::Now, "b"), Is::AwaitingApproval)
                .answers(queued(2, 1))
                .records([accepted(2, "b"), leveled(2, Level::Now)]),
        ],
    );
}

#[test]
fn in_a_topic_that_injects_all_that_steers_joins_the_turn_before_its_next_step() {
    let (first, second) = (call(1, 1, 0), call(1, 2, 0));
    let at_step = |message, step| sent(message, Receipt::Injected { turn: TurnId(1), step: StepId(step) });
    check(
        [
            injects(),
            send("a"),
            replies(1, 1, "", vec![look()]),
            send("b"),
            send_at(Level::NextTurn, "c"),
            send("d"),
        ],
        vec![
            on(returns(first, 1, "A"), Is::Streaming)
                .records([
                    call_ends(first, 1, done("A")),
                    step_ends(1, 1),
                    injected(1, 2, &[2, 4]),
                    step_starts(1, 2),
                ])
                .does([run_model(1, 2)]),
            on(replies(1, 2, "", vec![look()]), Is::Streaming)
                .records([
                    replied(1, 2, "", vec![super::words::planned_look(second)]),
                    super::words::call_starts(second, 1),
                ])
                .does([super::words::run_look(second, 1)]),
            // A message that cannot wait brings the boundary at which it joins.
            on(send_at(Level::Now, "e"), Is::Streaming)
                .answers(at_step(5, 3))
                .records([
                    accepted(5, "e"),
                    leveled(5, Level::Now),
                    interrupted(second),
                    step_ends(1, 2),
                    injected(1, 3, &[5]),
                    step_starts(1, 3),
                ])
                .does([cancels(&[second]), run_model(1, 3)]),
            on(replies(1, 3, "x", vec![]), Is::Pending)
                .records(
                    [
                        vec![
                            replied(1, 3, "x", vec![]),
                            step_ends(1, 3),
                            turn_ends(1, StopReason::Completed),
                        ],
                        turn_starts(2, 3).into(),
                    ]
                    .concat(),
                )
                .does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_message_that_was_to_join_keeps_its_place_in_the_queue_if_the_turn_ends_first() {
    let reached = [
        vec![
            replied(1, 1, "", vec![planned(call(1, 1, 0), &missing(), no_such_tool())]),
            call_says(call(1, 1, 0), 0, CallOutcome::Rejected, "there is no tool \"missing\""),
            step_ends(1, 1),
            turn_ends(1, StopReason::Yielded),
        ],
        turn_starts(2, 2).into(),
    ];
    let mut limits = Limits::default();
    limits.steps_per_turn = 1;
    // No step is left in which it could be seen.
    check_in(
        &limits,
        [injects(), send("a"), send("b"), send("c")],
        vec![
            on(replies(1, 1, "", vec![missing()]), Is::Pending)
                .records(reached.concat())
                .does([run_model(2, 1)]),
        ],
    );
    check(
        [injects(), send("a"), send("b"), send("c")],
        vec![
            on(fails(1, 1, "no"), Is::Error).records([
                turn_ends(1, StopReason::Failed("no".into())),
                held(&[2, 3], HoldReason::TurnEnded),
            ]),
        ],
    );
}

fn no_such_tool() -> pilothouse_messages::topic::CallPlan {
    pilothouse_messages::topic::CallPlan::Reject("there is no tool \"missing\"".into())
}

#[test]
fn a_turn_that_took_a_message_in_answers_it_or_leaves_it_unanswered_like_its_own() {
    let given =
        |end: TopicCommand| [injects(), send("a"), send("b"), replies(1, 1, "", vec![missing()]), end];
    let receipts = |end| {
        let (state, _) = after(&Limits::default(), given(end));
        let view = state.view();
        let of_turn = view.turns[0].messages.iter();
        of_turn.map(|message| (message.message.0, message.receipt.clone())).collect::<Vec<_>>()
    };
    let both = |receipt: Receipt| vec![(1, receipt.clone()), (2, receipt)];
    let turn = TurnId(1);
    assert_eq!(receipts(replies(1, 2, "x", vec![])), both(Receipt::Answered { turn }));
    assert_eq!(receipts(fails(1, 2, "no")), both(Receipt::Accepted { turn }));
    let running = receipts(super::words::says(1, 2, "x"));
    let joined = (2, Receipt::Injected { turn, step: StepId(2) });
    assert_eq!(running, [(1, Receipt::Accepted { turn }), joined]);
}

#[test]
fn a_topic_that_claims_in_batches_starts_a_turn_with_all_at_the_head_that_steer_alike() {
    let ends = |turn, next: Option<&[u64]>| {
        let mut events =
            vec![replied(turn, 1, "x", vec![]), step_ends(turn, 1), turn_ends(turn, StopReason::Completed)];
        let status = if next.is_some() { Is::Pending } else { Is::Done };
        events.extend(next.into_iter().flat_map(|messages| turn_starts_with(turn + 1, messages)));
        let row = on(replies(turn, 1, "x", vec![]), status).records(events);
        if next.is_some() { row.does([run_model(turn + 1, 1)]) } else { row }
    };
    check(
        [
            batches(),
            send("a"),
            send_at(Level::NextTurn, "b"),
            send("c"),
            send_at(Level::Now, "d"),
            send_at(Level::NextTurn, "e"),
        ],
        vec![ends(1, Some(&[3, 4])), ends(2, Some(&[2, 5])), ends(3, None)],
    );
}
