//! Decides which part of a conversation a model is given, and keeps it one that every provider takes.
//!
//! ```text
//! turn 1 │ turn 2 │ turn 3 │ … │ the turn that runs
//! ───────┴────────┴───▲────┴───┴───────────────────
//!   left out, whole   └── the first that is given: moves on by a fifth of the window at a time, so that a
//!   turns only            provider's prompt cache is lost rarely
//! ```

use std::collections::BTreeSet;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::id::{CallId, TurnId};
use pilothouse_messages::model::HistoryItem;

use crate::deferral::DEFAULT_WINDOW;
use crate::tokens::TokenCounter;

/// Chooses what a model is given of a topic's history.
///
/// It is asked before each model step, beside the actor; it may drop, shorten and replace items. Whatever it answers is
/// mended: a call without its result gets one, and a result without its call goes.
pub trait HistoryPolicy: Send + Sync + 'static {
    /// What the model is given, oldest first; `None` for all of it.
    fn choose(&self, history: &[HistoryItem], room: &HistoryRoom<'_>) -> Option<Vec<HistoryItem>>;
}

/// How much a request may hold.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct HistoryRoom<'a> {
    /// The model's context window in tokens; 32 000 where nobody knows.
    pub window: u64,
    /// What the tools and all other words of the request are reckoned to cost.
    pub taken: u64,
    /// What texts are reckoned to cost.
    pub counter: &'a dyn TokenCounter,
}

impl<'a> HistoryRoom<'a> {
    /// The room in this window, where it is known.
    pub fn new(window: Option<u64>, taken: u64, counter: &'a dyn TokenCounter) -> Self {
        let window = window.filter(|window| *window > 0).unwrap_or(DEFAULT_WINDOW);
        Self { window, taken, counter }
    }

    /// What an item is reckoned to cost.
    pub fn tokens(&self, item: &HistoryItem) -> u64 {
        let texts = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(|text| self.counter.text(text)).fold(ITEM_TOKENS, u64::saturating_add)
        };
        match item {
            HistoryItem::User { text } => texts(&mut std::iter::once(text.as_str())),
            HistoryItem::Assistant { text, calls } => {
                let calls = calls.iter().flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
                texts(&mut std::iter::once(text.as_str()).chain(calls))
            }
            HistoryItem::Tool { call: _, result } => {
                texts(&mut result.content.iter().map(|piece| match piece {
                    Content::Text(text) => text.as_str(),
                    Content::Other(json) | Content::Structured(json) => json.as_str(),
                }))
            }
        }
    }
}

/// What an item costs beside its words: roles and ids.
const ITEM_TOKENS: u64 = 8;

/// The default: everything until a request would hold more than 80 % of the window, then without the oldest turns.
///
/// Turns go whole, so no call is cut from its result, and they go a fifth of the window at a time. The turn that runs
/// always stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewestTurns;

impl HistoryPolicy for NewestTurns {
    fn choose(&self, history: &[HistoryItem], room: &HistoryRoom<'_>) -> Option<Vec<HistoryItem>> {
        let costs: Vec<u64> = history.iter().map(|item| room.tokens(item)).collect();
        let total = costs.iter().copied().fold(room.taken, u64::saturating_add);
        let fifth = (room.window / 5).max(1);
        let over = total.saturating_sub(room.window.saturating_sub(fifth));
        let wanted = over.div_ceil(fifth).saturating_mul(fifth);
        let (mut dropped, mut first, mut at) = (0u64, 0, 0);
        for begin in turn_starts(history).into_iter().skip(1) {
            if dropped >= wanted {
                break;
            }
            dropped = costs.get(at..begin).into_iter().flatten().copied().fold(dropped, u64::saturating_add);
            (first, at) = (begin, begin);
        }
        (first > 0).then(|| history.get(first..).unwrap_or_default().to_vec())
    }
}

/// Where each turn begins: at a message of a person's that is none in the middle of a turn.
fn turn_starts(history: &[HistoryItem]) -> Vec<usize> {
    let mut starts = vec![0];
    let (mut last, mut before): (Option<TurnId>, Option<&HistoryItem>) = (None, None);
    for (at, item) in history.iter().enumerate() {
        match item {
            HistoryItem::User { .. } if !matches!(before, None | Some(HistoryItem::User { .. })) => {
                let next = history.get(at..).and_then(|rest| rest.iter().find_map(turn_of));
                // A message that joined its turn stands between two steps of it.
                if last.is_none() || next != last {
                    starts.push(at);
                }
            }
            HistoryItem::User { .. } | HistoryItem::Assistant { .. } | HistoryItem::Tool { .. } => {
                last = turn_of(item).or(last);
            }
        }
        before = Some(item);
    }
    starts
}

fn turn_of(item: &HistoryItem) -> Option<TurnId> {
    match item {
        HistoryItem::User { .. } => None,
        HistoryItem::Assistant { calls, .. } => calls.first().map(|asked| asked.call.turn),
        HistoryItem::Tool { call, .. } => Some(call.turn),
    }
}

/// How many turns of `whole` are not in `given`, as far as turns can be told apart.
pub fn turns_left_out(whole: &[HistoryItem], given: &[HistoryItem]) -> u64 {
    let turns = |items: &[HistoryItem]| if items.is_empty() { 0 } else { turn_starts(items).len() };
    u64::try_from(turns(whole).saturating_sub(turns(given))).unwrap_or(u64::MAX)
}

/// The items as every provider takes them: each call once and with exactly one result, directly behind its reply and in
/// the order of the calls.
pub fn mended(items: Vec<HistoryItem>) -> Vec<HistoryItem> {
    let mut out: Vec<HistoryItem> = Vec::with_capacity(items.len());
    let mut known = BTreeSet::new();
    let mut items = items.into_iter().peekable();
    while let Some(item) = items.next() {
        match item {
            HistoryItem::User { .. } => out.push(item),
            HistoryItem::Assistant { text, mut calls } => {
                calls.retain(|asked| known.insert(asked.call));
                let mut results: Vec<(CallId, CallResult)> = Vec::new();
                while let Some(HistoryItem::Tool { call, result }) =
                    items.next_if(|next| matches!(next, HistoryItem::Tool { .. }))
                {
                    results.push((call, result));
                }
                let asked: Vec<CallId> = calls.iter().map(|asked| asked.call).collect();
                if !text.is_empty() || !calls.is_empty() {
                    out.push(HistoryItem::Assistant { text, calls });
                }
                out.extend(asked.into_iter().map(|call| {
                    let place = results.iter().position(|(of, _)| *of == call);
                    let result = place.map(|place| results.swap_remove(place).1);
                    HistoryItem::Tool { call, result: result.unwrap_or_else(no_result) }
                }));
            }
            // Its call is not there.
            HistoryItem::Tool { .. } => {}
        }
    }
    out
}

fn no_result() -> CallResult {
    CallResult::said(CallOutcome::Unknown, "the result is not kept")
}

#[cfg(test)]
mod tests;
