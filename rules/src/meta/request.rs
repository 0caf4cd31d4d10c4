//! Decides what a call that a model asked for comes to, whatever name it wrote: a tool, an answer at once, or words.

use std::collections::HashSet;
use std::sync::Arc;

use pilothouse_messages::call::CallResult;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::{MetaTool, SearchInput};
use pilothouse_messages::registry::Entry;

use super::invoke::invoke_unlisted;
use super::refusal::Refusal;
use super::{Finding, Found, Inspected, InvokeDecision, Sight, answer_search, inspect, invoke, search_input};
use crate::arguments::{Fix, Settled, settle};
use crate::search::{Question, ToolIndex, ToolPool};

/// Where tools are found, and how their servers are.
#[derive(Clone, Copy)]
pub struct Shelf<'a> {
    /// The tools, ready to be searched. It may lag behind the table: what the table has not is not found.
    pub index: &'a ToolIndex,
    /// A word about a tool whose server does not answer now.
    pub trouble: &'a dyn Fn(&Entry) -> Option<String>,
}

/// What a call that a model asked for comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// This tool with these arguments, past the gate.
    Run {
        /// The tool.
        entry: Arc<Entry>,
        /// Its arguments, a JSON object.
        arguments: JsonText,
        /// What was mended in them.
        fixes: Vec<Fix>,
    },
    /// A meta tool's answer; nothing runs.
    Answered(CallResult),
    /// Nothing runs; the model is told this.
    Refused(String),
    /// Nothing runs, only because the arguments are not what the tool asks for.
    Mismatch(Mismatch),
}

/// Arguments that are not what their tool asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The tool.
    pub entry: Arc<Entry>,
    /// The text of the arguments, as the model wrote it.
    pub written: String,
    /// What is wrong with them.
    pub reason: String,
    /// What the model is told: what is wrong, and the signature.
    pub words: String,
}

impl Mismatch {
    pub(super) fn new(entry: Arc<Entry>, written: String, reason: String, sight: &Sight<'_>) -> Self {
        let words = Refusal::Invalid(entry.clone(), reason.clone()).words(sight);
        Self { entry, written, reason, words }
    }
}

/// Decides about a call of `name`; `raw` is the text of its arguments.
///
/// Whatever way a tool is reached, what runs is the same [`Asked::Run`], so that nothing passes the gate by another
/// name.
pub fn asked(
    name: &str,
    raw: &str,
    sight: &Sight<'_>,
    shelf: &Shelf<'_>,
    inspected: &mut Inspected,
) -> Asked {
    match MetaTool::of(name).filter(|_| sight.shows(name)) {
        Some(MetaTool::Search) => search(raw, sight, shelf, inspected),
        Some(MetaTool::Inspect) => Asked::Answered(inspect(raw, sight, inspected)),
        Some(MetaTool::Invoke) => invoke(raw, sight, inspected).into(),
        Some(MetaTool::Exec) | None if sight.shows(name) => direct(name, raw, sight, inspected),
        Some(MetaTool::Exec) | None => unlisted(name, raw, sight, inspected),
    }
}

/// Decides about a direct call of a tool that the model is not shown: as if it had been called with `tool_invoke`.
fn unlisted(name: &str, raw: &str, sight: &Sight<'_>, inspected: &mut Inspected) -> Asked {
    match sight.table.get(name).filter(|entry| sight.scope.admits(entry)) {
        Some(entry) => invoke_unlisted(entry.clone(), raw, sight, inspected).into(),
        None => Asked::Refused(Refusal::Unlisted(name).words(sight)),
    }
}

impl From<InvokeDecision> for Asked {
    fn from(decision: InvokeDecision) -> Self {
        match decision {
            InvokeDecision::Refuse(words) => Self::Refused(words),
            InvokeDecision::Mismatch(mismatch) => Self::Mismatch(mismatch),
            InvokeDecision::Run { entry, arguments, fixes } => Self::Run { entry, arguments, fixes },
        }
    }
}

/// Decides about a direct call of a tool whose signature the caller knows. A refusal that shows the tool's signature makes it inspected.
pub fn direct(name: &str, raw: &str, sight: &Sight<'_>, inspected: &mut Inspected) -> Asked {
    let Some(entry) = sight.table.get(name).filter(|entry| sight.scope.admits(entry)) else {
        return Asked::Refused(Refusal::Unlisted(name).words(sight));
    };
    match settle(raw, &sight.validators.of(&entry.definition, entry.fingerprint)) {
        Settled::Arguments { arguments, fixes, unchecked: _ } => {
            Asked::Run { entry: entry.clone(), arguments, fixes }
        }
        Settled::Refused { reason } => {
            inspected.record(entry.fingerprint);
            Asked::Mismatch(Mismatch::new(entry.clone(), raw.to_owned(), reason, sight))
        }
    }
}

fn search(raw: &str, sight: &Sight<'_>, shelf: &Shelf<'_>, inspected: &mut Inspected) -> Asked {
    match search_input(raw, sight.validators) {
        Ok(input) => {
            let found = found(&input, sight, shelf);
            Asked::Answered(answer_search(&input, &found, sight.block, inspected))
        }
        Err(reason) => Asked::Refused(reason),
    }
}

/// The tools that the topic may use and is not shown: deferred, or come after the block was pinned.
struct Unlisted<'a> {
    sight: &'a Sight<'a>,
    shelf: &'a Shelf<'a>,
    /// Whether the index may have tools that the table has not.
    lags: bool,
    /// The names in the block, which is asked about every tool.
    shown: HashSet<&'a str>,
}

impl ToolPool for Unlisted<'_> {
    fn admits(&self, entry: &Entry) -> bool {
        let is_current = |known: &Arc<Entry>| known.fingerprint == entry.fingerprint;
        self.sight.scope.admits(entry)
            && (!self.lags || self.sight.table.get(&entry.name).is_some_and(is_current))
            && !self.shown.contains(entry.name.as_str())
    }

    fn is_up(&self, entry: &Entry) -> bool {
        (self.shelf.trouble)(entry).is_none()
    }
}

fn found(input: &SearchInput, sight: &Sight<'_>, shelf: &Shelf<'_>) -> Found {
    let question = Question { text: &input.query, namespace: input.namespace.as_deref(), limit: input.limit };
    let shown = sight.block.tools.iter().map(|tool| tool.name.as_str()).collect();
    let lags = !shelf.index.is_of(sight.table);
    let answer = shelf.index.search(&question, &Unlisted { sight, shelf, lags, shown });
    let findings = answer.hits.into_iter().map(|hit| {
        let trouble = (!hit.is_up).then(|| (shelf.trouble)(&hit.entry)).flatten();
        Finding { entry: hit.entry, trouble }
    });
    let (namespaces, nearest) =
        answer.nothing.map(|nothing| (nothing.namespaces, nothing.nearest)).unwrap_or_default();
    Found { findings: findings.collect(), matched: answer.matched, namespaces, nearest }
}

#[cfg(test)]
mod tests;
