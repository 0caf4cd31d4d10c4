//! Gives a model as much of its topic's history as its window takes.

use pilothouse_messages::model::ModelRequest;
use pilothouse_rules::history::{HistoryPolicy, HistoryRoom, NewestTurns, mended, turns_left_out};
use pilothouse_rules::tokens::{Bytes4, TokenCounter};

use crate::tasks::caught_now;
use crate::wiring::Wiring;

/// Cuts the request's history to what the policy chooses, and answers how many turns that leaves out.
pub(super) fn fit(wiring: &Wiring, window: Option<u64>, request: &mut ModelRequest) -> u64 {
    let asked = |policy: &dyn HistoryPolicy, counter: &dyn TokenCounter| {
        let room = HistoryRoom::new(window, taken(request, counter), counter);
        policy.choose(&request.history, &room)
    };
    let chosen = caught_now(|| asked(wiring.history.as_ref(), wiring.counter.as_ref())).unwrap_or_else(|words| {
        tracing::warn!(target: "pilothouse", %words, "the history policy panicked: the newest turns are kept");
        asked(&NewestTurns, &Bytes4)
    });
    let whole = std::mem::take(&mut request.history);
    let (given, left_out) = match chosen {
        Some(given) => {
            let given = mended(given);
            let left_out = turns_left_out(&whole, &given);
            (given, left_out)
        }
        None => (mended(whole), 0),
    };
    request.history = given;
    left_out
}

/// What a request holds beside its history.
fn taken(request: &ModelRequest, counter: &dyn TokenCounter) -> u64 {
    let texts = request.tool_notes.iter().chain(&request.late_tools);
    let words = texts.map(|text| counter.text(text)).fold(0, u64::saturating_add);
    words.saturating_add(counter.tokens(&mut request.surface.tools.iter()))
}
