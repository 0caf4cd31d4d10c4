//! Decides what one topic shows its model, and when that may change.
//!
//! ```text
//! (none) ──pin──▶ pinned ──turn boundary, must_repin says why──▶ pinned anew
//!                   └── anything else: the same bytes, so that a provider's prompt cache survives
//! ```
//!
//! A tool that disappears and a server that fails are no reasons: the pin outlives them, and a call to such a tool is
//! refused when it is made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{ShownTool, SurfaceView};
use pilothouse_messages::topic::TopicConfig;

use crate::registry::{Scope, ToolTable};

mod section;

pub use section::{LABEL_CHARS, NAMESPACES_MAX, deferred_section};

/// What one topic shows its model, pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    view: Arc<SurfaceView>,
    deferred: Arc<BTreeSet<String>>,
    used_at: Timestamp,
    scope: Scope,
    cold: BTreeSet<ServerId>,
}

/// Why a surface is pinned anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepinReason {
    /// The topic may use other servers or functions now.
    ScopeChanged,
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
    /// The block depends on the tools in scope and the bound of a description only.
    pub fn pin(
        table: &ToolTable,
        config: &TopicConfig,
        mut cold: BTreeSet<ServerId>,
        now: Timestamp,
        limits: &Limits,
    ) -> Self {
        let scope = Scope::of(config);
        let tools = table.select_active(&scope).map(|entry| shown(entry, limits.description_bytes)).collect();
        cold.retain(|server| scope.admits_server(server));
        Self { view: Arc::new(SurfaceView::new(tools)), deferred: Arc::default(), used_at: now, scope, cold }
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
        cold: &BTreeSet<ServerId>,
        limits: &Limits,
    ) -> Option<RepinReason> {
        if Scope::of(config) != self.scope {
            return Some(RepinReason::ScopeChanged);
        }
        if let Some(server) = self.cold.difference(cold).next() {
            return Some(RepinReason::ServerListed { server: server.clone() });
        }
        if let Some(entry) = table.select_active(&self.scope).find(|entry| !self.shows(&entry.name)) {
            return Some(RepinReason::ToolAppeared { name: entry.name.clone() });
        }
        let ttl = config.surface_ttl_ms.map_or(limits.surface_ttl, Duration::from_millis);
        (now.since(self.used_at) > ttl).then_some(RepinReason::Idle)
    }

    fn shows(&self, name: &str) -> bool {
        self.view.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).is_ok()
    }
}

pub(crate) fn shown(entry: &Entry, bytes: usize) -> ShownTool {
    let definition = &entry.definition;
    let texts = [definition.description.as_deref(), definition.title.as_deref()];
    let text =
        texts.into_iter().flatten().map(|text| shown_text(text, bytes)).find(|text| !text.trim().is_empty());
    ShownTool {
        name: entry.name.clone(),
        description: text.unwrap_or_else(|| shown_text(definition.name.as_str(), bytes)),
        input_schema: definition.input_schema.clone(),
    }
}

/// The text without control characters (line breaks and tabs stay), cut to `bytes` at a character boundary.
fn shown_text(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')) {
        if out.len() + c.len_utf8() > bytes {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;
