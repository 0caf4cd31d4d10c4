//! What comes from the model: text, a reply whose calls are planned, a failure.

use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{ApprovalId, Attempt, CallId, StepRef};
use pilothouse_messages::model::FinishReason;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    CallPlan, Directive, HoldReason, ModelReply, PlannedCall, RequestedCall, Resolution, ResolvedTool, Shown,
    StopReason, TopicEvent, TopicUpdate,
};

use super::Ruling;
use super::draft::Draft;
use super::open_turn::{OpenTurn, card};
use crate::cut::cut;
use crate::gate::{Modes, Need, headless, need_in};
use crate::registry::policy::out_of_reach;

impl Draft<'_> {
    pub(super) fn model_text(mut self, at: StepRef, delta: &str) -> Ruling {
        let turn = self.turn_at_model(at)?;
        if delta.is_empty() {
            return self.noted();
        }
        let (limit, so_far) = (self.state.limits.reply_bytes, turn.steps.last().map_or(0, |s| s.text.len()));
        if so_far + delta.len() > limit {
            self.end_turn(turn, StopReason::Failed(too_long(limit)), HoldReason::TurnEnded);
            self.directive(Directive::CancelTurn { turn: turn.turn });
            return self.noted();
        }
        self.event(TopicEvent::TextAppended { at, delta: delta.to_owned() });
        self.noted()
    }

    /// What a model shows beside its text is told, in its place among the records, and not recorded.
    pub(super) fn model_showed(mut self, at: StepRef, shown: &[Shown]) -> Ruling {
        self.turn_at_model(at)?;
        let (turn, step) = (at.turn, at.step);
        for shown in shown {
            let update = match shown.clone() {
                Shown::Reasoning(delta) => TopicUpdate::Reasoning { turn, step, delta },
                Shown::ToolInput { index, tool, delta } => {
                    TopicUpdate::ToolInput { turn, step, index, tool, delta }
                }
                Shown::HistoryShortened { left_out } => {
                    TopicUpdate::HistoryShortened { turn, step, left_out }
                }
            };
            self.directive(Directive::Announce(update));
        }
        self.noted()
    }

    pub(super) fn model_failed(mut self, at: StepRef, message: &str) -> Ruling {
        let turn = self.turn_at_model(at)?;
        let words = cut(message, self.state.limits.description_bytes).to_owned();
        self.end_turn(turn, StopReason::Failed(words), HoldReason::TurnEnded);
        self.noted()
    }

    /// Plans each call of the reply and starts those that need nobody; a reply without calls ends the turn.
    pub(super) fn model_replied(mut self, at: StepRef, reply: &ModelReply) -> Ruling {
        let turn = self.turn_at_model(at)?;
        if let Some(words) = self.excess(reply) {
            self.end_turn(turn, StopReason::Failed(words), HoldReason::TurnEnded);
            return self.noted();
        }
        let calls = self.plan_calls(turn, at, reply);
        self.event(TopicEvent::StepReplied {
            at,
            text: reply.text.clone(),
            calls: calls.clone(),
            finish: reply.finish,
            usage: reply.usage,
        });
        for (call, asked) in calls.iter().zip(&reply.calls) {
            self.begin_call(turn, call, &asked.resolution);
        }
        let stop = match reply.finish {
            FinishReason::Stop => calls.is_empty().then_some(StopReason::Completed),
            FinishReason::Length => Some(StopReason::OutputTruncated),
            FinishReason::Refused => Some(StopReason::Refused),
        };
        match stop {
            Some(stop) => {
                self.event(TopicEvent::StepFinished { at });
                self.end_turn(turn, stop, HoldReason::TurnEnded);
            }
            None if calls.iter().all(|call| has_its_result(&call.plan)) => self.step_boundary(turn, at),
            None => {}
        }
        self.noted()
    }

    /// Why the reply is too large to be taken, if it is.
    fn excess(&self, reply: &ModelReply) -> Option<String> {
        let (calls, calls_max) = (reply.calls.len(), self.state.limits.calls_per_reply);
        if calls > calls_max {
            return Some(format!(
                "the model asked for {calls} tool calls in one reply, the limit is {calls_max}"
            ));
        }
        let asked = reply.calls.iter().map(|call| {
            let id = call.provider_id.as_ref().map_or(0, String::len);
            call.name.len() + call.arguments.as_str().len() + id
        });
        let limit = self.state.limits.reply_bytes;
        (reply.text.len() + asked.sum::<usize>() > limit).then(|| too_long(limit))
    }

    fn plan_calls(&self, turn: &OpenTurn, at: StepRef, reply: &ModelReply) -> Vec<PlannedCall> {
        let calls = reply.calls.iter().zip(0..).map(|(asked, index)| {
            let call = CallId { turn: at.turn, step: at.step, index };
            let (tool, plan) = match reply.finish {
                FinishReason::Stop => self.plan_call(turn, call, asked),
                FinishReason::Length => (None, refusal("the reply was cut off, so this call was not run")),
                FinishReason::Refused => (None, refusal("the model refused, so this call was not run")),
            };
            let (provider_id, name) = (asked.provider_id.clone(), asked.name.clone());
            PlannedCall { call, provider_id, name, arguments: asked.arguments.clone(), tool, plan }
        });
        calls.collect()
    }

    fn plan_call(
        &self,
        turn: &OpenTurn,
        call: CallId,
        asked: &RequestedCall,
    ) -> (Option<ResolvedTool>, CallPlan) {
        let tool = match &asked.resolution {
            Resolution::Refused(words) => return (None, CallPlan::Reject(words.clone())),
            Resolution::Answered(_) => return (None, CallPlan::Answered),
            Resolution::Tool(tool) => tool.as_ref(),
        };
        let newest = self.state.config.as_ref().unwrap_or(&turn.config);
        if let Some(words) = out_of_reach(newest, tool) {
            return (Some(tool.clone()), CallPlan::Deny(words));
        }
        let plan = match need_in(tool, &asked.findings, self.modes(turn), headless(&turn.config, newest)) {
            Need::Run(basis) => CallPlan::Run(basis),
            Need::Deny(reason) => CallPlan::Deny(reason),
            Need::Ask(reason) => {
                let approval = ApprovalId::of(&self.state.topic, call);
                CallPlan::Ask { approval, reason, expires_at: self.card_expiry(turn) }
            }
        };
        (Some(tool.clone()), plan)
    }

    /// The modes that count for this turn now.
    pub(super) fn modes(&self, turn: &OpenTurn) -> Modes {
        let newest = self.state.config.as_ref().map_or(turn.config.mode, |config| config.mode);
        Modes { turn: turn.config.mode, newest, max: self.state.limits.max_mode }
    }

    fn card_expiry(&self, turn: &OpenTurn) -> Timestamp {
        let patience = turn.config.approval_ttl_ms.map(Duration::from_millis);
        self.now.after(patience.unwrap_or(self.state.limits.approval))
    }

    fn begin_call(&mut self, turn: &OpenTurn, planned: &PlannedCall, resolution: &Resolution) {
        let call = planned.call;
        match (&planned.plan, &planned.tool) {
            (CallPlan::Run(basis), Some(tool)) => {
                let (attempt, arguments) = (Attempt(1), planned.arguments.clone());
                let basis = basis.clone();
                self.event(TopicEvent::CallStarted { call, attempt, basis: basis.clone() });
                self.directive(Directive::CallTool { call, attempt, tool: tool.clone(), arguments, basis });
            }
            (CallPlan::Ask { .. }, _) => {
                if let Some(card) = card(planned, &self.state.topic, &turn.config.tenant) {
                    self.directive(Directive::OpenCard(Box::new(card)));
                }
            }
            (CallPlan::Reject(words), _) => {
                let result = CallResult::said(CallOutcome::Rejected, words);
                self.finish_call(call, Attempt::default(), result);
            }
            (CallPlan::Deny(words), _) => {
                let result = CallResult::said(CallOutcome::Denied, words);
                self.finish_call(call, Attempt::default(), result);
            }
            (CallPlan::Answered, _) => {
                // Planned so only because it has its answer.
                if let Resolution::Answered(result) = resolution {
                    self.finish_call(call, Attempt::default(), result.clone());
                }
            }
            // A call is planned to run only with its tool.
            (CallPlan::Run(_), None) => {}
        }
    }
}

/// Whether a call that is planned so has its result in the batch of its plan.
fn has_its_result(plan: &CallPlan) -> bool {
    match plan {
        CallPlan::Reject(_) | CallPlan::Deny(_) | CallPlan::Answered => true,
        CallPlan::Run(_) | CallPlan::Ask { .. } => false,
    }
}

fn refusal(words: &str) -> CallPlan {
    CallPlan::Reject(words.to_owned())
}

fn too_long(limit: usize) -> String {
    format!("the model's reply is longer than {limit} bytes")
}
