//! Servers inside this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_messages::error::ConnectError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::flights::Flights;
use super::life::Life;
use super::link::{Link, Streams};
use super::wire::WireEnds;
use crate::BoxFuture;
use crate::server::{Connection, Connector, Terms};
use crate::words::Words;

/// A server inside this process: newline-delimited JSON-RPC over a pair of pipes.
///
/// For implementers: `open` returns at once, having spawned whatever serves the other ends. When the connection
/// ends, the writing pipe is shut down and both are dropped.
pub trait InMemoryServer: Send + Sync + 'static {
    /// Opens one connection: the server's output and its input.
    fn open(&self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
}

/// Connects to a server inside this process.
pub struct PipeConnector {
    peer: Arc<dyn InMemoryServer>,
    junk: Arc<AtomicU64>,
    late: Arc<AtomicU64>,
}

impl PipeConnector {
    /// A connector for this server.
    pub fn new(peer: Arc<dyn InMemoryServer>) -> Self {
        Self { peer, junk: Arc::default(), late: Arc::default() }
    }

    async fn open(&self, terms: Terms) -> Result<Arc<dyn Connection>, ConnectError> {
        let Ok((output, input)) = catch_unwind(AssertUnwindSafe(|| self.peer.open())) else {
            let reason = "the in-memory server panicked as it was opened".to_owned();
            return Err(ConnectError::Handshake { reason });
        };
        let (life, output_over) = (Arc::new(Life::new(Words::default())), CancellationToken::new());
        let body = Body::of_pipe(life.clone(), output_over.clone());
        let streams = Streams::of_lines(output, input, &life);
        let ends = WireEnds {
            notices: terms.notices.clone(),
            life,
            junk: self.junk.clone(),
            flights: Arc::new(Flights::new(self.late.clone(), terms.late.clone())),
            output_over: Some(output_over.drop_guard()),
        };
        let link = Link::open(streams, ends, body, terms).await?;
        Ok(Arc::new(link))
    }
}

impl Connector for PipeConnector {
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(self.open(terms))
    }

    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }

    fn junk_lines(&self) -> u64 {
        self.junk.load(Ordering::Relaxed)
    }

    fn late_answers(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}
