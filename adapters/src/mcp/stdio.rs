//! Servers that are child processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pilothouse_messages::error::ConnectError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::{ServerDefinition, Transport};
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::flights::Flights;
use super::life::Life;
use super::link::{Link, Streams};
use super::spawn::Program;
use super::stderr::{StderrLog, StderrRing};
use super::tail::Tail;
use super::wire::WireEnds;
use crate::BoxFuture;
use crate::policy::{AllowAll, Approach, Gate, ServerPolicy};
use crate::server::{Connection, Connector, ProcessNotes, Terms};
use crate::words::Words;

/// Starts a child process for each connection and speaks MCP on its standard streams.
///
/// The child leads its own process group and gets a safe base list of variables and the declared ones. Its group is
/// killed when the connection, or a `connect` under way, is dropped; nothing of it outlives that. Values of declared
/// variables (of six bytes and more) are masked in its stderr, and in every reason and error.
pub struct StdioConnector {
    program: Result<Program, ConnectError>,
    ring: StderrRing,
    junk: Arc<AtomicU64>,
    late: Arc<AtomicU64>,
    words: Words,
    gate: Gate,
    server: ServerId,
    notes: OnceLock<Arc<dyn ProcessNotes>>,
}

impl StdioConnector {
    /// A connector for this definition; keeps `limits.stderr_lines` lines of stderr.
    ///
    /// Over a definition that names no process every `connect` fails with [`ConnectError::Spawn`].
    pub fn new(definition: &ServerDefinition, limits: &Limits) -> Self {
        let program = match &definition.transport {
            Transport::Stdio { command, args, env, cwd } => Ok(Program {
                command: command.clone(),
                args: args.clone(),
                env: env.clone(),
                cwd: cwd.clone(),
                proxies: definition.proxies,
            }),
            Transport::Http { endpoint, .. } | Transport::Sse { endpoint, .. } => Err(ConnectError::Spawn {
                command: endpoint.to_string(),
                reason: "a server behind a URL has no process here; connect it over HTTP".to_owned(),
            }),
            Transport::InMemory { label } => Err(ConnectError::Spawn {
                command: label.clone(),
                reason: "an in-memory server has no process; connect it by its pipes".to_owned(),
            }),
        };
        let (ring, words) = (StderrRing::new(limits.stderr_lines), Words::of(definition));
        let gate = Gate::new(Arc::new(AllowAll), definition.id.clone());
        let (server, notes) = (definition.id.clone(), OnceLock::new());
        Self { program, ring, junk: Arc::default(), late: Arc::default(), words, gate, server, notes }
    }

    /// Asks this policy before each start of the process.
    #[must_use]
    pub fn asking(mut self, policy: Arc<dyn ServerPolicy>) -> Self {
        self.gate = self.gate.with(policy);
        self
    }

    async fn open(&self, terms: Terms) -> Result<Arc<dyn Connection>, ConnectError> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let (command, args, cwd) = (program.command.clone(), program.args.clone(), program.cwd.clone());
        self.gate.ask(Approach::Spawn { command, args, cwd }).await?;
        let mut leader = program.start().await?;
        if let Some(notes) = self.notes.get() {
            leader.note(notes, &self.server).await;
        }
        let child = leader.child();
        let (Some(input), Some(output), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(ConnectError::Handshake { reason: "the process has no pipes".to_owned() });
        };
        let (life, output_over) = (Arc::new(Life::new(self.words.clone())), CancellationToken::new());
        let log = StderrLog::new(self.ring.clone(), self.words.clone());
        let drained = tokio::spawn(log.clone().drain(stderr));
        let tail = Tail::of(output, log.clone());
        let body = Body::of_process(leader, life.clone(), output_over.clone(), (log, drained));
        let streams = Streams::of_lines(Box::new(tail), Box::new(input), &life);
        let ends = WireEnds {
            notices: terms.notices.clone(),
            life,
            junk: self.junk.clone(),
            flights: Arc::new(Flights::new(self.late.clone(), terms.late.clone())),
            output_over: Some(output_over.drop_guard()),
        };
        Ok(Arc::new(Link::open(streams, ends, body, terms).await?))
    }
}

impl Connector for StdioConnector {
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async { self.open(terms).await.map_err(|error| self.words.connect_error(error)) })
    }

    fn stderr(&self) -> Vec<String> {
        self.ring.lines()
    }

    fn junk_lines(&self) -> u64 {
        self.junk.load(Ordering::Relaxed)
    }

    fn late_answers(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    fn note_processes(&self, notes: Arc<dyn ProcessNotes>) {
        // Told once by each runtime; a connector belongs to one.
        let _told_again = self.notes.set(notes);
    }
}
