//! Messages that come while a turn runs: the queue, yielding, chaining, holding, client keys.

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::id::{MessageId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CallPlan, HoldReason, Receipt, Recovery, StopReason, TopicCommand, TopicEvent, TopicRejection,
    TopicStatus as Is,
};

use super::words::{
    accepted, allowed, allows, approved_starts, call, call_ends, call_says, change, done, fails, held, look,
    missing, open, opened, pay, planned, queued, replied, replies, reply, returns, run_change, run_model,
    send, send_keyed, sent, step_ends, step_ref, took, turn_ends, turn_starts,
};
use super::{NOW, check, check_in, on};

#[test]
fn a_steer_ends_the_turn_at_the_step_boundary_and_starts_the_next_one() {
    let id = call(1, 1, 0);
    check(
        [open(), send("a"), replies(1, 1, "", vec![look()])],
        vec![
            on(send("b"), Is::Streaming).answers(queued(2, 1)).records([accepted(2, "b")]),
            on(send("c"), Is::Streaming).answers(queued(3, 2)).records([accepted(3, "c")]),
            on(returns(id, 1, "A"), Is::Pending)
                .records(
                    [
                        vec![call_ends(id, 1, done("A")), step_ends(1, 1), turn_ends(1, StopReason::Yielded)],
                        turn_starts(2, 2).into(),
                    ]
                    .concat(),
                )
                .does([run_model(2, 1)]),
            on(send("d"), Is::Pending).answers(queued(4, 2)).records([accepted(4, "d")]),
        ],
    );
}

#[test]
fn a_steer_sent_as_the_turn_ends_starts_the_next_one_and_each_end_starts_only_one() {
    let ends = |turn, next, message| {
        on(replies(turn, 1, "x", vec![]), Is::Pending)
            .records(
                [
                    vec![
                        replied(turn, 1, "x", vec![]),
                        step_ends(turn, 1),
                        turn_ends(turn, StopReason::Completed),
                    ],
                    turn_starts(next, message).into(),
                ]
                .concat(),
            )
            .does([run_model(next, 1)])
    };
    let last = on(replies(3, 1, "x", vec![]), Is::Done).records([
        replied(3, 1, "x", vec![]),
        step_ends(3, 1),
        turn_ends(3, StopReason::Completed),
    ]);
    check([open(), send("a"), send("b"), send("c")], vec![ends(1, 2, 2), ends(2, 3, 3), last]);
}

#[test]
fn a_steer_wins_over_the_step_limit() {
    let mut limits = Limits::default();
    limits.steps_per_turn = 1;
    let id = call(1, 1, 0);
    let events = [
        vec![call_ends(id, 1, done("A")), step_ends(1, 1), turn_ends(1, StopReason::Yielded)],
        turn_starts(2, 2).into(),
    ];
    check_in(
        &limits,
        [open(), send("a"), replies(1, 1, "", vec![look()]), send("b")],
        vec![on(returns(id, 1, "A"), Is::Pending).records(events.concat()).does([run_model(2, 1)])],
    );
}

#[test]
fn after_any_other_end_the_queue_is_held_and_a_new_message_runs_without_it() {
    let cut =
        TopicCommand::ModelReplied { at: step_ref(1, 1), reply: reply("x", vec![], FinishReason::Length) };
    let cut_reply = TopicEvent::StepReplied {
        at: step_ref(1, 1),
        text: "x".into(),
        calls: vec![],
        finish: FinishReason::Length,
        usage: Usage { input: 3, output: 2 },
    };
    for (command, status, events) in [
        (fails(1, 1, "no"), Is::Error, vec![turn_ends(1, StopReason::Failed("no".into()))]),
        (cut, Is::Done, vec![cut_reply, step_ends(1, 1), turn_ends(1, StopReason::OutputTruncated)]),
    ] {
        let hold = [events, vec![held(&[2, 3], HoldReason::TurnEnded)]].concat();
        check(
            [open(), send("a"), send("b"), send("c")],
            vec![
                on(command, status).records(hold),
                on(send("d"), Is::Pending)
                    .answers(took(4, 2))
                    .records([vec![accepted(4, "d")], turn_starts(2, 4).into()].concat())
                    .does([run_model(2, 1)]),
                on(replies(2, 1, "x", vec![]), Is::Done).records([
                    replied(2, 1, "x", vec![]),
                    step_ends(2, 1),
                    turn_ends(2, StopReason::Completed),
                ]),
            ],
        );
    }
}

#[test]
fn only_messages_that_wait_count_against_the_bounds_of_the_queue() {
    let mut limits = Limits::default();
    limits.queued_messages = 2;
    limits.queued_bytes = 5;
    check_in(
        &limits,
        [open(), send("12345"), send("123")],
        vec![
            on(send("456"), Is::Pending).refused(TopicRejection::QueueBytes { bytes: 6, limit: 5 }),
            on(send("45"), Is::Pending).answers(queued(3, 2)).records([accepted(3, "45")]),
            on(send("6"), Is::Pending).refused(TopicRejection::QueueFull { queued: 2, limit: 2 }),
            on(replies(1, 1, "", vec![]), Is::Pending)
                .records(
                    [
                        vec![replied(1, 1, "", vec![]), step_ends(1, 1), turn_ends(1, StopReason::Completed)],
                        turn_starts(2, 2).into(),
                    ]
                    .concat(),
                )
                .does([run_model(2, 1)]),
            on(send("6"), Is::Pending).answers(queued(4, 2)).records([accepted(4, "6")]),
        ],
    );
    // One that is larger than may wait is not taken either where nothing waits; its key counts, too.
    check_in(
        &limits,
        [open()],
        vec![
            on(send("123456"), Is::Idle).refused(TopicRejection::QueueBytes { bytes: 6, limit: 5 }),
            on(send_keyed("123", "key"), Is::Idle).refused(TopicRejection::QueueBytes { bytes: 6, limit: 5 }),
        ],
    );
}

