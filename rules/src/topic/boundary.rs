//! What a step boundary and a turn's end decide: the next step, messages that join it, or the end and what starts then.
//!
//! At a boundary the first of these counts: a card expired; a message steers; the same call was refused too often; the
//! budget is used up; the steps are used up. A message that steers makes the turn yield, or joins it where the topic
//! injects and a further step is left.

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{Attempt, CallId, MessageId, StepRef};
use pilothouse_messages::model::Usage;
use pilothouse_messages::topic::{Claim, Directive, HoldReason, Level, Steering, StopReason, TopicEvent};

use super::draft::Draft;
use super::open_turn::{Call, OpenTurn};

impl Draft<'_> {
    /// Every call of the step has its result: the turn ends here, or its next step starts.
    pub(super) fn step_boundary(&mut self, turn: &OpenTurn, at: StepRef) {
        self.event(TopicEvent::StepFinished { at });
        let expires = self.events.iter().any(|event| matches!(event, TopicEvent::CallExpired { .. }));
        let spent = turn.config.turns.budget.spent(self.usage(turn), at.step.0);
        let used_up = at.step.0 >= turn.config.max_steps.unwrap_or(self.state.limits.steps_per_turn);
        let steering = if spent.is_some() || used_up { Steering::Chain } else { turn.config.turns.steering };
        if turn.expired || expires {
            self.end_turn(turn, StopReason::ApprovalExpired, HoldReason::TurnEnded);
        } else if self.queue.iter().any(|waiting| waiting.level.steers()) {
            match steering {
                Steering::Chain => self.end_turn(turn, StopReason::Yielded, HoldReason::TurnEnded),
                Steering::Inject => self.inject(at),
            }
        } else if let Some(words) = self.no_progress(turn, at) {
            self.end_turn(turn, StopReason::Failed(words), HoldReason::TurnEnded);
        } else if let Some(limit) = spent {
            self.end_turn(turn, StopReason::BudgetSpent(limit), HoldReason::TurnEnded);
        } else if used_up {
            self.end_turn(turn, StopReason::StepLimit, HoldReason::TurnEnded);
        } else {
            self.start_step(after(at));
        }
    }

    /// All messages that steer join the turn before its next step.
    fn inject(&mut self, at: StepRef) {
        let next = after(at);
        let (joining, left): (Vec<_>, Vec<_>) = self.queue.drain(..).partition(|one| one.level.steers());
        self.queue = left;
        let messages = joining.into_iter().map(|one| one.id).collect();
        self.event(TopicEvent::MessagesInjected { turn: next.turn, step: next.step, messages });
        self.start_step(next);
    }

    /// Ends the turn. The head of the queue starts the next one if this one ended well, else the queue is held.
    pub(super) fn end_turn(&mut self, turn: &OpenTurn, stop: StopReason, hold: HoldReason) {
        let chains = stop.chains();
        self.event(TopicEvent::TurnFinished { turn: turn.turn, stop, at: self.now });
        if !chains {
            return self.hold_queue(hold);
        }
        let claimed = self.claim();
        if !claimed.is_empty() {
            let next = self.start_turn(claimed);
            self.start_first_step(next);
        }
    }

    /// The messages that start the next turn.
    fn claim(&self) -> Vec<MessageId> {
        let claim = self.state.config.as_ref().map(|config| config.turns.claim).unwrap_or_default();
        let Some(head) = self.queue.first() else { return Vec::new() };
        let alike = self.queue.iter().take_while(|waiting| waiting.level.steers() == head.level.steers());
        match claim {
            Claim::One => vec![head.id],
            Claim::Batch => alike.map(|waiting| waiting.id).collect(),
        }
    }

    /// A message that cannot wait: calls that run and may be interrupted have their results now.
    pub(super) fn interrupt(&mut self, level: Level) {
        let Some(turn) = self.state.open.as_ref().filter(|_| level == Level::Now) else { return };
        let calls: Vec<&Call> = turn.unfinished().filter(|call| call.is_interruptible()).collect();
        let Some(at) = turn.steps.last().map(|step| step.at).filter(|_| !calls.is_empty()) else { return };
        let words = "interrupted by a message while it ran: it may have had its effect";
        for call in &calls {
            let result = CallResult::said(CallOutcome::Cancelled, words);
            self.finish_call(call.planned.call, call.attempt(), result);
        }
        let cancelled: Vec<CallId> = calls.iter().map(|call| call.planned.call).collect();
        let others = turn.unfinished().count() > cancelled.len();
        self.directive(Directive::CancelCalls { calls: cancelled });
        if !others {
            self.step_boundary(turn, at);
        }
    }

    /// What the turn's model steps have used, the reply of this draft included.
    fn usage(&self, turn: &OpenTurn) -> Usage {
        let replied = self.events.iter().find_map(|event| {
            if let TopicEvent::StepReplied { usage, .. } = event { Some(*usage) } else { None }
        });
        turn.usage.plus(replied.unwrap_or_default())
    }
}

fn after(at: StepRef) -> StepRef {
    StepRef { step: at.step.next(), attempt: Attempt(1), ..at }
}
