//! One open connection: the greeting, then requests under the rules that were agreed on.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::protocol::Era;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientRequest,
    CustomRequest, DiscoverRequest, DiscoverRequestParams, GetTaskParams, GetTaskRequest, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ProtocolVersion, ServerCapabilities, ServerPeerInfo,
    UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::{ClientCacheConfig, RunningService, serve_directly_with_ct};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::Body;
use super::greet::{Greeted, greet};
use super::host::Host;
use super::life::Life;
use super::listen::listen;
use super::outbox::Outbox;
use super::reply::{self, TaskTold};
use super::requests::{Passenger, Requests};
use super::wire::{Source, Wire, WireEnds};
use crate::BoxFuture;
use crate::server::{CallAnswer, CallRequest, Connection, Page, TaskState, Terms};

/// Tools that are remembered to run as tasks only; a listing has no more tools.
const TASK_ONLY_MAX: usize = 10_000;

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
    /// Held: dropping it ends rmcp's loop. First, since what that still does is not needed once the body is gone.
    _service: RunningService<RoleClient, Host>,
    requests: Requests,
    greeted: Greeted,
    /// Raw names of tools that run as tasks only, as far as they were listed.
    task_only: Mutex<BTreeSet<String>>,
    outbox: Outbox,
    life: Arc<Life>,
    body: Body,
}

impl Link {
    /// Does the greeting. Dropping the future drops `body`, and with it the server.
    pub(super) fn open(
        streams: Streams,
        ends: WireEnds,
        body: Body,
        terms: Terms,
    ) -> impl Future<Output = Result<Self, ConnectError>> + Send {
        let (life, junk) = (ends.life.clone(), ends.junk.clone());
        let junk_before = junk.load(Ordering::Relaxed);
        let outbox = streams.input;
        let host = Host {
            asks: terms.asks.clone(),
            flights: ends.flights.clone(),
            notices: terms.notices.clone(),
            words: life.words().clone(),
        };
        let wire = Wire::new(streams.output, outbox.clone(), ends);
        async move {
            Self::greet(wire, host, outbox, body, terms).await.map_err(|mut reason| {
                reason = life.words().reason(reason);
                // What writes text and no messages was often started the wrong way.
                let skipped = junk.load(Ordering::Relaxed).saturating_sub(junk_before);
                if skipped > 0 {
                    reason.push_str(&format!("; lines of its output that were no MCP messages: {skipped}"));
                }
                ConnectError::Handshake { reason }
            })
        }
    }

