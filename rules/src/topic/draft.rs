//! One decision while it is made: its events and directives, and the queue as they leave it.

use pilothouse_messages::call::CallResult;
use pilothouse_messages::id::{Attempt, CallId, MessageId, StepId, StepRef, TurnId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, HoldReason, Level, Receipt, TopicAnswer, TopicEvent, TopicRejection,
};

use super::open_turn::OpenTurn;
use super::{Ruling, TopicState, place_for};
use crate::decider::Decision;

/// Events and directives that follow from a command on this state; the state itself stays as it is.
pub(super) struct Draft<'a> {
    pub(super) state: &'a TopicState,
    pub(super) now: Timestamp,
    /// The queue as the events so far leave it, head first.
    pub(super) queue: Vec<Waiting>,
    pub(super) events: Vec<TopicEvent>,
    directives: Vec<Directive>,
}

/// A message that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) id: MessageId,
    pub(super) level: Level,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a TopicState, now: Timestamp) -> Self {
        let queue = state.queue.iter().map(|message| Waiting { id: message.id, level: message.level });
        Self { state, now, queue: queue.collect(), events: Vec::new(), directives: Vec::new() }
    }

    pub(super) fn event(&mut self, event: TopicEvent) {
        self.events.push(event);
    }

    pub(super) fn into_events(self) -> Vec<TopicEvent> {
        self.events
    }

    pub(super) fn directive(&mut self, directive: Directive) {
        self.directives.push(directive);
    }

    pub(super) fn answer(self, answer: TopicAnswer) -> Ruling {
        Ok(Decision { answer, events: self.events, directives: self.directives })
    }

    pub(super) fn noted(self) -> Ruling {
        self.answer(TopicAnswer::Noted)
    }

    /// The message and where the events so far have put it.
    pub(super) fn answer_place(self, message: MessageId) -> Ruling {
        let receipt = self.place_of(message);
        self.answer(TopicAnswer::Sent { message, receipt })
    }

    /// Where a message is that waits, or that an event of this draft has taken.
    fn place_of(&self, message: MessageId) -> Receipt {
        let taken = self.events.iter().rev().find_map(|event| taken_by(event, message));
        taken.unwrap_or_else(|| {
            let before = self.queue.iter().take_while(|waiting| waiting.id != message).count();
            Receipt::Queued { position: before + 1 }
        })
    }

    /// The open turn, if its model runs for this step in this attempt.
    pub(super) fn turn_at_model(&self, at: StepRef) -> Result<&'a OpenTurn, TopicRejection> {
        let turn = self.state.open.as_ref().filter(|turn| turn.model_runs(at));
        turn.ok_or(TopicRejection::Stale)
    }

    /// Puts a message behind all that go before its level.
    pub(super) fn enqueue(&mut self, id: MessageId, level: Level) {
        let place = place_for(level, self.queue.iter().map(|waiting| waiting.level));
        self.queue.insert(place, Waiting { id, level });
    }

    pub(super) fn start_turn(&mut self, messages: Vec<MessageId>) -> TurnId {
        let turn = self.state.last_turn.next();
        self.queue.retain(|waiting| !messages.contains(&waiting.id));
        self.event(TopicEvent::TurnStarted { turn, messages, at: self.now });
        turn
    }

    pub(super) fn start_step(&mut self, at: StepRef) {
        self.event(TopicEvent::StepStarted { at });
        self.directive(Directive::RunModel { at });
    }

    pub(super) fn start_first_step(&mut self, turn: TurnId) {
        self.start_step(StepRef { turn, step: StepId(1), attempt: Attempt(1) });
    }

    /// Gives a call its one result, and each call of a script that ran in it.
    pub(super) fn finish_call(&mut self, call: CallId, attempt: Attempt, result: CallResult) {
        self.finish_nested(call, result.outcome);
        let result = result.capped(self.state.limits.result_bytes);
        self.event(TopicEvent::CallFinished { call, attempt, result });
    }

    pub(super) fn hold_queue(&mut self, reason: HoldReason) {
        if !self.queue.is_empty() {
            let messages = self.queue.drain(..).map(|waiting| waiting.id).collect();
            self.event(TopicEvent::MessagesHeld { messages, reason });
        }
    }
}

/// Where this event puts the message, if it takes it out of the queue.
fn taken_by(event: &TopicEvent, message: MessageId) -> Option<Receipt> {
    if let TopicEvent::TurnStarted { turn, messages, .. } = event
        && messages.contains(&message)
    {
        return Some(Receipt::Accepted { turn: *turn });
    }
    if let TopicEvent::MessagesInjected { turn, step, messages } = event
        && messages.contains(&message)
    {
        return Some(Receipt::Injected { turn: *turn, step: *step });
    }
    None
}
