//! Owns what server and client know of each other over many HTTP requests: version, session id, and whether it is
//! still there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use super::answer::{self, Shape};
use super::delivery::Delivery;
use super::events::Events;
use super::fault::{Fault, Sign};
use super::head::{Head, VERSION, is_modern};
use super::intake::Budget;
use super::params::Params;
use super::reach::{Order, Reach};
use crate::mcp::SETTLE;
use crate::mcp::life::Life;
use crate::server::{Notice, Notices};

pub(in crate::mcp) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// How long a server that may be gone is asked. One that is slow is not gone.
const PROBE_WITHIN: Duration = Duration::from_secs(5);
const PROBE: &[u8] = br#"{"jsonrpc":"2.0","id":"pilothouse-probe","method":"ping"}"#;
/// How a connection ends whose session the server does not know any more.
const SESSION_GONE: &str = "the session is gone";

/// How a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Mode {
    /// In the response to the request.
    Streamable,
    /// On one stream that is open from the start.
    Sse,
}

/// One connection over HTTP.
pub(in crate::mcp) struct Session {
    /// Where requests go.
    pub(in crate::mcp) reach: Reach,
    /// Where answers go.
    pub(in crate::mcp) delivery: Delivery,
    /// What answers may hold.
    pub(in crate::mcp) budget: Budget,
    /// Which arguments headers repeat.
    pub(in crate::mcp) params: Params,
    /// What requests are logged in with, if the server is logged in to.
    #[cfg(feature = "mcp-oauth")]
    pub(in crate::mcp) login: Option<Arc<super::login::Login>>,
    life: Arc<Life>,
    notices: Notices,
    known: Mutex<Known>,
    /// Where messages go, if their answers come on a stream that is open from the start.
    elsewhere: OnceLock<Url>,
    /// Whether the server is being asked already.
    probing: AtomicBool,
}

#[derive(Default, Clone)]
struct Known {
    version: Option<String>,
    id: Option<HeaderValue>,
}

