//! What Pilothouse *reaches*: the outside world, each part behind a trait.
//!
//! | trait | for | adapters |
//! |---|---|---|
//! | [`store::Store`] | what must survive | memory, sled (feature `sled`) |
//! | [`server::Connector`] | MCP servers | stdio, in-memory pipes (feature `mcp`) |
//! | [`asks::Asks`] | what servers ask of people | the embedder's |
//! | `oauth::Authorise`, `oauth::TokenStore` | consent and tokens for HTTP servers (feature `mcp-oauth`) | the embedder's; tokens in memory |
//! | [`model::Model`] | models | a scripted one; OpenAI, Anthropic and whatever speaks like OpenAI (feature `models`) |
//! | [`tool::Tool`] | the embedder's functions | closures, typed closures (feature `schemars`) |
//! | [`gate::DenyRule`], [`gate::Guard`], [`gate::Classifier`], [`gate::DecidePolicy`] | the embedder's own layers of the gate | closures |
//! | [`repair::ArgumentRepair`] | arguments that a tool refuses | closures |
//! | [`web::WebSearch`], [`web::WebFetch`] | the web, for models | the embedder's |
//! | [`knowledge::KnowledgeBase`] | documents, for models | the embedder's |
//! | – | a model's token counts | `tokens::ExactTokens` (feature `tokens`) |
//! | [`exec::ScriptEngine`] | programs that models write | QuickJS (feature `exec`) |
//! | [`clock::Clock`] | the time | the system's, Tokio's |

use std::pin::Pin;

pub mod asks;
pub mod clock;
pub mod exec;
pub mod gate;
pub mod knowledge;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
#[cfg(feature = "mcp-oauth")]
pub mod oauth;
pub mod policy;
pub mod process;
pub mod repair;
#[cfg(any(feature = "mcp-http", feature = "models"))]
mod response;
pub mod server;
pub mod store;
mod text;
#[cfg(feature = "tokens")]
pub mod tokens;
pub mod tool;
pub mod web;
#[cfg(any(feature = "mcp", feature = "models"))]
mod words;

/// A boxed future, as the traits here return it so that they can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
