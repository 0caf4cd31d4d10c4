//! Turns that end because they have used up what they may, or go in a circle.

use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::CallId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::{
    Budget, BudgetLimit, CostLimit, HoldReason, Level, StopReason, TopicCommand, TopicEvent,
    TopicStatus as Is, TurnTerms,
};

use super::words::{
    allows, call, call_says, cancel, change, denies, held, look, missing, open, opened, opens_with, replies,
    returns, send, send_at, turn_ends, withdraw,
};
use super::{NOW, after};
use crate::decider::Decider;

fn with(budget: Budget) -> TopicCommand {
    opens_with(TurnTerms { budget, ..TurnTerms::default() })
}

/// How the turn ends that makes a call in each of its steps, and in which step.
fn ends(budget: Budget, max_steps: u32) -> (StopReason, u32) {
    let mut limits = Limits::default();
    limits.steps_per_turn = max_steps;
    let mut given = vec![with(budget), send("a")];
    for step in 1.. {
        given.push(replies(1, step, "", vec![look()]));
        given.push(returns(call(1, step, 0), 1, "A"));
        let (_, log) = after(&limits, given.clone());
        if let Some(TopicEvent::TurnFinished { stop, .. }) = log.last() {
            return (stop.clone(), step);
        }
    }
    unreachable!("every row has an end")
}

/// Each step of the tests reads three tokens and writes two.
#[test]
fn a_turn_ends_where_a_further_step_would_begin_once_its_budget_is_used_up() {
    let none = Budget::default();
    let cost = |limit| Some(CostLimit { limit, input: 1_000_000, output: 2_000_000 });
    let spent = StopReason::BudgetSpent;
    let rows = [
        (Budget { tokens: Some(10), ..none }, 9, (spent(BudgetLimit::Tokens), 2)),
        (Budget { tokens: Some(11), ..none }, 9, (spent(BudgetLimit::Tokens), 3)),
        (Budget { tokens: Some(0), ..none }, 9, (spent(BudgetLimit::Tokens), 1)),
        (Budget { steps: Some(2), ..none }, 9, (spent(BudgetLimit::Steps), 2)),
        // Three tokens for one each, two for two each.
        (Budget { cost: cost(14), ..none }, 9, (spent(BudgetLimit::Cost), 2)),
        (Budget { cost: cost(15), ..none }, 9, (spent(BudgetLimit::Cost), 3)),
        (Budget { tokens: Some(11), cost: cost(14), ..none }, 9, (spent(BudgetLimit::Cost), 2)),
        (Budget { tokens: Some(10), ..none }, 1, (StopReason::StepLimit, 1)),
        (none, 3, (StopReason::StepLimit, 3)),
    ];
    for (budget, max_steps, expected) in rows {
        assert_eq!(ends(budget, max_steps), expected, "{budget:?}");
    }
}

#[test]
fn a_reply_without_calls_completes_whatever_it_has_used_and_a_steer_goes_before_the_budget() {
    let budget = Budget { tokens: Some(1), ..Budget::default() };
    let stop = |given: Vec<TopicCommand>| {
        let (_, log) = after(&Limits::default(), given);
        log.into_iter().find_map(|event| match event {
            TopicEvent::TurnFinished { stop, .. } => Some(stop),
            _ => None,
        })
    };
    assert_eq!(stop(vec![with(budget), send("a"), replies(1, 1, "x", vec![])]), Some(StopReason::Completed));
    let steered = vec![with(budget), send("a"), send("b"), replies(1, 1, "", vec![missing()])];
    assert_eq!(stop(steered), Some(StopReason::Yielded));
    let queued =
        vec![with(budget), send("a"), send_at(Level::NextTurn, "b"), replies(1, 1, "", vec![missing()])];
    assert_eq!(stop(queued), Some(StopReason::BudgetSpent(BudgetLimit::Tokens)));
}

#[test]
fn a_turn_ends_when_its_time_is_over_with_all_that_runs_and_waits() {
    let (running, asking) = (call(1, 1, 0), call(1, 1, 1));
    let timed = with(Budget { wall_ms: Some(5_000), ..Budget::default() });
    let given = [timed, send("a"), replies(1, 1, "", vec![look(), change()]), opened(asking), send("b")];
    let (state, _) = after(&Limits::default(), given);
    let over = NOW.after(Duration::from_millis(5_000));
    assert_eq!(state.next_deadline(), Some(over));
    let early =
        state.decide(NOW.after(Duration::from_millis(4_999)), &TopicCommand::Tick).expect("it is taken");
    assert_eq!((early.events, early.directives), (vec![], vec![]));
    let decision = state.decide(over, &TopicCommand::Tick).expect("it is taken");
    let words = "the time of the turn was used up";
    let ran = format!("{words} while it ran: it may have had its effect");
    let waited = format!("{words} while it waited for a decision: it never ran");
    assert_eq!(
        decision.events,
        [
            call_says(running, 1, CallOutcome::Cancelled, &ran),
            call_says(asking, 0, CallOutcome::Cancelled, &waited),
            TopicEvent::TurnFinished {
                turn: pilothouse_messages::id::TurnId(1),
                stop: StopReason::BudgetSpent(BudgetLimit::Time),
                at: over
            },
            held(&[2], HoldReason::TurnEnded),
        ]
    );
    assert_eq!(decision.directives, [cancel(1), withdraw(asking, words)]);
}

