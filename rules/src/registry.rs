//! Decides which tools there are and under which names: the one registry.
//!
//! ```text
//! (server id, raw name)   unnamed ──Offer──▶ named for good        (Named is durable before it is published)
//! server                  absent ──Offer──▶ offered ──Withdraw──▶ absent      an Offer replaces the one before
//! illegal                 named ──▶ unnamed, named ──▶ named otherwise: never
//! ```
//!
//! A name is computed at first sight of a tool and survives the renaming, the withdrawal and the return of its
//! server. Only names are stored; entries follow from listings.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::{
    Entry, NameRecord, RegistryCommand, RegistryDirective, RegistryError, RegistryEvent, ServerTools,
};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolDefinition, ToolSource};

use crate::name::{is_wire_name_for_provider, numbered_wire_name, wire_name};
use crate::{Decider, Decision};
use policy::{Admission, PolicyReach, ToolPolicy};

mod near;
pub mod policy;
#[cfg(test)]
pub(crate) mod sample;
mod table;

pub(crate) use near::nearest;
pub use pilothouse_messages::scope::Scope;
pub use table::{ToolTable, resolved, scope_of};

/// What every server's tool begins with, and no function may.
pub(crate) const SERVER_PREFIX: &str = "mcp__";

/// Names that one server's tools are given for ever; a tool beyond them is left out. Thirteen times the largest listing: a
/// server that names its tools anew with each one fills no disk.
pub const NAMES_MAX: usize = 65_536;

/// One server's entries by raw name.
pub(crate) type Offered = Arc<BTreeMap<String, Arc<Entry>>>;

/// Every tool of the runtime, and every name that was ever given.
///
/// Bounded by the servers' listings, whose size the catalog bounds, and by [`NAMES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    builtins: Vec<Arc<Entry>>,
    names: BTreeMap<ServerId, BTreeMap<String, String>>,
    taken: BTreeSet<String>,
    offers: BTreeMap<ServerId, Offered>,
    table: Arc<ToolTable>,
}

impl Registry {
    /// A registry of the embedder's functions. Each is its own source under its own name; of two with one name the
    /// last stays.
    ///
    /// # Errors
    /// The first function, in the order given, whose name no provider accepts ([`RegistryError::BadName`]), whose
    /// name is not for functions ([`RegistryError::Reserved`]), or whose input schema is not an object schema
    /// ([`RegistryError::BadSchema`]).
    pub fn new(builtins: Vec<Entry>) -> Result<Self, RegistryError> {
        let mut by_name = BTreeMap::new();
        for mut entry in builtins {
            check_builtin(&entry)?;
            entry.source = ToolSource::Builtin { name: entry.name.clone() };
            by_name.insert(entry.name.clone(), Arc::new(entry));
        }
        let mut registry = Self {
            builtins: by_name.into_values().collect(),
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            offers: BTreeMap::new(),
            table: Arc::default(),
        };
        registry.rebuild();
        Ok(registry)
    }

    /// The same with a meta tool, which stands under its own name, as no function may. It takes the place of one that is
    /// there.
    #[must_use]
    pub fn with_meta(mut self, tool: MetaTool, mut entry: Entry) -> Self {
        entry.name = tool.name().to_owned();
        entry.source = ToolSource::Builtin { name: entry.name.clone() };
        self.builtins.retain(|other| other.name != entry.name);
        self.builtins.push(Arc::new(entry));
        self.rebuild();
        self
    }

    /// The event that a stored name stands for; applied before anything is offered.
    pub fn restore(record: NameRecord) -> RegistryEvent {
        RegistryEvent::Named(record)
    }

    /// The tools as they are now; a snapshot that later events leave alone.
    pub fn table(&self) -> Arc<ToolTable> {
        Arc::clone(&self.table)
    }

    fn name_of(&self, server: &ServerId, tool: &str) -> Option<&String> {
        self.names.get(server)?.get(tool)
    }

