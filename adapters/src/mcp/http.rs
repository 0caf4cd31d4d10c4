//! Servers behind Streamable HTTP (MCP 2025-03-26 and later).
//!
//! ```text
//!  outbox ──▶ mail ──▶ exchange (one POST each: JSON, or events with resumption) ──▶ delivery ──▶ wire
//!                 └──▶ standing (the GET stream) ────────────────────────────────────┘
//!             all over session (version, id, is it still there?) ──▶ reach (policy, redirects, secrets)
//! ```
//!
//! rmcp's own HTTP transport is not used: it parses each answer into its types, and drops what they do not know; and
//! several answers of real servers leave a request of it without an end. Here every request gets exactly one answer,
//! a server's or a [`fault`]'s, and is bound to the connection's end like all others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pilothouse_messages::endpoint::Endpoint;
use pilothouse_messages::error::ConnectError;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::delivery::{Delivery, WAITING_MAX};
use self::mail::Mail;
use self::reach::{Place, Reach};
use super::body::Body;
use super::flights::Flights;
use super::life::Life;
use super::link::{Link, Streams};
use super::outbox::Outbox;
use super::wire::{Source, WireEnds};
use crate::BoxFuture;
use crate::policy::{Gate, ServerPolicy};
use crate::response::HAS_TLS;
use crate::server::{Connection, Connector, Terms};
use crate::words::{Words, decoded};

mod answer;
mod delivery;
mod events;
mod exchange;
mod fault;
mod head;
mod intake;
#[cfg(feature = "mcp-oauth")]
mod login;
mod mail;
mod params;
mod reach;
mod session;
mod standing;

pub(in crate::mcp) use self::events::Events;
pub(in crate::mcp) use self::fault::Fault;
pub(in crate::mcp) use self::reach::is_same_origin;
pub(in crate::mcp) use self::session::{Mode, Session};

/// Why a definition cannot be reached over HTTP, whatever the server does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHttp {
    /// It is no definition of an HTTP server.
    #[error("it is no server behind this kind of URL")]
    Transport,
    /// Its URL is none.
    #[error("the URL cannot be used: {0}")]
    Url(String),
    /// A header cannot be sent.
    #[error("the header {name:?} cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// In plain words; it shows no part of the value.
        reason: String,
    },
    /// It wants TLS, and none is compiled in.
    #[error("https needs one of the cargo features rustls, native-tls, tls-no-provider")]
    NoTls,
}

/// Headers that the protocol or HTTP sets.
const RESERVED: [&str; 13] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Reaches a server over Streamable HTTP: answers as JSON or as events, with or without a session.
///
/// One client belongs to one connection. Header values, the user and the query of the URL, and the session's id are
/// masked in every reason and error, are sent to the server's own origin only, and never to where it redirects.
/// Redirects are followed five times, never from https to http. Dropping the connection, or a `connect` under way, ends
/// every request; [`close`](Connection::close) tells the server that the session is over.
pub struct HttpConnector(Client);

impl HttpConnector {
    /// A connector for this definition, whose connections this policy allows.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub fn new(definition: &ServerDefinition, policy: Arc<dyn ServerPolicy>) -> Result<Self, BadHttp> {
        match &definition.transport {
            Transport::Http { endpoint, headers } => {
                Client::new(definition, endpoint, headers, policy).map(Self)
            }
            Transport::Stdio { .. } | Transport::Sse { .. } | Transport::InMemory { .. } => {
                Err(BadHttp::Transport)
            }
        }
    }

    /// Logs in where the server wants that: after a 401, or a 403 that names a scope. Tokens are sent to the server's
    /// own origin only, and every request of a login is asked of the policy.
    #[cfg(feature = "mcp-oauth")]
    #[must_use]
    pub fn logging_in(self, settings: crate::oauth::OAuth) -> Self {
        Self(self.0.logging_in(settings))
    }
}

impl Connector for HttpConnector {
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(self.0.connect(terms, Mode::Streamable))
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

/// What both kinds of HTTP servers are reached with.
pub(in crate::mcp) struct Client {
    definition: ServerDefinition,
    place: Place,
    #[cfg(feature = "mcp-oauth")]
    login: Option<login::Kept>,
    /// Messages that were none, over all connections.
    pub(in crate::mcp) junk: Arc<AtomicU64>,
    /// Answers that nobody waited for any more, over all connections.
    pub(in crate::mcp) late: Arc<AtomicU64>,
}

impl Client {
    pub(in crate::mcp) fn new(
        definition: &ServerDefinition,
        endpoint: &Endpoint,
        headers: &BTreeMap<String, Secret>,
        policy: Arc<dyn ServerPolicy>,
    ) -> Result<Self, BadHttp> {
        let mut home = Url::parse(endpoint.expose()).map_err(|error| BadHttp::Url(error.to_string()))?;
        if home.scheme() == "https" && !HAS_TLS {
            return Err(BadHttp::NoTls);
        }
        let mut headers = sendable(headers)?;
        if let Some(basic) = basic(&home)
            && !headers.contains_key(AUTHORIZATION)
        {
            headers.insert(AUTHORIZATION, basic);
        }
        let cleared = home.set_username("").and_then(|()| home.set_password(None));
        cleared.map_err(|()| BadHttp::Url("it has no host".to_owned()))?;
        home.set_fragment(None);
        let gate = Gate::new(policy, definition.id.clone());
        let place = Place { home, headers, gate, proxies: definition.proxies };
        Ok(Self {
            definition: definition.clone(),
            place,
            #[cfg(feature = "mcp-oauth")]
            login: None,
            junk: Arc::default(),
            late: Arc::default(),
        })
    }