impl Session {
    /// A session that is not yet one: it begins with the answer to `initialize`.
    pub(in crate::mcp) fn new(reach: Reach, delivery: Delivery, life: Arc<Life>, notices: Notices) -> Self {
        Self {
            reach,
            delivery,
            budget: Budget::default(),
            params: Params::default(),
            #[cfg(feature = "mcp-oauth")]
            login: None,
            life,
            notices,
            known: Mutex::default(),
            elsewhere: OnceLock::new(),
            probing: AtomicBool::new(false),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that this is.
    pub(in crate::mcp) fn life(&self) -> &Life {
        &self.life
    }

    /// Whether its rules are those without a handshake.
    pub(in crate::mcp) fn is_modern(&self) -> bool {
        self.known().version.as_deref().is_some_and(is_modern)
    }

    /// Sends a message.
    pub(in crate::mcp) async fn post(&self, head: &Head, line: Vec<u8>) -> Result<Response, Fault> {
        let known = self.known().clone();
        let mut plain = head.headers(known.version.as_deref(), &line, &self.params);
        plain.insert(ACCEPT, EITHER);
        plain.insert(CONTENT_TYPE, JSON);
        let order = Order {
            method: Method::POST,
            url: self.url(),
            plain,
            secret: if head.is("initialize") { HeaderMap::new() } else { known.id_header() },
            body: Some(line.into()),
        };
        if head.is("initialize") {
            // Whatever was asked before, this begins another generation.
            *self.known() = Known::default();
        } else if let Some(version) = head.version() {
            self.known().version = Some(version.to_owned());
        }
        self.send(order).await
    }

    /// Sends a request, with a token where the server is logged in to.
    async fn send(&self, order: Order) -> Result<Response, Fault> {
        #[cfg(feature = "mcp-oauth")]
        if let Some(login) = &self.login {
            return login.send(&self.reach, order, self.life.words()).await;
        }
        self.reach.send(order).await
    }

    /// Opens the stream of what the server says by itself, or goes on with one after its last event.
    pub(in crate::mcp) async fn listen(&self, after: Option<&str>) -> Result<Response, Fault> {
        let (mut plain, secret) = self.standing_headers();
        plain.insert(ACCEPT, EVENTS);
        if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
            plain.insert(LAST_EVENT, after);
        }
        let order = Order { method: Method::GET, url: self.url(), plain, secret, body: None };
        self.send(order).await
    }

    /// Tells the server that the session is over, if there is one. What it answers changes nothing.
    pub(in crate::mcp) async fn leave(&self) {
        if !self.has_id() {
            return;
        }
        let (plain, secret) = self.standing_headers();
        let order = Order { method: Method::DELETE, url: self.url(), plain, secret, body: None };
        if let Err(fault) = self.send(order).await {
            tracing::debug!(target: "pilothouse", reason = self.life.words().reason(fault.words()), "a session was not ended");
        }
    }

    fn standing_headers(&self) -> (HeaderMap, HeaderMap) {
        let known = self.known().clone();
        let mut plain = HeaderMap::new();
        if let Some(version) =
            known.version.as_deref().and_then(|version| HeaderValue::from_str(version).ok())
        {
            plain.insert(VERSION, version);
        }
        (plain, known.id_header())
    }

    /// Messages go to this URL, and their answers come elsewhere.
    pub(in crate::mcp) fn answer_elsewhere(&self, target: Url) {
        // Told once, by whoever opens the connection.
        let _ = self.elsewhere.set(target);
    }

    /// Where a response to a request is to be looked for.
    pub(in crate::mcp) fn mode(&self) -> Mode {
        if self.elsewhere.get().is_some() { Mode::Sse } else { Mode::Streamable }
    }

    /// Whether the server may have a stream for what it says by itself.
    pub(in crate::mcp) fn speaks_by_itself(&self) -> bool {
        self.mode() == Mode::Streamable && !self.is_modern()
    }

    fn url(&self) -> Url {
        self.elsewhere.get().unwrap_or_else(|| self.reach.home()).clone()
    }

    /// Opens the stream on which everything comes.
    pub(in crate::mcp) async fn open_events(&self) -> Result<Events, Fault> {
        let response = self.listen(None).await?;
        if !response.status().is_success() {
            return Err(answer::failure(response).await);
        }
        match answer::shape(&response)? {
            Shape::Events => Ok(Events::of(response, &self.budget)),
            Shape::Json => {
                Err(Fault::Malformed("it answers with JSON where a stream of events should be".to_owned()))
            }
        }
    }

    fn has_id(&self) -> bool {
        self.known().id.is_some()
    }

    /// Takes up what an answer to `initialize` says: the version, and the id that its response carried.
    pub(in crate::mcp) fn begin(&self, result: &Map<String, Value>, id: Option<HeaderValue>) {
        let id = id.map(|mut id| {
            id.set_sensitive(true);
            self.life.words().learn(&String::from_utf8_lossy(id.as_bytes()));
            id
        });
        let version = result.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
        *self.known() = Known { version, id };
    }

    /// Takes up a page of tools that has come.
    pub(in crate::mcp) fn learn(&self, page: &mut Map<String, Value>) {
        if self.is_modern() {
            self.params.learn(page);
        }
    }

    /// Something may have been missed: the tools are to be listed again.
    pub(in crate::mcp) fn missed(&self) {
        // A full queue already holds a notice that says the same.
        let _ = self.notices.try_send(Notice::ToolsChanged);
    }

    /// Whether a response says that the session is gone. By the protocol only 404 does. Many servers say 400, and
    /// gateways that lost theirs 502 to 504: either may also be said of the request, so they are asked with another one.
    pub(in crate::mcp) async fn is_gone(&self, status: StatusCode) -> bool {
        let gone = self.has_id()
            && match status {
                StatusCode::NOT_FOUND => true,
                StatusCode::BAD_REQUEST
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => {
                    let again = timeout(PROBE_WITHIN, self.probe()).await;
                    matches!(again, Ok(Ok(again)) if again == status || again == StatusCode::NOT_FOUND)
                }
                _ => false,
            };
        if gone {
            self.life.end(SESSION_GONE);
        }
        gone
    }

    async fn probe(&self) -> Result<StatusCode, Fault> {
        Ok(self.post(&Head::of(PROBE), PROBE.to_vec()).await?.status())
    }

    /// Draws the conclusion of a fault for the whole connection, after the request has had its answer.
    pub(in crate::mcp) async fn conclude(&self, fault: &Fault) {
        match fault.sign() {
            Sign::Alive => {}
            Sign::Dead => {
                // Whoever asked is told that it was not sent, before everybody is told of the end.
                sleep(SETTLE).await;
                self.life.end(fault.words());
            }
            Sign::Doubtful => {
                if self.probing.swap(true, Ordering::AcqRel) {
                    return;
                }
                // Also when whoever asks is dropped in the middle.
                let asking = Asking(&self.probing);
                let probed = timeout(PROBE_WITHIN, self.probe()).await;
                drop(asking);
                match probed {
                    Ok(Err(again)) if again.sign() != Sign::Alive => {
                        sleep(SETTLE).await;
                        self.life.end(again.words());
                    }
                    Ok(Ok(status)) => {
                        // Whether it has ended is all that was asked.
                        let _ended = self.is_gone(status).await;
                    }
                    Ok(Err(_)) | Err(_) => {}
                }
            }
        }
    }
}

/// While it lives the server is being asked.
struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Known {
    fn id_header(self) -> HeaderMap {
        self.id.into_iter().map(|id| (SESSION, id)).collect()
    }
}
