//! One decision while it is made: its events and directives, and the steps that several commands share.

use pilothouse_messages::call::CallResult;
use pilothouse_messages::id::{Attempt, CallId, MessageId, StepId, StepRef, TurnId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, HoldReason, StopReason, TopicAnswer, TopicEvent, TopicRejection,
};

use super::open_turn::OpenTurn;
use super::{Ruling, TopicState};
use crate::decider::Decision;

/// Events and directives that follow from a command on this state; the state itself stays as it is.
pub(super) struct Draft<'a> {
    pub(super) state: &'a TopicState,
    pub(super) now: Timestamp,
    events: Vec<TopicEvent>,
    directives: Vec<Directive>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a TopicState, now: Timestamp) -> Self {
        Self { state, now, events: Vec::new(), directives: Vec::new() }
    }

    pub(super) fn event(&mut self, event: TopicEvent) {
        self.events.push(event);
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

    /// The open turn, if its model runs for this step in this attempt.
    pub(super) fn turn_at_model(&self, at: StepRef) -> Result<&'a OpenTurn, TopicRejection> {
        let turn = self.state.open.as_ref().filter(|turn| turn.model_runs(at));
        turn.ok_or(TopicRejection::Stale)
    }

    pub(super) fn start_turn(&mut self, message: MessageId) {
        let turn = self.state.last_turn.next();
        self.event(TopicEvent::TurnStarted { turn, messages: vec![message], at: self.now });
        self.start_step(turn, StepId(1));
    }

    fn start_step(&mut self, turn: TurnId, step: StepId) {
        let at = StepRef { turn, step, attempt: Attempt(1) };
        self.event(TopicEvent::StepStarted { at });
        self.directive(Directive::RunModel { at });
    }

    /// Gives a call its one result.
    pub(super) fn finish_call(&mut self, call: CallId, attempt: Attempt, result: CallResult) {
        let result = result.capped(self.state.limits.result_bytes);
        self.event(TopicEvent::CallFinished { call, attempt, result });
    }

    /// Every call of the step has its result: the turn ends here, or its next step starts.
    pub(super) fn step_boundary(&mut self, turn: &OpenTurn, at: StepRef) {
        self.event(TopicEvent::StepFinished { at });
        let expires = self.events.iter().any(|event| matches!(event, TopicEvent::CallExpired { .. }));
        let steps_max = turn.config.max_steps.unwrap_or(self.state.limits.steps_per_turn);
        if turn.expired || expires {
            self.end_turn(turn, StopReason::ApprovalExpired, HoldReason::TurnEnded);
        } else if !self.state.queue.is_empty() {
            self.end_turn(turn, StopReason::Yielded, HoldReason::TurnEnded);
        } else if at.step.0 >= steps_max {
            self.end_turn(turn, StopReason::StepLimit, HoldReason::TurnEnded);
        } else {
            self.start_step(turn.turn, at.step.next());
        }
    }

    /// Ends the turn. The head of the queue starts the next one if this one ended well, else the queue is held.
    pub(super) fn end_turn(&mut self, turn: &OpenTurn, stop: StopReason, hold: HoldReason) {
        let chains = stop.chains();
        self.event(TopicEvent::TurnFinished { turn: turn.turn, stop, at: self.now });
        match self.state.queue.front() {
            Some(head) if chains => self.start_turn(head.id),
            Some(_) | None => self.hold_queue(hold),
        }
    }

    pub(super) fn hold_queue(&mut self, reason: HoldReason) {
        if !self.state.queue.is_empty() {
            let messages = self.state.queue.iter().map(|message| message.id).collect();
            self.event(TopicEvent::MessagesHeld { messages, reason });
        }
    }
}
