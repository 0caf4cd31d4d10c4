//! A registry with a block for the tests of the meta tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_messages::id::TenantId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::{ShownTool, SurfaceView, ToolDefinition};
use serde_json::json;

use super::{Executor, Sight, definitions};
use crate::arguments::Validators;
use crate::registry::sample::{names, offer_of, registry, tell_offer, tool};
use crate::registry::{Scope, ToolTable};

/// A world that a test arranges.
pub(super) struct World {
    pub(super) table: Arc<ToolTable>,
    pub(super) scope: Scope,
    pub(super) block: SurfaceView,
    pub(super) deferred: BTreeSet<String>,
    pub(super) gone: BTreeSet<String>,
    pub(super) validators: Validators,
}

/// A tool that needs a query.
pub(super) fn with_query(name: &str) -> ToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["q"],
        "additionalProperties": false,
    });
    ToolDefinition { input_schema: JsonText::from(schema), ..tool(name) }
}

impl World {
    /// Server `db` offers these tools, all deferred but the `inline` ones; `forced` ones always ask. The block has the
    /// meta tools and what is inline.
    pub(super) fn of(tools: &[&str], inline: &[&str], forced: &[&str]) -> Self {
        let mut offer = offer_of("db", tools.iter().map(|name| with_query(name)).collect());
        offer.force_prompt = forced.iter().map(|name| (*name).to_owned()).collect();
        let mut registry = registry(&[]);
        tell_offer(&mut registry, offer);
        let table = registry.table();
        let is_inline = |entry: &&Arc<Entry>| inline.contains(&entry.source.raw_name());
        let mut shown: Vec<_> = table.entries().iter().filter(is_inline).map(|entry| show(entry)).collect();
        shown.extend(definitions());
        let block = SurfaceView::new(shown);
        let is_shown = |name: &String| block.tools.iter().any(|tool| tool.name == *name);
        let deferred = names(&registry).into_iter().filter(|name| !is_shown(name)).collect();
        let scope = Scope::new(TenantId::default(), None, None);
        let (gone, validators) = (BTreeSet::new(), Validators::default());
        Self { table, scope, block, deferred, gone, validators }
    }

    pub(super) fn wire(&self, raw: &str) -> String {
        let entry = self.table.entries().iter().find(|entry| entry.source.raw_name() == raw);
        entry.expect("the test names a tool that there is").name.clone()
    }

    pub(super) fn see<T>(&self, look: impl FnOnce(&Sight<'_>) -> T) -> T {
        let executor = |entry: &Entry| match self.gone.contains(&entry.name) {
            true => Executor::Absent,
            false => Executor::Present,
        };
        look(&Sight {
            table: &self.table,
            scope: &self.scope,
            block: &self.block,
            deferred: &self.deferred,
            signature: &|entry| format!("function {}(params)", entry.name),
            executor: &executor,
            validators: &self.validators,
        })
    }
}

fn show(entry: &Entry) -> ShownTool {
    ShownTool {
        name: entry.name.clone(),
        description: String::new(),
        input_schema: entry.definition.input_schema.clone(),
    }
}
