//! What people do with messages that wait or are held.

use pilothouse_messages::id::MessageId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::{
    HoldReason, Level, Receipt, StopReason, TopicCommand, TopicEvent, TopicRejection, TopicStatus as Is,
};

use super::words::{
    accepted, drops, edits, fails, held, held_for, leveled, look, open, queued, relevels, reorders, replied,
    replies, resends, run_model, send, send_at, send_keyed, sent, step_ends, stop, took, turn_ends,
    turn_starts,
};
use super::{NOW, check, check_in, on};

/// Three messages wait behind the open turn's.
fn waiting() -> Vec<TopicCommand> {
    vec![open(), send("a"), send("b"), send("c"), send("d")]
}

fn edited(message: u64, text: &str) -> TopicEvent {
    TopicEvent::MessageEdited { message: MessageId(message), text: text.into() }
}

fn dropped(message: u64) -> TopicEvent {
    TopicEvent::MessageDropped { message: MessageId(message), by: "ann".into(), at: NOW }
}

fn reordered(messages: &[u64]) -> TopicEvent {
    TopicEvent::QueueReordered { messages: messages.iter().copied().map(MessageId).collect() }
}

fn resent(message: u64) -> TopicEvent {
    TopicEvent::MessageResent { message: MessageId(message), at: NOW }
}

fn unknown(message: u64) -> TopicRejection {
    TopicRejection::UnknownMessage { message: MessageId(message) }
}

fn not_waiting(message: u64) -> TopicRejection {
    TopicRejection::NotWaiting { message: MessageId(message) }
}

#[test]
fn messages_that_wait_are_edited_reordered_and_dropped_and_the_next_turn_takes_the_head() {
    let completes = [
        vec![replied(1, 1, "x", vec![]), step_ends(1, 1), turn_ends(1, StopReason::Completed)],
        turn_starts(2, 4).into(),
    ]
    .concat();
    check(
        waiting(),
        vec![
            on(edits(3, "C"), Is::Pending).answers(queued(3, 2)).records([edited(3, "C")]),
            on(edits(3, "C"), Is::Pending).answers(queued(3, 2)),
            on(reorders(&[4, 3, 2]), Is::Pending).records([reordered(&[4, 3, 2])]),
            on(reorders(&[4, 3, 2]), Is::Pending),
            on(drops(3), Is::Pending).records([dropped(3)]),
            on(drops(3), Is::Pending).refused(not_waiting(3)),
            on(edits(2, "B"), Is::Pending).answers(queued(2, 2)).records([edited(2, "B")]),
            on(replies(1, 1, "x", vec![]), Is::Pending).records(completes).does([run_model(2, 1)]),
        ],
    );
}

#[test]
fn only_what_waits_or_is_held_can_be_changed_and_only_an_order_of_the_queue_as_it_is_counts() {
    let wrong = || TopicRejection::WrongOrder;
    check(
        waiting(),
        vec![
            on(edits(1, "A"), Is::Pending).refused(not_waiting(1)),
            on(drops(1), Is::Pending).refused(not_waiting(1)),
            on(relevels(1, Level::Now), Is::Pending).refused(not_waiting(1)),
            on(resends(1), Is::Pending).refused(not_waiting(1)),
            on(resends(2), Is::Pending).refused(TopicRejection::NotHeld { message: MessageId(2) }),
            on(edits(5, "E"), Is::Pending).refused(unknown(5)),
            on(edits(0, "E"), Is::Pending).refused(unknown(0)),
            on(edits(2, " \n"), Is::Pending).refused(TopicRejection::EmptyText),
            on(reorders(&[]), Is::Pending).refused(wrong()),
            on(reorders(&[2, 3]), Is::Pending).refused(wrong()),
            on(reorders(&[2, 3, 3]), Is::Pending).refused(wrong()),
            on(reorders(&[2, 3, 4, 4]), Is::Pending).refused(wrong()),
            on(reorders(&[1, 2, 3, 4]), Is::Pending).refused(wrong()),
            on(relevels(2, Level::NextTurn), Is::Pending)
                .answers(queued(2, 3))
                .records([leveled(2, Level::NextTurn)]),
            on(reorders(&[2, 3, 4]), Is::Pending).refused(wrong()),
            on(reorders(&[4, 3, 2]), Is::Pending).records([reordered(&[4, 3, 2])]),
        ],
    );
}

#[test]
fn a_held_message_is_edited_dropped_or_sent_again_under_its_own_id_and_key() {
    let reason = HoldReason::TurnEnded;
    let given = [open(), send("a"), send_keyed("b", "k"), send("c"), send("d"), fails(1, 1, "no")];
    let again = [vec![resent(2)], turn_starts(2, 2).into()].concat();
    check(
        given,
        vec![
            on(edits(3, "C"), Is::Error).answers(held_for(3, reason)).records([edited(3, "C")]),
            on(drops(4), Is::Error).records([dropped(4)]),
            on(resends(4), Is::Error).refused(not_waiting(4)),
            on(relevels(3, Level::NextTurn), Is::Error)
                .answers(held_for(3, reason))
                .records([leveled(3, Level::NextTurn)]),
            on(resends(2), Is::Pending).answers(took(2, 2)).records(again).does([run_model(2, 1)]),
            on(send_keyed("b", "k"), Is::Pending).answers(took(2, 2)),
            on(send("e"), Is::Pending).answers(queued(5, 1)).records([accepted(5, "e")]),
            on(resends(3), Is::Pending).answers(queued(3, 2)).records([resent(3)]),
            on(send("f"), Is::Pending).answers(queued(6, 2)).records([accepted(6, "f")]),
            on(edits(3, "CC"), Is::Pending).answers(queued(3, 3)).records([edited(3, "CC")]),
        ],
    );
}