/// How the turn of these replies and their answers ends.
fn stop_after(given: impl IntoIterator<Item = TopicCommand>) -> Option<StopReason> {
    let (_, log) = after(&Limits::default(), given);
    log.into_iter().rev().find_map(|event| match event {
        TopicEvent::TurnFinished { stop, .. } => Some(stop),
        _ => None,
    })
}

fn asks_and_is_denied(step: u32) -> [TopicCommand; 3] {
    let id = call(1, step, 0);
    [replies(1, step, "", vec![change()]), opened(id), denies(id)]
}

#[test]
fn three_identical_refusals_of_one_call_in_a_row_end_the_turn_as_making_no_progress() {
    let start = || vec![open(), send("a")];
    let refused = |step| replies(1, step, "", vec![missing()]);
    let twice = [start(), vec![refused(1), refused(2)]].concat();
    assert_eq!(stop_after(twice.clone()), None);
    let stuck =
        "no_progress: the call of \"missing\" was refused 3 times in a row: there is no tool \"missing\"";
    let thrice = [twice.clone(), vec![refused(3)]].concat();
    assert_eq!(stop_after(thrice), Some(StopReason::Failed(stuck.into())));

    let by_a_person: Vec<_> = start().into_iter().chain((1..=3).flat_map(asks_and_is_denied)).collect();
    let stuck = "no_progress: the call of \"change\" was refused 3 times in a row: denied by bob: too risky";
    assert_eq!(stop_after(by_a_person), Some(StopReason::Failed(stuck.into())));
}

#[test]
fn what_is_not_the_same_refusal_three_times_in_a_row_lets_the_turn_go_on() {
    let start = vec![open(), send("a")];
    let refused = |step| replies(1, step, "", vec![missing()]);
    let mut other = missing();
    other.arguments = pilothouse_messages::json::JsonText::parse(r#"{"a":2}"#).expect("JSON");
    let with_other_arguments = |step| replies(1, step, "", vec![other.clone()]);
    let looks = |step: u32| vec![replies(1, step, "", vec![look()]), returns(call(1, step, 0), 1, "A")];
    let fails = |step: u32| {
        let failed = CallResult::said(CallOutcome::Failed, "no");
        let attempt = pilothouse_messages::id::Attempt(1);
        let call: CallId = call(1, step, 0);
        vec![replies(1, step, "", vec![look()]), TopicCommand::CallReturned { call, attempt, result: failed }]
    };
    let rows = [
        // Three in one reply: its model has not seen a refusal yet.
        vec![replies(1, 1, "", vec![missing(), missing(), missing()]), refused(2)],
        vec![refused(1), refused(2), with_other_arguments(3), refused(4), refused(5)],
        [vec![refused(1), refused(2)], looks(3), vec![refused(4), refused(5)]].concat(),
        [fails(1), fails(2), fails(3), fails(4)].concat(),
        // Refused once, then allowed.
        [
            asks_and_is_denied(1).to_vec(),
            asks_and_is_denied(2).to_vec(),
            vec![replies(1, 3, "", vec![change()]), opened(call(1, 3, 0)), allows(call(1, 3, 0))],
            vec![returns(call(1, 3, 0), 1, "A")],
            asks_and_is_denied(4).to_vec(),
        ]
        .concat(),
    ];
    for (row, given) in rows.into_iter().enumerate() {
        assert_eq!(stop_after([start.clone(), given].concat()), None, "row {row}");
    }
}

#[test]
fn a_message_that_joins_lets_a_call_be_tried_again() {
    let inject = TurnTerms { steering: pilothouse_messages::topic::Steering::Inject, ..TurnTerms::default() };
    let refused = |step| replies(1, step, "", vec![missing()]);
    let given = [
        opens_with(inject),
        send("a"),
        refused(1),
        refused(2),
        send("b"),
        refused(3),
        refused(4),
        refused(5),
    ];
    assert_eq!(stop_after(given.clone()), None);
    let stop = stop_after(given.into_iter().chain([refused(6)]));
    assert!(matches!(&stop, Some(StopReason::Failed(words)) if words.starts_with("no_progress")), "{stop:?}");
}

#[test]
fn a_turn_without_a_budget_has_no_deadline() {
    let (state, _) = after(&Limits::default(), [open(), send("a")]);
    assert_eq!(state.next_deadline(), None);
    let turn = turn_ends(1, StopReason::BudgetSpent(BudgetLimit::Time));
    let tick = state.decide(NOW.after(Duration::from_secs(1 << 40)), &TopicCommand::Tick).expect("taken");
    assert!(!tick.events.contains(&turn) && tick.events.is_empty());
    assert_eq!(state.status(), Is::Pending);
}
