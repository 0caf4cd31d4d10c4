//! A server, as its embedder holds it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::asking::asked_directly;
use pilothouse_actors::catalog::CatalogMsg;
use pilothouse_actors::servers::{Power, ServersMsg};
use pilothouse_actors::slot::Reply;
use pilothouse_actors::wiring::ServerPlace;
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::connection::ConnectionPhase;
use pilothouse_messages::connection::ConnectionRejection;
use pilothouse_messages::error::ServerError;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::listing::{ListingState, ListingView};
use pilothouse_messages::server::{ServerState, ServerView};
use pilothouse_messages::topic::PermissionMode;
use pilothouse_rules::registry::Scope;
use serde_json::Value;

use crate::inner::Inner;
use crate::outside;

/// A handle on one server. Cheap to clone; outlives every connection, and follows every new definition.
#[derive(Clone)]
pub struct ServerHandle {
    /// The server as it was when the handle was taken: what is shown of one that was removed since.
    taken: Arc<ServerPlace>,
    inner: Arc<Inner>,
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerHandle").field(self.id()).finish()
    }
}

impl ServerHandle {
    pub(crate) fn new(place: Arc<ServerPlace>, inner: Arc<Inner>) -> Self {
        Self { taken: place, inner }
    }

    fn place(&self) -> Arc<ServerPlace> {
        self.inner.wiring.servers.place(self.id()).unwrap_or_else(|| self.taken.clone())
    }

    /// Which server.
    pub fn id(&self) -> &ServerId {
        &self.taken.definition.id
    }

    /// Its tools, from a snapshot; never waits and never connects. The first look at a cold server has it listed once,
    /// in the background.
    pub fn list(&self) -> Arc<ListingView> {
        match self.inner.wiring.catalog.read(self.id()) {
            Some(place) => place.view.clone(),
            None => Arc::new(ListingView::new(self.id().clone(), ListingState::Cold, None)),
        }
    }

    /// Lists the server's tools now and waits for the end of it; joins a refresh that is under way.
    ///
    /// # Errors
    /// [`ServerError::Refresh`] with the reason; the last known good listing stays, marked stale.
    pub async fn refresh(&self) -> Result<Revision, ServerError> {
        let server = self.id().clone();
        let bound = self.inner.wiring.limits.connect + self.inner.wiring.limits.listing;
        let slot = &self.inner.wiring.catalog.slot;
        let refreshed =
            slot.ask_within(bound, |reply| CatalogMsg::Refresh { server: server.clone(), reply }).await?;
        let revision = refreshed.map_err(|reason| ServerError::Refresh { server: server.clone(), reason })?;
        // The catalog knows it first; the caller wants to call it.
        let callable =
            |view: &ListingView| view.listing.as_ref().is_some_and(|listing| listing.revision >= revision);
        let shown = self.inner.wiring.registry.offers(&server, callable);
        match tokio::time::timeout(self.inner.wiring.limits.actor_absent, shown).await {
            Ok(_view) => Ok(revision),
            Err(_elapsed) => {
                let reason = "the registry did not take them in time".to_owned();
                Err(ServerError::Refresh { server, reason })
            }
        }
    }

    /// Waits until the server has answered in this process and its tools can be called, at most `within`, and no longer
    /// than there is hope: not for one that is switched off or has failed for good. Returns what there is then.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn warm(&self, within: Duration) -> Arc<ListingView> {
        let fresh = |view: &ListingView| matches!(view.state, ListingState::Warm);
        // One that is to run is still stopped just after the start.
        let hopeless = |phase: &ConnectionPhase| match phase.state {
            ServerState::Failed => true,
            ServerState::Stopped => phase.on_demand || !self.taken.is_wanted(),
            ServerState::Connecting | ServerState::Ready | ServerState::Backoff => false,
        };
        let mut phase = self.taken.phase.subscribe();
        let offered = async {
            tokio::select! {
                offered = self.inner.wiring.registry.offers(self.id(), fresh) => offered,
                _over = phase.wait_for(hopeless) => None,
            }
        };
        match tokio::time::timeout(within, offered).await {
            Ok(Some(view)) => Arc::new(view),
            Ok(None) | Err(_) => self.list(),
        }
    }

    /// Ends the connection and starts a new one; also starts one that was parked as failed.
    ///
    /// # Errors
    /// That it is switched off, or that its supervisor could not be asked.
    pub async fn restart(&self) -> Result<(), ServerError> {
        let server = self.id().clone();
        self.told(|reply| ServersMsg::Restart { server, reply }).await
    }

    /// Switches the server on.
    ///
    /// # Errors
    /// That its supervisor could not be asked.
    pub async fn enable(&self) -> Result<(), ServerError> {
        let server = self.id().clone();
        self.told(|reply| ServersMsg::Switch { server, to: Power::On, reply }).await
    }

    /// Switches the server off: its connection ends, its listing stays.
    ///
    /// # Errors
    /// That its supervisor could not be asked.
    pub async fn disable(&self) -> Result<(), ServerError> {
        let server = self.id().clone();
        self.told(|reply| ServersMsg::Switch { server, to: Power::Off, reply }).await
    }

    async fn told(
        &self,
        message: impl FnOnce(Reply<Result<(), ConnectionRejection>>) -> ServersMsg,
    ) -> Result<(), ServerError> {
        let server = self.id().clone();
        let told = self.inner.wiring.servers.slot.ask(message).await?;
        told.map_err(|rejection| match rejection {
            ConnectionRejection::Removed => ServerError::Unknown { server },
            rejection => ServerError::Refused { server, rejection },
        })
    }

    /// Whether the server is to run; also while it is down.
    pub fn is_enabled(&self) -> bool {
        self.place().is_wanted()
    }

    /// The server as it is, from snapshots; never waits.
    pub fn view(&self) -> ServerView {
        self.place().view(&self.inner.wiring)
    }

    /// Calls a tool by the name that the server gave it, outside any turn. The same gate applies: a tool that needs a
    /// person is `Denied`, since only a turn can ask one. A full server is `Unavailable` at once.
    ///
    /// # Cancel safety
    /// Dropping the future tells the server to cancel.
    pub async fn call(&self, tool: &str, arguments: &Value) -> CallResult {
        let wiring = &self.inner.wiring;
        let table = wiring.registry.table.load();
        let Some(entry) = table.by_source(self.id(), tool) else {
            let known = self.list().listing.is_some();
            let words = format!("\"{}\" offers no tool \"{tool}\"", self.id());
            return if known {
                CallResult::said(CallOutcome::Rejected, words)
            } else {
                CallResult::unavailable(format!("{words}: it has not been listed yet"), None)
            };
        };
        let tenant = self.place().definition.tenant.clone().unwrap_or_default();
        let scope = Scope::new(tenant.clone(), None, None);
        let asked = asked_directly(wiring, &scope, &entry.name, &arguments.to_string());
        outside::call(wiring, asked, (tenant, None), PermissionMode::Default).await
    }

    /// What an embedder should look at: rules of the server's lists that mean none of the tools that it has listed, and
    /// tools whose schema cannot be used, so that their arguments are not checked. Looked for behind each change of a
    /// listing; also in [`view`](Self::view). From a snapshot; never waits.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.wiring.registry.warnings.load().get(self.id()).cloned().unwrap_or_default()
    }

    /// The wire name of a tool, by the name that the server gave it; `None` until it was listed.
    pub fn tool_name(&self, tool: &str) -> Option<String> {
        let table = self.inner.wiring.registry.table.load();
        table.by_source(self.id(), tool).map(|entry| entry.name.clone())
    }
}
