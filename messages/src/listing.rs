//! Listings: what each server offered last, and how sure that is.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{Revision, ServerId};
use crate::time::Timestamp;
use crate::tool::ToolDefinition;

/// What one server offered last. Stored: its bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Fingerprint of the server's definition; a listing under another one is dropped at once.
    pub definition: Digest,
    /// Grows with every real change.
    pub revision: Revision,
    /// When the server last gave it.
    pub listed_at: Timestamp,
    /// The tools, in the server's order, without duplicates.
    pub tools: Vec<ToolDefinition>,
    /// Tools that were left out, and why.
    pub dropped: Vec<DroppedTool>,
}

/// A tool that was left out of a listing; the others are unharmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedTool {
    /// Its name, if it had one.
    pub name: Option<String>,
    /// Why, in plain words.
    pub reason: String,
}

/// What a server answered to `tools/list`, all pages, each tool checked on its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedTools {
    /// The good ones, in the server's order.
    pub tools: Vec<ToolDefinition>,
    /// The others.
    pub dropped: Vec<DroppedTool>,
    /// How long the server says that this stays fresh: the shortest of all pages.
    pub ttl: Option<Duration>,
    /// For whom it holds: private if one page is.
    pub cache: CacheScope,
}

/// For whom an answer holds (MCP 2026-07-28, `cacheScope`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CacheScope {
    /// For everybody.
    #[default]
    Public,
    /// For the credential that asked: kept in memory only, and dropped with the credential.
    Private,
}

/// How sure a listing is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListingState {
    /// Never listed.
    Cold,
    /// As the server last said, and it was not disturbed since.
    Warm,
    /// The last known good one; the reason why it may be old.
    Stale {
        /// In plain words.
        reason: String,
    },
}

/// One server's place in the catalog, readable at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListingView {
    /// The server.
    pub server: ServerId,
    /// How sure it is.
    pub state: ListingState,
    /// The listing; `None` while cold.
    pub listing: Option<Arc<Listing>>,
}

impl ListingView {
    /// A picture of one server's listing.
    pub fn new(server: ServerId, state: ListingState, listing: Option<Arc<Listing>>) -> Self {
        Self { server, state, listing }
    }

    /// The tools; empty while cold.
    pub fn tools(&self) -> &[ToolDefinition] {
        self.listing.as_ref().map_or(&[], |listing| &listing.tools)
    }
}

/// Names one refresh, so that a late answer is told from a current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefreshTicket(pub u64);

/// Everything that the catalog can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogCommand {
    /// A server exists with this definition. Another definition drops the old listing at once.
    Define {
        /// The server.
        server: ServerId,
        /// Its definition's fingerprint.
        definition: Digest,
    },
    /// Fetch the server's tools, unless that is already under way.
    Refresh {
        /// The server.
        server: ServerId,
        /// Why.
        cause: RefreshCause,
    },
    /// A refresh ended well.
    Fetched {
        /// The server.
        server: ServerId,
        /// Which refresh.
        ticket: RefreshTicket,
        /// What the server said.
        listed: ListedTools,
    },
    /// A refresh ended badly.
    FetchFailed {
        /// The server.
        server: ServerId,
        /// Which refresh.
        ticket: RefreshTicket,
        /// In plain words.
        reason: String,
        /// Whether the server was there to be asked.
        contact: Contact,
    },
    /// The connection was ended because nobody used the server: what it said stands.
    Rested {
        /// The server.
        server: ServerId,
    },
    /// The server is asked with another credential from now on: what only the last one may see is dropped.
    Recredentialed {
        /// The server.
        server: ServerId,
    },
    /// The clock reached the deadline.
    Tick,
    /// The connection ended: what it said is stale from now on.
    Disconnected {
        /// The server.
        server: ServerId,
        /// In plain words.
        reason: String,
    },
    /// The server exists no more: its listing is dropped.
    Remove {
        /// The server.
        server: ServerId,
    },
}

/// Whether a connection was there for a refresh that ended badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contact {
    /// It was, and the server did not list its tools: it is asked again.
    Made,
    /// It was not, or it ended: the next one lists.
    None,
}

/// Why a server is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefreshCause {
    /// Somebody asked, or read a cold listing: joins a refresh that is under way.
    Asked,
    /// The listing is as old as its server said that it may be: joins a refresh that is under way.
    Expired,
    /// The server said that its tools changed: one under way may have missed it, so another follows.
    ToolsChanged,
    /// A new connection: one under way belongs to the old connection and is overtaken.
    Connected,
}

/// What happened in the catalog. Only listings are stored, the last one of each server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogEvent {
    /// A server is known, with this definition.
    Defined {
        /// The server.
        server: ServerId,
        /// Its definition's fingerprint.
        definition: Digest,
    },
    /// A refresh began.
    RefreshStarted {
        /// The server.
        server: ServerId,
        /// Which.
        ticket: RefreshTicket,
    },
    /// Another refresh follows the one under way.
    RefreshQueued {
        /// The server.
        server: ServerId,
    },
    /// The refresh under way ended badly; what it said about the listing is in other events.
    RefreshEnded {
        /// The server.
        server: ServerId,
    },
    /// The server's listing is this now, and fresh.
    Listed {
        /// The server.
        server: ServerId,
        /// The listing.
        listing: Listing,
        /// For whom it holds; a private one is not stored.
        cache: CacheScope,
        /// When it has to be listed again.
        expires: Option<Timestamp>,
    },
    /// The server said the same again: the listing is fresh, and nothing is stored.
    Confirmed {
        /// The server.
        server: ServerId,
        /// When.
        at: Timestamp,
        /// When it has to be listed again.
        expires: Option<Timestamp>,
    },
    /// The server was stopped for want of use: its listing does not expire until the next connection.
    Rested {
        /// The server.
        server: ServerId,
    },
    /// The last known good listing may be old.
    WentStale {
        /// The server.
        server: ServerId,
        /// Why.
        reason: String,
    },
    /// The listing is gone.
    Dropped {
        /// The server.
        server: ServerId,
    },
    /// The server is gone.
    Removed {
        /// The server.
        server: ServerId,
    },
    /// When a server that is connected and did not list its tools is asked again; `None` if it is not.
    RetrySet {
        /// The server.
        server: ServerId,
        /// When.
        at: Option<Timestamp>,
    },
}

/// What the catalog wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogDirective {
    /// List all pages of this server and report with the ticket.
    Fetch {
        /// The server.
        server: ServerId,
        /// Which refresh.
        ticket: RefreshTicket,
    },
    /// The listing changed for its readers: tell the registry and the subscribers.
    Changed {
        /// The server.
        server: ServerId,
    },
    /// The refresh under this ticket is over: answer all who wait for it.
    Answer {
        /// The server.
        server: ServerId,
        /// How it ended.
        result: Result<Revision, String>,
    },
}

/// Why the catalog changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogRejection {
    /// No such server.
    #[error("there is no server \"{server}\"")]
    UnknownServer {
        /// Which.
        server: ServerId,
    },
    /// A newer refresh, or another definition, has overtaken this answer.
    #[error("a newer refresh has overtaken this answer")]
    Overtaken,
}
