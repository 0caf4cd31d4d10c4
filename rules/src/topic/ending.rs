//! What ends a turn from outside: a stop, a restart, a shutdown.

use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::id::{ApprovalId, Attempt};
use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{
    BudgetLimit, Directive, HoldReason, Recovery, RunBasis, StopReason, TopicAnswer, TopicEvent,
};

use super::Ruling;
use super::continuing::resumes;
use super::draft::Draft;
use super::open_turn::{Call, OpenTurn, Stage};
use crate::cut::{NAME_BYTES, cut};

/// How often a call is tried over restarts: one that ends the process each time is not run for ever.
const ATTEMPTS_MAX: Attempt = Attempt(3);

/// What becomes of a turn that was cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stays open, because a call of it waits for a person.
    Stays,
    /// It goes on by itself.
    Resumes,
    /// It ends as interrupted.
    Ends,
}

impl Draft<'_> {
    pub(super) fn stop(mut self, by: &str) -> Ruling {
        let Some(turn) = &self.state.open else { return self.answer(TopicAnswer::Stopped { turn: None }) };
        let who = format!("stopped by {}", cut(by, NAME_BYTES));
        self.cut_off(turn, &who, StopReason::Aborted, HoldReason::Aborted);
        self.answer(TopicAnswer::Stopped { turn: Some(turn.turn) })
    }

    /// Ends the turn with all that runs and waits in it.
    fn cut_off(&mut self, turn: &OpenTurn, words: &str, stop: StopReason, hold: HoldReason) {
        for call in turn.unfinished() {
            self.cancel_call(call, words);
        }
        self.end_turn(turn, stop, hold);
        self.directive(Directive::CancelTurn { turn: turn.turn });
        let approvals: Vec<ApprovalId> = turn.unfinished().filter_map(awaited).collect();
        if !approvals.is_empty() {
            self.directive(Directive::WithdrawCards { approvals, reason: words.to_owned() });
        }
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
        let fate = match fate(turn) {
            _ if turn.unfinished().any(is_taken_up) => Fate::Stays,
            Fate::Ends if resumes(turn) => Fate::Resumes,
            fate @ (Fate::Ends | Fate::Stays | Fate::Resumes) => fate,
        };
        let mut running = 0;
        for call in turn.unfinished() {
            running += usize::from(self.recover_call(call, fate, words));
        }
        match fate {
            Fate::Stays => self.hold_queue(cause.into()),
            Fate::Ends => {
                self.end_turn(turn, StopReason::Interrupted(words.to_owned()), cause.into());
            }
            Fate::Resumes => {
                self.hold_queue(cause.into());
                self.resume_model(turn);
                if let Some(step) = turn.steps.last().filter(|step| step.calls.is_some() && running == 0) {
                    self.step_boundary(turn, step.at);
                }
            }
        }
        self.noted()
    }

    /// Ends a turn whose time is over, like a stop.
    pub(super) fn tick(mut self) -> Ruling {
        let over = |turn: &&OpenTurn| turn.ends_at().is_some_and(|at| at <= self.now);
        let Some(turn) = self.state.open.as_ref().filter(over) else { return self.noted() };
        self.cut_off(
            turn,
            "the time of the turn was used up",
            StopReason::BudgetSpent(BudgetLimit::Time),
            HoldReason::TurnEnded,
        );
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
        match fate(turn) {
            Fate::Stays => self.hold_queue(HoldReason::ShutDown),
            Fate::Ends | Fate::Resumes => {
                let stop = StopReason::Interrupted(words.to_owned());
                self.end_turn(turn, stop, HoldReason::ShutDown);
            }
        }
        self.directive(Directive::CancelTurn { turn: turn.turn });
        self.noted()
    }

    /// Nothing that is open sleeps; a topic that was never opened has nothing to record.
    pub(super) fn sleep(mut self) -> Ruling {
        if !self.state.is_open() {
            if self.state.config.is_some() {
                self.event(TopicEvent::Slept { at: self.now });
            }
            self.directive(Directive::FallAsleep);
        }
        self.noted()
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

    /// Settles what a crash has left of a call; answers whether it runs again.
    fn recover_call(&mut self, call: &Call, fate: Fate, words: &str) -> bool {
        match &call.stage {
            Stage::Running { attempt, basis, receipt, .. } => {
                let goes_on = match receipt.as_ref().filter(|_| is_taken_up(call)) {
                    Some(receipt) => self.take_up(call, *attempt, basis, receipt),
                    None => fate != Fate::Ends && self.run_again(call, *attempt, basis),
                };
                if goes_on {
                    return true;
                }
                let text = format!("{words} after this call was sent: nobody knows whether it ran");
                let result = CallResult::said(CallOutcome::Unknown, text);
                self.finish_call(call.planned.call, *attempt, result);
            }
            Stage::Planned => self.cancel_call(call, words),
            Stage::Awaiting { .. } | Stage::Finished(_) => {}
        }
        false
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
