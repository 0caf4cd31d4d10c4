//! What lets a turn that was cut short go on: a person who asks, or the topic's own terms after a crash.
//!
//! A turn that a person takes up goes on as the next turn, over the same history; the messages of the one that was cut
//! short are its own then. A turn that a crash has cut off goes on as itself, at its last step in the next attempt.

use std::sync::Arc;

use pilothouse_messages::id::{StepRef, TurnId};
use pilothouse_messages::topic::{
    AfterCrash, Receipt, StopReason, TopicAnswer, TopicEvent, TopicRejection, TopicUpdate,
};

use super::draft::Draft;
use super::open_turn::OpenTurn;
use super::{Ruling, TopicState};

impl Draft<'_> {
    pub(super) fn continue_turn(mut self) -> Ruling {
        if let Some(open) = &self.state.open {
            return Err(TopicRejection::TurnOpen { turn: open.turn });
        }
        if !self.state.last_stop.as_ref().is_some_and(StopReason::continues) {
            return Err(TopicRejection::NothingToContinue);
        }
        let of = self.state.last_turn;
        let turn = self.start_turn(Vec::new());
        self.event(TopicEvent::TurnContinued { turn, of });
        self.start_first_step(turn);
        self.answer(TopicAnswer::Continued { turn })
    }

    /// The model's step in its next attempt, if it was the model that was cut off.
    pub(super) fn resume_model(&mut self, turn: &OpenTurn) {
        self.event(TopicEvent::TurnResumed { turn: turn.turn, at: self.now });
        if let Some(step) = turn.steps.last().filter(|step| step.calls.is_none()) {
            self.start_step(StepRef { attempt: step.at.attempt.next(), ..step.at });
        }
    }
}

/// Whether a crash lets this turn go on by itself: the topic says so, and it has not done so before.
pub(super) fn resumes(turn: &OpenTurn) -> bool {
    match turn.config.turns.after_crash {
        AfterCrash::ResumeOnce => !turn.resumed && !turn.steps.is_empty(),
        AfterCrash::Interrupt => false,
    }
}

impl TopicState {
    /// The messages that the turn `from` left unanswered are where `now` says, whichever turn they began in.
    pub(super) fn carry_over(&mut self, from: TurnId, now: &Receipt) -> Vec<TopicUpdate> {
        let before = Receipt::Accepted { turn: from };
        for keyed in self.keys.values_mut().filter(|keyed| keyed.receipt.as_ref() == Some(&before)) {
            keyed.receipt = Some(now.clone());
        }
        let mut told = Vec::new();
        for closed in &mut self.closed {
            // Pictures are shared with readers, so only one that changes is made anew.
            if !closed.view.messages.iter().any(|message| message.receipt == before) {
                continue;
            }
            let messages = &mut Arc::make_mut(&mut closed.view).messages;
            for message in messages.iter_mut().filter(|message| message.receipt == before) {
                message.receipt = now.clone();
                told.push(TopicUpdate::Receipt { message: message.message, receipt: now.clone() });
            }
        }
        told
    }
}