#[test]
fn a_message_sent_again_under_its_key_is_the_same_message_wherever_it_is_now() {
    let keyed = |id: u64, text: &str, key: &str| TopicEvent::MessageAccepted {
        message: MessageId(id),
        text: text.into(),
        key: Some(key.into()),
        at: NOW,
    };
    let (a, b, c) = (send_keyed("a", "k1"), send_keyed("b", "k2"), send_keyed("c", "k3"));
    let accepted_in = |message, turn| sent(message, Receipt::Accepted { turn: TurnId(turn) });
    let answered_in = |message, turn| sent(message, Receipt::Answered { turn: TurnId(turn) });
    check(
        [open()],
        vec![
            on(a.clone(), Is::Pending)
                .answers(took(1, 1))
                .records([vec![keyed(1, "a", "k1")], turn_starts(1, 1).into()].concat())
                .does([run_model(1, 1)]),
            on(a.clone(), Is::Pending).answers(accepted_in(1, 1)),
            on(send_keyed("other", "k1"), Is::Pending)
                .refused(TopicRejection::KeyReused { message: MessageId(1) }),
            on(b.clone(), Is::Pending).answers(queued(2, 1)).records([keyed(2, "b", "k2")]),
            on(c.clone(), Is::Pending).answers(queued(3, 2)).records([keyed(3, "c", "k3")]),
            on(c.clone(), Is::Pending).answers(queued(3, 2)),
            on(replies(1, 1, "x", vec![]), Is::Pending)
                .records(
                    [
                        vec![
                            replied(1, 1, "x", vec![]),
                            step_ends(1, 1),
                            turn_ends(1, StopReason::Completed),
                        ],
                        turn_starts(2, 2).into(),
                    ]
                    .concat(),
                )
                .does([run_model(2, 1)]),
            on(a.clone(), Is::Pending).answers(answered_in(1, 1)),
            on(b.clone(), Is::Pending).answers(accepted_in(2, 2)),
            on(c.clone(), Is::Pending).answers(queued(3, 1)),
            on(fails(2, 1, "no"), Is::Error)
                .records([turn_ends(2, StopReason::Failed("no".into())), held(&[3], HoldReason::TurnEnded)]),
            on(b, Is::Error).answers(accepted_in(2, 2)),
            on(c, Is::Error).answers(sent(3, Receipt::Held { reason: HoldReason::TurnEnded })),
            on(a, Is::Error).answers(answered_in(1, 1)),
        ],
    );
}

#[test]
fn a_key_is_known_even_when_the_queue_is_full() {
    let mut limits = Limits::default();
    limits.queued_messages = 1;
    check_in(
        &limits,
        [open(), send("a"), send_keyed("b", "k")],
        vec![
            on(send("c"), Is::Pending).refused(TopicRejection::QueueFull { queued: 1, limit: 1 }),
            on(send_keyed("b", "k"), Is::Pending).answers(queued(2, 1)),
        ],
    );
}

#[test]
fn messages_sent_while_a_card_is_open_wait_and_chain_after_the_approved_call() {
    let id = call(1, 1, 0);
    let yields = [
        vec![call_ends(id, 1, done("A")), step_ends(1, 1), turn_ends(1, StopReason::Yielded)],
        turn_starts(2, 2).into(),
    ];
    check(
        [open(), send("a"), replies(1, 1, "", vec![change()]), opened(id)],
        vec![
            on(send("b"), Is::AwaitingApproval).answers(queued(2, 1)).records([accepted(2, "b")]),
            on(allows(id), Is::Streaming)
                .records([allowed(id), approved_starts(id)])
                .does([pay(id, Payment::Paid), run_change(id)]),
            on(returns(id, 1, "A"), Is::Pending).records(yields.concat()).does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn a_restart_holds_what_waited() {
    let cause = Recovery::SessionRestart;
    check(
        [open(), send("a"), send("b")],
        vec![on(TopicCommand::Recover { cause }, Is::Error).records([
            TopicEvent::Recovered { cause, at: NOW },
            turn_ends(1, StopReason::Interrupted("the session was restarted".into())),
            held(&[2], HoldReason::SessionRestart),
        ])],
    );
}

#[test]
fn a_reply_of_nothing_but_unknown_tools_still_yields_to_a_waiting_message() {
    let id = call(1, 1, 0);
    let words = "there is no tool \"missing\"";
    let events = [
        vec![
            replied(1, 1, "", vec![planned(id, &missing(), CallPlan::Reject(words.into()))]),
            call_says(id, 0, CallOutcome::Rejected, words),
            step_ends(1, 1),
            turn_ends(1, StopReason::Yielded),
        ],
        turn_starts(2, 2).into(),
    ];
    check(
        [open(), send("a"), send("b")],
        vec![
            on(replies(1, 1, "", vec![missing()]), Is::Pending)
                .records(events.concat())
                .does([run_model(2, 1)]),
        ],
    );
}
