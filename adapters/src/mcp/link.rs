//! One open connection: the handshake, then requests, each raced against the connection's end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_messages::call::CallResult;
use pilothouse_messages::error::{ConnectError, RequestError};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientRequest, Implementation, ListToolsRequest, MetaObject, PaginatedRequestParams, PingRequest,
    ProtocolVersion, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService,
    ServiceError, serve_client_with_lifecycle_and_ct,
};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;

use super::body::Body;
use super::life::Life;
use super::outbox::Outbox;
use super::reply;
use super::wire::{Source, Wire, WireEnds};
use crate::BoxFuture;
use crate::server::{Connection, Page};

/// The versions with an `initialize` handshake whose rules are kept here.
const UNDERSTOOD: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Both directions of a connection, seen from here.
pub(super) struct Streams {
    /// What the server says.
    pub(super) output: Source,
    /// What it is told.
    pub(super) input: Outbox,
}

impl Streams {
    /// A pair of byte streams with a message on each line.
    pub(super) fn of_lines(
        output: Box<dyn AsyncRead + Send + Unpin>,
        input: Box<dyn AsyncWrite + Send + Unpin>,
        life: &Arc<Life>,
    ) -> Self {
        Self { output: Source::lines(output), input: Outbox::open(input, life.clone()) }
    }
}

/// One open connection. Dropping it kills what it is made of.
pub(super) struct Link {
    // Dropped first: what rmcp still does is harmless once the body is gone, but not needed.
    service: RunningService<RoleClient, ClientConfig>,
    protocol: String,
    lists_tools: bool,
    outbox: Outbox,
    life: Arc<Life>,
    body: Body,
    /// For the cancel notice of a request that is dropped wherever its owner happens to be.
    runtime: Handle,
}

impl Link {
    /// Does the handshake. Dropping the future drops `body`, and with it the server.
    pub(super) fn open(
        streams: Streams,
        ends: WireEnds,
        body: Body,
    ) -> impl Future<Output = Result<Self, ConnectError>> + Send {
        let (life, junk) = (ends.life.clone(), ends.junk.clone());
        let junk_before = junk.load(Ordering::Relaxed);
        let outbox = streams.input;
        let wire = Wire::new(streams.output, outbox.clone(), ends);
        async move {
            Self::greet(wire, outbox, life, body).await.map_err(|mut reason| {
                // What writes text and no messages was often started the wrong way.
                let skipped = junk.load(Ordering::Relaxed).saturating_sub(junk_before);
                if skipped > 0 {
                    reason.push_str(&format!("; lines of its output that were no MCP messages: {skipped}"));
                }
                ConnectError::Handshake { reason }
            })
        }
    }

