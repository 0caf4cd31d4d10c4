//! Deferral: which tools a model finds by search instead of seeing them, and why.

use serde::{Deserialize, Serialize};

/// Whether a tool's definition may be left out of the block that a model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defer {
    /// Always shown.
    Never,
    /// Always left out, whatever that saves.
    Always,
    /// Left out together with all others of its kind, where that pays.
    Auto,
}

/// What a decision about deferral came to, and everything that it rested on.
///
/// Tokens are those of the counter named here; a provider may count otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeferralReport {
    /// Name and version of the counter, as `utf8-bytes/4@1`.
    pub counter: String,
    /// The window that was reckoned with, in tokens.
    pub window: u64,
    /// A tenth of it, rounded down: what shown tools may cost.
    pub share: u64,
    /// What the meta tools cost, in tokens.
    pub overhead: u64,
    /// Tools that are never deferred.
    pub never: ToolCost,
    /// Tools that are always deferred.
    pub always: ToolCost,
    /// Tools that are deferred where it pays: what the gates looked at.
    pub auto: ToolCost,
    /// The gate that decided about the last.
    pub gate: DeferralGate,
    /// Tokens that a request is smaller by; negative where what was always deferred is worth less than the meta tools.
    pub saved: i64,
}

/// How many tools, and what they cost when shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolCost {
    /// Tools.
    pub tools: usize,
    /// Tokens.
    pub tokens: u64,
}

impl ToolCost {
    /// So many tools at so many tokens.
    pub fn new(tools: usize, tokens: u64) -> Self {
        Self { tools, tokens }
    }
}

/// Which gate decided about the tools that are deferred where it pays; asked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeferralGate {
    /// Shown: fewer than five.
    TooFew,
    /// Shown: at most a tenth of the window.
    FitsTheWindow,
    /// Shown: at most what the meta tools cost.
    CheaperThanTheMetaTools,
    /// Deferred, all of them.
    Passed,
}

impl DeferralReport {
    /// A report; what was saved follows from the rest.
    pub fn new(counter: String, window: u64, gates: Gates, costs: [ToolCost; 3], gate: DeferralGate) -> Self {
        let [never, always, auto] = costs;
        let auto_saved = if gate == DeferralGate::Passed { auto.tokens } else { 0 };
        let deferred = always.tools + if gate == DeferralGate::Passed { auto.tools } else { 0 };
        let overhead = if deferred > 0 { gates.overhead } else { 0 };
        let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let saved = signed(always.tokens.saturating_add(auto_saved)).saturating_sub(signed(overhead));
        let Gates { share, overhead } = gates;
        Self { counter, window, share, overhead, never, always, auto, gate, saved }
    }
}

/// What the cost of tools is measured against, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// A tenth of the window.
    pub share: u64,
    /// What the meta tools cost.
    pub overhead: u64,
}
