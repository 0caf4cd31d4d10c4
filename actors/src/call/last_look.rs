//! Looks at a call once more, just before it is sent: what has become stricter since it was allowed counts.
//!
//! A call may have waited since: for its card, for a place, for a server, for a script's turn.

use pilothouse_adapters::gate::Subject;
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::topic::RunBasis;
use pilothouse_rules::gate::{Modes, Word};
use pilothouse_rules::registry::policy::out_of_reach;

use super::CallOrder;
use crate::gate;
use crate::wiring::Wiring;

/// Why the call is not sent after all, if it is not. A call outside all topics was judged when it was made.
pub(super) fn overruled(wiring: &Wiring, order: &CallOrder) -> Option<CallResult> {
    let denied = |reason: String| Some(CallResult::said(CallOutcome::Denied, reason));
    if let RunBasis::Grant { grant } = &order.basis
        && !gate::still_holds(wiring, *grant)
    {
        let words = "the standing approval that it rested on is over: call again, and a person is asked";
        return denied(words.to_owned());
    }
    let place = wiring.topics.place(order.topic.as_ref()?)?;
    let view = place.hub.view()?;
    let newest = &view.config;
    let turn = order.config.as_deref().unwrap_or(newest);
    let subject =
        Subject::new(turn.tenant.clone(), order.topic.clone(), order.tool.clone(), order.arguments.value());
    if let Some(reason) = gate::refusal(wiring, &subject).or_else(|| out_of_reach(newest, &order.tool)) {
        return denied(reason);
    }
    let modes = Modes { turn: turn.mode, newest: newest.mode, max: wiring.limits.max_mode };
    let rests_on_the_mode = match &order.basis {
        RunBasis::Mode | RunBasis::Classified => true,
        RunBasis::Approved { .. } | RunBasis::Grant { .. } => false,
    };
    match modes.word_about(&order.tool).0 {
        Word::Deny => denied("the mode has become stricter since it was allowed".to_owned()),
        Word::Ask if rests_on_the_mode => denied(
            "the mode has become stricter since it was allowed: call again, and a person is asked".to_owned(),
        ),
        Word::Ask | Word::Classify | Word::Run => None,
    }
}