    async fn greet(wire: Wire, outbox: Outbox, life: Arc<Life>, body: Body) -> Result<Self, String> {
        let mode = ClientLifecycleMode::Initialize;
        let greeting = Box::pin(serve_client_with_lifecycle_and_ct(config(), wire, mode, life.token()));
        let service = tokio::select! {
            biased;
            greeted = greeting => match greeted {
                Ok(service) => service,
                Err(error) => return Err(refusal(&life, error).await),
            },
            reason = life.ended() => return Err(reason),
        };
        // A list kept by rmcp would go on answering for a server that is dead.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let Some(peer) = service.peer().peer_info() else {
            return Err("it said nothing about itself".to_owned());
        };
        let protocol = peer.protocol_version.as_str().to_owned();
        if !UNDERSTOOD.contains(&protocol.as_str()) {
            let understood = UNDERSTOOD.join(", ");
            let spoken = life.words().reason(protocol);
            return Err(format!("it speaks MCP {spoken:?}, understood are {understood}"));
        }
        let lists_tools = peer.capabilities.tools.is_some();
        Ok(Self { service, protocol, lists_tools, outbox, life, body, runtime: Handle::current() })
    }

    /// Sends a request and takes the result out of its answer.
    async fn request(
        &self,
        request: ClientRequest,
        meta: Map<String, Value>,
    ) -> Result<Map<String, Value>, RequestError> {
        tokio::select! {
            // An answer that came before the end is an answer.
            biased;
            answer = self.exchange(request, meta) => {
                answer.and_then(reply::result).map_err(|error| self.life.words().request_error(error))
            }
            reason = self.life.ended() => Err(RequestError::Ended { reason }),
        }
    }

    async fn exchange(
        &self,
        request: ClientRequest,
        meta: Map<String, Value>,
    ) -> Result<Value, RequestError> {
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject(MetaObject(meta)));
        let sent = self.service.peer().send_request_with_option(request, options).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failure(error).await),
        };
        let mut abandoned = Abandoned { link: self, id: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        if let Some(failure) = abandoned.id.take().and_then(|id| self.life.failure(&id)) {
            return Err(failure);
        }
        match answer {
            Ok(ServerResult::CustomResult(answer)) => Ok(answer.0),
            Ok(_) => Err(RequestError::Malformed { reason: "it is no answer to this request".to_owned() }),
            Err(error) => Err(self.failure(error).await),
        }
    }

    async fn failure(&self, error: ServiceError) -> RequestError {
        match error {
            ServiceError::McpError(error) => {
                RequestError::Server { code: error.code.0.into(), message: error.message.into_owned() }
            }
            // The reason follows within `SETTLE`, or within the grace of a polite end.
            ServiceError::TransportClosed => RequestError::Ended { reason: self.life.ended().await },
            ServiceError::TransportSend(_) => {
                let reason = self.life.reason().unwrap_or_else(|| "its input is closed".to_owned());
                RequestError::Ended { reason }
            }
            // It may hold a whole answer.
            other => RequestError::Malformed { reason: self.life.words().reason(other) },
        }
    }
}

/// Tells the server that nobody waits for an answer any more, unless it came.
struct Abandoned<'a> {
    link: &'a Link,
    id: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        if self.link.life.is_over() {
            return;
        }
        let peer = self.link.service.peer().clone();
        // Through rmcp, so that it forgets the request too. Fails only if the connection ends meanwhile.
        self.link.runtime.spawn(async move {
            let notice = CancelledNotificationParam::new(Some(id), Some("no longer needed".to_owned()));
            let _ = peer.notify_cancelled(notice).await;
        });
    }
}

/// What we are to a server: nothing is declared that nobody here would answer.
fn config() -> ClientConfig {
    let client = Implementation::new("pilothouse", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), client)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

async fn refusal(life: &Life, error: ClientInitializeError) -> String {
    match error {
        // The end of the connection knows more; it follows within `SETTLE`.
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. }
        | ClientInitializeError::Cancelled => life.ended().await,
        ClientInitializeError::JsonRpcError(error) => {
            let said = format_args!("the server answered error {}: {}", error.code.0, error.message);
            life.words().reason(said)
        }
        other => life.words().reason(format_args!("its answer to `initialize` makes no sense: {other}")),
    }
}

impl Connection for Link {
    fn protocol(&self) -> String {
        self.protocol.clone()
    }

    fn list_page(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, RequestError>> {
        Box::pin(async move {
            if !self.lists_tools {
                return Ok(Page::default());
            }
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..Default::default() };
            reply::page(self.request(ClientRequest::ListToolsRequest(request), Map::new()).await?)
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            match self.request(ping, Map::new()).await {
                Ok(_) | Err(RequestError::Server { .. } | RequestError::Malformed { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        meta: Map<String, Value>,
    ) -> BoxFuture<'_, Result<CallResult, RequestError>> {
        Box::pin(async move {
            let params = CallToolRequestParams::new(tool).with_arguments(arguments);
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            reply::called(self.request(request, meta).await?)
        })
    }

    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(self.life.ended())
    }

    fn close(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Fails only if the runtime shuts down, which drops and kills everything.
            let _ = self.body.close(self.outbox.clone(), grace).await;
        })
    }

    fn kill(&self) {
        self.body.kill("killed");
    }
}
