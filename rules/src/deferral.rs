//! Decides which tools a model is shown and which it finds by search: deferral must pay.
//!
//! ```text
//! Never  ── shown
//! Always ── deferred
//! Auto   ── all or none: at least 5, AND cost > a tenth of the window, AND cost > what the meta tools cost
//! ```
//!
//! Neither `Never` nor `Always` counts towards the gates. A tool that always asks is never deferred
//! ([`Entry::deferral`]). The decision is made when a surface is pinned and does not flip while it stays.

use std::sync::Arc;

use pilothouse_messages::deferral::{Defer, DeferralGate, DeferralReport, Gates, ToolCost};
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::ShownTool;

use crate::surface::as_owned;
use crate::tokens::TokenCounter;

/// The window where none is known, in tokens.
pub const DEFAULT_WINDOW: u64 = 32_000;

/// What the meta tools and the section about deferred tools cost, in tokens.
pub const META_TOKENS: u64 = 500;

/// The fewest tools that are worth a search.
pub const FEWEST: usize = 5;

/// Tools, told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferral {
    /// What a model is shown, in the order given.
    pub inline: Vec<Arc<Entry>>,
    /// What it finds by search, in the order given.
    pub deferred: Vec<Arc<Entry>>,
    /// Why.
    pub report: DeferralReport,
}

/// Decides about these tools.
///
/// `window` is the model's context window in tokens; none, and 0, stand for [`DEFAULT_WINDOW`]. A tool costs what it
/// would cost with its owner's own schema and at most `description_bytes` of its description.
pub fn decide<'a>(
    entries: impl IntoIterator<Item = &'a Arc<Entry>>,
    window: Option<u64>,
    counter: &dyn TokenCounter,
    description_bytes: usize,
) -> Deferral {
    let entries: Vec<&Arc<Entry>> = entries.into_iter().collect();
    let window = window.filter(|window| *window > 0).unwrap_or(DEFAULT_WINDOW);
    let cost = |kind: Defer| {
        let tools: Vec<ShownTool> = entries
            .iter()
            .filter(|entry| entry.deferral() == kind)
            .map(|entry| as_owned(entry, description_bytes))
            .collect();
        let tokens = if tools.is_empty() { 0 } else { counter.tokens(&mut tools.iter()) };
        ToolCost::new(tools.len(), tokens)
    };
    let costs @ [_, _, auto] = [cost(Defer::Never), cost(Defer::Always), cost(Defer::Auto)];
    let gates = Gates { share: window / 10, overhead: META_TOKENS };
    let gate = gate(auto, gates);
    let is_deferred = |entry: &Entry| match entry.deferral() {
        Defer::Never => false,
        Defer::Always => true,
        Defer::Auto => gate == DeferralGate::Passed,
    };
    let (deferred, inline) = entries.into_iter().cloned().partition(|entry| is_deferred(entry));
    let report = DeferralReport::new(counter.name().to_owned(), window, gates, costs, gate);
    Deferral { inline, deferred, report }
}

fn gate(auto: ToolCost, gates: Gates) -> DeferralGate {
    if auto.tools < FEWEST {
        DeferralGate::TooFew
    } else if auto.tokens <= gates.share {
        DeferralGate::FitsTheWindow
    } else if auto.tokens <= gates.overhead {
        DeferralGate::CheaperThanTheMetaTools
    } else {
        DeferralGate::Passed
    }
}

#[cfg(test)]
mod tests;
