//! What comes back about calls: they were sent, they returned, their card is open, decided, expired or refused.

use pilothouse_messages::approval::Verdict;
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult, LateAnswer};
use pilothouse_messages::id::{ApprovalId, Attempt, CallId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CardNews, Directive, Findings, RunBasis, TopicConfig, TopicEvent, TopicRejection, TopicUpdate,
};

use super::draft::Draft;
use super::ending::awaited;
use super::open_turn::{Call, CardStage, Delivery, OpenTurn, Stage};
use super::{Ruling, TopicState};
use crate::gate::{Modes, Need, headless, need_in};
use crate::registry::policy::out_of_reach;

/// A larger receipt is not kept: its call cannot go on after a restart.
const RECEIPT_BYTES_MAX: usize = 64 << 10;

/// A call that waits for a person, with the turn that it belongs to.
#[derive(Clone, Copy)]
struct Asking<'a> {
    turn: &'a OpenTurn,
    call: &'a Call,
    card: CardStage,
}

/// The result of a call whose last attempt ended so. That one which was not run says nothing about those before it,
/// which a crash has cut off: they may have run.
fn of_all_attempts(attempt: Attempt, last: &CallResult) -> CallResult {
    match last.outcome {
        CallOutcome::Rejected | CallOutcome::Denied | CallOutcome::Unavailable if attempt > Attempt(1) => {
            let words = last.text();
            CallResult::said(
                CallOutcome::Unknown,
                format!("nobody knows whether an earlier attempt ran; the last one did not: {words}"),
            )
        }
        CallOutcome::Succeeded
        | CallOutcome::Failed
        | CallOutcome::Rejected
        | CallOutcome::Denied
        | CallOutcome::Unavailable
        | CallOutcome::TimedOut
        | CallOutcome::Cancelled
        | CallOutcome::Unknown => last.clone(),
    }
}

impl<'a> Draft<'a> {
    pub(super) fn call_sent(mut self, call: CallId, attempt: Attempt) -> Ruling {
        let (_, delivery) = self.running(call, attempt)?;
        match delivery {
            Delivery::Due => self.event(TopicEvent::CallSent { call, attempt }),
            Delivery::Sent => {}
        }
        self.noted()
    }

    pub(super) fn call_receipted(mut self, call: CallId, attempt: Attempt, receipt: &CallReceipt) -> Ruling {
        self.running(call, attempt)?;
        if receipt.bytes() <= RECEIPT_BYTES_MAX {
            self.event(TopicEvent::CallReceipted { call, attempt, receipt: receipt.clone() });
        }
        self.noted()
    }

    /// Only recorded: the call has its one result, or will have that of another attempt.
    pub(super) fn answered_late(mut self, call: CallId, answer: LateAnswer) -> Ruling {
        if call.turn == TurnId::default() || call.turn > self.state.last_turn() {
            return Err(TopicRejection::Stale);
        }
        self.event(TopicEvent::CallAnsweredLate { call, answer, at: self.now });
        self.noted()
    }

    pub(super) fn call_returned(mut self, call: CallId, attempt: Attempt, result: &CallResult) -> Ruling {
        let (turn, _) = self.running(call, attempt)?;
        self.finish_call(call, attempt, of_all_attempts(attempt, result));
        self.end_step_with(turn, call);
        self.noted()
    }

    pub(super) fn card_news(self, approval: ApprovalId, news: &CardNews) -> Ruling {
        match (news, self.asking(approval)) {
            (CardNews::Opened(_), Some(asking)) => self.card_opened(approval, asking),
            (CardNews::Waits, Some(_)) => self.noted(),
            (CardNews::Opened(_) | CardNews::Waits, None) => self.unwanted(approval),
            (CardNews::Refused(words), Some(asking)) => self.card_refused(words, asking),
            (CardNews::Refused(_), None) => Err(TopicRejection::Stale),
            (CardNews::Decided { verdict: Verdict::Allow, by, reason, arguments }, Some(asking)) => {
                self.allowed(approval, (by, reason.as_ref()), arguments.as_ref(), asking)
            }
            (CardNews::Decided { verdict: Verdict::Deny, by, reason, arguments: _ }, Some(asking)) => {
                self.denied(approval, by, reason.as_ref(), asking)
            }
            (CardNews::Expired, Some(asking)) => self.card_expired(approval, asking),
            (CardNews::Decided { .. } | CardNews::Expired, None) => self.late_debt(approval),
        }
    }

    pub(super) fn running(
        &self,
        call: CallId,
        attempt: Attempt,
    ) -> Result<(&'a OpenTurn, Delivery), TopicRejection> {
        let turn = self.state.open.as_ref().ok_or(TopicRejection::Stale)?;
        let running = turn.calls().iter().find_map(|held| match &held.stage {
            Stage::Running { attempt: current, delivery, .. }
                if held.planned.call == call && *current == attempt =>
            {
                Some(*delivery)
            }
            Stage::Running { .. } | Stage::Planned | Stage::Awaiting { .. } | Stage::Finished(_) => None,
        });
        running.map(|delivery| (turn, delivery)).ok_or(TopicRejection::Stale)
    }

