//! A server that does as a test says, and a house with everything that has to do with servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_actors::call::{self, CallOrder, WhenFull};
use pilothouse_actors::catalog::{CatalogActor, CatalogArgs, CatalogMsg};
use pilothouse_actors::registry::{RegistryActor, RegistryArgs};
use pilothouse_actors::slot::{Letter, Slot};
use pilothouse_actors::wiring::{Materials, Ready, ServerPlace, Wiring};
use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::clock::TokioClock;
use pilothouse_adapters::server::{
    CallAnswer, CallRequest, Connection, Connector, Notice, Notices, Page, Terms,
};
use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::tool::Function;
use pilothouse_messages::call::CallResult;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::ListingView;
use pilothouse_messages::server::{ServerDefinition, ServerState, Transport};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{ResolvedTool, RunBasis};
use ractor::{Actor, ActorRef};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ServersActor, ServersArgs};

/// How a toy answers, whatever it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// At once.
    Yes,
    /// Never.
    Never,
    /// With an error, at once.
    No,
    /// By a panic.
    Panics,
}

/// A server. A clone is the same one.
#[derive(Clone)]
pub(super) struct Toy(Arc<Inner>);

struct Inner {
    connect: watch::Sender<Answers>,
    list: watch::Sender<Answers>,
    call: watch::Sender<Answers>,
    close: watch::Sender<Answers>,
    probe: watch::Sender<Answers>,
    probes: AtomicUsize,
    ttl: Mutex<Option<Duration>>,
    tools: Mutex<Vec<Value>>,
    notices: Mutex<Option<Notices>>,
    current: Mutex<CancellationToken>,
    connects: AtomicUsize,
    listings: AtomicUsize,
    calls: AtomicUsize,
    kills: AtomicUsize,
    last_meta: Mutex<Map<String, Value>>,
}

impl Toy {
    /// A server that answers at once and offers one tool.
    pub(super) fn new() -> Self {
        let answers = || watch::Sender::new(Answers::Yes);
        Self(Arc::new(Inner {
            connect: answers(),
            list: answers(),
            call: answers(),
            close: answers(),
            probe: answers(),
            probes: AtomicUsize::new(0),
            ttl: Mutex::default(),
            tools: Mutex::new(vec![tool("adds")]),
            notices: Mutex::default(),
            current: Mutex::default(),
            connects: AtomicUsize::new(0),
            listings: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            kills: AtomicUsize::new(0),
            last_meta: Mutex::default(),
        }))
    }

    pub(super) fn connect(self, answers: Answers) -> Self {
        self.0.connect.send_replace(answers);
        self
    }

    pub(super) fn list(self, answers: Answers) -> Self {
        self.0.list.send_replace(answers);
        self
    }

    pub(super) fn call(self, answers: Answers) -> Self {
        self.0.call.send_replace(answers);
        self
    }

    pub(super) fn close(self, answers: Answers) -> Self {
        self.0.close.send_replace(answers);
        self
    }

    pub(super) fn probe(self, answers: Answers) -> Self {
        self.0.probe.send_replace(answers);
        self
    }

    /// How often it was asked whether it lives.
    pub(super) fn probes(&self) -> usize {
        self.0.probes.load(Ordering::SeqCst)
    }

    /// Says from now on that its list stays fresh for this long.
    pub(super) fn fresh_for(&self, ttl: Duration) {
        *lock(&self.0.ttl) = Some(ttl);
    }

    /// Offers one tool with this description.
    pub(super) fn offer(&self, description: &str) {
        *lock(&self.0.tools) = vec![tool(description)];
    }

    /// Says that its tools changed.
    pub(super) fn notify(&self) {
        if let Some(notices) = &*lock(&self.0.notices) {
            let _full = notices.try_send(Notice::ToolsChanged);
        }
    }

    /// Ends the connection that it has.
    pub(super) fn die(&self) {
        lock(&self.0.current).cancel();
    }

