//! The tool table: every entry at one moment, readable by all without asking anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::scope::Scope;
use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{ResolvedTool, TopicConfig};

use super::Offered;
use super::policy::{Admission, PolicyReach, ToolPolicy};
use crate::cut::{TITLE_BYTES, cut};

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

    /// The tools of one server, by their raw names.
    pub fn of_server(&self, server: &ServerId) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_source.get(server).into_iter().flat_map(|offered| offered.values())
    }

    /// The tools in scope, sorted by the bytes of their names.
    pub fn select_active(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|entry| scope.admits(entry))
    }
}

/// What a topic of this configuration may use.
pub fn scope_of(config: &TopicConfig) -> Scope {
    let scope = Scope::new(config.tenant.clone(), config.servers.clone(), config.builtins.clone());
    let policy = ToolPolicy::of(&config.tools, PolicyReach::Everywhere);
    scope.narrowed(config.tools.clone(), move |entry| policy.admits(entry) == Admission::Admitted)
}

/// The tool of this entry as it stands now.
pub fn resolved(entry: &Entry) -> ResolvedTool {
    ResolvedTool {
        name: entry.name.clone(),
        source: entry.source.clone(),
        label: entry.label.clone(),
        title: entry.definition.title.as_deref().map(|title| cut(title, TITLE_BYTES).to_owned()),
        effect: entry.effect,
        force_prompt: entry.force_prompt,
        interruptible: entry.interruptible || entry.effect == Effect::Reads,
        fingerprint: entry.fingerprint,
        definition: entry.owner,
    }
}
