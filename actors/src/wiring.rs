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
use pilothouse_adapters::server::Connector;
use pilothouse_adapters::store::Store;
use pilothouse_adapters::tool::Function;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{ServerId, TopicId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::{ListingState, ListingView};
use pilothouse_messages::server::ServerDefinition;
use pilothouse_rules::arguments::Validators;
use pilothouse_rules::history::HistoryPolicy;
use pilothouse_rules::registry::ToolTable;
use pilothouse_rules::search::ToolIndex;
use pilothouse_rules::surface::ShownTools;
use pilothouse_rules::tokens::TokenCounter;
use tokio::sync::{Semaphore, watch};

use crate::approval::{ApprovalMsg, LiveGrants, OpenCards, OpenQuestions};
use crate::aside::Asides;
use crate::asking::InspectedLedger;
use crate::bus::EventBus;
use crate::catalog::CatalogMsg;
use crate::gate::Layers;
use crate::heavy::Heavy;
use crate::hub::TopicHub;
use crate::processes::Processes;
use crate::protocol::Protocols;
use crate::registry::RegistryMsg;
use crate::servers::ServersMsg;
use crate::session::SessionMsg;
use crate::slot::{Slot, SlotBounds};
use crate::tasks::caught_now;
use crate::topics::TopicsMsg;
mod place;
mod topics;

pub use place::{Ready, ServerPlace};
pub use topics::{Retired, TopicPlaces};

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
    /// Which part of a conversation a model is given.
    pub history: Arc<dyn HistoryPolicy>,
    /// The servers, with how each is reached.
    pub servers: Vec<(ServerDefinition, Arc<dyn Connector>)>,
    /// Where heavy work is done.
    pub heavy: Heavy,
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
    /// Which part of a conversation a model is given.
    pub history: Arc<dyn HistoryPolicy>,
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
    /// Whole results that were cut for the model.
    pub asides: Asides,
    /// Where heavy work is done.
    pub heavy: Heavy,
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
                questions: OpenQuestions::default(),
                stopped: ArcSwapOption::empty(),
            },
            catalog: CatalogPort { slot: Slot::new("catalog", bounds), places: ArcSwap::default() },
            registry: RegistryPort {
                slot: Slot::new("registry", bounds),
                index: ArcSwap::from_pointee(ToolIndex::new(&materials.table)),
                table: ArcSwap::new(materials.table),
                offered: watch::Sender::default(),
                warnings: ArcSwap::default(),
            },
            servers: ServersPort {
                slot: Slot::new("servers", bounds),
                places: ArcSwap::from_pointee(places),
                connecting: Arc::new(Semaphore::new(limits.connects_at_once.max(1))),
                waiting: watch::Sender::default(),
                processes: Arc::new(Processes::new(materials.store.clone(), limits.commit)),
                protocols: Arc::new(Protocols::new(materials.store.clone(), limits.commit)),
            },
            asides: Asides::new(materials.store.clone(), limits.clone()),
            topics: TopicsPort { slot: Slot::new("topics", bounds), places: TopicPlaces::default() },
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
            history: materials.history,
            shown: ShownTools::default(),
            heavy: materials.heavy,
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
    /// What servers ask, and who waits for the answers.
    pub questions: OpenQuestions,
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
    /// The same tools, ready to be searched; written after the table, and before `offered`.
    pub index: ArcSwap<ToolIndex>,
    /// The listings that the table shows; written after the table.
    pub offered: watch::Sender<BTreeMap<ServerId, ListingView>>,
    /// What an embedder should look at about what each server offers; written last.
    pub warnings: ArcSwap<BTreeMap<ServerId, Vec<String>>>,
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
    /// How many wait for such a place.
    pub waiting: watch::Sender<usize>,
    /// The records of their processes.
    pub processes: Arc<Processes>,
    /// The records of what they spoke.
    pub protocols: Arc<Protocols>,
}

impl ServersPort {
    /// One server.
    pub fn place(&self, server: &ServerId) -> Option<Arc<ServerPlace>> {
        self.places.load().get(server).cloned()
    }
}

/// The topics, seen from outside.
pub struct TopicsPort {
    /// Their supervisor.
    pub slot: Slot<TopicsMsg>,
    /// Every topic that is open in this process.
    pub places: TopicPlaces,
}

impl TopicsPort {
    /// One open topic.
    pub fn place(&self, topic: &TopicId) -> Option<Arc<TopicPlace>> {
        self.places.get(topic)
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
    /// Whether its session has recorded that it sleeps, and has heard nothing since.
    rests: AtomicBool,
}

impl TopicPlace {
    /// A topic without a session.
    pub fn new(topic: TopicId, wiring: &Arc<Wiring>) -> Self {
        let slot = Slot::new(format!("session/{topic}"), SlotBounds::of(&wiring.limits));
        // The wiring holds the place.
        let (wiring, wanted) = (Arc::downgrade(wiring), topic.clone());
        let wake = move || {
            if let Some(wiring) = wiring.upgrade() {
                wiring.topics.slot.inform(TopicsMsg::Wake { topic: wanted.clone() });
            }
        };
        Self {
            slot: slot.that_wakes_by(wake),
            topic,
            hub: Arc::default(),
            surface: ArcSwapOption::empty(),
            deferred: ArcSwap::default(),
            inspected: InspectedLedger::default(),
            repin: AtomicBool::new(false),
            rests: AtomicBool::new(false),
        }
    }

    /// Whether its session has recorded that it sleeps, and has heard nothing since.
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::SeqCst)
    }

    /// Takes note of that; from its session only.
    pub(crate) fn set_rests(&self, rests: bool) {
        self.rests.store(rests, Ordering::SeqCst);
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
