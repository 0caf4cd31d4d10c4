//! The end of a turn in every order: whatever people, tools and clocks do at once comes to the topic as one sequence, so
//! all sequences are tried.

use std::collections::BTreeMap;

use pilothouse_messages::id::{CallId, MessageId, TurnId};
use pilothouse_messages::topic::{
    CardNews, Claim, Directive, Level, Recovery, Steering, TopicCommand, TopicEvent, TurnTerms,
};

use super::random::{Run, check_laws};
use super::words::{
    allows, call, change, denies, fails, look, news, opened, opens_with, replies, resends, returns, send,
    send_at, stop,
};

/// Tries every order of these after the given ones; `ends` looks at each.
fn in_every_order(
    given: &[TopicCommand],
    commands: &mut Vec<TopicCommand>,
    fixed: usize,
    ends: &mut impl FnMut(&Run, &[TopicCommand]),
) {
    if fixed == commands.len() {
        let mut run = Run::new();
        for command in given.iter().chain(commands.iter()) {
            run.take(command);
            run.reference.compare(&run.state.view());
        }
        check_laws(&run);
        return ends(&run, commands);
    }
    for chosen in fixed..commands.len() {
        commands.swap(fixed, chosen);
        in_every_order(given, commands, fixed + 1, ends);
        commands.swap(fixed, chosen);
    }
}

fn every_terms() -> [TurnTerms; 3] {
    let (inject, batch) = (Steering::Inject, Claim::Batch);
    [
        TurnTerms::default(),
        TurnTerms { steering: inject, ..TurnTerms::default() },
        TurnTerms { claim: batch, ..TurnTerms::default() },
    ]
}

const READ: CallId = CallId { turn: TurnId(1), step: pilothouse_messages::id::StepId(1), index: 0 };

/// A turn with a call that runs and one that a person is asked about.
fn at_its_boundary(terms: TurnTerms) -> Vec<TopicCommand> {
    let asking = call(1, 1, 1);
    vec![opens_with(terms), send("a"), replies(1, 1, "", vec![look(), change()]), opened(asking)]
}

/// What was started and ended for a call, over the whole log.
fn runs_and_results(run: &Run, wanted: CallId) -> (usize, usize) {
    let runs = run
        .done
        .iter()
        .filter(|directive| matches!(directive, Directive::CallTool { call, .. } if *call == wanted));
    let results = run
        .log
        .iter()
        .filter(|event| matches!(event, TopicEvent::CallFinished { call, .. } if *call == wanted));
    (runs.count(), results.count())
}

#[test]
fn a_steer_a_stop_a_decision_and_results_in_every_order_leave_each_message_in_one_place() {
    let asking = call(1, 1, 1);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for terms in every_terms() {
        for level in [Level::NextStep, Level::Now, Level::NextTurn] {
            let mut commands = vec![
                send_at(level, "b"),
                stop(),
                allows(asking),
                returns(READ, 1, "A"),
                returns(asking, 1, "B"),
                replies(1, 2, "x", vec![]),
            ];
            in_every_order(&at_its_boundary(terms.clone()), &mut commands, 0, &mut |run, order| {
                let place = |wanted: &TopicCommand| order.iter().position(|command| command == wanted);
                let stopped_first = place(&stop()) < place(&allows(asking));
                let (runs, results) = runs_and_results(run, asking);
                assert_eq!((runs, results), (usize::from(!stopped_first), 1), "{order:?}");
                assert_eq!(runs_and_results(run, READ).1, 1, "{order:?}");
                *places.entry(run.reference.bucket(MessageId(2))).or_default() += 1;
            });
        }
    }
    // It was held by the stop, joined the turn, or began the next one.
    let seen: Vec<_> = places.keys().map(String::as_str).collect();
    assert_eq!(seen, ["Held", "InTurn(TurnId(1))", "InTurn(TurnId(2))"], "{places:?}");
    assert!(places.values().all(|count| *count > 20), "{places:?}");
}

#[test]
fn whatever_ends_a_turn_beside_a_steer_ends_it_once_and_only_a_good_end_chains() {
    let asking = call(1, 1, 1);
    let ends = [
        TopicCommand::Recover { cause: Recovery::SessionRestart },
        TopicCommand::ShutDown,
        news(asking, CardNews::Expired),
        denies(asking),
        fails(1, 2, "no"),
        TopicCommand::Tick,
    ];
    for terms in every_terms() {
        for end in &ends {
            let mut commands =
                vec![send("b"), stop(), end.clone(), returns(READ, 1, "A"), replies(1, 2, "x", vec![])];
            in_every_order(&at_its_boundary(terms.clone()), &mut commands, 0, &mut |run, order| {
                let mut finished = BTreeMap::new();
                let mut began = Vec::new();
                for event in &run.log {
                    if let TopicEvent::TurnFinished { turn, stop, .. } = event {
                        assert_eq!(finished.insert(*turn, stop.chains()), None, "{order:?}");
                    }
                    if let TopicEvent::TurnStarted { turn, .. } = event {
                        began.push(*turn);
                    }
                }
                // A second turn began by the good end of the first, or by the message when none was open.
                assert!(began.len() <= 2 && finished.len() <= 2, "{order:?}");
                let bucket = run.reference.bucket(MessageId(2));
                let expected = if began.len() == 2 { "InTurn(TurnId(2))" } else { "Held" };
                let joined = terms.steering == Steering::Inject && bucket == "InTurn(TurnId(1))";
                let waits = run.state.open.is_some() && bucket == "Queued";
                assert!(bucket == expected || joined || waits, "{bucket} in {order:?}");
            });
        }
    }
}

#[test]
fn what_is_done_about_a_message_as_its_turn_ends_finds_it_in_one_place() {
    let reorders = super::words::reorders(&[3, 2]);
    let mut taken = BTreeMap::new();
    for terms in every_terms() {
        let mut given = at_its_boundary(terms);
        given.extend([send("b"), send_at(Level::NextTurn, "c")]);
        let mut commands = vec![
            super::words::edits(2, "B"),
            super::words::drops(3),
            super::words::relevels(3, Level::Now),
            reorders.clone(),
            resends(2),
            stop(),
        ];
        in_every_order(&given, &mut commands, 0, &mut |run, order| {
            assert_eq!(run.reference.bucket(MessageId(3)), "Dropped", "{order:?}");
            *taken.entry(run.reference.bucket(MessageId(2))).or_insert(0_usize) += 1;
        });
    }
    let seen: Vec<_> = taken.keys().map(String::as_str).collect();
    assert_eq!(seen, ["Held", "InTurn(TurnId(2))"], "{taken:?}");
}
