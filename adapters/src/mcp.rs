//! Reaches MCP servers: child processes over their standard streams, and servers inside this process over pipes.
//!
//! rmcp keeps the messages (their types, request ids, who waits for which answer); this module keeps the greeting, and
//! everything that may hang, grow or die: the process group, the pipes, the size of a line, the end of a connection.
//!
//! ```text
//!  stdout ──▶ lines ──▶ wire ──▶ rmcp ──▶ requests (each raced against the connection's end) ◀── greet, link, listen
//!                        │        └────▶ host (answers what the server asks)
//!                        └─▶ flights (progress, late answers)
//!  stdin  ◀── outbox ◀─┘                   │
//!  stderr ──▶ ring of last lines           └── body (process group: signalled, reaped)
//! ```
//!
//! Two choices carry the rest. The wire hands every answer to rmcp as plain JSON, so that no
//! field of a tool is lost and one malformed tool cannot spoil its page. And writing is a queue with a bound that
//! never waits, so that a server which stops reading its input stops nobody.

use std::time::Duration;

mod body;
mod environment;
mod flights;
mod greet;
mod host;
#[cfg(feature = "mcp-http")]
mod http;
mod life;
mod lines;
mod link;
mod listen;
mod outbox;
mod parse;
mod pipe;
mod reply;
mod requests;
mod spawn;
#[cfg(feature = "mcp-http")]
mod sse;
mod stderr;
mod stdio;
mod tail;
mod wire;

pub(crate) use environment::proxy_secrets;
#[cfg(feature = "mcp-http")]
pub use http::{BadHttp, HttpConnector};
pub use pipe::{InMemoryServer, PipeConnector};
#[cfg(feature = "mcp-http")]
pub use sse::SseConnector;
pub use stdio::StdioConnector;

/// How long two signs of one death (the end of the output, the exit) may lie apart before they count as two events.
const SETTLE: Duration = Duration::from_millis(100);