    /// Names for the offered tools that have none, in the order of the listing.
    fn first_names(&self, tools: &ServerTools) -> Vec<NameRecord> {
        let mut records: Vec<NameRecord> = Vec::new();
        let mut fresh = BTreeSet::new();
        let given = self.names.get(&tools.server).map_or(0, BTreeMap::len);
        for tool in shown(tools) {
            if self.name_of(&tools.server, &tool.name).is_some() {
                continue;
            }
            if given + records.len() >= NAMES_MAX {
                break;
            }
            let name = self.free_name(tools, &tool.name, &fresh);
            fresh.insert(name.clone());
            records.push(NameRecord { server: tools.server.clone(), tool: tool.name.clone(), name });
        }
        records
    }

    /// The tool's own name, or the first numbered one that belongs to no other tool.
    fn free_name(&self, tools: &ServerTools, tool: &str, fresh: &BTreeSet<String>) -> String {
        let mut name = wire_name(tools.server.as_str(), &tools.name, tool);
        let mut number = 1;
        // Ends: each round makes another name, and finitely many are taken.
        while self.taken.contains(&name) || fresh.contains(&name) {
            number += 1;
            name = numbered_wire_name(tools.server.as_str(), &tools.name, tool, number);
        }
        name
    }

    fn apply_name(&mut self, record: &NameRecord) {
        let NameRecord { server, tool, name } = record;
        // A record that contradicts an earlier one, or that no provider would take, names nothing: its tool is
        // named at the next offer.
        let is_usable = name.starts_with(SERVER_PREFIX) && is_wire_name_for_provider(name);
        if !is_usable || self.name_of(server, tool).is_some() || !self.taken.insert(name.clone()) {
            return;
        }
        self.names.entry(server.clone()).or_default().insert(tool.clone(), name.clone());
    }

    fn apply_offer(&mut self, tools: &ServerTools) {
        let before = self.offers.get(&tools.server);
        let terms = Terms::of(tools);
        let mut entries = BTreeMap::new();
        for tool in shown(tools) {
            let Some(name) = self.name_of(&tools.server, &tool.name) else { continue };
            let known = before.and_then(|entries| entries.get(&tool.name));
            let entry = terms.entry(tool, name, known);
            if terms.policy.admits(&entry) == Admission::Admitted {
                entries.insert(tool.name.clone(), Arc::new(entry));
            }
        }
        self.offers.insert(tools.server.clone(), Arc::new(entries));
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.table = Arc::new(ToolTable::new(&self.builtins, &self.offers));
    }
}

impl Decider for Registry {
    type Command = RegistryCommand;
    type Event = RegistryEvent;
    type Directive = RegistryDirective;
    type Answer = ();
    type Rejection = Infallible;

    fn decide(
        &self,
        _now: Timestamp,
        command: &RegistryCommand,
    ) -> Result<Decision<RegistryEvent, RegistryDirective, ()>, Infallible> {
        let (events, server, listing) = match command {
            RegistryCommand::Offer(tools) => {
                let named = self.first_names(tools).into_iter().map(RegistryEvent::Named);
                let events = named.chain([RegistryEvent::Offered(tools.clone())]).collect();
                (events, tools.server.clone(), Some(tools.listing.clone()))
            }
            RegistryCommand::Withdraw { server } => {
                (vec![RegistryEvent::Withdrawn { server: server.clone() }], server.clone(), None)
            }
        };
        Ok(Decision { answer: (), events, directives: vec![RegistryDirective::Publish { server, listing }] })
    }

