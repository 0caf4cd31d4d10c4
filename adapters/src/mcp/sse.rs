//! Servers behind HTTP+SSE (MCP 2024-11-05): one event stream for everything that the server says, and a URL, named by
//! its first event, for everything that it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_messages::error::ConnectError;
use pilothouse_messages::server::{ServerDefinition, Transport};
use reqwest::Url;

use super::http::{self, BadHttp, Events, Fault, Mode, Session};
use crate::BoxFuture;
use crate::policy::ServerPolicy;
use crate::server::{Connection, Connector, Terms};

/// Reaches a server over HTTP+SSE. Secrets and redirects are kept as [`HttpConnector`](super::HttpConnector) keeps
/// them. The end of the event stream is the end of the connection: the server has no way to go on with it.
pub struct SseConnector(http::Client);

impl SseConnector {
    /// A connector for this definition, whose connections this policy allows.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub fn new(definition: &ServerDefinition, policy: Arc<dyn ServerPolicy>) -> Result<Self, BadHttp> {
        match &definition.transport {
            Transport::Sse { endpoint, headers } => {
                http::Client::new(definition, endpoint, headers, policy).map(Self)
            }
            Transport::Stdio { .. } | Transport::Http { .. } | Transport::InMemory { .. } => {
                Err(BadHttp::Transport)
            }
        }
    }

    /// Logs in where the server wants that, as [`HttpConnector`](super::HttpConnector::logging_in) does.
    #[cfg(feature = "mcp-oauth")]
    #[must_use]
    pub fn logging_in(self, settings: crate::oauth::OAuth) -> Self {
        Self(self.0.logging_in(settings))
    }
}

impl Connector for SseConnector {
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(self.0.connect(terms, Mode::Sse))
    }

    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }

    fn junk_lines(&self) -> u64 {
        self.0.junk.load(Ordering::Relaxed)
    }

    fn late_answers(&self) -> u64 {
        self.0.late.load(Ordering::Relaxed)
    }

    #[cfg(feature = "mcp-oauth")]
    fn awaits(&self) -> Option<String> {
        self.0.awaits()
    }
}

/// Opens the stream and waits for the URL that messages go to. Bounded by whoever connects.
pub(super) async fn greet(session: &Session) -> Result<(Events, Url), Fault> {
    let mut events = session.open_events().await?;
    while let Some(event) = events.next().await? {
        if event.name == "endpoint" {
            let named = String::from_utf8_lossy(&event.data);
            let target = session.reach.home().join(named.trim());
            let Ok(target) = target else {
                return Err(Fault::Malformed("its endpoint for messages is no URL".to_owned()));
            };
            if !http::is_same_origin(&target, session.reach.home()) {
                let reason = "its endpoint for messages is on another origin; nothing is sent there";
                return Err(Fault::Malformed(reason.to_owned()));
            }
            return Ok((events, target));
        }
    }
    Err(Fault::Malformed("its event stream ended before it named an endpoint for messages".to_owned()))
}

/// Hands on what the server says, and ends the connection with the stream.
pub(super) async fn listen(session: &Session, mut events: Events) {
    loop {
        match events.next().await {
            Ok(Some(event)) if event.is_message() => {
                match session.delivery.hand_on(event.data, None, |_| {}).await {
                    Ok(_) => {}
                    Err(fault) => {
                        session.life().end(format!("sent an event that cannot be read: {}", fault.words()));
                    }
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return session.life().end("its event stream ended"),
            Err(fault) => return session.life().end(format!("its event stream broke: {}", fault.words())),
        }
    }
}
