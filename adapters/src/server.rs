//! MCP servers, as connections that can be opened, used and ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::call::{CallResult, LateAnswer};
use pilothouse_messages::error::{ConnectError, RequestError};
pub use pilothouse_messages::listing::CacheScope;
use pilothouse_messages::process::ProcessMark;
use pilothouse_messages::protocol::{Heard, ProtocolStep};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use crate::BoxFuture;
use crate::asks::{AskPort, Origin};

/// What a server tells us by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Its tools changed (`notifications/tools/list_changed`), or may have changed unseen.
    ToolsChanged,
}

/// Where a connection puts notices: bounded, and one that does not fit is dropped, since one that waits says the same.
pub type Notices = mpsc::Sender<Notice>;

/// One page of `tools/list`, unparsed: each tool is judged on its own later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The tools as the server sent them.
    pub tools: Vec<Value>,
    /// Where the next page starts; an empty text is a cursor like any other.
    pub next_cursor: Option<String>,
    /// How long it stays fresh, if the server says so.
    pub ttl: Option<Duration>,
    /// Who may see it.
    pub cache: CacheScope,
}

/// Decides the protocol of one connection.
pub trait Negotiate: Send + 'static {
    /// How to begin.
    fn first(&mut self) -> ProtocolStep;

    /// How to go on after what was heard.
    fn heard(&mut self, heard: Heard) -> ProtocolStep;
}

/// The terms on which a connection is opened.
#[non_exhaustive]
pub struct Terms {
    /// Where it tells what the server tells by itself.
    pub notices: Notices,
    /// Decides the protocol; knows what the server spoke last time.
    pub protocol: Box<dyn Negotiate>,
    /// How long silence to `server/discover` is waited out where that tells something.
    pub discover: Duration,
    /// Answers what the server asks.
    pub asks: AskPort,
    /// Where answers go that come when nobody waits for them any more; `None` if they are only counted.
    pub late: Option<LateReplies>,
}

/// An answer to a call that nobody waited for any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateReply {
    /// For whom the call ran.
    pub origin: Origin,
    /// What it said.
    pub answer: LateAnswer,
}

/// Where a connection puts late replies: bounded, and one that does not fit is only counted.
pub type LateReplies = mpsc::Sender<LateReply>;

impl Terms {
    /// The terms of one connection.
    pub fn new(notices: Notices, protocol: Box<dyn Negotiate>, discover: Duration, asks: AskPort) -> Self {
        Self { notices, protocol, discover, asks, late: None }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("asks", &self.asks).finish_non_exhaustive()
    }
}

/// What a call tells while it runs. Only the newest state counts, so nobody waits for a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pulse {
    /// How far it is; only ever grows.
    pub progress: Option<f64>,
    /// Questions of the server that wait for the embedder, and that may belong to this call.
    pub questions: usize,
}

/// One `tools/call`.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallRequest {
    /// The raw name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Goes into the request's `_meta`.
    pub meta: Map<String, Value>,
    /// The answers to what the server asked in the round before.
    pub answers: Option<Answers>,
    /// For whom it runs.
    pub origin: Origin,
    /// Where it tells how it is doing.
    pub pulse: watch::Sender<Pulse>,
}

impl CallRequest {
    /// A call for nobody in particular.
    pub fn new(tool: impl Into<String>, arguments: Map<String, Value>) -> Self {
        let pulse = watch::Sender::default();
        let (answers, origin, meta) = (None, Origin::default(), Map::new());
        Self { tool: tool.into(), arguments, meta, answers, origin, pulse }
    }
}

/// What goes back in the next round of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// The answers, under the keys of their questions.
    pub responses: Map<String, Value>,
    /// The server's own state, as it came.
    pub state: Option<String>,
}

/// What a server answers to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallAnswer {
    /// The last word.
    Done(CallResult),
    /// It asks something first; the same call goes out again with the answers.
    InputRequired(InputRequired),
    /// It works on; the result is fetched later.
    Task(TaskTicket),
}

/// What a server wants to know before it goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputRequired {
    /// Requests (`method`, `params`), each under a key.
    pub requests: Map<String, Value>,
    /// What goes back as it came.
    pub state: Option<String>,
}

/// How a task of a server is asked for again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTicket {
    /// The server's name for it.
    pub id: String,
    /// How long to wait between two questions, if the server says so.
    pub poll_after: Option<Duration>,
    /// How long the server keeps it, if it says so.
    pub ttl: Option<Duration>,
}

/// How a task is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskState {
    /// It works on.
    Working(TaskTicket),
    /// It asks something; answered by [`Connection::answer_task`].
    InputRequired(TaskTicket, InputRequired),
    /// The last word.
    Done(CallResult),
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
    /// Starts the server if need be, and agrees on a protocol.
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>>;

    /// The last lines of the server's stderr, oldest first; over connections, since a dead one's words matter most.
    fn stderr(&self) -> Vec<String>;

    /// Lines of the server that were no messages and were skipped, over all connections.
    fn junk_lines(&self) -> u64 {
        0
    }

    /// Answers that came when nobody waited for them any more, over all connections.
    fn late_answers(&self) -> u64 {
        0
    }

    /// What the server waits for a person to do, in plain words: such as to consent to its login.
    fn awaits(&self) -> Option<String> {
        None
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
    /// The protocol version that was agreed on.
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

    /// Calls a tool, one round of it.
    ///
    /// # Cancel safety
    /// Dropping the future sends the server a cancel notice.
    fn call(&self, request: CallRequest) -> BoxFuture<'_, Result<CallAnswer, RequestError>>;

    /// Asks how a task is doing; fetches its result if it is done.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the task goes on.
    fn task(&self, id: String) -> BoxFuture<'_, Result<TaskState, RequestError>> {
        drop(id);
        Box::pin(std::future::ready(Err(no_tasks())))
    }

    /// Answers what a task asks.
    ///
    /// # Cancel safety
    /// Dropping the future forgets whether the server took it.
    fn answer_task(
        &self,
        id: String,
        responses: Map<String, Value>,
    ) -> BoxFuture<'_, Result<(), RequestError>> {
        drop((id, responses));
        Box::pin(std::future::ready(Err(no_tasks())))
    }

    /// Tells the server that nobody wants a task's result any more.
    fn cancel_task(&self, id: String) -> BoxFuture<'_, Result<(), RequestError>> {
        drop(id);
        Box::pin(std::future::ready(Err(no_tasks())))
    }

    /// Resolves when the connection has ended, with the reason in plain words; at once if it already has.
    fn ended(&self) -> BoxFuture<'_, String>;

    /// Ends the connection politely: closes the input, then terminates, then kills, each within a share of
    /// `grace`; resolves when the process group is gone and reaped.
    fn close(&self, grace: Duration) -> BoxFuture<'_, ()>;

    /// Kills at once, without waiting.
    fn kill(&self);
}

fn no_tasks() -> RequestError {
    RequestError::Malformed { reason: "this connection speaks no tasks".to_owned() }
}
