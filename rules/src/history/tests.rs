use pilothouse_messages::id::StepId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::HistoryCall;

use super::*;
use crate::tokens::Bytes4;

fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.to_owned() }
}

fn says(text: &str) -> HistoryItem {
    HistoryItem::Assistant { text: text.to_owned(), calls: vec![] }
}

fn id(turn: u64, step: u32, index: u32) -> CallId {
    CallId { turn: TurnId(turn), step: StepId(step), index }
}

fn asks(calls: &[CallId]) -> HistoryItem {
    let arguments = JsonText::parse("{}").expect("it is JSON");
    let asked =
        |call: &CallId| HistoryCall { call: *call, name: "look".to_owned(), arguments: arguments.clone() };
    HistoryItem::Assistant { text: String::new(), calls: calls.iter().map(asked).collect() }
}

fn tells(call: CallId, text: &str) -> HistoryItem {
    HistoryItem::Tool { call, result: CallResult::said(CallOutcome::Succeeded, text) }
}

/// A turn that costs a hundred tokens: 34 + 10 + 48 + 8.
fn turn(number: u64) -> Vec<HistoryItem> {
    let call = id(number, 1, 0);
    vec![user(&"u".repeat(104)), asks(&[call]), tells(call, &"r".repeat(160)), says("")]
}

fn chosen(turns: u64, window: u64, taken: u64) -> usize {
    let history: Vec<_> = (1..=turns).flat_map(turn).collect();
    let all = history.len();
    let room = HistoryRoom::new(Some(window), taken, &Bytes4);
    let kept = NewestTurns.choose(&history, &room).unwrap_or_else(|| history.clone());
    assert_eq!(kept, history[all - kept.len()..], "the newest ones");
    assert_eq!(kept.len() % 4, 0, "whole turns");
    kept.len() / 4
}

#[test]
fn everything_is_kept_until_four_fifths_of_the_window_and_then_the_newest_whole_turns() {
    let room = HistoryRoom::new(None, 0, &Bytes4);
    assert_eq!((turn(1).iter().map(|item| room.tokens(item)).sum::<u64>(), room.window), (100, 32_000));
    // Turns, window, tokens taken by other things; turns kept.
    let rows = [
        (1, 1_000, 0, 1),
        (8, 1_000, 0, 8),
        (9, 1_000, 0, 7),
        (10, 1_000, 0, 8),
        (11, 1_000, 0, 7),
        (12, 1_000, 0, 8),
        (8, 1_000, 1, 6),
        (4, 1_000, 400, 4),
        (5, 1_000, 400, 3),
        (5, 1_000, 100_000, 1),
        (5, 0, 0, 5),
        (5, u64::MAX, u64::MAX, 1),
        (5, u64::MAX, 0, 5),
        (0, 1_000, 0, 0),
    ];
    for (turns, window, taken, kept) in rows {
        assert_eq!(chosen(turns, window, taken), kept, "{turns} turns in {window} with {taken}");
    }
}

#[test]
fn the_first_turn_that_is_given_moves_rarely() {
    let first = |turns| turns - u64::try_from(chosen(turns, 1_000, 0)).expect("few");
    let firsts: Vec<u64> = (1..=20).map(first).collect();
    assert_eq!(firsts, [0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12]);
}

#[test]
fn a_message_that_joined_its_turn_begins_none() {
    let (a, b, c) = (id(1, 1, 0), id(1, 2, 0), id(2, 1, 0));
    let history = [
        user("go"),
        asks(&[a]),
        tells(a, "A"),
        user("and this"),
        asks(&[b]),
        tells(b, "B"),
        says("done"),
        user("next"),
        user("two at once"),
        asks(&[c]),
        tells(c, "C"),
    ];
    assert_eq!(turn_starts(&history), [0, 7]);
    assert_eq!(turns_left_out(&history, &history[7..]), 1);
    assert_eq!((turns_left_out(&history, &history), turns_left_out(&history, &[])), (0, 2));
}

#[test]
fn whatever_a_policy_answers_every_call_has_one_result_behind_its_reply() {
    let (a, b) = (id(1, 1, 0), id(1, 1, 1));
    let lost = HistoryItem::Tool { call: b, result: no_result() };
    let rows = [
        (vec![user("x"), asks(&[a, b]), tells(a, "A"), tells(b, "B")], None),
        (
            vec![asks(&[a, b]), tells(b, "B"), tells(a, "A")],
            Some(vec![asks(&[a, b]), tells(a, "A"), tells(b, "B")]),
        ),
        (
            vec![asks(&[a, b]), tells(a, "A"), user("x")],
            Some(vec![asks(&[a, b]), tells(a, "A"), lost, user("x")]),
        ),
        (vec![tells(a, "A"), user("x"), tells(b, "B")], Some(vec![user("x")])),
        (vec![asks(&[a]), tells(a, "A"), tells(a, "again")], Some(vec![asks(&[a]), tells(a, "A")])),
        (
            vec![asks(&[a]), tells(a, "A"), asks(&[a]), tells(a, "again"), says("z")],
            Some(vec![asks(&[a]), tells(a, "A"), says("z")]),
        ),
        (vec![asks(&[a, a]), tells(a, "A")], Some(vec![asks(&[a]), tells(a, "A")])),
        (vec![], None),
    ];
    for (given, expected) in rows {
        let expected = expected.unwrap_or_else(|| given.clone());
        assert_eq!(mended(given.clone()), expected, "{given:?}");
        assert_eq!(mended(expected.clone()), expected, "what is mended stays");
    }
}
