//! A scripted MCP server that can misbehave, in memory (as an [`InMemoryServer`]) or on a pair of streams.
//!
//! It speaks newline-delimited JSON-RPC by hand (MCP 2025-11-25 and the versions before it), because a library
//! that speaks the protocol well cannot be made to speak it badly. What it offers and which faults it has is its
//! [`Script`]; a test in the same process also holds its calls, kills its connections and counts what it ran.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse::mcp::InMemoryServer;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

mod answer;
mod connection;
mod script;

pub use script::{Fault, Script, ScriptError, ScriptTool, Silence, ToolAnswer};

use script::Behaviour;

/// Calls that [`Peer::calls`] keeps, the newest ones.
pub const CALLS_KEPT: usize = 64;

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

    /// How many cancel notices came.
    pub fn cancellations(&self) -> usize {
        self.state.cancellations.load(Ordering::Acquire)
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

/// How often each tool has begun to run. Clones share one count.
#[derive(Debug, Clone)]
pub struct Executions(Arc<watch::Sender<BTreeMap<String, u64>>>);

impl Executions {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }

    /// How often this tool has begun to run.
    pub fn of(&self, tool: &str) -> u64 {
        self.0.borrow().get(tool).copied().unwrap_or(0)
    }

    /// Every tool that has run, and how often.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.borrow().clone()
    }

    /// Resolves once this tool has begun to run at least so often. Waits without a bound: give it a deadline.
    pub async fn reach(&self, tool: &str, times: u64) {
        let mut counts = self.0.subscribe();
        let reached = |counts: &BTreeMap<String, u64>| counts.get(tool).is_some_and(|count| *count >= times);
        // An error would mean that the sender is gone, and `self` holds it.
        let _held_by_self = counts.wait_for(reached).await.is_ok();
    }

    fn count(&self, tool: &str) {
        self.0.send_modify(|counts| *counts.entry(tool.to_owned()).or_default() += 1);
    }
}

/// Whether calls go on or wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Open,
    Holding,
}

/// A script with its faults put together.
#[derive(Debug)]
struct Live {
    script: Script,
    behaviour: Behaviour,
}

impl Live {
    fn new(script: Script) -> Self {
        Self { behaviour: Behaviour::of(&script.faults), script }
    }
}

/// What all connections of a peer share.
#[derive(Debug)]
struct State {
    script: Mutex<Arc<Live>>,
    executions: Executions,
    calls: Mutex<VecDeque<Value>>,
    cancellations: AtomicUsize,
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
            cancellations: AtomicUsize::new(0),
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
        let mut calls = lock(&self.calls);
        if calls.len() == CALLS_KEPT {
            calls.pop_front();
        }
        calls.push_back(params.clone());
    }
}

/// A poisoned lock here still holds a whole value: each is set in one step.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
