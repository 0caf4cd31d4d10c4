//! What a call that somebody asked for comes to, looked up in the snapshots of this moment; nobody is waited for.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use pilothouse_messages::id::TopicId;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::server::ServerState;
use pilothouse_messages::tool::{SurfaceView, ToolSource};
use pilothouse_rules::meta::{self, Asked, Executor, Inspected, Shelf, Sight};
use pilothouse_rules::registry::Scope;
use pilothouse_rules::schema::strict;
use pilothouse_rules::signature;

use crate::wiring::Wiring;

/// What one topic's model has seen the signature of; in memory, over the topic's sessions.
#[derive(Debug, Default)]
pub struct InspectedLedger(Mutex<Inspected>);

/// Whose call it is, and what its model is shown.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The topic.
    pub topic: &'a TopicId,
    /// What it may use.
    pub scope: &'a Scope,
    /// Its pinned block.
    pub block: &'a SurfaceView,
    /// Wire names of the tools that were deferred when the block was pinned.
    pub deferred: &'a BTreeSet<String>,
    /// Its ledger.
    pub inspected: &'a InspectedLedger,
}

/// What a call that a topic's model has written comes to. A tool that it was shown in strict mode made it write nulls,
/// which are taken out first; nobody else writes such ones.
pub fn asked_by_model(wiring: &Wiring, asker: &Asker<'_>, name: &str, raw: &str) -> Asked {
    let undone = without_strict_nulls(wiring, asker.block, name, raw);
    asked(wiring, asker, name, undone.as_deref().unwrap_or(raw))
}

/// What a topic's call of `name` comes to; `raw` is the text of its arguments.
pub fn asked(wiring: &Wiring, asker: &Asker<'_>, name: &str, raw: &str) -> Asked {
    let trouble = |entry: &Entry| trouble(wiring, entry);
    let asked = see(wiring, (asker.scope, asker.block, asker.deferred), |sight| {
        // It may be older than the table, or newer.
        let index = wiring.registry.index.load();
        let shelf = Shelf { index: &index, trouble: &trouble };
        // What is noted is noted whole, so a poisoned ledger is a good one. Nobody waits under the lock.
        let mut inspected = asker.inspected.0.lock().unwrap_or_else(PoisonError::into_inner);
        meta::asked(name, raw, sight, &shelf, &mut inspected)
    });
    if let Asked::Run { entry, fixes, .. } = &asked
        && !fixes.is_empty()
    {
        let (topic, tool) = (asker.topic, &entry.name);
        tracing::debug!(target: "pilothouse", %topic, %tool, ?fixes, "slips in a call's arguments were mended");
    }
    asked
}

/// The arguments of a tool that was shown in strict mode, without the nulls that strict mode made the model write.
fn without_strict_nulls(wiring: &Wiring, block: &SurfaceView, name: &str, raw: &str) -> Option<String> {
    if !block.is_strict(name) {
        return None;
    }
    let entry = wiring.registry.table.load().get(name)?.clone();
    // What is no JSON is mended or refused later.
    let arguments = serde_json::from_str(raw).ok()?;
    Some(strict::undo(&entry.definition.input_schema.value(), arguments).to_string())
}

/// What a call of a tool outside all topics comes to.
pub fn asked_directly(wiring: &Wiring, scope: &Scope, name: &str, raw: &str) -> Asked {
    let (block, deferred) = (SurfaceView::new(Vec::new()), BTreeSet::new());
    see(wiring, (scope, &block, &deferred), |sight| meta::direct(name, raw, sight, &mut Inspected::default()))
}

fn see<T>(
    wiring: &Wiring,
    (scope, block, deferred): (&Scope, &SurfaceView, &BTreeSet<String>),
    look: impl FnOnce(&Sight<'_>) -> T,
) -> T {
    let table = wiring.registry.table.load();
    look(&Sight {
        table: &table,
        scope,
        block,
        deferred,
        signature: &|entry| signature::render(&entry.definition, &entry.name, &wiring.limits),
        executor: &|entry| executor(wiring, entry),
        validators: &wiring.validators,
    })
}

fn executor(wiring: &Wiring, entry: &Entry) -> Executor {
    let is_there = match &entry.source {
        ToolSource::Builtin { name } => {
            wiring.functions.contains_key(name)
                || (wiring.exec.is_some() && MetaTool::of(name) == Some(MetaTool::Exec))
        }
        ToolSource::Mcp { server, .. } => wiring.servers.place(server).is_some(),
    };
    if is_there { Executor::Present } else { Executor::Absent }
}

/// A word about a server that cannot be called now.
fn trouble(wiring: &Wiring, entry: &Entry) -> Option<String> {
    let place = wiring.servers.place(entry.source.server()?)?;
    let state = place.phase.borrow().state;
    let word = match state {
        ServerState::Ready => return None,
        ServerState::Connecting => "its server is connecting",
        ServerState::Backoff => "its server is down",
        ServerState::Stopped => "its server is not running",
        ServerState::Failed => "its server has failed",
    };
    Some(word.to_owned())
}
