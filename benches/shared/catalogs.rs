//! Real tools/list results, registered as a runtime registers them.

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{Listing, ListingState, ListingView};
use pilothouse_messages::registry::{RegistryCommand, ServerTools};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::ToolDefinition;
use pilothouse_rules::Decider;
use pilothouse_rules::registry::Registry;
use serde_json::Value;

/// One server with its tools.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) tools: Vec<ToolDefinition>,
}

/// Where catalogs of real servers lie: `PILOTHOUSE_CATALOGS`, or the ones that the rules' tests use.
fn folder() -> PathBuf {
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("rules/tests/catalogs/data");
    std::env::var_os("PILOTHOUSE_CATALOGS").map_or_else(own, PathBuf::from)
}

/// All catalogs in the folder by name; none if there is no folder.
pub(crate) fn catalogs() -> Vec<Catalog> {
    let Ok(files) = std::fs::read_dir(folder()) else {
        eprintln!("no catalogs in {}: set PILOTHOUSE_CATALOGS", folder().display());
        return Vec::new();
    };
    let mut paths: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths.iter().filter_map(|path| catalog(&std::fs::read_to_string(path).ok()?)).collect()
}

fn catalog(text: &str) -> Option<Catalog> {
    let value: Value = serde_json::from_str(text).ok()?;
    let id = value["server"].as_str()?.to_owned();
    Some(Catalog { label: id.clone(), id, tools: tools(&value["tools"]) })
}

/// What the ids of the labelled servers begin with.
pub(crate) const LABELLED: &str = "labelled/";

/// The 70 servers of the labelled data set, with its 527 tools.
pub(crate) fn labelled() -> Vec<Catalog> {
    let value: Value =
        serde_json::from_str(include_str!("../retrieval/tools.json")).expect("the data set is JSON");
    let servers = value["servers"].as_array().expect("it lists servers").iter().enumerate();
    servers
        .map(|(n, server)| Catalog {
            id: format!("{LABELLED}{n}"),
            label: server["name"].as_str().unwrap_or_default().to_owned(),
            tools: tools(&server["tools"]),
        })
        .collect()
}

/// The definitions in a `tools` array.
fn tools(tools: &Value) -> Vec<ToolDefinition> {
    let text = |tool: &Value, key: &str| tool[key].as_str().map(str::to_owned);
    let definition = |tool: &Value| {
        Some(ToolDefinition {
            name: text(tool, "name")?,
            title: text(tool, "title"),
            description: text(tool, "description"),
            input_schema: JsonText::from(&tool["inputSchema"]),
            output_schema: None,
            annotations: None,
        })
    };
    tools.as_array().into_iter().flatten().filter_map(definition).collect()
}

/// Offers one server's tools.
pub(crate) fn offer(registry: &mut Registry, catalog: &Catalog) {
    let server = ServerId::new(catalog.id.as_str()).expect("a catalog's name is an id");
    let listing = Listing {
        definition: Digest([1; 32]),
        revision: Revision(1),
        listed_at: Timestamp(1),
        tools: catalog.tools.clone(),
        dropped: Vec::new(),
    };
    let tools = ServerTools {
        server: server.clone(),
        name: catalog.label.clone(),
        tenant: None,
        listing: ListingView::new(server, ListingState::Warm, Some(Arc::new(listing))),
        disabled: Vec::new(),
        tools: Default::default(),
        force_prompt: Vec::new(),
        interruptible: Vec::new(),
        effects: Vec::new(),
        trust_annotations: false,
    };
    let Ok(decision) = registry.decide(Timestamp(1), &RegistryCommand::Offer(Box::new(tools)));
    decision.events.iter().for_each(|event| registry.apply(event));
}

/// A registry of these servers.
pub(crate) fn registry(catalogs: &[Catalog]) -> Registry {
    let mut registry = Registry::new(Vec::new()).expect("no function is bad");
    catalogs.iter().for_each(|catalog| offer(&mut registry, catalog));
    registry
}
