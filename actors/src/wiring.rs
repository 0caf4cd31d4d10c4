//! Who can reach whom: the slots of one runtime, and the snapshots that every reader takes.
//!
//! One [`Wiring`] belongs to one runtime; nothing in it is global. Reading from it never waits for an actor.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use pilothouse_adapters::asks::Asks;
use pilothouse_adapters::clock::Clock;
use pilothouse_adapters::exec::ScriptTool;
use pilothouse_adapters::model::ModelResolver;
use pilothouse_adapters::repair::ArgumentRepair;
use pilothouse_adapters::server::{Connection, Connector};
use pilothouse_adapters::store::Store;
use pilothouse_adapters::tool::Function;
use pilothouse_messages::connection::{ConnectionPhase, Generation, Reach};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{ServerId, TopicId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::{ListingState, ListingView};
use pilothouse_messages::server::{ServerDefinition, ServerState, ServerView, Transport};
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::arguments::Validators;
use pilothouse_rules::registry::ToolTable;
use pilothouse_rules::search::ToolIndex;
use pilothouse_rules::surface::ShownTools;
use pilothouse_rules::tokens::TokenCounter;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::approval::{ApprovalMsg, LiveGrants, OpenCards};
use crate::asking::InspectedLedger;
use crate::bus::EventBus;
use crate::catalog::CatalogMsg;
use crate::connection::ConnectionMsg;
use crate::gate::Layers;
use crate::hub::TopicHub;
use crate::processes::Processes;
use crate::protocol::Spoken;
use crate::registry::RegistryMsg;
use crate::servers::{Power, ServersMsg};
use crate::session::SessionMsg;
use crate::slot::{Slot, SlotBounds};
use crate::tasks::caught_now;
use crate::topics::TopicsMsg;
use crate::traffic::Traffic;

/// What a runtime is built from; the rest of the wiring starts empty.
pub struct Materials {
    /// Every bound.
    pub limits: Limits,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What survives.
    pub store: Arc<dyn Store>,
    /// Models by name.
    pub models: Arc<dyn ModelResolver>,
    /// The embedder's functions, by wire name.
    pub functions: BTreeMap<String, Function>,
    /// Runs the scripts of models, where that is switched on.
    pub exec: Option<ScriptTool>,
    /// The registry before any server has offered anything.
    pub table: Arc<ToolTable>,
    /// Answers what servers ask.
    pub asks: Option<Arc<dyn Asks>>,
    /// What the embedder adds to the gate.
    pub layers: Layers,
    /// Mends arguments that their tool refuses, if the embedder wants that.
    pub repair: Option<Arc<dyn ArgumentRepair>>,
    /// What tools are reckoned to cost.
    pub counter: Arc<dyn TokenCounter>,
    /// The servers, with how each is reached.
    pub servers: Vec<(ServerDefinition, Arc<dyn Connector>)>,
}

/// Everything that the actors of one runtime share.
pub struct Wiring {
    /// Every bound.
    pub limits: Arc<Limits>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What survives.
    pub store: Arc<dyn Store>,
    /// Models by name.
    pub models: Arc<dyn ModelResolver>,
    /// The embedder's functions, by wire name.
    pub functions: BTreeMap<String, Function>,
    /// Runs the scripts of models, where that is switched on.
    pub exec: Option<ScriptTool>,
    /// Answers what servers ask.
    pub asks: Option<Arc<dyn Asks>>,
    /// Compiled schemas of tools' arguments.
    pub validators: Validators,
    /// What the embedder adds to the gate.
    pub layers: Layers,
    /// Mends arguments that their tool refuses, if the embedder wants that.
    pub repair: Option<Arc<dyn ArgumentRepair>>,
    /// What tools are reckoned to cost.
    pub counter: Arc<dyn TokenCounter>,
    /// Tools as models are shown them.
    pub shown: ShownTools,
    /// The runtime's own events.
    pub events: EventBus,
    /// The ledger.
    pub approval: ApprovalPort,
    /// The catalog.
    pub catalog: CatalogPort,
    /// The registry.
    pub registry: RegistryPort,
    /// The servers.
    pub servers: ServersPort,
    /// The topics.
    pub topics: TopicsPort,
}

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wiring")
    }
}

