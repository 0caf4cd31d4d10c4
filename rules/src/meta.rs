//! Decides what the meta tools answer: how a model finds, inspects and calls the tools that it is not shown.
//!
//! ```text
//! tool_search ──▶ names; verbose: schemas, too ──▶ inspected
//! tool_inspect ─▶ the signature ────────────────▶ inspected
//! tool_invoke ──▶ available? registered? executable? not force-prompt? inspected? valid? ──▶ Run | Refuse
//! ```
//!
//! Everything here looks at snapshots and at one topic's [`Inspected`] ledger. No answer names a way that the topic's
//! pinned block does not have: a model that is told to do what it cannot do asks again and again.
//!
//! [`asked`] is the one way in: a call that a model writes is a direct one or one of these, and comes to one [`Asked`].
//!
//! A need that is found at call time (mode, grants, guards) is not decided here: [`InvokeDecision::Run`] gives the real
//! tool and its arguments, and those pass the gate like a direct call's.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::SurfaceView;

use crate::arguments::Validators;
use crate::registry::{Scope, ToolTable};
use crate::schema::shown_schema;

mod definition;
mod input;
mod inspect;
mod invoke;
mod ledger;
mod refusal;
mod request;
#[cfg(test)]
mod sample;
mod search;
mod text;

pub use definition::{definitions, exec_definition};
pub use input::search_input;
pub use inspect::inspect;
pub use invoke::{InvokeDecision, invoke};
pub use ledger::Inspected;
pub use request::{Asked, Mismatch, Shelf, asked, direct};
pub use search::{Finding, Found, answer_search};

/// What the meta tools of one topic can see at one moment.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// Every tool.
    pub table: &'a ToolTable,
    /// What the topic may use.
    pub scope: &'a Scope,
    /// What the topic's model is shown, meta tools included.
    pub block: &'a SurfaceView,
    /// Wire names of the tools that were deferred when the block was pinned.
    pub deferred: &'a BTreeSet<String>,
    /// A tool's signature, for a model.
    pub signature: &'a dyn Fn(&Entry) -> String,
    /// Whether there is anything that runs a tool.
    pub executor: &'a dyn Fn(&Entry) -> Executor,
    /// Compiled schemas.
    pub validators: &'a Validators,
}

/// Whether there is anything that runs a tool: a server that is down is still there, one that was removed is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// Something does.
    Present,
    /// Nothing does.
    Absent,
}

/// What a name that a model wrote stands for.
enum Named {
    Tool(Arc<Entry>),
    /// A meta tool: only there to be called directly.
    Meta(MetaTool),
    /// The model was shown it, and it is gone.
    Gone,
    Unknown,
}

impl Sight<'_> {
    /// Whether the model is shown a tool of this name.
    fn shows(&self, name: &str) -> bool {
        self.block.tools.iter().any(|tool| tool.name == name)
    }

    /// Whether the model is shown the tool with the arguments that it has now.
    fn shows_as_it_is(&self, entry: &Entry) -> bool {
        let shown = self.block.tools.iter().find(|tool| tool.name == entry.name);
        shown.is_some_and(|tool| {
            tool.input_schema == entry.definition.input_schema
                || tool.input_schema
                    == JsonText::from(shown_schema(&entry.definition, self.block.dialect).schema)
        })
    }

    /// A wire name; else the owner's own name, if just one tool in scope has it. Whatever it was called by, it is the same
    /// entry, and is judged as such.
    fn named(&self, name: &str) -> Named {
        if let Some(meta) = MetaTool::of(name) {
            return if self.shows(name) { Named::Meta(meta) } else { Named::Unknown };
        }
        if let Some(entry) = self.table.get(name).filter(|entry| self.scope.admits(entry)) {
            return Named::Tool(entry.clone());
        }
        if self.shows(name) || self.deferred.contains(name) {
            return Named::Gone;
        }
        let mut owned = self.table.select_active(self.scope).filter(|entry| entry.source.raw_name() == name);
        match (owned.next(), owned.next()) {
            (Some(only), None) => Named::Tool(only.clone()),
            (_, _) => Named::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
