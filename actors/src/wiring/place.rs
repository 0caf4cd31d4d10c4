//! Owns what one server is over all its connections, and what its readers find there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilothouse_adapters::server::{Connection, Connector};
use pilothouse_messages::connection::{ConnectionPhase, Generation, Reach};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::{ServerDefinition, ServerState, ServerView, Transport};
use pilothouse_messages::time::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::Wiring;
use crate::connection::ConnectionMsg;
use crate::processes::Processes;
use crate::protocol::Spoken;
use crate::servers::Power;
use crate::slot::{Slot, SlotBounds};
use crate::tasks::caught_now;
use crate::traffic::Traffic;

impl fmt::Debug for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerPlace").field(&self.definition.id).finish()
    }
}

/// One server over all its connections, under one definition. All but the definition and the way to reach it is
/// shared with the place that takes over when the server is defined anew.
pub struct ServerPlace {
    /// As the embedder defined it.
    pub definition: ServerDefinition,
    /// Fingerprint of the definition.
    pub fingerprint: Digest,
    /// Whether it is to run, as the embedder switched it last; outlives a restart of the servers' supervisor.
    wanted: Arc<AtomicBool>,
    /// How it is reached.
    pub connector: Arc<dyn Connector>,
    /// Its connection's actor.
    pub slot: Arc<Slot<ConnectionMsg>>,
    /// What the connection is doing; written by the servers' supervisor.
    pub phase: Arc<watch::Sender<ConnectionPhase>>,
    /// The connection, once it answers; written by its actor.
    pub ready: Arc<watch::Sender<Option<Arc<Ready>>>>,
    /// Places for calls in flight.
    pub permits: Arc<Semaphore>,
    /// What it spoke last.
    pub spoken: Spoken,
    /// Places for its questions that wait for the embedder.
    pub questions: Arc<Semaphore>,
}

impl ServerPlace {
    /// A server that does not run yet.
    pub fn new(
        definition: ServerDefinition,
        connector: Arc<dyn Connector>,
        limits: &Limits,
        now: Timestamp,
    ) -> Self {
        let phase = ConnectionPhase {
            state: ServerState::Stopped,
            since: now,
            reason: None,
            attempt: 0,
            retry_at: None,
            restarts: 0,
            last_failure: None,
            on_demand: false,
        };
        Self {
            slot: Arc::new(Slot::new(format!("connection/{}", definition.id), SlotBounds::of(limits))),
            fingerprint: definition.fingerprint(),
            wanted: Arc::new(AtomicBool::new(definition.enabled)),
            spoken: Spoken::by(&definition.transport),
            definition,
            connector,
            phase: Arc::new(watch::Sender::new(phase)),
            ready: Arc::new(watch::Sender::new(None)),
            permits: Arc::new(Semaphore::new(limits.calls_per_server.max(1))),
            questions: Arc::new(Semaphore::new(limits.open_questions)),
        }
    }

    /// The same server under another definition, and whether a connection of this one is one of the new.
    pub fn edited(&self, definition: ServerDefinition, connector: Arc<dyn Connector>) -> (Self, Reach) {
        let is_same = definition.transport == self.definition.transport
            && definition.proxies == self.definition.proxies;
        let reach = match (is_same, &definition.transport) {
            (false, _) => Reach::Other,
            // These two say all that a process is started from.
            (true, Transport::Stdio { .. }) => Reach::Same,
            (true, Transport::Http { .. } | Transport::Sse { .. } | Transport::InMemory { .. })
                if Arc::ptr_eq(&connector, &self.connector) =>
            {
                Reach::Same
            }
            (true, Transport::Http { .. } | Transport::Sse { .. } | Transport::InMemory { .. }) => {
                Reach::Other
            }
        };
        // The old connector knows the server's last words.
        let connector = match reach {
            Reach::Same => self.connector.clone(),
            Reach::Other => connector,
        };
        let spoken = Spoken::by(&definition.transport);
        let place = Self {
            fingerprint: definition.fingerprint(),
            definition,
            connector,
            wanted: self.wanted.clone(),
            slot: self.slot.clone(),
            phase: self.phase.clone(),
            ready: self.ready.clone(),
            permits: self.permits.clone(),
            // Another server may be behind another definition.
            spoken: match reach {
                Reach::Same => self.spoken.clone(),
                Reach::Other => spoken,
            },
            questions: self.questions.clone(),
        };
        (place, reach)
    }

    /// Whether a connection was made by this very definition's way.
    pub fn made(&self, ready: &Ready) -> bool {
        ready.definition == self.fingerprint && Arc::ptr_eq(&ready.connector, &self.connector)
    }

    /// Tells the connector where to note its processes; one of the embedder that panics here notes none.
    pub fn take_notes(&self, processes: Arc<Processes>) {
        if caught_now(|| self.connector.note_processes(processes)).is_err() {
            tracing::warn!(target: "pilothouse", server = %self.definition.id, "a connector panicked over its notes");
        }
    }

    /// Whether it is to run; also while it is down.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Takes note of how it was switched.
    pub fn want(&self, power: Power) {
        self.wanted.store(power == Power::On, Ordering::Relaxed);
    }

    /// The server as it is now, put together from snapshots.
    pub fn view(&self, wiring: &Wiring) -> ServerView {
        let phase = self.phase.borrow().clone();
        let mut view = ServerView::new(self.definition.id.clone(), self.definition.name.clone(), phase.since);
        view.state = phase.state;
        view.reason = phase.reason;
        view.attempt = phase.attempt;
        view.retry_at = phase.retry_at;
        view.restarts = phase.restarts;
        view.last_failure = phase.last_failure;
        if let Some(ready) = self.ready.borrow().as_ref() {
            view.protocol = Some(ready.protocol.clone());
            view.in_flight = ready.traffic.under_way();
        }
        // A connector of the embedder that panics has nothing to show.
        view.stderr = caught_now(|| self.connector.stderr()).unwrap_or_default();
        view.junk_lines = caught_now(|| self.connector.junk_lines()).unwrap_or_default();
        view.late_answers = caught_now(|| self.connector.late_answers()).unwrap_or_default();
        view.awaits = caught_now(|| self.connector.awaits()).unwrap_or_default();
        // Not through `read`: looking at a server is no wish for its tools.
        if let Some(listing) =
            wiring.catalog.places.load().get(&self.definition.id).and_then(|p| p.view.listing.clone())
        {
            view.revision = Some(listing.revision);
            view.tools = listing.tools.len();
        }
        view.warnings = wiring.registry.warnings.load().get(&self.definition.id).cloned().unwrap_or_default();
        view
    }
}

/// A connection that answers.
pub struct Ready {
    /// The connection.
    pub connection: Arc<dyn Connection>,
    /// The protocol version that it speaks.
    pub protocol: String,
    /// Which of the server's connections it is.
    pub generation: Generation,
    /// The definition that it was made from.
    pub definition: Digest,
    /// The connector that made it.
    pub connector: Arc<dyn Connector>,
    /// What was heard of the server, and who uses it.
    pub traffic: Arc<Traffic>,
    /// What this connection's own listing said: fingerprints by raw name; `None` until it has listed.
    pub confirmed: watch::Sender<Option<Arc<BTreeMap<String, Digest>>>>,
    /// Fires when the connection has ended.
    pub ended: CancellationToken,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("generation", &self.generation).finish()
    }
}
