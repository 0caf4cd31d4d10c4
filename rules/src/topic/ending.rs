//! What ends a turn from outside: a stop, a restart, a shutdown.

use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::id::{ApprovalId, Attempt};
use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{
    Directive, HoldReason, Recovery, RunBasis, StopReason, TopicAnswer, TopicEvent,
};

use super::Ruling;
use super::draft::Draft;
use super::open_turn::{Call, OpenTurn, Stage};
use crate::cut::{NAME_BYTES, cut};

/// How often a call is tried over restarts: one that ends the process each time is not run for ever.
const ATTEMPTS_MAX: Attempt = Attempt(3);

/// Whether a turn that was cut off stays open, because a call of it waits for a person.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

impl Draft<'_> {
    pub(super) fn stop(mut self, by: &str) -> Ruling {
        let Some(turn) = &self.state.open else { return self.answer(TopicAnswer::Stopped { turn: None }) };
        let who = format!("stopped by {}", cut(by, NAME_BYTES));
        for call in turn.unfinished() {
            self.cancel_call(call, &who);
        }
        self.end_turn(turn, StopReason::Aborted, HoldReason::Aborted);
        self.directive(Directive::CancelTurn { turn: turn.turn });
        let approvals: Vec<ApprovalId> = turn.unfinished().filter_map(awaited).collect();
        if !approvals.is_empty() {
            self.directive(Directive::WithdrawCards { approvals, reason: who });
        }
        self.answer(TopicAnswer::Stopped { turn: Some(turn.turn) })
    }

    /// Settles what a crash or restart has left open: nothing of it runs by itself, but for calls that go on by what
    /// their server handed out, which keep their turn open, and reads of a turn that stays open.
    pub(super) fn recover(mut self, cause: Recovery) -> Ruling {
        if !self.state.is_open() {
            return self.noted();
        }
        self.event(TopicEvent::Recovered { cause, at: self.now });
        let Some(turn) = &self.state.open else {
            self.hold_queue(cause.into());
            return self.noted();
        };
        let words = match cause {
            Recovery::ProcessRestart => "the process was restarted",
            Recovery::SessionRestart => "the session was restarted",
        };
        let fate = if turn.unfinished().any(is_taken_up) { Fate::Stays } else { fate(turn) };
        for call in turn.unfinished() {
            self.recover_call(call, fate, words);
        }
        self.interrupt(turn, fate, words, cause.into());
        self.noted()
    }

    /// Ends the open turn, unless it waits for people; a turn that waits for nothing else is left as it is.
    pub(super) fn shut_down(mut self) -> Ruling {
        let Some(turn) = &self.state.open else {
            self.hold_queue(HoldReason::ShutDown);
            return self.noted();
        };
        if turn.waits_for_people_only() {
            return self.noted();
        }
        let words = "the runtime shut down";
        for call in turn.unfinished().filter(|call| !call.is_awaiting()) {
            self.cancel_call(call, words);
        }
        self.interrupt(turn, fate(turn), words, HoldReason::ShutDown);
        self.directive(Directive::CancelTurn { turn: turn.turn });
        self.noted()
    }

    fn interrupt(&mut self, turn: &OpenTurn, fate: Fate, words: &str, hold: HoldReason) {
        match fate {
            Fate::Stays => self.hold_queue(hold),
            Fate::Ends => self.end_turn(turn, StopReason::Interrupted(words.to_owned()), hold),
        }
    }

    fn cancel_call(&mut self, call: &Call, who: &str) {
        let words = match &call.stage {
            Stage::Running { .. } => format!("{who} while it ran: it may have had its effect"),
            Stage::Awaiting { .. } => format!("{who} while it waited for a decision: it never ran"),
            Stage::Planned => format!("{who}: it never ran"),
            Stage::Finished(_) => return,
        };
        let result = CallResult::said(CallOutcome::Cancelled, words);
        self.finish_call(call.planned.call, call.attempt(), result);
    }

    fn recover_call(&mut self, call: &Call, fate: Fate, words: &str) {
        match &call.stage {
            Stage::Running { attempt, basis, receipt, .. } => {
                let goes_on = match receipt.as_ref().filter(|_| is_taken_up(call)) {
                    Some(receipt) => self.take_up(call, *attempt, basis, receipt),
                    None => fate == Fate::Stays && self.run_again(call, *attempt, basis),
                };
                if !goes_on {
                    let text = format!("{words} after this call was sent: nobody knows whether it ran");
                    let result = CallResult::said(CallOutcome::Unknown, text);
                    self.finish_call(call.planned.call, *attempt, result);
                }
            }
            Stage::Planned => self.cancel_call(call, words),
            Stage::Awaiting { .. } | Stage::Finished(_) => {}
        }
    }

    /// Starts the next attempt of a call by what its server handed out; answers whether it did.
    fn take_up(&mut self, call: &Call, attempt: Attempt, basis: &RunBasis, receipt: &CallReceipt) -> bool {
        let planned = &call.planned;
        let Some(tool) = planned.tool.clone() else { return false };
        let (call, attempt, arguments) = (planned.call, attempt.next(), planned.arguments.clone());
        let (basis, receipt) = (basis.clone(), receipt.clone());
        self.event(TopicEvent::CallStarted { call, attempt, basis: basis.clone() });
        self.directive(Directive::TakeUpCall { call, attempt, tool, arguments, basis, receipt });
        true
    }

    /// Starts the next attempt of a call that only reads; answers whether it did.
    fn run_again(&mut self, call: &Call, attempt: Attempt, basis: &RunBasis) -> bool {
        let planned = &call.planned;
        if attempt >= ATTEMPTS_MAX {
            return false;
        }
        let Some(tool) = planned.tool.clone().filter(|tool| tool.effect == Effect::Reads) else {
            return false;
        };
        let (call, attempt, arguments) = (planned.call, attempt.next(), planned.arguments.clone());
        self.event(TopicEvent::CallStarted { call, attempt, basis: basis.clone() });
        self.directive(Directive::CallTool { call, attempt, tool, arguments, basis: basis.clone() });
        true
    }
}

fn fate(turn: &OpenTurn) -> Fate {
    if turn.unfinished().any(Call::is_awaiting) { Fate::Stays } else { Fate::Ends }
}

/// Whether a call goes on after a restart by what its server handed out.
fn is_taken_up(call: &Call) -> bool {
    call.attempt() < ATTEMPTS_MAX && call.receipt().is_some_and(CallReceipt::goes_on)
}

pub(super) fn awaited(call: &Call) -> Option<ApprovalId> {
    match &call.stage {
        Stage::Awaiting { approval, .. } => Some(*approval),
        Stage::Planned | Stage::Running { .. } | Stage::Finished(_) => None,
    }
}
