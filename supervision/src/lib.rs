//! What Pilothouse *watches*: the tree, who restarts whom, and the order in which all stop.
//!
//! ```text
//! Runtime (root supervisor)
//! ├── approval            one; the only writer of decisions
//! ├── catalog             one; the only writer of listings
//! ├── registry            one; the only writer of the tool table and of stored names
//! ├── servers             supervisor of
//! │   └── connection/<server>    one for each MCP server; lives as long as one connection
//! └── topics              supervisor of
//!     └── session/<topic>        one for each live topic
//! ```
//!
//! Restart is one-for-one: no sibling notices another's death. The picture's order is the order of starting; they stop
//! in reverse.

mod approvals;
mod audit;
mod builder;
mod inner;
mod logs;
mod outside;
mod questions;
mod removal;
mod root;
mod runtime;
mod server;
mod servers;
mod stop;
#[cfg(feature = "testing")]
mod strike;
mod topic;
mod topics;
mod tree;

pub use audit::audit_store;
pub use builder::{Builder, Server};
#[cfg(feature = "mcp")]
pub use builder::{ConfigError, ConfigNote, ConfigOptions, ImportedServers, OnMistake, servers_from_json};
pub use logs::log_filter;
#[cfg(feature = "testing")]
pub use pilothouse_actors::mishap::Mishap;
pub use runtime::Runtime;
pub use server::ServerHandle;
pub use stop::Shutdown;
pub use topic::{Sent, Topic};