    fn asking(&self, approval: ApprovalId) -> Option<Asking<'a>> {
        let turn = self.state.open.as_ref()?;
        let (call, card) = turn.awaiting(approval)?;
        Some(Asking { turn, call, card })
    }

    /// The step boundary, if this call was the last one without a result.
    fn end_step_with(&mut self, turn: &OpenTurn, call: CallId) {
        if let Some(at) = turn.step_that_ends_with(call) {
            self.step_boundary(turn, at);
        }
    }

    fn card_opened(mut self, approval: ApprovalId, asking: Asking<'_>) -> Ruling {
        let Asking { turn, call, card } = asking;
        match card {
            CardStage::Asked => self.event(TopicEvent::CardOpened { call: call.planned.call, approval }),
            CardStage::Stored => {
                if let Some(card) = call.card(&self.state.topic, &turn.config.tenant) {
                    self.directive(Directive::Announce(TopicUpdate::ApprovalRequested(Box::new(card))));
                }
            }
        }
        self.noted()
    }

    fn unwanted(mut self, approval: ApprovalId) -> Ruling {
        let reason = "the call no longer waits for it".to_owned();
        self.directive(Directive::WithdrawCards { approvals: vec![approval], reason });
        self.noted()
    }

    fn card_refused(mut self, words: &str, asking: Asking<'_>) -> Ruling {
        self.deny_call(asking, words.to_owned());
        self.noted()
    }

    fn allowed(
        mut self,
        approval: ApprovalId,
        (by, reason): (&str, Option<&String>),
        edited: Option<&JsonText>,
        asking: Asking<'_>,
    ) -> Ruling {
        let planned = &asking.call.planned;
        // A call asks for a card only with its tool.
        let Some(tool) = planned.tool.clone() else { return Err(TopicRejection::Stale) };
        let (call, attempt, basis) = (planned.call, Attempt(1), RunBasis::Approved { approval });
        self.decided(approval, Verdict::Allow, by, reason, asking);
        if let Some(arguments) = edited.cloned() {
            self.event(TopicEvent::CallEdited { call, arguments });
        }
        self.event(TopicEvent::CallStarted { call, attempt, basis: basis.clone() });
        self.pay(approval, Payment::Paid);
        let arguments = edited.unwrap_or(&planned.arguments).clone();
        self.directive(Directive::CallTool { call, attempt, tool, arguments, basis });
        self.noted()
    }

    fn denied(
        mut self,
        approval: ApprovalId,
        by: &str,
        reason: Option<&String>,
        asking: Asking<'_>,
    ) -> Ruling {
        let words = match reason {
            Some(reason) => format!("denied by {by}: {reason}"),
            None => format!("denied by {by}"),
        };
        self.decided(approval, Verdict::Deny, by, reason, asking);
        self.pay(approval, Payment::Paid);
        self.deny_call(asking, words);
        self.noted()
    }

    fn card_expired(mut self, approval: ApprovalId, asking: Asking<'_>) -> Ruling {
        self.event(TopicEvent::CallExpired { call: asking.call.planned.call, approval });
        self.pay(approval, Payment::Paid);
        self.deny_call(asking, "nobody decided in time".to_owned());
        self.noted()
    }

    /// Denies the calls whose cards a stricter configuration no longer allows, and takes the cards back.
    pub(super) fn tighten(&mut self, turn: &OpenTurn, newest: &TopicConfig) {
        let modes = Modes { newest: newest.mode, ..self.modes(turn) };
        let headless = headless(&turn.config, newest);
        let denied = |call: &Call| {
            // What guards said is on the card; here only what changed counts.
            let tool = call.planned.tool.as_ref()?;
            if let Some(words) = out_of_reach(newest, tool) {
                return Some((call.planned.call, awaited(call)?, words));
            }
            match need_in(tool, &Findings::default(), modes, headless) {
                Need::Deny(words) => Some((call.planned.call, awaited(call)?, words)),
                Need::Run(_) | Need::Ask(_) => None,
            }
        };
        let denied: Vec<_> = turn.unfinished().filter_map(denied).collect();
        let Some(at) = turn.steps.last().map(|step| step.at).filter(|_| !denied.is_empty()) else { return };
        for (call, _, words) in &denied {
            let result = CallResult::said(CallOutcome::Denied, words.clone());
            self.finish_call(*call, Attempt::default(), result);
        }
        let approvals = denied.iter().map(|(_, approval, _)| *approval).collect();
        let reason = "the topic's configuration became stricter".to_owned();
        self.directive(Directive::WithdrawCards { approvals, reason });
        if turn.unfinished().count() == denied.len() {
            self.step_boundary(turn, at);
        }
    }

    fn late_debt(mut self, approval: ApprovalId) -> Ruling {
        let payment = if self.state.has_settled(approval) { Payment::Paid } else { Payment::Void };
        self.pay(approval, payment);
        self.noted()
    }

    fn decided(
        &mut self,
        approval: ApprovalId,
        verdict: Verdict,
        by: &str,
        reason: Option<&String>,
        asking: Asking<'_>,
    ) {
        let call = asking.call.planned.call;
        let (by, reason) = (by.to_owned(), reason.cloned());
        self.event(TopicEvent::CallDecided { call, approval, verdict, by, reason });
    }

    fn deny_call(&mut self, asking: Asking<'_>, words: String) {
        let call = asking.call.planned.call;
        self.finish_call(call, Attempt::default(), CallResult::said(CallOutcome::Denied, words));
        self.end_step_with(asking.turn, call);
    }

    fn pay(&mut self, approval: ApprovalId, payment: Payment) {
        self.directive(Directive::PayDebt { approval, payment });
    }
}

impl TopicState {
    /// `true` if the decision or expiry of this card is recorded in a turn that is still known.
    fn has_settled(&self, approval: ApprovalId) -> bool {
        let open = self.open.iter().map(|turn| &turn.settled);
        let closed = self.closed.iter().map(|turn| &turn.settled);
        open.chain(closed).any(|settled| settled.contains(&approval))
    }
}