impl Wiring {
    /// Lays out the slots; nobody is in them yet.
    pub fn new(materials: Materials) -> Self {
        let limits = Arc::new(materials.limits);
        let bounds = SlotBounds::of(&limits);
        let now = materials.clock.now();
        let place = |(definition, connector): (ServerDefinition, Arc<dyn Connector>)| {
            (definition.id.clone(), Arc::new(ServerPlace::new(definition, connector, &limits, now)))
        };
        let places: BTreeMap<_, _> = materials.servers.into_iter().map(place).collect();
        Self {
            events: EventBus::new(limits.subscriber),
            approval: ApprovalPort {
                slot: Slot::new("approval", bounds),
                open: OpenCards::default(),
                grants: LiveGrants::default(),
                stopped: ArcSwapOption::empty(),
            },
            catalog: CatalogPort { slot: Slot::new("catalog", bounds), places: ArcSwap::default() },
            registry: RegistryPort {
                slot: Slot::new("registry", bounds),
                index: ArcSwap::from_pointee(ToolIndex::new(&materials.table)),
                table: ArcSwap::new(materials.table),
                offered: watch::Sender::default(),
            },
            servers: ServersPort {
                slot: Slot::new("servers", bounds),
                places: ArcSwap::from_pointee(places),
                connecting: Arc::new(Semaphore::new(limits.connects_at_once.max(1))),
                processes: Arc::new(Processes::new(materials.store.clone(), limits.commit)),
            },
            topics: TopicsPort { slot: Slot::new("topics", bounds), places: ArcSwap::default() },
            limits,
            clock: materials.clock,
            store: materials.store,
            models: materials.models,
            functions: materials.functions,
            exec: materials.exec,
            asks: materials.asks,
            validators: Validators::default(),
            layers: materials.layers,
            repair: materials.repair,
            counter: materials.counter,
            shown: ShownTools::default(),
        }
    }
}

impl Wiring {
    /// Whether the embedder's resolver finds a model of this name; one that panics finds none.
    pub fn knows_model(&self, name: &str) -> bool {
        caught_now(|| self.models.resolve(name).is_some()).unwrap_or(false)
    }
}

/// The ledger, seen from outside.
pub struct ApprovalPort {
    /// Its actor.
    pub slot: Slot<ApprovalMsg>,
    /// The cards that wait for a person.
    pub open: OpenCards,
    /// The grants that hold.
    pub grants: LiveGrants,
    /// Why nothing is approved any more in this process; written by its actor.
    pub stopped: ArcSwapOption<StoreError>,
}

/// The catalog, seen from outside.
pub struct CatalogPort {
    /// Its actor.
    pub slot: Slot<CatalogMsg>,
    /// Every server's listing.
    pub places: ArcSwap<BTreeMap<ServerId, Arc<CatalogPlace>>>,
}

/// One server's listing, as readers find it.
#[derive(Debug)]
pub struct CatalogPlace {
    /// The listing.
    pub view: Arc<ListingView>,
    read_cold: AtomicBool,
}

impl CatalogPlace {
    /// A place that nobody has read yet.
    pub fn new(view: ListingView) -> Self {
        Self { view: Arc::new(view), read_cold: AtomicBool::new(false) }
    }
}

impl CatalogPort {
    /// Reads one server's listing from the snapshot; never waits. The first read of a cold one sets a flag that the
    /// catalog sees: it lists the server once, in the background.
    pub fn read(&self, server: &ServerId) -> Option<Arc<CatalogPlace>> {
        let places = self.places.load();
        let place = places.get(server)?;
        if matches!(place.view.state, ListingState::Cold) && !place.read_cold.swap(true, Ordering::Relaxed) {
            self.slot.inform(CatalogMsg::ColdRead { server: server.clone() });
        }
        Some(place.clone())
    }
}

