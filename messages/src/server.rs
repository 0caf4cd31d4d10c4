//! Servers: what the embedder defines, and what is seen of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::connection::Failure;
use crate::digest::Digest;
use crate::endpoint::Endpoint;
use crate::id::{Revision, ServerId, TenantId};
use crate::secret::Secret;
use crate::time::Timestamp;
use crate::tool::{Effect, ToolLists};

/// How a server is reached. `Debug` shows no argument: people put keys there, too.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks MCP on its standard streams.
    Stdio {
        /// The program; searched in `PATH` unless it has a separator.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that it gets besides a safe base list; values never reach a log or a view.
        env: BTreeMap<String, Secret>,
        /// Its working directory; the embedder's own if `None`.
        cwd: Option<PathBuf>,
    },
    /// A server behind Streamable HTTP (MCP 2025-03-26 and later).
    Http {
        /// Where.
        endpoint: Endpoint,
        /// Headers of every request; values never reach a log or a view.
        headers: BTreeMap<String, Secret>,
    },
    /// A server behind HTTP+SSE (MCP 2024-11-05).
    Sse {
        /// Where its event stream is.
        endpoint: Endpoint,
        /// Headers of every request; values never reach a log or a view.
        headers: BTreeMap<String, Secret>,
    },
    /// A pair of pipes inside this process; the label tells definitions apart.
    InMemory {
        /// Part of the definition's fingerprint.
        label: String,
    },
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("env", env)
                .field("cwd", cwd)
                .finish(),
            Self::Http { endpoint, headers } => {
                f.debug_struct("Http").field("endpoint", endpoint).field("headers", headers).finish()
            }
            Self::Sse { endpoint, headers } => {
                f.debug_struct("Sse").field("endpoint", endpoint).field("headers", headers).finish()
            }
            Self::InMemory { label } => f.debug_struct("InMemory").field("label", label).finish(),
        }
    }
}

/// Whether a server is reached through the proxies that this process's environment names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Proxies {
    /// No: HTTP goes straight to the server, and a child process is told of no proxy.
    #[default]
    None,
    /// Yes: HTTP obeys `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, and a child process gets these and the
    /// variables that name further certificate authorities.
    FromEnvironment,
}

/// One MCP server as the embedder defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefinition {
    /// Stable, also over renames.
    pub id: ServerId,
    /// What people see.
    pub name: String,
    /// Whose it is; `None` for everybody's.
    pub tenant: Option<TenantId>,
    /// How it is reached.
    pub transport: Transport,
    /// Whether proxies are used.
    pub proxies: Proxies,
    /// Whether it runs at all.
    pub enabled: bool,
    /// Its own connect deadline; `None` takes the runtime's limit.
    pub connect_timeout: Option<Duration>,
    /// Its own call deadline; `None` takes the runtime's limit.
    pub call_timeout: Option<Duration>,
    /// Its own silence before it is asked whether it still answers; `None` takes the runtime's limit.
    pub probe_interval: Option<Duration>,
    /// Stopped after this long without use, and started by the next one; `None` keeps it running.
    pub idle_stop: Option<Duration>,
    /// Raw names of tools that always ask.
    pub force_prompt: Vec<String>,
    /// Raw names of tools that a message that cannot wait may cancel while they run.
    pub interruptible: Vec<String>,
    /// Raw names of tools that are hidden.
    pub disabled: Vec<String>,
    /// Which of its tools there are at all.
    pub tools: ToolLists,
    /// Effects that the embedder states, by raw name.
    pub effects: BTreeMap<String, Effect>,
    /// Whether the server's annotations are believed (default: no).
    pub trust_annotations: bool,
    /// What else of it is secret, such as a key among its arguments: masked in whatever the server says.
    pub secrets: Vec<Secret>,
}

impl ServerDefinition {
    /// A definition with the defaults; the name is the id.
    pub fn new(id: ServerId, transport: Transport) -> Self {
        Self {
            name: id.to_string(),
            id,
            tenant: None,
            transport,
            proxies: Proxies::None,
            enabled: true,
            connect_timeout: None,
            call_timeout: None,
            probe_interval: None,
            idle_stop: None,
            force_prompt: Vec::new(),
            interruptible: Vec::new(),
            disabled: Vec::new(),
            tools: ToolLists::default(),
            effects: BTreeMap::new(),
            trust_annotations: false,
            secrets: Vec::new(),
        }
    }

    /// Fingerprint over transport, command, arguments, working directory, URL (without credentials) and the *names* of
    /// variables and headers.
    pub fn fingerprint(&self) -> Digest {
        let transport = match &self.transport {
            Transport::Stdio { command, args, env, cwd } => json!({
                "stdio": {"command": command, "args": args, "env": env.keys().collect::<Vec<_>>(), "cwd": cwd},
            }),
            Transport::Http { endpoint, headers } => json!({
                "http": {"url": endpoint.without_credentials(), "headers": headers.keys().collect::<Vec<_>>()},
            }),
            Transport::Sse { endpoint, headers } => json!({
                "sse": {"url": endpoint.without_credentials(), "headers": headers.keys().collect::<Vec<_>>()},
            }),
            Transport::InMemory { label } => json!({"in_memory": label}),
        };
        Digest::of_json("pilothouse/definition/1", &json!({"transport": transport}))
    }
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Waits for a place among those that connect, or connects.
    Connecting,
    /// Answers.
    Ready,
    /// Ended; is tried again.
    Backoff,
    /// Switched off, not yet started, or idle until the next use.
    Stopped,
    /// Ended, and waits for a change; one that failed too often is tried once in a while.
    Failed,
}

/// One server as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerView {
    /// The server.
    pub server: ServerId,
    /// What people see.
    pub name: String,
    /// What it is doing.
    pub state: ServerState,
    /// Since when.
    pub since: Timestamp,
    /// Why, in plain words.
    pub reason: Option<String>,
    /// The last failure, also while the server answers again.
    pub last_failure: Option<Failure>,
    /// Failures in a row.
    pub attempt: u32,
    /// When it is tried next.
    pub retry_at: Option<Timestamp>,
    /// The protocol version that it speaks.
    pub protocol: Option<String>,
    /// How often it was restarted.
    pub restarts: u64,
    /// The revision of its listing.
    pub revision: Option<Revision>,
    /// How many tools it offers.
    pub tools: usize,
    /// Calls under way.
    pub in_flight: usize,
    /// Answers that came after their caller had left, over all connections.
    pub late_answers: u64,
    /// The last lines of its stderr, oldest first.
    pub stderr: Vec<String>,
    /// Lines on its output that were no messages and were skipped.
    pub junk_lines: u64,
    /// What it waits for a person to do, such as to consent to its login.
    pub awaits: Option<String>,
    /// What an embedder should look at: rules about its tools that mean none of them, and tools whose arguments are not
    /// checked.
    pub warnings: Vec<String>,
}

impl ServerView {
    /// A server that has not been started.
    pub fn new(server: ServerId, name: String, since: Timestamp) -> Self {
        Self {
            server,
            name,
            state: ServerState::Stopped,
            since,
            reason: None,
            last_failure: None,
            attempt: 0,
            retry_at: None,
            protocol: None,
            restarts: 0,
            revision: None,
            tools: 0,
            in_flight: 0,
            late_answers: 0,
            stderr: Vec::new(),
            junk_lines: 0,
            awaits: None,
            warnings: Vec::new(),
        }
    }
}
