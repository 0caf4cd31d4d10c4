//! Decides what one topic shows its model, and when that may change.
//!
//! ```text
//! (none) ──pin──▶ pinned ──turn boundary, must_repin says why──▶ pinned anew
//!                   └── anything else: the same bytes, so that a provider's prompt cache survives
//!
//! a tool in scope ── shown | deferred (found by search) | late (came after the pin: announced, found by search)
//! ```
//!
//! A tool that disappears and a server that fails are no reasons: the pin outlives them, and a call to such a tool is
//! refused when it is made. What is deferred is decided at the pin and stays. The meta tools are in the block if
//! anything is deferred, or if a server in scope had never listed; then late tools are no reason, either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::Dialect;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{DeferredGroup, LoosenedTool, ShownTool, SurfaceView};
use pilothouse_messages::topic::TopicConfig;

use crate::deferral::{Deferral, decide};
use crate::meta;
use crate::registry::{Scope, ToolTable, scope_of};
use crate::tokens::TokenCounter;

mod section;
mod shown;

use section::late_section;
pub use section::{LABEL_CHARS, NAMESPACES_MAX, deferred_section};
pub use shown::ShownTools;
pub(crate) use shown::as_owned;

/// What one topic shows its model, pinned. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    view: Arc<SurfaceView>,
    deferred: Arc<BTreeSet<String>>,
    meta: MetaTools,
    used_at: Timestamp,
    scope: Scope,
    window: Option<u64>,
    cold: Arc<BTreeSet<ServerId>>,
}

/// Whether the meta tools are in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetaTools {
    Shown,
    Absent,
}

/// What every pin of a runtime is made with.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Every bound.
    pub limits: &'a Limits,
    /// What tools are reckoned to cost.
    pub counter: &'a dyn TokenCounter,
    /// Tools as they were shown before.
    pub shown: &'a ShownTools,
    /// Whose rules the block keeps.
    pub dialect: Dialect,
}

/// Why a surface is pinned anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepinReason {
    /// The topic may use other servers, functions or tools now.
    ScopeChanged,
    /// The topic's context window is another one.
    WindowChanged,
    /// A server in scope has its first listing since the pin.
    ServerListed {
        /// The first such server.
        server: ServerId,
    },
    /// A tool in scope is not in the pin, and nothing else leads to it.
    ToolAppeared {
        /// The first such tool's wire name.
        name: String,
    },
    /// The topic was idle for longer than its surface lives: a provider's cache is cold anyway.
    Idle,
}

impl Surface {
    /// Pins what the topic may use now. `cold` are the servers without a listing that its tenant may use; those
    /// outside the topic's scope are left out.
    ///
    /// The block depends on the tools in scope, the window, the counter and the bound of a description only, and on
    /// whether any server in scope is cold.
    pub fn pin(
        table: &ToolTable,
        config: &TopicConfig,
        cold: &Arc<BTreeSet<ServerId>>,
        now: Timestamp,
        terms: Terms<'_>,
    ) -> Self {
        let scope = scope_of(config);
        let cold = match cold.iter().all(|server| scope.admits_server(server)) {
            true => cold.clone(),
            false => Arc::new(cold.iter().filter(|server| scope.admits_server(server)).cloned().collect()),
        };
        let (window, bytes) = (config.context_window, terms.limits.description_bytes);
        let Deferral { inline, deferred, report } =
            decide(table.select_active(&scope), window, terms.counter, bytes);
        let meta = match deferred.is_empty() && cold.is_empty() {
            true => MetaTools::Absent,
            false => MetaTools::Shown,
        };
        let Block { tools, loosened, not_strict } = block(&inline, meta, terms);
        let mut view = SurfaceView::with_section(tools, deferred_section(&deferred));
        view.deferred = groups(&deferred);
        view.deferral = Some(report);
        view.loosened = loosened;
        (view.dialect, view.not_strict) = (terms.dialect, not_strict);
        let deferred = Arc::new(deferred.iter().map(|entry| entry.name.clone()).collect());
        Self { view: Arc::new(view), deferred, meta, used_at: now, scope, window, cold }
    }

    /// The pinned block, as every model request of the topic carries it.
    pub fn view(&self) -> &Arc<SurfaceView> {
        &self.view
    }

