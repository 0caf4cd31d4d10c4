//! Sends requests and waits for their answers, each raced against the connection's end.

use std::sync::{Arc, OnceLock};

use pilothouse_messages::error::RequestError;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotificationParam, ClientNotification, ClientRequest, MetaObject, RequestId, RequestMetaObject,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::flights::Flights;
use super::life::Life;
use super::reply;
use crate::asks::Origin;
use crate::server::Pulse;

/// The way to one server. Clones are the same way.
#[derive(Clone)]
pub(super) struct Requests {
    peer: Peer<RoleClient>,
    life: Arc<Life>,
    flights: Arc<Flights>,
    /// What goes into every request, once that is agreed on.
    standing: Arc<OnceLock<Map<String, Value>>>,
    /// For the cancel notice of a request that is dropped wherever its owner happens to be.
    runtime: Handle,
}

/// What the server is told when nobody waits for an answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abandon {
    /// A cancel notice.
    Cancelled,
    /// Nothing: a greeting cannot be cancelled (MCP 2025-11-25, "Cancellation").
    Silently,
}

/// For whom a request runs, and where it tells how it is doing.
pub(super) struct Passenger {
    pub(super) pulse: watch::Sender<Pulse>,
    pub(super) origin: Origin,
}

impl Requests {
    /// Inside a runtime.
    pub(super) fn new(peer: Peer<RoleClient>, life: Arc<Life>, flights: Arc<Flights>) -> Self {
        Self { peer, life, flights, standing: Arc::default(), runtime: Handle::current() }
    }

    /// From now on this goes into every request.
    pub(super) fn always_say(&self, meta: Map<String, Value>) {
        // Agreed on once, right after the greeting.
        let _ = self.standing.set(meta);
    }

    /// The connection.
    pub(super) fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Sends a request and takes the result out of its answer.
    pub(super) async fn result(
        &self,
        request: ClientRequest,
        meta: Map<String, Value>,
        passenger: Option<Passenger>,
    ) -> Result<Map<String, Value>, RequestError> {
        let answer = self.answer(request, meta, passenger, Abandon::Cancelled).await;
        answer.and_then(reply::result).map_err(|error| self.life.words().request_error(error))
    }

    /// Sends a request and returns the whole answer, be it an error.
    pub(super) async fn answer(
        &self,
        request: ClientRequest,
        meta: Map<String, Value>,
        passenger: Option<Passenger>,
        abandon: Abandon,
    ) -> Result<Value, RequestError> {
        tokio::select! {
            // An answer that came before the end is an answer.
            biased;
            answer = self.exchange(request, meta, passenger, abandon) => answer,
            reason = self.life.ended() => Err(RequestError::Ended { reason }),
        }
    }

    async fn exchange(
        &self,
        request: ClientRequest,
        mut meta: Map<String, Value>,
        passenger: Option<Passenger>,
        abandon: Abandon,
    ) -> Result<Value, RequestError> {
        meta.extend(self.standing.get().cloned().unwrap_or_default());
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject(MetaObject(meta)));
        let handle = match self.peer.send_request_with_option(request, options).await {
            Ok(handle) => handle,
            Err(error) => return self.failure(error).await,
        };
        let origin = passenger.as_ref().map(|passenger| passenger.origin.clone());
        let _boarded = passenger.map(|passenger| {
            let token = serde_json::to_value(&handle.progress_token).unwrap_or_default();
            self.flights.board(&token, passenger.pulse, passenger.origin)
        });
        // Dropped before the call leaves: a question that comes just then finds it in one place at least.
        let mut abandoned = Abandoned { requests: self, id: Some(handle.id.clone()), origin, abandon };
        let answer = handle.await_response().await;
        // What carried the request may have failed where the protocol has no words for it.
        if let Some(failure) = abandoned.id.take().and_then(|id| self.life.failure(&id)) {
            return Err(failure);
        }
        match answer {
            Ok(ServerResult::CustomResult(answer)) => Ok(answer.0),
            // A transport of rmcp's own has read it.
            Ok(typed) => Ok(json!({"result": serde_json::to_value(typed).unwrap_or_default()})),
            Err(error) => self.failure(error).await,
        }
    }

    async fn failure(&self, error: ServiceError) -> Result<Value, RequestError> {
        match error {
            ServiceError::McpError(error) => Ok(json!({"error": error})),
            // The reason follows within `SETTLE`, or within the grace of a polite end.
            ServiceError::TransportClosed => Err(RequestError::Ended { reason: self.life.ended().await }),
            ServiceError::TransportSend(_) => {
                let reason = self.life.reason().unwrap_or_else(|| "its input is closed".to_owned());
                Err(RequestError::Ended { reason })
            }
            // It may hold a whole answer.
            other => Err(RequestError::Malformed { reason: self.life.words().reason(other) }),
        }
    }

    /// Sends a notification. Nobody is told if the connection ends meanwhile: its end says so.
    pub(super) async fn notify(&self, notification: ClientNotification) {
        let _ = self.peer.send_notification(notification).await;
    }
}

/// Tells the server that nobody waits for an answer any more, unless it came.
struct Abandoned<'a> {
    requests: &'a Requests,
    id: Option<RequestId>,
    /// For whom it ran, if it was a call.
    origin: Option<Origin>,
    abandon: Abandon,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        if self.requests.life.is_over() {
            return;
        }
        self.requests.flights.forget(id.clone(), self.origin.take());
        match self.abandon {
            Abandon::Silently => {}
            Abandon::Cancelled => {
                let peer = self.requests.peer.clone();
                // Through rmcp, so that it forgets the request too. Fails only if the connection ends meanwhile.
                self.requests.runtime.spawn(async move {
                    let notice =
                        CancelledNotificationParam::new(Some(id), Some("no longer needed".to_owned()));
                    let _ = peer.notify_cancelled(notice).await;
                });
            }
        }
    }
}