    /// Connects, listings, calls and kills so far.
    pub(super) fn counts(&self) -> [usize; 4] {
        let Inner { connects, listings, calls, kills, .. } = &*self.0;
        [connects, listings, calls, kills].map(|count| count.load(Ordering::SeqCst))
    }

    pub(super) fn last_meta(&self) -> Value {
        Value::Object(lock(&self.0.last_meta).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tool(description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    json!({"name": "add", "description": description, "inputSchema": schema})
}

/// Waits until the toy may answer; `Err` if it is to say no.
async fn answer(mut how: watch::Receiver<Answers>) -> Result<(), String> {
    let how = how.wait_for(|how| *how != Answers::Never).await.map(|how| *how);
    match how {
        Ok(Answers::Yes) => Ok(()),
        Ok(Answers::Panics) => panic!("the toy breaks"),
        Ok(Answers::No | Answers::Never) | Err(_) => Err("the toy says no".to_owned()),
    }
}

impl Connector for Toy {
    fn connect(&self, terms: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            self.0.connects.fetch_add(1, Ordering::SeqCst);
            answer(self.0.connect.subscribe()).await.map_err(|reason| ConnectError::Handshake { reason })?;
            let ended = CancellationToken::new();
            *lock(&self.0.notices) = Some(terms.notices);
            *lock(&self.0.current) = ended.clone();
            let connection: Arc<dyn Connection> = Arc::new(ToyConnection { toy: self.clone(), ended });
            Ok(connection)
        })
    }

    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }
}

struct ToyConnection {
    toy: Toy,
    ended: CancellationToken,
}

impl ToyConnection {
    async fn unless_ended<T>(&self, doing: impl Future<Output = T>) -> Result<T, RequestError> {
        let ended = || RequestError::Ended { reason: "the toy died".to_owned() };
        self.ended.run_until_cancelled(doing).await.ok_or_else(ended)
    }
}

impl Connection for ToyConnection {
    fn protocol(&self) -> String {
        "toy".to_owned()
    }

    fn list_page(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Page, RequestError>> {
        Box::pin(async {
            self.toy.0.listings.fetch_add(1, Ordering::SeqCst);
            let answer = self.unless_ended(answer(self.toy.0.list.subscribe())).await?;
            answer.map_err(|message| RequestError::Server { code: -32603, message })?;
            Ok(Page {
                tools: lock(&self.toy.0.tools).clone(),
                ttl: *lock(&self.toy.0.ttl),
                ..Page::default()
            })
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async {
            self.toy.0.probes.fetch_add(1, Ordering::SeqCst);
            let answer = self.unless_ended(answer(self.toy.0.probe.subscribe())).await?;
            answer.map_err(|message| RequestError::Server { code: -32601, message })
        })
    }

    fn call(&self, request: CallRequest) -> BoxFuture<'_, Result<CallAnswer, RequestError>> {
        Box::pin(async move {
            self.toy.0.calls.fetch_add(1, Ordering::SeqCst);
            *lock(&self.toy.0.last_meta) = request.meta;
            let answer = self.unless_ended(answer(self.toy.0.call.subscribe())).await?;
            answer.map_err(|message| RequestError::Server { code: -32602, message })?;
            Ok(CallAnswer::Done(pilothouse_adapters::tool::result_of(Ok("3".to_owned()))))
        })
    }

    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            self.ended.cancelled().await;
            "the toy died".to_owned()
        })
    }

    fn close(&self, _grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if answer(self.toy.0.close.subscribe()).await.is_ok() {
                self.ended.cancel();
            }
        })
    }

    fn kill(&self) {
        if !self.ended.is_cancelled() {
            self.toy.0.kills.fetch_add(1, Ordering::SeqCst);
        }
        self.ended.cancel();
    }
}

