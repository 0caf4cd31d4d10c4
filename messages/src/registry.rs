//! The registry: tools under their stored wire names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::deferral::Defer;
use crate::digest::Digest;
use crate::id::{ServerId, TenantId};
use crate::listing::ListingView;
use crate::scope::Applies;
use crate::tool::{Effect, ToolDefinition, ToolLists, ToolSource};

/// One tool in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The wire name: what a model calls it.
    pub name: String,
    /// Who runs it.
    pub source: ToolSource,
    /// Whose it is; `None` for everybody's.
    pub tenant: Option<TenantId>,
    /// Where it belongs: `mcp:<server id>` for a server's tool, a word such as `web` for a function
    /// ([`FUNCTIONS`] if nothing was said). Never shown to a model for a server's tool, whose label is.
    pub namespace: String,
    /// What people are shown for its owner.
    pub label: String,
    /// The definition.
    pub definition: Arc<ToolDefinition>,
    /// Fingerprint of the definition.
    pub fingerprint: Digest,
    /// Fingerprint of the server's definition; of the function's name for a built-in.
    pub owner: Digest,
    /// What it may do.
    pub effect: Effect,
    /// Always asks.
    pub force_prompt: bool,
    /// Its owner says that a message that cannot wait may cancel it while it runs; one that reads may always be.
    pub interruptible: bool,
    /// What its owner said about deferral; see [`deferral`](Self::deferral) for what follows.
    pub defer: Defer,
    /// In which scopes it is active; `None` for all.
    pub applies: Option<Applies>,
}

/// The namespace of functions for which none was said.
pub const FUNCTIONS: &str = "functions";

impl Entry {
    /// An entry for one tool; the fingerprint is computed. A server's tool is deferred where that pays, a function
    /// never.
    pub fn new(name: String, source: ToolSource, definition: Arc<ToolDefinition>, owner: Digest) -> Self {
        let fingerprint = definition.fingerprint();
        let label = source.raw_name().to_owned();
        let (namespace, defer) = match source.server() {
            Some(server) => (format!("mcp:{server}"), Defer::Auto),
            None => (FUNCTIONS.to_owned(), Defer::Never),
        };
        Self {
            name,
            source,
            tenant: None,
            namespace,
            label,
            definition,
            fingerprint,
            owner,
            effect: Effect::Unknown,
            force_prompt: false,
            interruptible: false,
            defer,
            applies: None,
        }
    }

    /// Whether it may be deferred: never if it always asks, because a person is asked on direct calls only.
    pub fn deferral(&self) -> Defer {
        if self.force_prompt { Defer::Never } else { self.defer }
    }

    /// What a model is shown for its namespace: the server's label, or a function's namespace itself.
    pub fn namespace_label(&self) -> &str {
        match self.source {
            ToolSource::Builtin { .. } => &self.namespace,
            ToolSource::Mcp { .. } => &self.label,
        }
    }
}

/// What the registry has to know about one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTools {
    /// The server.
    pub server: ServerId,
    /// Its display name.
    pub name: String,
    /// Whose it is.
    pub tenant: Option<TenantId>,
    /// Its listing.
    pub listing: ListingView,
    /// Raw names that are hidden.
    pub disabled: Vec<String>,
    /// Which of its tools there are at all.
    pub tools: ToolLists,
    /// Raw names that always ask.
    pub force_prompt: Vec<String>,
    /// Raw names that a message that cannot wait may cancel while they run.
    pub interruptible: Vec<String>,
    /// Effects that the embedder states, by raw name.
    pub effects: Vec<(String, Effect)>,
    /// Whether the server's annotations are believed.
    pub trust_annotations: bool,
}

/// Everything that the registry can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryCommand {
    /// A server's tools are these now.
    Offer(Box<ServerTools>),
    /// A server is gone; its names stay stored.
    Withdraw {
        /// The server.
        server: ServerId,
    },
}

/// What happened in the registry. Only names are stored (as [`NameRecord`]); the rest follows from listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryEvent {
    /// A tool got its wire name, for good.
    Named(NameRecord),
    /// A server's tools are these now.
    Offered(Box<ServerTools>),
    /// A server is gone.
    Withdrawn {
        /// The server.
        server: ServerId,
    },
}

/// A stored wire name; it survives renames of the server. Its bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRecord {
    /// The server.
    pub server: ServerId,
    /// The name that the server gave the tool.
    pub tool: String,
    /// The wire name.
    pub name: String,
}

/// What the registry wants done, once its names are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryDirective {
    /// Publish the table as it is after this batch, then say that the server's tools can be called.
    Publish {
        /// The server whose tools changed.
        server: ServerId,
        /// Its listing; `None` if the server is gone.
        listing: Option<ListingView>,
    },
}

/// Why the registry refuses a function of the embedder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is not one that every provider accepts.
    #[error("\"{name}\" is no tool name: use 1 to 64 of A-Z a-z 0-9 _ -")]
    BadName {
        /// The name.
        name: String,
    },
    /// The name belongs to another source.
    #[error(
        "\"{name}\" is reserved: names that begin with mcp__ and tool_search, tool_inspect, tool_invoke, tool_exec are not for functions"
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// The schema is not an object schema.
    #[error("the input schema of \"{name}\" is not a JSON object schema: give it \"type\": \"object\"")]
    BadSchema {
        /// The name.
        name: String,
    },
}
