//! Finds a model that goes in a circle: it makes the same call again and again, and each time it is refused the same.

use std::collections::BTreeMap;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::StepRef;
use pilothouse_messages::topic::{PlannedCall, TopicEvent};

use super::draft::Draft;
use super::open_turn::{Call, OpenTurn, Stage};
use crate::cut::cut;

/// How often in a row, one step after the other.
const REFUSALS_MAX: u32 = 3;

/// The longest refusal that a stop reason quotes, in bytes.
const QUOTED_BYTES: usize = 256;

/// How often in a row a call was refused the same, by the digest of call and refusal.
pub(super) type Refusals = BTreeMap<Digest, u32>;

/// What became of the counts by a step whose calls ended so. A call that it makes twice counts once: its model has not
/// seen the refusal in between.
pub(super) fn counted(before: &Refusals, calls: &[Call]) -> Refusals {
    let results = calls.iter().filter_map(|call| match &call.stage {
        Stage::Finished(result) => refusal(&call.planned, result),
        Stage::Planned | Stage::Awaiting { .. } | Stage::Running { .. } => None,
    });
    results.map(|digest| (digest, before.get(&digest).map_or(1, |count| count.saturating_add(1)))).collect()
}

impl Draft<'_> {
    /// Why the turn makes no progress, if the step that ends here says so.
    pub(super) fn no_progress(&self, turn: &OpenTurn, at: StepRef) -> Option<String> {
        let replied = self.events.iter().find_map(|event| {
            if let TopicEvent::StepReplied { at: step, calls, .. } = event {
                Some((step, calls))
            } else {
                None
            }
        });
        let replied = replied.filter(|(step, _)| **step == at).map(|(_, calls)| calls);
        let known = turn.calls().iter().map(|call| &call.planned);
        known.chain(replied.into_iter().flatten()).find_map(|planned| {
            let result = self.result_of(turn, planned)?;
            let digest = refusal(planned, result)?;
            let before = turn.refusals.get(&digest).copied().unwrap_or_default();
            (before + 1 >= REFUSALS_MAX).then(|| stuck(planned, result))
        })
    }

    fn result_of<'a>(&'a self, turn: &'a OpenTurn, planned: &PlannedCall) -> Option<&'a CallResult> {
        let before = turn.calls().iter().find_map(|call| match &call.stage {
            Stage::Finished(result) if call.planned.call == planned.call => Some(result),
            Stage::Finished(_) | Stage::Planned | Stage::Awaiting { .. } | Stage::Running { .. } => None,
        });
        before.or_else(|| {
            let given = self.events.iter().filter_map(|event| {
                if let TopicEvent::CallFinished { call, result, .. } = event {
                    Some((call, result))
                } else {
                    None
                }
            });
            given.into_iter().find(|(call, _)| **call == planned.call).map(|(_, result)| result)
        })
    }
}

fn stuck(planned: &PlannedCall, result: &CallResult) -> String {
    let words = result.text();
    format!(
        "no_progress: the call of \"{}\" was refused {REFUSALS_MAX} times in a row: {}",
        planned.name,
        cut(&words, QUOTED_BYTES)
    )
}

/// The digest of a call and its refusal; `None` if it was not refused.
fn refusal(planned: &PlannedCall, result: &CallResult) -> Option<Digest> {
    let word = match result.outcome {
        CallOutcome::Rejected => "rejected",
        CallOutcome::Denied => "denied",
        CallOutcome::Succeeded
        | CallOutcome::Failed
        | CallOutcome::Unavailable
        | CallOutcome::TimedOut
        | CallOutcome::Cancelled
        | CallOutcome::Unknown => return None,
    };
    let said = serde_json::json!([planned.name, planned.arguments.value(), word, result.text()]);
    Some(Digest::of_json("pilothouse/refusal/1", &said))
}