/// What a house is built of.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) store: MemoryStore,
    pub(super) limits: Limits,
    pub(super) functions: Vec<Function>,
    /// What all servers are called; their ids if nothing.
    pub(super) name: Option<&'static str>,
    /// Part of all servers' definitions.
    pub(super) label: &'static str,
    /// When all servers are stopped for want of use.
    pub(super) idle_stop: Option<Duration>,
}

/// A catalog, a registry and servers.
pub(super) struct House {
    pub(super) wiring: Arc<Wiring>,
    pub(super) store: MemoryStore,
    others: [ractor::ActorCell; 2],
}

impl House {
    pub(super) async fn open(servers: &[(&str, &Toy)]) -> Self {
        Self::of(Plan::default(), servers).await
    }

    pub(super) async fn of(plan: Plan, servers: &[(&str, &Toy)]) -> Self {
        let Plan { store, limits, functions, name, label, idle_stop } = plan;
        let server = |(id, toy): &(&str, &Toy)| {
            let transport = Transport::InMemory { label: label.to_owned() };
            let mut definition = ServerDefinition::new(server_id(id), transport);
            definition.name = name.unwrap_or(id).to_owned();
            definition.idle_stop = idle_stop;
            let connector: Arc<dyn Connector> = Arc::new(Toy::clone(toy));
            (definition, connector)
        };
        let named = |function: Function| (function.definition.name.clone(), function);
        let wiring = Arc::new(Wiring::new(Materials {
            layers: Default::default(),
            repair: None,
            counter: Arc::new(pilothouse_rules::tokens::Bytes4),
            history: Arc::new(pilothouse_rules::history::NewestTurns),
            exec: None,
            limits,
            clock: Arc::new(TokioClock::starting_at(Timestamp(1_000_000))),
            store: Arc::new(store.clone()),
            models: Arc::new(|_name: &str| None),
            functions: functions.into_iter().map(named).collect(),
            table: Arc::default(),
            asks: None,
            servers: servers.iter().map(server).collect(),
            heavy: Default::default(),
        }));
        let catalog = start(&wiring.catalog.slot, CatalogActor, CatalogArgs { wiring: wiring.clone() }).await;
        let registry =
            start(&wiring.registry.slot, RegistryActor, RegistryArgs { wiring: wiring.clone() }).await;
        let house = Self { wiring, store, others: [catalog.get_cell(), registry.get_cell()] };
        house.start_servers().await;
        house
    }

    pub(super) async fn start_servers(&self) {
        let args = ServersArgs { wiring: self.wiring.clone(), seed: 7 };
        start(&self.wiring.servers.slot, ServersActor, args).await;
    }

    /// Ends the catalog and starts a fresh one, as the root does.
    pub(super) async fn restart_catalog(&self) {
        let slot = &self.wiring.catalog.slot;
        end(slot).await;
        start(slot, CatalogActor, CatalogArgs { wiring: self.wiring.clone() }).await;
    }

    /// Ends the registry and starts a fresh one, as the root does.
    pub(super) async fn restart_registry(&self) {
        let slot = &self.wiring.registry.slot;
        end(slot).await;
        start(slot, RegistryActor, RegistryArgs { wiring: self.wiring.clone() }).await;
    }

    pub(super) fn place(&self, server: &str) -> Arc<ServerPlace> {
        self.wiring.servers.place(&server_id(server)).expect("a server of this house")
    }

    pub(super) fn state(&self, server: &str) -> ServerState {
        self.place(server).phase.borrow().state
    }

    pub(super) fn listing(&self, server: &str) -> Option<ListingView> {
        self.wiring.catalog.places.load().get(&server_id(server)).map(|place| ListingView::clone(&place.view))
    }

    /// Waits for a state of the server; says how long that took.
    pub(super) async fn until(&self, server: &str, state: ServerState) -> Duration {
        self.until_true(&format!("{server} is {state:?}"), || self.state(server) == state).await
    }

