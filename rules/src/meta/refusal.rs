//! Every refusal of the meta tools, in one place: what is wrong, and a way on that the model really has.

use std::sync::Arc;

use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::Entry;

use super::Sight;
use super::text::{bounded, quoted};
use crate::registry::nearest;

/// How much of a signature a refusal or an inspection shows, in bytes.
pub(super) const SIGNATURE_BYTES: usize = 16 << 10;

/// Why a call of a meta tool is refused.
pub(super) enum Refusal<'a> {
    /// What was written makes no call.
    Input(String),
    /// Nothing of this name is available to the topic.
    Unavailable(&'a str),
    /// The model was shown it, and it is not offered any more.
    Gone(&'a str),
    /// A meta tool, which is called directly.
    Meta(MetaTool),
    /// Nothing runs it.
    NoExecutor(Arc<Entry>),
    /// A person is always asked about it, which only a direct call can do.
    Direct(Arc<Entry>),
    /// The model has not seen what it asks for.
    Uninspected(Arc<Entry>),
    /// The arguments are not what it asks for.
    Invalid(Arc<Entry>, String),
    /// Nothing of this name can be called directly.
    Unlisted(&'a str),
}

impl Refusal<'_> {
    /// The words that the model is told.
    pub(super) fn words(&self, sight: &Sight<'_>) -> String {
        match self {
            Self::Input(reason) => reason.clone(),
            Self::Unavailable(name) => unavailable(name, sight),
            Self::Gone(name) => {
                let on = way(sight, MetaTool::Search, ": look for another one with tool_search");
                format!("{} is not offered any more, so it was not called{on}", quoted(name))
            }
            Self::Meta(tool) => format!("{tool} is not called through another tool: call it directly"),
            Self::NoExecutor(entry) => {
                format!("nothing runs \"{}\" now, so it was not called: go on without it", entry.name)
            }
            Self::Direct(entry) => {
                let name = &entry.name;
                format!("a person is asked before each call of \"{name}\": call it directly, by that name")
            }
            Self::Uninspected(entry) => {
                let name = &entry.name;
                let signature = signature(entry, sight);
                format!(
                    "\"{name}\" was not called, because it had not been inspected. This is its signature; call it again with arguments that fit:\n{signature}"
                )
            }
            Self::Invalid(entry, reason) => {
                let (name, signature) = (&entry.name, signature(entry, sight));
                format!("\"{name}\" was not called: {reason}\nThis is its signature:\n{signature}")
            }
            Self::Unlisted(name) => unlisted(name, sight),
        }
    }
}

pub(super) fn signature(entry: &Entry, sight: &Sight<'_>) -> String {
    bounded(&(sight.signature)(entry), SIGNATURE_BYTES)
}

/// Words about a meta tool, if the model has it.
fn way<'a>(sight: &Sight<'_>, tool: MetaTool, words: &'a str) -> &'a str {
    if sight.shows(tool.name()) { words } else { "" }
}

fn unavailable(name: &str, sight: &Sight<'_>) -> String {
    let near = nearest(name, sight.table.select_active(sight.scope));
    let near: Vec<_> = near.iter().map(|name| format!("\"{name}\"")).collect();
    let (near, on) = match near.as_slice() {
        [] => (String::new(), ": look with tool_search"),
        [one] => (format!("; the nearest name is {one}"), ": take that one, or look with tool_search"),
        several => {
            let names = several.join(", ");
            (format!("; the nearest names are {names}"), ": take one of those, or look with tool_search")
        }
    };
    let on = way(sight, MetaTool::Search, on);
    format!("no tool named {} is available here{near}{on}", quoted(name))
}

/// Only names that the model is shown: any other one it would have to search for.
fn unlisted(written: &str, sight: &Sight<'_>) -> String {
    let listed = sight.table.select_active(sight.scope).filter(|entry| sight.shows(&entry.name));
    let near: Vec<_> = nearest(written, listed).iter().map(|name| format!("\"{name}\"")).collect();
    let search = way(sight, MetaTool::Search, ", or look with tool_search");
    let on = match near.as_slice() {
        [] if search.is_empty() => ", and no other tool is: go on without tools".to_owned(),
        [] => ": look with tool_search".to_owned(),
        [one] => format!("; the nearest is {one}: call it by exactly that name{search}"),
        several => {
            format!("; the nearest are {}: call one by exactly its name{search}", several.join(", "))
        }
    };
    format!("no tool named {} is available here{on}", quoted(written))
}