    /// Logs in to the server where it wants that.
    #[cfg(feature = "mcp-oauth")]
    pub(in crate::mcp) fn logging_in(mut self, settings: crate::oauth::OAuth) -> Self {
        let (server, tenant) = (self.definition.id.clone(), self.definition.tenant.clone());
        self.login = Some(login::Login::kept(settings, &self.place, server, tenant));
        self
    }

    #[cfg(feature = "mcp-oauth")]
    pub(in crate::mcp) fn awaits(&self) -> Option<String> {
        self.login.as_ref()?.awaits()
    }

    pub(in crate::mcp) async fn connect(
        &self,
        terms: Terms,
        mode: Mode,
    ) -> Result<Arc<dyn Connection>, ConnectError> {
        // One set of words a connection: each has a session to keep secret.
        let words = Words::of(&self.definition);
        let life = Arc::new(Life::new(words.clone()));
        self.open(terms, mode, life).await.map_err(|error| words.connect_error(error))
    }

    async fn open(
        &self,
        terms: Terms,
        mode: Mode,
        life: Arc<Life>,
    ) -> Result<Arc<dyn Connection>, ConnectError> {
        let reach = Reach::open(self.place.clone()).await.map_err(Fault::connect_error)?;
        let ((refuse, mut refused), (to_wire, messages)) = (mpsc::channel(1), mpsc::channel(WAITING_MAX));
        let delivery = Delivery::new(life.clone(), to_wire, refuse);
        #[cfg_attr(not(feature = "mcp-oauth"), expect(unused_mut, reason = "only a login is set later"))]
        let mut session = Session::new(reach, delivery, life.clone(), terms.notices.clone());
        #[cfg(feature = "mcp-oauth")]
        {
            session.login = self.login.as_ref().map(login::Kept::login);
        }
        let listening = match mode {
            Mode::Streamable => None,
            Mode::Sse => {
                let (events, target) = super::sse::greet(&session).await.map_err(Fault::connect_error)?;
                session.answer_elsewhere(target);
                Some(events)
            }
        };
        let (session, (outbox, queue)) = (Arc::new(session), Outbox::queue(life.clone()));
        let output_over = CancellationToken::new();
        let body = Body::of_pipe(life.clone(), output_over.clone());
        let mut mail = Mail::new(session.clone(), queue);
        if let Some(events) = listening {
            mail.besides(async move { super::sse::listen(&session, events).await });
        }
        tokio::spawn(mail.run());
        let ends = WireEnds {
            notices: terms.notices.clone(),
            life,
            junk: self.junk.clone(),
            flights: Arc::new(Flights::new(self.late.clone(), terms.late.clone())),
            output_over: Some(output_over.drop_guard()),
        };
        let streams = Streams { output: Source::Read(messages), input: outbox };
        let opened = Link::open(streams, ends, body, terms).await;
        match opened {
            Ok(link) => Ok(Arc::new(link)),
            Err(error) => Err(refused.try_recv().unwrap_or(error)),
        }
    }
}

/// The headers of every request, none of which is ever shown.
fn sendable(headers: &BTreeMap<String, Secret>) -> Result<HeaderMap, BadHttp> {
    let mut sent = HeaderMap::new();
    for (name, value) in headers {
        let bad = |reason: &str| BadHttp::Header { name: name.clone(), reason: reason.to_owned() };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("it is no header's name"))?;
        if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-") {
            return Err(bad("the protocol sets it"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad("its value has a character that no header may have"))?;
        value.set_sensitive(true);
        if sent.insert(header, value).is_some() {
            return Err(bad("it is there twice"));
        }
    }
    Ok(sent)
}

/// What user and password of a URL become.
fn basic(home: &Url) -> Option<HeaderValue> {
    if home.username().is_empty() && home.password().is_none() {
        return None;
    }
    let [user, password] = [home.username(), home.password().unwrap_or_default()].map(decoded);
    let credentials = BASE64_STANDARD.encode([user, password].join(&b':'));
    let mut value = HeaderValue::from_str(&format!("Basic {credentials}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
