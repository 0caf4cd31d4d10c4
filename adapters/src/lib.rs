//! What Pilothouse *reaches*: the outside world, each part behind a trait.
//!
//! | trait | for | adapters |
//! |---|---|---|
//! | [`store::Store`] | what must survive | memory, sled (feature `sled`) |
//! | [`server::Connector`] | MCP servers | stdio, in-memory pipes (feature `mcp`) |
//! | [`model::Model`] | models | a scripted one |
//! | [`tool::Tool`] | the embedder's functions | closures |
//! | [`clock::Clock`] | the time | the system's, Tokio's |

use std::pin::Pin;

pub mod clock;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
pub mod process;
pub mod server;
pub mod store;
pub mod tool;

/// A boxed future, as the traits here return it so that they can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