    /// Wire names of the tools that were deferred when it was pinned.
    pub fn deferred(&self) -> &Arc<BTreeSet<String>> {
        &self.deferred
    }

    /// What the topic might use when it was pinned.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What a prompt says about tools in scope that came after the pin and are found by search; `None` if there are
    /// none, or if the block has no meta tools: then the next turn shows them.
    pub fn late(&self, table: &ToolTable) -> Option<String> {
        match self.meta {
            MetaTools::Shown => late_section(self.appeared(table)),
            MetaTools::Absent => None,
        }
    }

    /// Notes that a model was shown it, so that a busy topic is not idle.
    pub fn used(&mut self, now: Timestamp) {
        self.used_at = self.used_at.max(now);
    }

    /// Why it has to be pinned anew, if it has to; asked at a turn boundary only. `cold` as in [`pin`](Self::pin).
    pub fn must_repin(
        &self,
        table: &ToolTable,
        config: &TopicConfig,
        now: Timestamp,
        cold: &Arc<BTreeSet<ServerId>>,
        limits: &Limits,
    ) -> Option<RepinReason> {
        if scope_of(config) != self.scope {
            return Some(RepinReason::ScopeChanged);
        }
        if config.context_window != self.window {
            return Some(RepinReason::WindowChanged);
        }
        if !Arc::ptr_eq(&self.cold, cold)
            && let Some(server) = self.cold.difference(cold).next()
        {
            return Some(RepinReason::ServerListed { server: server.clone() });
        }
        if self.meta == MetaTools::Absent
            && let Some(entry) = self.appeared(table).next()
        {
            return Some(RepinReason::ToolAppeared { name: entry.name.clone() });
        }
        let ttl = config.surface_ttl_ms.map_or(limits.surface_ttl, Duration::from_millis);
        (now.since(self.used_at) > ttl).then_some(RepinReason::Idle)
    }

    /// The tools in scope that are neither shown nor deferred.
    fn appeared<'a>(&'a self, table: &'a ToolTable) -> impl Iterator<Item = &'a Arc<Entry>> {
        let is_known = |entry: &Arc<Entry>| self.shows(&entry.name) || self.deferred.contains(&entry.name);
        table.select_active(&self.scope).filter(move |entry| !is_known(entry))
    }

    fn shows(&self, name: &str) -> bool {
        self.view.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).is_ok()
    }
}

/// What a model is shown of tools.
struct Block {
    /// Sorted by the bytes of the names.
    tools: Vec<ShownTool>,
    /// What their schemas lost.
    loosened: Vec<LoosenedTool>,
    /// Those that strict mode has no words for, where the block is strict.
    not_strict: BTreeSet<String>,
}

fn block(inline: &[Arc<Entry>], meta: MetaTools, terms: Terms<'_>) -> Block {
    let mut tools = Vec::with_capacity(inline.len() + 3);
    let (mut loosened, mut not_strict) = (Vec::new(), BTreeSet::new());
    for entry in inline {
        let shown = terms.shown.of(entry, terms.limits.description_bytes, terms.dialect);
        if !shown.loosened.is_empty() {
            loosened.push(LoosenedTool { name: entry.name.clone(), losses: shown.loosened.clone() });
        }
        if shown.dialect != terms.dialect {
            not_strict.insert(entry.name.clone());
        }
        tools.push(ShownTool {
            name: entry.name.clone(),
            description: shown.description.clone(),
            input_schema: shown.schema.clone(),
        });
    }
    match meta {
        MetaTools::Shown => {
            let definitions = meta::definitions();
            if terms.dialect == Dialect::OpenAiStrict {
                // Their arguments may be left out.
                not_strict.extend(definitions.iter().map(|tool| tool.name.clone()));
            }
            tools.extend(definitions);
        }
        MetaTools::Absent => {}
    }
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    Block { tools, loosened, not_strict }
}

fn groups(deferred: &[Arc<Entry>]) -> Vec<DeferredGroup> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    deferred.iter().for_each(|entry| *counts.entry(entry.namespace_label()).or_default() += 1);
    counts.into_iter().map(|(label, count)| DeferredGroup { label: label.to_owned(), count }).collect()
}

#[cfg(test)]
mod tests;
