//! Decides what is recorded of a script's calls, and how those end whose script ends before them.
//!
//! ```text
//!   Called, it runs ─▶ Running ──▶ Returned
//!                         └── its script's call ends first ──▶ Returned: unknown, or cancelled
//!   Called, answered at once: it has its result
//! ```
//!
//! Refused as stale: news of a script whose call does not run, a number that was used, a result for a call that has one.

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{Attempt, CallId};
use pilothouse_messages::topic::{
    CallState, NestedCall, NestedNews, NestedPlan, NestedView, TopicEvent, TopicRejection, TopicUpdate,
};

use super::apply::Told;
use super::draft::Draft;
use super::open_turn::{Call, Delivery, OpenTurn};
use super::{Ruling, TopicState};
use crate::cut::{NAME_BYTES, cut};

/// How much of a script's call is recorded, its arguments and its result each, in bytes. The script had all of it, and it
/// may make many.
const RECORDED: usize = 8 << 10;

/// One call of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nested {
    made: NestedCall,
    delivery: Delivery,
    result: Option<CallResult>,
}

impl Draft<'_> {
    pub(super) fn nested(mut self, call: CallId, attempt: Attempt, news: &NestedNews) -> Ruling {
        let (turn, _) = self.running(call, attempt)?;
        let made = turn.nested(call);
        let known = |number: u32| made.iter().find(|nested| nested.made.number == number);
        let open = |number: u32| known(number).filter(|nested| nested.result.is_none());
        match news {
            NestedNews::Called(nested) => {
                let limit = self.state.limits.exec.calls;
                if known(nested.number).is_some() {
                    return Err(TopicRejection::Stale);
                }
                if u32::try_from(made.len()).unwrap_or(u32::MAX) >= limit {
                    return Err(TopicRejection::NestedCalls { limit });
                }
                // Whoever judged it saw the mode as it was published, and a stricter one counts at once.
                if let (NestedPlan::Run(basis), Some(tool)) = (&nested.plan, &nested.tool) {
                    let lets = self.modes(turn).let_run(tool, basis);
                    lets.map_err(|mode| TopicRejection::ModeForbids { mode })?;
                }
                self.event(TopicEvent::Nested { call, news: NestedNews::Called(Box::new(recorded(nested))) });
            }
            NestedNews::Sent { number } => match open(*number).ok_or(TopicRejection::Stale)?.delivery {
                Delivery::Due => self.event(TopicEvent::Nested { call, news: news.clone() }),
                Delivery::Sent => {}
            },
            NestedNews::Returned { number, result } => {
                open(*number).ok_or(TopicRejection::Stale)?;
                self.return_nested(call, *number, result.clone());
            }
        }
        self.noted()
    }

    /// Ends the calls of a script whose own call ends so.
    pub(super) fn finish_nested(&mut self, call: CallId, outcome: CallOutcome) {
        let Some(turn) = &self.state.open else { return };
        let result = match outcome {
            CallOutcome::Unknown => {
                CallResult::said(CallOutcome::Unknown, "its script was cut off: nobody knows whether it ran")
            }
            CallOutcome::Succeeded
            | CallOutcome::Failed
            | CallOutcome::Rejected
            | CallOutcome::Denied
            | CallOutcome::Unavailable
            | CallOutcome::TimedOut
            | CallOutcome::Cancelled => CallResult::said(
                CallOutcome::Cancelled,
                "its script ended while it ran: it may have had its effect",
            ),
        };
        let open = turn.nested(call).iter().filter(|nested| nested.result.is_none());
        for number in open.map(|nested| nested.made.number) {
            self.return_nested(call, number, result.clone());
        }
    }

    fn return_nested(&mut self, call: CallId, number: u32, result: CallResult) {
        let result = result.capped(RECORDED);
        self.event(TopicEvent::Nested { call, news: NestedNews::Returned { number, result } });
    }
}

/// The call as it is recorded: arguments that are too long are left out, since half of them mean something else.
fn recorded(nested: &NestedCall) -> NestedCall {
    let mut nested = nested.clone();
    nested.name = cut(&nested.name, NAME_BYTES).to_owned();
    if nested.arguments.as_str().len() > RECORDED {
        let words =
            format!("{} bytes of arguments, too many to be recorded", nested.arguments.as_str().len());
        nested.arguments = serde_json::Value::from(words).into();
    }
    if let NestedPlan::Answered(result) = nested.plan {
        nested.plan = NestedPlan::Answered(result.capped(RECORDED));
    }
    nested
}

impl TopicState {
    pub(super) fn note_nested(&mut self, id: CallId, news: &NestedNews) -> Told {
        let Some(call) = self.call_mut(id).filter(|call| !call.is_finished()) else { return Told::new() };
        match news {
            NestedNews::Called(made) => {
                let nested = Nested::new(NestedCall::clone(made));
                let told = nested.told(id);
                call.nested.push(nested);
                vec![told]
            }
            NestedNews::Sent { number } => {
                if let Some(nested) = call.open_nested(*number) {
                    nested.delivery = Delivery::Sent;
                }
                Told::new()
            }
            NestedNews::Returned { number, result } => {
                let Some(nested) = call.open_nested(*number) else { return Told::new() };
                nested.result = Some(result.clone());
                vec![nested.told(id)]
            }
        }
    }
}

impl OpenTurn {
    fn nested(&self, call: CallId) -> &[Nested] {
        let held = self.calls().iter().find(|held| held.planned.call == call);
        held.map(|held| held.nested.as_slice()).unwrap_or_default()
    }
}

impl Call {
    fn open_nested(&mut self, number: u32) -> Option<&mut Nested> {
        self.nested.iter_mut().find(|nested| nested.made.number == number && nested.result.is_none())
    }
}

impl Nested {
    fn new(made: NestedCall) -> Self {
        let result = match &made.plan {
            NestedPlan::Run(_) => None,
            NestedPlan::Answered(result) => Some(result.clone()),
        };
        Self { made, delivery: Delivery::Due, result }
    }

    fn told(&self, call: CallId) -> TopicUpdate {
        let (number, tool) = (self.made.number, self.made.tool_name().to_owned());
        let server = self.made.tool.as_ref().and_then(|tool| tool.source.server());
        let server = server.map(|server| server.as_str().to_owned());
        match self.result.clone() {
            Some(result) => TopicUpdate::NestedFinished { call, number, tool, server, result },
            None => TopicUpdate::NestedStarted { call, number, tool, server },
        }
    }

    pub(super) fn view(&self) -> NestedView {
        NestedView {
            number: self.made.number,
            tool: self.made.tool_name().to_owned(),
            arguments: self.made.arguments.clone(),
            state: self.result.clone().map_or(CallState::Running, CallState::Finished),
        }
    }
}