#[test]
fn a_key_says_where_its_message_is_through_hold_resend_and_drop() {
    let keyed = || send_keyed("b", "k");
    let again = [vec![resent(2)], turn_starts(2, 2).into()].concat();
    let dropped_by = sent(2, Receipt::Dropped { by: "ann".into() });
    check(
        [open(), send("a"), keyed(), stop()],
        vec![
            on(keyed(), Is::Aborted).answers(held_for(2, HoldReason::Aborted)),
            on(edits(2, "other"), Is::Aborted)
                .answers(held_for(2, HoldReason::Aborted))
                .records([edited(2, "other")]),
            // The key stands for what was sent under it, whatever became of the text.
            on(keyed(), Is::Aborted).answers(held_for(2, HoldReason::Aborted)),
            on(resends(2), Is::Pending).answers(took(2, 2)).records(again).does([run_model(2, 1)]),
            on(keyed(), Is::Pending).answers(took(2, 2)),
            on(send_keyed("c", "l"), Is::Pending).answers(queued(3, 1)).records([
                TopicEvent::MessageAccepted {
                    message: MessageId(3),
                    text: "c".into(),
                    key: Some("l".into()),
                    at: NOW,
                },
            ]),
        ],
    );
    check([open(), send("a"), keyed(), stop(), drops(2)], vec![on(keyed(), Is::Aborted).answers(dropped_by)]);
}

#[test]
fn edits_and_resends_keep_the_bounds_of_the_queue_in_entries_and_in_bytes() {
    let mut limits = Limits::default();
    (limits.queued_messages, limits.queued_bytes, limits.held_messages) = (2, 10, 4);
    let bytes = |bytes| TopicRejection::QueueBytes { bytes, limit: 10 };
    check_in(
        &limits,
        [open(), send("a"), send("bbbb"), send("cccc")],
        vec![
            on(edits(2, "bbbbbb"), Is::Pending).answers(queued(2, 1)).records([edited(2, "bbbbbb")]),
            on(edits(2, "bbbbbbb"), Is::Pending).refused(bytes(11)),
            on(stop(), Is::Aborted)
                .answers(pilothouse_messages::topic::TopicAnswer::Stopped {
                    turn: Some(pilothouse_messages::id::TurnId(1)),
                })
                .records([turn_ends(1, StopReason::Aborted), held(&[2, 3], HoldReason::Aborted)])
                .does([super::words::cancel(1)]),
            on(edits(3, "ccccccccccc"), Is::Aborted).refused(bytes(11)),
            on(send("d"), Is::Pending)
                .answers(took(4, 2))
                .records([vec![accepted(4, "d")], turn_starts(2, 4).into()].concat())
                .does([run_model(2, 1)]),
            on(resends(2), Is::Pending).answers(queued(2, 1)).records([resent(2)]),
            on(resends(3), Is::Pending).answers(queued(3, 2)).records([resent(3)]),
        ],
    );
    let given = [open(), send("a"), send("b"), send("c"), stop(), send("d"), send("e"), send("f")];
    check_in(
        &limits,
        given,
        vec![
            on(resends(2), Is::Pending).refused(TopicRejection::QueueFull { queued: 2, limit: 2 }),
            on(replies(2, 1, "", vec![look()]), Is::Streaming)
                .records([
                    replied(2, 1, "", vec![super::words::planned_look(super::words::call(2, 1, 0))]),
                    super::words::call_starts(super::words::call(2, 1, 0), 1),
                ])
                .does([super::words::run_look(super::words::call(2, 1, 0), 1)]),
            on(drops(5), Is::Streaming).records([dropped(5)]),
            on(send("g"), Is::Streaming).answers(queued(7, 2)).records([accepted(7, "g")]),
            on(drops(7), Is::Streaming).records([dropped(7)]),
            on(drops(6), Is::Streaming).records([dropped(6)]),
            on(send_at(Level::Now, "h"), Is::Pending)
                .answers(took(8, 3))
                .records(
                    [
                        vec![
                            accepted(8, "h"),
                            leveled(8, Level::Now),
                            super::levels::interrupted(super::words::call(2, 1, 0)),
                            step_ends(2, 1),
                            turn_ends(2, StopReason::Yielded),
                        ],
                        turn_starts(3, 8).into(),
                    ]
                    .concat(),
                )
                .does([super::levels::cancels(&[super::words::call(2, 1, 0)]), run_model(3, 1)]),
        ],
    );
}

#[test]
fn nothing_more_waits_once_as_many_are_held_as_may_be() {
    let mut limits = Limits::default();
    (limits.queued_messages, limits.held_messages) = (3, 3);
    let given = [open(), send("a"), send("b"), send("c"), stop(), send("d"), send("e")];
    check_in(
        &limits,
        given,
        vec![
            on(send("f"), Is::Pending).refused(TopicRejection::HeldFull { held: 3, limit: 3 }),
            on(drops(2), Is::Pending).records([dropped(2)]),
            on(send("f"), Is::Pending).answers(queued(6, 2)).records([accepted(6, "f")]),
        ],
    );
    let mut limits = Limits::default();
    limits.held_bytes = 6;
    let given = [open(), send("a"), send("bb"), send("cc"), stop(), send("d")];
    let too_much = |bytes| TopicRejection::HeldBytes { bytes, limit: 6 };
    check_in(
        &limits,
        given,
        vec![
            on(send("eee"), Is::Pending).refused(too_much(7)),
            on(send("ee"), Is::Pending).answers(queued(5, 1)).records([accepted(5, "ee")]),
            on(edits(2, "bbb"), Is::Pending).refused(too_much(7)),
            on(edits(2, "b"), Is::Pending)
                .answers(held_for(2, HoldReason::Aborted))
                .records([edited(2, "b")]),
        ],
    );
}
