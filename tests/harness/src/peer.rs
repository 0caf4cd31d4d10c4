//! A scripted MCP server that can misbehave: in memory (as an [`InMemoryServer`]), on a pair of streams, and over HTTP.
//!
//! It speaks JSON-RPC, HTTP and event streams by hand, in both generations of MCP, because a library that speaks a
//! protocol well cannot be made to speak it badly. What it offers and which faults it has is its [`Script`]; a test in
//! the same process also holds its calls, kills its connections and counts what it ran.
//!
//! ```text
//!  connection (lines) ─┐                 ┌─ plan      which faults meet this request
//!  http (POST, GET)  ──┼─▶ session ──────┼─ answer    what it says
//!  http (SSE)        ──┘   (requests     └─ listing, modern, tasks
//!        ▲                  that run)
//!        └──── frame (what is said, as bytes) ◀───┘
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse::mcp::InMemoryServer;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

mod answer;
mod connection;
mod executions;
pub mod fault;
mod frame;
pub mod http;
mod listing;
mod modern;
mod plan;
mod process;
mod script;
mod session;
mod tasks;

pub use executions::Executions;
pub use fault::Fault;
pub use http::{HttpKind, HttpPeer};
pub use script::{CacheScope, Protocol, Script, ScriptError, ScriptTool, ToolAnswer};

use plan::Live;
use tasks::Tasks;

/// Calls that [`Peer::calls`] keeps, the newest ones.
pub const CALLS_KEPT: usize = 64;

/// Methods that [`Peer::methods`] and answers that [`Peer::answers`] keep, the newest ones.
pub const SEEN_KEPT: usize = 256;

/// Bytes that an in-memory pipe holds before its writer waits.
const PIPE_BYTES: usize = 64 << 10;

/// The side of an in-memory connection that its client reads: the server's output.
type Output = Box<dyn AsyncRead + Send + Unpin>;
/// The side of an in-memory connection that its client writes: the server's input.
type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// A scripted server. Its counts and its script live over connections, as a server's own state would.
///
/// Dropping it changes nothing for open connections: each lives until its pipes end.
#[derive(Debug)]
pub struct Peer {
    state: Arc<State>,
}

impl Peer {
    /// A server with this script and no connection.
    pub fn new(script: Script) -> Arc<Self> {
        Arc::new(Self { state: Arc::new(State::new(script)) })
    }

    /// Serves one connection on these streams until the input ends, a fault ends it, or [`kill`](Self::kill).
    /// At the end of the input, calls that still run are dropped without an answer.
    pub async fn serve<R, W>(&self, read: R, write: W)
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin,
    {
        connection::serve(self.state.clone(), read, write).await;
    }

    /// Drops every connection that is open now, without a word; later ones are served.
    pub fn kill(&self) {
        self.state.killed.send_modify(|generation| *generation += 1);
    }

    /// Follows another script from the next request on. Calls that run keep the old one.
    pub fn set_script(&self, script: Script) {
        *lock(&self.state.script) = Arc::new(Live::new(script));
    }

    /// Tells every open connection that the tools changed.
    pub fn announce_tools(&self) {
        self.state.announced.send_modify(|count| *count += 1);
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.state.open.load(Ordering::Acquire)
    }

    /// Connections that were ever opened.
    pub fn connections_ever(&self) -> usize {
        self.state.opened.load(Ordering::Acquire)
    }

    /// Lets calls begin, be counted, and then wait, until [`release_calls`](Self::release_calls).
    pub fn hold_calls(&self) {
        self.state.held.send_replace(Hold::Holding);
    }

    /// Lets the held calls go on.
    pub fn release_calls(&self) {
        self.state.held.send_replace(Hold::Open);
    }

    /// How often this tool has begun to run.
    pub fn executions(&self, tool: &str) -> u64 {
        self.state.executions.of(tool)
    }

    /// The counter itself, which outlives the peer.
    pub fn executed(&self) -> Executions {
        self.state.executions.clone()
    }

    /// The parameters of the last [`CALLS_KEPT`] calls as they came (`name`, `arguments`, `_meta`), oldest first.
    pub fn calls(&self) -> Vec<Value> {
        lock(&self.state.calls).iter().cloned().collect()
    }

    /// How many cancel notices came, and how many requests of 2026-07-28 lost their client.
    pub fn cancellations(&self) -> usize {
        self.state.cancellations.load(Ordering::Acquire)
    }

