//! The tool table: every entry at one moment, readable by all without asking anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::scope::Scope;
use pilothouse_messages::topic::{Resolution, ResolvedTool, TopicConfig};
use serde_json::Value;

use super::Offered;
use super::near::nearest;
use super::policy::{Admission, PolicyReach, ToolPolicy};
use crate::cut::{TITLE_BYTES, cut};

/// How much of a name that a model wrote is said back to it, in characters.
const QUOTED: usize = 64;

/// Every tool at one moment, sorted by the bytes of the names, which are all different.
///
/// Depends on what is offered now and on the stored names only, not on the order in which it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolTable {
    entries: Vec<Arc<Entry>>,
    by_source: BTreeMap<ServerId, Offered>,
}

impl ToolTable {
    /// The registry sees to it that no name is there twice.
    pub(super) fn new(builtins: &[Arc<Entry>], offers: &BTreeMap<ServerId, Offered>) -> Self {
        let offered = offers.values().flat_map(|entries| entries.values());
        let mut entries: Vec<_> = builtins.iter().chain(offered).cloned().collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Self { entries, by_source: offers.clone() }
    }

    /// All of them.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The tools of each server that offers any list, by raw name.
    pub(crate) fn offers(&self) -> &BTreeMap<ServerId, Offered> {
        &self.by_source
    }

    /// The tool of this wire name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        let place = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        self.entries.get(place)
    }

    /// The tool that the server calls by this name.
    pub fn by_source(&self, server: &ServerId, tool: &str) -> Option<&Arc<Entry>> {
        self.by_source.get(server)?.get(tool)
    }

    /// The tools in scope, sorted by the bytes of their names.
    pub fn select_active(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|entry| scope.admits(entry))
    }

    /// What a call that a model asked for comes to: the tool as it stands now, or words that help the model to
    /// repair the call. `arguments` is the text that the model wrote; an empty one stands for `{}`.
    ///
    /// The words are bounded, whatever the model wrote, and tell nothing about tools outside the scope.
    pub fn resolve(&self, name: &str, arguments: &str, scope: &Scope) -> Resolution {
        let Some(entry) = self.get(name).filter(|entry| scope.admits(entry)) else {
            return Resolution::Refused(self.unknown(name, scope));
        };
        match object_fault(arguments) {
            Some(fault) => Resolution::Refused(format!(
                "the arguments of \"{name}\" must be a JSON object, {fault}: send the call again with one"
            )),
            None => Resolution::Tool(Box::new(resolved(entry))),
        }
    }

    fn unknown(&self, written: &str, scope: &Scope) -> String {
        let near = nearest(written, self.select_active(scope));
        let quoted: String = written.chars().take(QUOTED).collect();
        let names: Vec<_> = near.iter().map(|name| format!("\"{name}\"")).collect();
        match names.as_slice() {
            [] => format!(
                "no tool named {quoted:?} is available here, and no other tool is: go on without tools"
            ),
            [one] => {
                format!(
                    "no tool named {quoted:?} is available here; the nearest is {one}: call it by exactly that name"
                )
            }
            several => format!(
                "no tool named {quoted:?} is available here; the nearest are {}: call one by exactly its name",
                several.join(", ")
            ),
        }
    }
}

/// What a topic of this configuration may use.
pub fn scope_of(config: &TopicConfig) -> Scope {
    let scope = Scope::new(config.tenant.clone(), config.servers.clone(), config.builtins.clone());
    let policy = ToolPolicy::of(&config.tools, PolicyReach::Everywhere);
    scope.narrowed(config.tools.clone(), move |entry| policy.admits(entry) == Admission::Admitted)
}

fn resolved(entry: &Entry) -> ResolvedTool {
    ResolvedTool {
        name: entry.name.clone(),
        source: entry.source.clone(),
        label: entry.label.clone(),
        title: entry.definition.title.as_deref().map(|title| cut(title, TITLE_BYTES).to_owned()),
        effect: entry.effect,
        force_prompt: entry.force_prompt,
        fingerprint: entry.fingerprint,
        definition: entry.owner,
    }
}

/// Why a text is no JSON object, to go on after "must be a JSON object,"; `None` if it is one.
fn object_fault(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return None;
    }
    let kind = match serde_json::from_str(text) {
        Ok(Value::Object(_)) => return None,
        Ok(Value::Array(_)) => "an array",
        Ok(Value::String(_)) => "a string",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::Bool(_)) => "a boolean",
        Ok(Value::Null) => "null",
        Err(error) => return Some(format!("this is no JSON ({error})")),
    };
    Some(format!("this is {kind}"))
}