/// The registry, seen from outside.
pub struct RegistryPort {
    /// Its actor.
    pub slot: Slot<RegistryMsg>,
    /// Every tool under its durable name.
    pub table: ArcSwap<ToolTable>,
    /// The same tools, ready to be searched; written before the table.
    pub index: ArcSwap<ToolIndex>,
    /// The listings that the table shows; written after the table.
    pub offered: watch::Sender<BTreeMap<ServerId, ListingView>>,
}

impl RegistryPort {
    /// Waits until the table shows a listing of this server that fits, and returns it.
    pub async fn offers(
        &self,
        server: &ServerId,
        fits: impl Fn(&ListingView) -> bool,
    ) -> Option<ListingView> {
        let mut offered = self.offered.subscribe();
        let found = offered.wait_for(|offered| offered.get(server).is_some_and(&fits)).await;
        // The sender lives as long as the wiring, so this only ends by finding it.
        found.ok().and_then(|offered| offered.get(server).cloned())
    }
}

/// The servers, seen from outside.
pub struct ServersPort {
    /// Their supervisor.
    pub slot: Slot<ServersMsg>,
    /// Every server.
    pub places: ArcSwap<BTreeMap<ServerId, Arc<ServerPlace>>>,
    /// Places for those that connect at the same time.
    pub connecting: Arc<Semaphore>,
    /// The records of their processes.
    pub processes: Arc<Processes>,
}

impl ServersPort {
    /// One server.
    pub fn place(&self, server: &ServerId) -> Option<Arc<ServerPlace>> {
        self.places.load().get(server).cloned()
    }
}

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
        let reach = match (definition.transport == self.definition.transport, &definition.transport) {
            (false, _) => Reach::Other,
            // The transport says all that a process is started from.
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
    pub fn view(&self, catalog: &CatalogPort) -> ServerView {
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
        view.late_answers = caught_now(|| self.connector.late_answers()).unwrap_or_default();
        view.junk_lines = caught_now(|| self.connector.junk_lines()).unwrap_or_default();
        view.late_answers = caught_now(|| self.connector.late_answers()).unwrap_or_default();
        // Not through `read`: looking at a server is no wish for its tools.
        if let Some(listing) =
            catalog.places.load().get(&self.definition.id).and_then(|p| p.view.listing.clone())
        {
            view.revision = Some(listing.revision);
            view.tools = listing.tools.len();
        }
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

/// The topics, seen from outside.
pub struct TopicsPort {
    /// Their supervisor.
    pub slot: Slot<TopicsMsg>,
    /// Every topic that is open in this process.
    pub places: ArcSwap<BTreeMap<TopicId, Arc<TopicPlace>>>,
}

impl TopicsPort {
    /// One open topic.
    pub fn place(&self, topic: &TopicId) -> Option<Arc<TopicPlace>> {
        self.places.load().get(topic).cloned()
    }
}

/// One topic over all its sessions.
#[derive(Debug)]
pub struct TopicPlace {
    /// Which.
    pub topic: TopicId,
    /// Its view and its subscribers.
    pub hub: Arc<TopicHub>,
    /// Its session's actor.
    pub slot: Slot<SessionMsg>,
    /// What it shows its model, while a turn has pinned it.
    pub surface: ArcSwapOption<pilothouse_messages::tool::SurfaceView>,
    /// Wire names of the tools that were deferred when that was pinned.
    pub deferred: ArcSwap<BTreeSet<String>>,
    /// What its model has seen the signature of.
    pub inspected: InspectedLedger,
    /// Whether the embedder wants another pin; its session looks when a turn begins.
    repin: AtomicBool,
}

impl TopicPlace {
    /// A topic without a session.
    pub fn new(topic: TopicId, limits: &Limits) -> Self {
        Self {
            slot: Slot::new(format!("session/{topic}"), SlotBounds::of(limits)),
            topic,
            hub: Arc::default(),
            surface: ArcSwapOption::empty(),
            deferred: ArcSwap::default(),
            inspected: InspectedLedger::default(),
            repin: AtomicBool::new(false),
        }
    }

    /// Takes note that the next turn is to pin its surface anew.
    pub fn ask_repin(&self) {
        self.repin.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked for since this was last called.
    pub(crate) fn take_repin(&self) -> bool {
        self.repin.swap(false, Ordering::Relaxed)
    }
}
