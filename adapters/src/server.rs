//! MCP servers, as connections that can be opened, used and ended.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::call::CallResult;
use pilothouse_messages::error::{ConnectError, RequestError};
pub use pilothouse_messages::listing::CacheScope;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::BoxFuture;
use pilothouse_messages::process::ProcessMark;

/// What a server tells us by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Its tools changed (`notifications/tools/list_changed`).
    ToolsChanged,
}

/// Where a connection puts notices: bounded, and one that does not fit is dropped, since one that waits says the same.
pub type Notices = mpsc::Sender<Notice>;

/// One page of `tools/list`, unparsed: each tool is judged on its own later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The tools as the server sent them.
    pub tools: Vec<Value>,
    /// Where the next page starts.
    pub next_cursor: Option<String>,
    /// How long the server says that its list stays fresh (`ttlMs`).
    pub ttl: Option<Duration>,
    /// For whom the server says that its list holds (`cacheScope`).
    pub cache: CacheScope,
}

/// Where a connector notes the processes that it starts, so that one which outlives our own death can be ended.
pub trait ProcessNotes: Send + Sync + 'static {
    /// It has started; resolves when that is durable, or cannot be made so within a bound.
    fn started(&self, process: ProcessMark) -> BoxFuture<'_, ()>;

    /// It has ended. Returns at once.
    fn ended(&self, process: &ProcessMark);
}

/// Opens connections to one server.
///
/// For implementers: `connect` is bounded by its caller and may be dropped at any point; whatever it had started
/// (a process group, pipes) is gone soon after. Nothing of the server may be read without a bound on its size.
pub trait Connector: Send + Sync + 'static {
    /// Starts the server if need be, and does the handshake.
    fn connect(&self, notices: Notices) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>>;

    /// The last lines of the server's stderr, oldest first; over connections, since a dead one's words matter most.
    fn stderr(&self) -> Vec<String>;

    /// Lines of the server that were no messages and were skipped, over all connections.
    fn junk_lines(&self) -> u64 {
        0
    }

    /// Answers that came after their caller had left, over all connections.
    fn late_answers(&self) -> u64 {
        0
    }

    /// Tells where to note each process before anything is asked of it; called before the first `connect`. One that
    /// starts no process has nothing to note.
    fn note_processes(&self, _notes: Arc<dyn ProcessNotes>) {}
}

/// One open connection.
///
/// For implementers: every method can be called from many tasks at once. When the connection ends, every pending
/// request fails with [`RequestError::Ended`] at once.
pub trait Connection: Send + Sync + 'static {
    /// The protocol version that the server answered.
    fn protocol(&self) -> String;

    /// Asks for one page of tools.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer.
    fn list_page(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, RequestError>>;

    /// Asks whether the server still answers: `ping`, or `server/discover` where that has no ping. Any answer will do,
    /// also an error; bounded by its caller.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer.
    fn probe(&self) -> BoxFuture<'_, Result<(), RequestError>>;

    /// Calls a tool. `meta` goes into the request's `_meta`.
    ///
    /// # Cancel safety
    /// Dropping the future sends the server a cancel notice.
    fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        meta: Map<String, Value>,
    ) -> BoxFuture<'_, Result<CallResult, RequestError>>;

    /// Resolves when the connection has ended, with the reason in plain words; at once if it already has.
    fn ended(&self) -> BoxFuture<'_, String>;

    /// Ends the connection politely: closes the input, then terminates, then kills, each within a share of
    /// `grace`; resolves when the process group is gone and reaped.
    fn close(&self, grace: Duration) -> BoxFuture<'_, ()>;

    /// Kills at once, without waiting.
    fn kill(&self);
}