    /// The methods of the last [`SEEN_KEPT`] requests and notices, oldest first.
    pub fn methods(&self) -> Vec<String> {
        lock(&self.state.methods).iter().cloned().collect()
    }

    /// The last [`SEEN_KEPT`] answers of clients to what the server asked, oldest first.
    pub fn answers(&self) -> Vec<Value> {
        lock(&self.state.answers).iter().cloned().collect()
    }

    /// Serves the standard streams of this process until they end, with the faults that only a process can have; the
    /// status that the process should end with.
    ///
    /// # Errors
    /// A fault that the system refuses: a child that does not start, a signal that cannot be taken.
    pub async fn serve_process(&self) -> std::io::Result<u8> {
        process::begin(&self.state)?;
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await;
        Ok(self.state.exit_status())
    }
}

impl InMemoryServer for Peer {
    /// Opens a connection and serves it in a task of its own until the pipes end.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    fn open(&self) -> (Output, Input) {
        let (output, write) = tokio::io::duplex(PIPE_BYTES);
        let (input, read) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(connection::serve(self.state.clone(), read, write));
        (Box::new(output), Box::new(input))
    }
}

/// Whether calls go on or wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Open,
    Holding,
}

/// What all connections of a peer share.
#[derive(Debug)]
struct State {
    script: Mutex<Arc<Live>>,
    executions: Executions,
    calls: Mutex<VecDeque<Value>>,
    methods: Mutex<VecDeque<String>>,
    answers: Mutex<VecDeque<Value>>,
    /// Request states that were given and did not come back.
    given: Mutex<BTreeSet<String>>,
    states: AtomicU64,
    tasks: Mutex<Tasks>,
    cancellations: AtomicUsize,
    /// Whether this peer is a process of its own.
    is_process: AtomicBool,
    /// The status that a fault ended the peer with.
    exited: watch::Sender<Option<u8>>,
    /// Whether a listing was read to its end.
    listed: AtomicBool,
    open: AtomicUsize,
    opened: AtomicUsize,
    /// Grows with every kill; each connection holds a receiver.
    killed: watch::Sender<u64>,
    /// Grows with every announcement; each connection holds a receiver.
    announced: watch::Sender<u64>,
    /// Each running call holds a receiver.
    held: watch::Sender<Hold>,
}

impl State {
    fn new(script: Script) -> Self {
        Self {
            script: Mutex::new(Arc::new(Live::new(script))),
            executions: Executions::new(),
            calls: Mutex::default(),
            methods: Mutex::default(),
            answers: Mutex::default(),
            given: Mutex::default(),
            states: AtomicU64::new(0),
            tasks: Mutex::default(),
            cancellations: AtomicUsize::new(0),
            is_process: AtomicBool::new(false),
            exited: watch::Sender::new(None),
            listed: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            killed: watch::Sender::new(0),
            announced: watch::Sender::new(0),
            held: watch::Sender::new(Hold::Open),
        }
    }

    fn live(&self) -> Arc<Live> {
        lock(&self.script).clone()
    }

    fn remember(&self, params: &Value) {
        keep(&mut lock(&self.calls), params.clone(), CALLS_KEPT);
    }

    fn saw(&self, method: &str) {
        keep(&mut lock(&self.methods), method.to_owned(), SEEN_KEPT);
    }

    fn heard(&self, answer: Value) {
        keep(&mut lock(&self.answers), answer, SEEN_KEPT);
    }

    /// A request state that nobody has.
    fn gives_state(&self) -> String {
        let state = format!("state-{}", self.states.fetch_add(1, Ordering::AcqRel) + 1);
        let mut given = lock(&self.given);
        if given.len() == SEEN_KEPT {
            given.pop_first();
        }
        given.insert(state.clone());
        state
    }

    /// Whether this state was given and did not come back before.
    fn takes_back(&self, state: &str) -> bool {
        lock(&self.given).remove(state)
    }

    /// Waits while a test holds the calls.
    async fn hold(&self) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _held_by_self = self.held.subscribe().wait_for(|hold| *hold == Hold::Open).await.is_ok();
    }

    fn exit(&self, status: u8) {
        self.exited.send_replace(Some(status));
    }

    fn exit_status(&self) -> u8 {
        self.exited.borrow().unwrap_or(0)
    }
}

/// Keeps the newest ones.
fn keep<T>(kept: &mut VecDeque<T>, one: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// A poisoned lock here still holds a whole value: each is set in one step.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