    async fn greet(wire: Wire, host: Host, outbox: Outbox, body: Body, terms: Terms) -> Result<Self, String> {
        let (life, flights) = (wire.life().clone(), host.flights.clone());
        let service = serve_directly_with_ct::<RoleClient, _, _, _, _>(host, wire, None, life.token());
        let requests = Requests::new(service.peer().clone(), life.clone(), flights);
        let greeted = greet(&requests, terms.protocol, terms.discover, terms.asks.kinds()).await?;
        // A list kept by rmcp would go on answering for a server that is dead.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        match greeted.era {
            Era::Legacy => {}
            Era::Modern => {
                // It decides how rmcp reads a cancel notice of the server: as the end of a subscription.
                service.peer().set_peer_info(peer_info(&greeted));
                if tells_changed_tools(&greeted.capabilities) {
                    tokio::spawn(listen(requests.clone(), terms.notices));
                }
            }
        }
        Ok(Self { _service: service, requests, greeted, task_only: Mutex::default(), outbox, life, body })
    }

    async fn request(&self, request: ClientRequest) -> Result<Map<String, Value>, RequestError> {
        self.requests.result(request, Map::new(), None).await
    }

    /// Whether it runs calls of tools as tasks when it is asked to (MCP 2025-11-25, "Tasks").
    fn runs_tasks(&self) -> bool {
        let tasks = self.greeted.capabilities.get("tasks");
        tasks.and_then(|tasks| tasks.pointer("/requests/tools/call")).is_some()
    }

    fn is_task_only(&self, tool: &str) -> bool {
        self.task_only.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    fn note_task_only(&self, page: &Page) {
        let mut known = self.task_only.lock().unwrap_or_else(PoisonError::into_inner);
        for name in reply::task_only(page) {
            if known.len() < TASK_ONLY_MAX {
                known.insert(name);
            }
        }
    }

    async fn call_once(&self, request: CallRequest) -> Result<CallAnswer, RequestError> {
        let as_task = match (self.greeted.era, self.is_task_only(&request.tool)) {
            // A modern server decides by itself.
            (Era::Modern, _) | (Era::Legacy, false) => false,
            (Era::Legacy, true) if self.runs_tasks() => true,
            (Era::Legacy, true) => {
                let words = "the tool runs as a task only, and this server's protocol version has no tasks; it was not called";
                return Ok(CallAnswer::Done(CallResult::said(CallOutcome::Rejected, words)));
            }
        };
        let passenger = Passenger { pulse: request.pulse, origin: request.origin };
        let call = if as_task {
            let params = json!({"name": request.tool, "arguments": request.arguments, "task": {}});
            ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
        } else {
            let mut params = CallToolRequestParams::new(request.tool).with_arguments(request.arguments);
            if let Some(answers) = request.answers {
                answers.state.iter().for_each(|state| self.life.words().pass(state));
                answers.responses.values().for_each(|answer| self.life.words().pass_answer(answer));
                params.input_responses = Some(answers.responses.into_iter().collect());
                params.request_state = answers.state;
            }
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        reply::call_answer(self.requests.result(call, request.meta, Some(passenger)).await?)
    }

    async fn task_state(&self, id: String) -> Result<TaskState, RequestError> {
        let asked = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id.clone())));
        match reply::task_told(self.request(asked).await?)? {
            TaskTold::State(state) => Ok(state),
            TaskTold::Over => {
                let fetch = CustomRequest::new("tasks/result", Some(json!({"taskId": id})));
                let result = self.request(ClientRequest::CustomRequest(fetch)).await?;
                reply::called(result).map(TaskState::Done)
            }
        }
    }
}

fn tells_changed_tools(capabilities: &Map<String, Value>) -> bool {
    capabilities.get("tools").and_then(|tools| tools.get("listChanged")).is_some_and(|tells| tells == true)
}

fn peer_info(greeted: &Greeted) -> ServerPeerInfo {
    let version = serde_json::from_value(json!(greeted.version)).unwrap_or(ProtocolVersion::V_2026_07_28);
    // Nothing that is asked of it here is looked up there.
    ServerPeerInfo::new(version, ServerCapabilities::default())
}

/// Any answer shows that somebody answers.
fn answered<T>(answer: Result<T, RequestError>) -> Result<(), RequestError> {
    match answer {
        Ok(_) | Err(RequestError::Server { .. } | RequestError::Malformed { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Connection for Link {
    fn protocol(&self) -> String {
        self.greeted.version.clone()
    }

    fn list_page(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, RequestError>> {
        Box::pin(async move {
            if !self.greeted.capabilities.contains_key("tools") {
                return Ok(Page::default());
            }
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..Default::default() };
            let page = reply::page(self.request(ClientRequest::ListToolsRequest(request)).await?)?;
            self.note_task_only(&page);
            Ok(page)
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move {
            answered(match self.greeted.era {
                Era::Legacy => self.request(ClientRequest::PingRequest(PingRequest::default())).await,
                Era::Modern => {
                    let discover = DiscoverRequest::new(DiscoverRequestParams {});
                    self.request(ClientRequest::DiscoverRequest(discover)).await
                }
            })
        })
    }

    fn call(&self, request: CallRequest) -> BoxFuture<'_, Result<CallAnswer, RequestError>> {
        Box::pin(self.call_once(request))
    }

    fn task(&self, id: String) -> BoxFuture<'_, Result<TaskState, RequestError>> {
        Box::pin(self.task_state(id))
    }

    fn answer_task(
        &self,
        id: String,
        responses: Map<String, Value>,
    ) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move {
            responses.values().for_each(|answer| self.life.words().pass_answer(answer));
            let params = UpdateTaskParams::new(id, responses.into_iter().collect());
            self.request(ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params))).await.map(drop)
        })
    }

    fn cancel_task(&self, id: String) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move {
            let request = CancelTaskRequest::new(CancelTaskParams::new(id));
            self.request(ClientRequest::CancelTaskRequest(request)).await.map(drop)
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
