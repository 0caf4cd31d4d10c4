mod budgets;
mod cards;
mod checkpoint;
mod continuing;
mod ending;
mod interleavings;
mod levels;
mod nested;
mod queue;
mod random;
mod receipts;
mod reference;
mod steering;
mod told;
mod turns;
mod words;

use std::sync::Arc;

use pilothouse_messages::id::TopicId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, TopicAnswer, TopicCommand, TopicEvent, TopicRejection, TopicStatus,
};

use super::{Ruling, TopicState};
use crate::decider::{Decider, Decision};

const NOW: Timestamp = Timestamp(1_000);

fn topic() -> TopicId {
    TopicId::new("t").expect("an id")
}

fn fresh(limits: &Limits) -> TopicState {
    TopicState::new(topic(), Arc::new(limits.clone()))
}

/// A command, and everything that must follow from it.
struct Row {
    command: TopicCommand,
    ruling: Ruling,
    status: TopicStatus,
}

/// A row whose command is answered `Noted` and changes nothing, until more is said.
fn on(command: TopicCommand, status: TopicStatus) -> Row {
    Row { command, ruling: Ok(Decision::answer(TopicAnswer::Noted)), status }
}

impl Row {
    fn answers(mut self, answer: TopicAnswer) -> Self {
        self.decision().answer = answer;
        self
    }

    fn records(mut self, events: impl IntoIterator<Item = TopicEvent>) -> Self {
        self.decision().events = events.into_iter().collect();
        self
    }

    fn does(mut self, directives: impl IntoIterator<Item = Directive>) -> Self {
        self.decision().directives = directives.into_iter().collect();
        self
    }

    fn refused(mut self, rejection: TopicRejection) -> Self {
        self.ruling = Err(rejection);
        self
    }

    fn decision(&mut self) -> &mut Decision<TopicEvent, Directive, TopicAnswer> {
        self.ruling.as_mut().expect("a row is refused last")
    }
}

/// Takes a fresh topic through `given`, all of which must be taken; answers the state and its log.
fn after(limits: &Limits, given: impl IntoIterator<Item = TopicCommand>) -> (TopicState, Vec<TopicEvent>) {
    let (mut state, mut log) = (fresh(limits), Vec::new());
    for command in given {
        let decision = state.decide(NOW, &command).unwrap_or_else(|e| panic!("{command:?}: {e}"));
        decision.events.iter().for_each(|event| state.apply(event));
        log.extend(decision.events);
    }
    (state, log)
}

/// After `given`, each row's command must be ruled exactly so; a replay of the log must end in the same state.
fn check_in(limits: &Limits, given: impl IntoIterator<Item = TopicCommand>, rows: Vec<Row>) {
    let (mut state, mut log) = after(limits, given);
    for (number, row) in rows.into_iter().enumerate() {
        let found = state.decide(NOW, &row.command);
        assert_eq!(found, row.ruling, "row {number}: {:?}", row.command);
        for event in found.into_iter().flat_map(|decision| decision.events) {
            state.apply_told(&event);
            log.push(event);
        }
        assert_eq!(state.status(), row.status, "row {number}: {:?}", row.command);
    }
    assert_eq!(replayed(limits, &log), state);
}

fn check(given: impl IntoIterator<Item = TopicCommand>, rows: Vec<Row>) {
    check_in(&Limits::default(), given, rows);
}

fn replayed(limits: &Limits, log: &[TopicEvent]) -> TopicState {
    let mut state = fresh(limits);
    log.iter().for_each(|event| state.apply(event));
    state
}
