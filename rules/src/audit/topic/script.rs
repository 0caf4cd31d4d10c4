//! What a journal says of the calls that scripts make: why each could run, and whether that holds.

use pilothouse_messages::audit::{AuditFact, AuditFault, AuditTool, ScriptCallFact};
use pilothouse_messages::id::CallId;
use pilothouse_messages::topic::{NestedCall, NestedNews, NestedPlan, ResolvedTool, RunBasis};

use super::Reader;

impl Reader<'_> {
    pub(super) fn nested(&mut self, call: CallId, news: &NestedNews) {
        match news {
            NestedNews::Called(made) => self.script_called(call, made),
            NestedNews::Sent { .. } => {}
            NestedNews::Returned { number, result } => {
                let (number, what) = (*number, ScriptCallFact::Finished { outcome: result.outcome });
                self.row(AuditFact::ScriptCall { call, number, what });
            }
        }
    }

    fn script_called(&mut self, call: CallId, made: &NestedCall) {
        let number = made.number;
        let within = self.started.iter().any(|(started, _)| *started == call);
        if !self.scripts.insert((call, number)) || !within {
            self.fault(AuditFault::ScriptCallUnplanned { topic: self.topic.clone(), call, number });
        }
        match (&made.plan, &made.tool) {
            (NestedPlan::Run(basis), Some(tool)) => {
                self.reached(self.since(basis));
                if !self.founded(call, tool, basis) {
                    self.fault(AuditFault::ScriptCallUnfounded { topic: self.topic.clone(), call, number });
                }
                let (tool, arguments, basis) =
                    (AuditTool::from(tool), made.arguments.clone(), self.basis(basis));
                let what = ScriptCallFact::Allowed { tool: Box::new(tool), arguments, basis };
                self.row(AuditFact::ScriptCall { call, number, what });
            }
            (NestedPlan::Run(_), None) => {
                self.fault(AuditFault::ScriptCallUnfounded { topic: self.topic.clone(), call, number });
            }
            (NestedPlan::Answered(result), _) => {
                let what = ScriptCallFact::Answered { name: made.name.clone(), outcome: result.outcome };
                self.row(AuditFact::ScriptCall { call, number, what });
            }
        }
    }

    /// Whether the basis of a script's call holds. A script cannot wait for a person, so that no card stands for its calls.
    fn founded(&self, call: CallId, tool: &ResolvedTool, basis: &RunBasis) -> bool {
        let held = match basis {
            RunBasis::Mode | RunBasis::Classified => true,
            RunBasis::Grant { grant } => self.granted(call, tool, *grant),
            RunBasis::Approved { .. } => false,
        };
        held && self.modes().let_run(tool, basis).is_ok()
    }
}