    /// Waits until the server's tools can be called.
    pub(super) async fn until_confirmed(&self, server: &str) -> Arc<Ready> {
        let confirmed = || {
            let ready = self.place(server).ready.borrow().clone();
            ready.filter(|ready| ready.confirmed.borrow().is_some())
        };
        self.until_true("the tools are confirmed", || confirmed().is_some()).await;
        let table = || self.wiring.registry.table.load().by_source(&server_id(server), "add").is_some();
        self.until_true("the registry has the tool", table).await;
        confirmed().expect("it was there just now")
    }

    pub(super) async fn until_true(&self, what: &str, is_true: impl Fn() -> bool) -> Duration {
        let began = Instant::now();
        let wait = async {
            while !is_true() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(120), wait).await.unwrap_or_else(|_| panic!("never came: {what}"));
        began.elapsed()
    }

    pub(super) async fn refresh(&self, server: &str) -> Result<Revision, String> {
        let message = |reply| CatalogMsg::Refresh { server: server_id(server), reply };
        let asked = self.wiring.catalog.slot.ask_within(Duration::from_secs(600), message).await;
        asked.expect("the catalog answers")
    }

    /// The tool as the registry has it now.
    pub(super) fn order(&self, server: &str) -> CallOrder {
        let table = self.wiring.registry.table.load();
        let entry = table.by_source(&server_id(server), "add").expect("a tool of this house");
        order(ResolvedTool {
            name: entry.name.clone(),
            source: entry.source.clone(),
            label: entry.label.clone(),
            title: None,
            effect: entry.effect,
            force_prompt: entry.force_prompt,
            interruptible: false,
            fingerprint: entry.fingerprint,
            definition: entry.owner,
        })
    }

    /// The function as it was given.
    pub(super) fn function(&self, name: &str) -> CallOrder {
        let function = self.wiring.functions.get(name).expect("a function of this house");
        order(ResolvedTool {
            name: name.to_owned(),
            source: ToolSource::Builtin { name: name.to_owned() },
            label: name.to_owned(),
            title: None,
            effect: Effect::Unknown,
            force_prompt: false,
            interruptible: false,
            fingerprint: function.definition.fingerprint(),
            definition: Digest([0; 32]),
        })
    }

    /// Runs a call in a task of its own.
    pub(super) fn call(&self, order: CallOrder) -> tokio::task::JoinHandle<CallResult> {
        let wiring = self.wiring.clone();
        tokio::spawn(async move { call::run(&wiring, order, || {}).await })
    }

    /// Ends everything, politely or not.
    pub(super) async fn leave(self) -> MemoryStore {
        if let Some(servers) = self.wiring.servers.slot.current() {
            servers.kill();
        }
        for actor in self.others {
            actor.stop(None);
        }
        sleep(Duration::from_millis(10)).await;
        self.store
    }
}

async fn start<A, M>(slot: &Slot<M>, actor: A, args: A::Arguments) -> ActorRef<Letter<M>>
where
    A: Actor<Msg = Letter<M>>,
    M: Send + 'static,
{
    let (actor, _join) = Actor::spawn(None, actor, args).await.expect("an actor starts");
    slot.fill(actor.clone());
    actor
}

async fn end<M: Send + 'static>(slot: &Slot<M>) {
    let old = slot.current().expect("an actor");
    old.kill();
    old.wait(None).await.expect("it ends");
    slot.vacate(Some("killed".to_owned())).end(Duration::from_secs(1)).await;
}

fn order(tool: ResolvedTool) -> CallOrder {
    CallOrder {
        basis: RunBasis::Mode,
        receipt: None,
        tool,
        arguments: JsonText::from(&json!({"a": 1, "b": 2})),
        topic: None,
        call: None,
        config: None,
        idempotency_key: None,
        when_full: WhenFull::Wait,
        cancel: CancellationToken::new(),
        nested: None,
    }
}

pub(super) fn server_id(id: &str) -> ServerId {
    ServerId::new(id).expect("an id")
}