    fn apply(&mut self, event: &RegistryEvent) {
        match event {
            RegistryEvent::Named(record) => self.apply_name(record),
            RegistryEvent::Offered(tools) => self.apply_offer(tools),
            RegistryEvent::Withdrawn { server } => {
                if self.offers.remove(server).is_some() {
                    self.rebuild();
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn resume(&self) -> Vec<RegistryDirective> {
        Vec::new()
    }
}

fn check_builtin(entry: &Entry) -> Result<(), RegistryError> {
    let name = || entry.name.clone();
    if !is_wire_name_for_provider(&entry.name) {
        return Err(RegistryError::BadName { name: name() });
    }
    if entry.name.starts_with(SERVER_PREFIX) || MetaTool::of(&entry.name).is_some() {
        return Err(RegistryError::Reserved { name: name() });
    }
    let schema = entry.definition.input_schema.value();
    match schema.get("type").and_then(|kind| kind.as_str()) {
        Some("object") => Ok(()),
        Some(_) | None => Err(RegistryError::BadSchema { name: name() }),
    }
}

/// The listed tools without hidden ones; of duplicates the first.
fn shown(tools: &ServerTools) -> impl Iterator<Item = &ToolDefinition> {
    let mut hidden_or_seen: BTreeSet<&str> = tools.disabled.iter().map(String::as_str).collect();
    tools.listing.tools().iter().filter(move |tool| hidden_or_seen.insert(&tool.name))
}

/// The tools that a server alone would have, under the names that they would get now.
pub fn entries_of(tools: &ServerTools) -> Vec<Arc<Entry>> {
    let terms = Terms::of(tools);
    let name = |tool: &ToolDefinition| wire_name(tools.server.as_str(), &tools.name, &tool.name);
    shown(tools).map(|tool| Arc::new(terms.entry(tool, &name(tool), None))).collect()
}

/// What the embedder says about one server's tools, ready to be looked up.
struct Terms<'a> {
    tools: &'a ServerTools,
    owner: Option<Digest>,
    forced: BTreeSet<&'a str>,
    interruptible: BTreeSet<&'a str>,
    effects: BTreeMap<&'a str, Effect>,
    policy: ToolPolicy,
}

impl<'a> Terms<'a> {
    fn of(tools: &'a ServerTools) -> Self {
        Self {
            tools,
            owner: tools.listing.listing.as_ref().map(|listing| listing.definition),
            forced: tools.force_prompt.iter().map(String::as_str).collect(),
            interruptible: tools.interruptible.iter().map(String::as_str).collect(),
            policy: ToolPolicy::of(&tools.tools, PolicyReach::Server(tools.server.clone())),
            effects: tools.effects.iter().map(|(tool, effect)| (tool.as_str(), *effect)).collect(),
        }
    }

    /// `known` is the tool's entry in the offer before: while its definition is the same, nothing is hashed again.
    fn entry(&self, tool: &ToolDefinition, name: &str, known: Option<&Arc<Entry>>) -> Entry {
        let mut entry = match known.filter(|known| *known.definition == *tool) {
            Some(known) => Entry::clone(known),
            None => self.new_entry(tool, name),
        };
        entry.tenant.clone_from(&self.tools.tenant);
        entry.label.clone_from(&self.tools.name);
        entry.owner = self.owner.unwrap_or(entry.owner);
        entry.force_prompt = self.forced.contains(tool.name.as_str());
        entry.interruptible = self.interruptible.contains(tool.name.as_str());
        entry.effect = self.effect(tool);
        entry
    }

    fn new_entry(&self, tool: &ToolDefinition, name: &str) -> Entry {
        let source = ToolSource::Mcp { server: self.tools.server.clone(), tool: tool.name.clone() };
        // A tool comes from a listing, so there is an owner.
        let owner = self.owner.unwrap_or(Digest([0; 32]));
        Entry::new(name.to_owned(), source, Arc::new(tool.clone()), owner)
    }

    /// The embedder's word; else the server's, if it is believed.
    fn effect(&self, tool: &ToolDefinition) -> Effect {
        match self.effects.get(tool.name.as_str()) {
            Some(stated) => *stated,
            None if self.tools.trust_annotations => tool.annotated_effect(),
            None => Effect::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
