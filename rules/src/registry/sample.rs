//! Sample functions, servers and listings for tests.

use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Revision, ServerId, TenantId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{Listing, ListingState, ListingView};
use pilothouse_messages::registry::{Entry, NameRecord, RegistryCommand, RegistryEvent, ServerTools};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{ToolDefinition, ToolSource};
use serde_json::json;

use super::Registry;
use crate::Decider;

pub(crate) fn server(id: &str) -> ServerId {
    ServerId::new(id).expect("a sample id is one")
}

pub(crate) fn tenant(id: &str) -> TenantId {
    TenantId::new(id).expect("a sample id is one")
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: Some(format!("does {name}")),
        input_schema: JsonText::from(json!({"type": "object"})),
        output_schema: None,
        annotations: None,
    }
}

pub(crate) fn function(name: &str) -> Entry {
    let source = ToolSource::Builtin { name: name.to_owned() };
    Entry::new(name.to_owned(), source, Arc::new(tool(name)), Digest([7; 32]))
}

/// A warm, shared server whose display name is its id.
pub(crate) fn offer(id: &str, tools: &[&str]) -> ServerTools {
    offer_of(id, tools.iter().map(|name| tool(name)).collect())
}

pub(crate) fn offer_of(id: &str, tools: Vec<ToolDefinition>) -> ServerTools {
    let listing = Listing {
        definition: Digest::of_parts("sample", &[id.as_bytes()]),
        revision: Revision(1),
        listed_at: Timestamp(1),
        tools,
        dropped: Vec::new(),
    };
    ServerTools {
        server: server(id),
        name: id.to_owned(),
        tenant: None,
        listing: ListingView::new(server(id), ListingState::Warm, Some(Arc::new(listing))),
        disabled: Vec::new(),
        tools: Default::default(),
        force_prompt: Vec::new(),
        interruptible: Vec::new(),
        effects: Vec::new(),
        trust_annotations: false,
    }
}

pub(crate) fn named(id: &str, tool: &str, name: &str) -> RegistryEvent {
    RegistryEvent::Named(NameRecord { server: server(id), tool: tool.to_owned(), name: name.to_owned() })
}

pub(crate) fn registry(builtins: &[&str]) -> Registry {
    Registry::new(builtins.iter().map(|name| function(name)).collect())
        .expect("the sample functions are fine")
}

/// Decides and applies; gives the events.
pub(crate) fn tell(registry: &mut Registry, command: &RegistryCommand) -> Vec<RegistryEvent> {
    let Ok(decision) = registry.decide(Timestamp(1), command);
    for event in &decision.events {
        registry.apply(event);
    }
    decision.events
}

pub(crate) fn tell_offer(registry: &mut Registry, tools: ServerTools) -> Vec<RegistryEvent> {
    tell(registry, &RegistryCommand::Offer(Box::new(tools)))
}

pub(crate) fn withdraw(id: &str) -> RegistryCommand {
    RegistryCommand::Withdraw { server: server(id) }
}

pub(crate) fn names(registry: &Registry) -> Vec<String> {
    registry.table().entries().iter().map(|entry| entry.name.clone()).collect()
}
