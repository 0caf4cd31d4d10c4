//! Builds a runtime: everything is checked at once, then started in order.

#[cfg(feature = "mcp")]
mod config;
mod keep;
mod server;

use std::collections::BTreeMap;
#[cfg(feature = "sled")]
use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_actors::catalog::CatalogMsg;
use pilothouse_actors::gate::Layers;
use pilothouse_actors::heavy::Heavy;
use pilothouse_actors::people::People;
use pilothouse_actors::registry::{RegistryMsg, registry_of};
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::{Materials, Wiring};
use pilothouse_adapters::asks::Asks;
use pilothouse_adapters::clock::{Clock, SystemClock};
#[cfg(feature = "exec")]
use pilothouse_adapters::exec::{ExecOptions, quickjs::QuickJs};
use pilothouse_adapters::gate::{Classifier, DecidePolicy, DenyRule, Guard};
use pilothouse_adapters::knowledge::{self, KnowledgeBase};
use pilothouse_adapters::model::{Model, ModelResolver};
use pilothouse_adapters::policy::{AllowAll, ServerPolicy};
use pilothouse_adapters::repair::ArgumentRepair;
use pilothouse_adapters::store::pages::each_pair;
use pilothouse_adapters::store::sealed::Sealer;
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_adapters::tool::Function;
use pilothouse_adapters::web::Web;
use pilothouse_messages::error::{AskError, StartError};
use pilothouse_messages::id::{ServerId, TopicId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::PermissionMode;
use pilothouse_rules::history::{HistoryPolicy, NewestTurns};
use pilothouse_rules::tokens::{Bytes4, TokenCounter};
use ractor::Actor;
use tokio::sync::watch;

use crate::inner::{Inner, Life};
use crate::root::{RootActor, RootArgs};
use crate::runtime::Runtime;
use crate::stop::in_turn;
#[cfg(feature = "mcp")]
pub use config::{ConfigError, ConfigNote, ConfigOptions, ImportedServers, OnMistake, servers_from_json};
use keep::{Keep, open};
pub use server::Server;

/// A runtime that is being put together.
#[derive(Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    keep: Keep,
    sealer: Option<Arc<dyn Sealer>>,
    servers: Vec<Server>,
    functions: Vec<Function>,
    models: BTreeMap<String, Arc<dyn Model>>,
    resolver: Option<Arc<dyn ModelResolver>>,
    asks: Option<Arc<dyn Asks>>,
    limits: Limits,
    clock: Option<Arc<dyn Clock>>,
    seed: u64,
    policy: Option<Arc<dyn ServerPolicy>>,
    layers: Layers,
    repair: Option<Arc<dyn ArgumentRepair>>,
    counter: Option<Arc<dyn TokenCounter>>,
    history: Option<Arc<dyn HistoryPolicy>>,
    max_mode: Option<PermissionMode>,
    heavy: Heavy,
    #[cfg(feature = "exec")]
    exec: Option<ExecOptions>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

struct NamedModels(BTreeMap<String, Arc<dyn Model>>, Option<Arc<dyn ModelResolver>>);

impl ModelResolver for NamedModels {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.0.get(name).cloned().or_else(|| self.1.as_ref()?.resolve(name))
    }
}

impl Builder {
    /// Keeps topics, approvals and listings in this directory (made if need be; one process at a time). Without it, and
    /// without [`store`](Self::store), everything is kept in memory and gone with the runtime.
    #[cfg(feature = "sled")]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.keep = Keep::Directory(directory.into());
        self
    }

    /// Has this encrypt every value before it is stored, whatever the store. Keys stay readable: ids of topics and servers,
    /// and the order of records. A store that was made with a sealer opens with it only, and one without only without.
    pub fn sealer(mut self, sealer: Arc<dyn Sealer>) -> Self {
        self.sealer = Some(sealer);
        self
    }

    /// Keeps everything in this store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.keep = Keep::Store(store);
        self
    }

    /// Adds a server.
    pub fn server(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// Adds a function of the embedder that models may call. The last one of a name wins.
    pub fn function(mut self, function: Function) -> Self {
        self.functions.push(function);
        self
    }

    /// Lends models the web: `web_search` and `web_fetch`, as far as something is behind them.
    pub fn web(mut self, web: Web) -> Self {
        self.functions.extend(web.functions());
        self
    }

    /// Lends models a knowledge base: `kb_list` and `kb_search`.
    pub fn knowledge(mut self, knowledge: impl KnowledgeBase) -> Self {
        self.functions.extend(knowledge::functions(Arc::new(knowledge)));
        self
    }

    /// Adds a model under the name that topics' configurations use.
    pub fn model(mut self, name: impl Into<String>, model: impl Model) -> Self {
        self.models.insert(name.into(), Arc::new(model));
        self
    }

    /// Finds models that were not added by name.
    pub fn models(mut self, resolver: impl ModelResolver) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Answers what servers ask: roots, sampling, elicitation. Only what it answers is declared to them. Without it forms
    /// and pages of a topic's calls become questions for people ([`Runtime::questions`], [`Runtime::answer`]) unless the
    /// topic is headless, and everything else is politely refused.
    pub fn asks(mut self, asks: impl Asks) -> Self {
        self.asks = Some(Arc::new(asks));
        self
    }

    /// Sets every bound.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Allows topics no mode that lets more run than this one.
    pub fn max_mode(mut self, mode: PermissionMode) -> Self {
        self.max_mode = Some(mode);
        self
    }

    /// Adds a rule about what never runs; several all count.
    pub fn deny(mut self, rule: impl DenyRule) -> Self {
        self.layers.deny.push(Arc::new(rule));
        self
    }

    /// Adds a guard, which looks at the arguments of every call in every mode; several all count.
    pub fn guard(mut self, guard: impl Guard) -> Self {
        self.layers.guards.push(Arc::new(guard));
        self
    }

    /// Says in the mode `Auto` whether a call runs. Without one a person is asked.
    pub fn classifier(mut self, classifier: impl Classifier) -> Self {
        self.layers.classifier = Some(Arc::new(classifier));
        self
    }

    /// Mends arguments that a tool would refuse, in one round of at most 10 s; off without it. What it gives has to be
    /// what the tool's schema asks for, and passes the gate.
    pub fn argument_repair(mut self, repair: impl ArgumentRepair) -> Self {
        self.repair = Some(Arc::new(repair));
        self
    }

    /// Says who may decide a card. Without one everybody may who does not speak for another tenant.
    pub fn decide_policy(mut self, policy: impl DecidePolicy) -> Self {
        self.layers.decide = Some(Arc::new(policy));
        self
    }

    /// Reckons what tools cost a model by this counter instead of [`Bytes4`]; decides which tools are shown. One that
    /// panics is replaced by the default.
    pub fn token_counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.counter = Some(Arc::new(counter));
        self
    }

    /// Chooses what a model is given of a long conversation. Without one, and where one panics, it is the newest turns
    /// that fit, whole ([`NewestTurns`]).
    pub fn history_policy(mut self, policy: impl HistoryPolicy) -> Self {
        self.history = Some(Arc::new(policy));
        self
    }

    /// Switches `tool_exec` on: models may run small JavaScript programs that call tools, each of them past the gate. Its
    /// bounds are [`Limits::exec`]. It is defence in depth, not a security boundary: the engine runs in this process.
    #[cfg(feature = "exec")]
    pub fn exec(mut self, options: ExecOptions) -> Self {
        self.exec = Some(options);
        self
    }

    /// Tells the time by this clock instead of the system's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Seeds the jitter of restart delays. Give each process another one, or its servers are tried in step with those
    /// of its siblings.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Asks this policy before every start of a server's process, and before every connection to a server's host, also
    /// after a redirect. Without it everything is allowed. Servers with a connector of the embedder's own are not asked
    /// about.
    pub fn server_policy(mut self, policy: impl ServerPolicy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Does heavy work (reading tools and schemas) in turn with everything else instead of on threads of its own, so that
    /// nothing depends on how fast those are: for tests in virtual time that are to be the same each time.
    #[cfg(feature = "testing")]
    pub fn heavy_work_in_turn(mut self) -> Self {
        self.heavy = Heavy::InTurn;
        self
    }

    /// Checks everything, opens the store and starts the tree. Servers connect in the background: a dead one does not
    /// delay the start.
    ///
    /// # Errors
    /// Everything that is wrong, at once ([`StartError::Several`] if it is more than one thing); nothing was started.
    pub async fn start(self) -> Result<Runtime, StartError> {
        let tokio = tokio::runtime::Handle::try_current().map_err(|_none| StartError::NoTokio)?;
        let mut limits = self.limits.clamped();
        limits.max_mode = self.max_mode.unwrap_or(limits.max_mode);
        let mut wrong = Vec::new();
        let policy = self.policy.unwrap_or_else(|| Arc::new(AllowAll));
        let servers = checked_servers(self.servers, &limits, &policy, &mut wrong);
        let functions: BTreeMap<_, _> =
            self.functions.into_iter().map(|function| (function.definition.name.clone(), function)).collect();
        #[cfg(feature = "exec")]
        let exec = self.exec.map(|options| options.with_engine(QuickJs::new(limits.exec.clone())));
        #[cfg(not(feature = "exec"))]
        let exec = None::<pilothouse_adapters::exec::ScriptTool>;
        let table = match registry_of(&functions, exec.as_ref()) {
            Ok(registry) => registry.table(),
            Err(error) => {
                wrong.push(error.into());
                Arc::default()
            }
        };
        let store = match (open(self.keep, self.sealer, limits.commit).await, wrong.is_empty()) {
            (Ok(store), true) => store,
            (opened, _) => {
                match opened {
                    Ok(store) => store.leave().await,
                    Err(error) => wrong.push(error.into()),
                }
                return Err(StartError::of(wrong));
            }
        };
        let asks = self.asks;
        let wiring = Arc::new_cyclic(|weak| {
            Wiring::new(Materials {
                limits,
                clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
                store: store.into_inner(),
                models: Arc::new(NamedModels(self.models, self.resolver)),
                functions,
                exec,
                table,
                asks: Some(asks.unwrap_or_else(|| Arc::new(People::of(weak.clone())))),
                layers: self.layers,
                repair: self.repair,
                counter: self.counter.unwrap_or_else(|| Arc::new(Bytes4)),
                history: self.history.unwrap_or_else(|| Arc::new(NewestTurns)),
                servers,
                heavy: self.heavy,
            })
        });
        let root = RootArgs { wiring: wiring.clone(), seed: self.seed };
        let (root, _join) = Actor::spawn(None, RootActor, root)
            .await
            .map_err(|error| StartError::Actor { actor: "root".to_owned(), reason: error.to_string() })?;
        let life = watch::Sender::new(Life::Running);
        let runtime = Runtime(Arc::new(Inner { wiring: wiring.clone(), root, tokio, life, policy }));
        if let Err((actor, error)) = read_back(&wiring).await {
            // What could not be read is left as it is.
            let _forced = runtime.shutdown().await;
            return Err(match error {
                AskError::Store(error) | AskError::Unconfirmed(error) => StartError::Store(error),
                error => StartError::Actor { actor: actor.to_owned(), reason: error.to_string() },
            });
        }
        wiring.topics.slot.tasks().spawn(wake_open_topics(wiring.clone()));
        Ok(runtime)
    }
}

/// Waits until everything stored has been read back: a runtime that has started shows its cards and its listings.
async fn read_back(wiring: &Wiring) -> Result<(), (&'static str, AskError)> {
    let within = wiring.limits.read_back;
    let (approval, catalog, registry) = (&wiring.approval.slot, &wiring.catalog.slot, &wiring.registry.slot);
    // A rejection would be an answer, too.
    let _told = approval.ask_within(within, in_turn).await.map_err(|error| ("approval", error))?;
    let greeted = catalog.ask_within(within, |reply| CatalogMsg::Greet { reply }).await;
    greeted.map_err(|error| ("catalog", error))?;
    let greeted = registry.ask_within(within, |reply| RegistryMsg::Greet { reply }).await;
    greeted.map_err(|error| ("registry", error))
}

fn checked_servers(
    servers: Vec<Server>,
    limits: &Limits,
    policy: &Arc<dyn ServerPolicy>,
    wrong: &mut Vec<StartError>,
) -> Vec<server::Reachable> {
    let mut checked: BTreeMap<ServerId, server::Reachable> = BTreeMap::new();
    for server in servers {
        match server.checked(limits, policy) {
            Ok((definition, connector)) => {
                let server = definition.id.clone();
                if checked.insert(server.clone(), (definition, connector)).is_some() {
                    wrong.push(StartError::DuplicateServer { server });
                }
            }
            Err(error) => wrong.push(error),
        }
    }
    checked.into_values().collect()
}

/// Topics with an open turn, card or queue are all that a start reads; each recovers by itself, in the background.
async fn wake_open_topics(wiring: Arc<Wiring>) {
    let mut topics = Vec::new();
    let read = each_pair(wiring.store.as_ref(), Keyspace::Open, &[], |(_key, topic)| {
        match TopicId::new(String::from_utf8_lossy(&topic)) {
            Ok(topic) => topics.push(topic),
            Err(error) => tracing::error!(target: "pilothouse", %error, "a mark of an open topic names none"),
        }
        Ok(())
    });
    if let Err(error) = read.await {
        tracing::error!(target: "pilothouse", %error, "the list of open topics could not be read");
    }
    for topic in topics {
        let name = topic.clone();
        if let Err(error) = wiring.topics.slot.ask(|reply| TopicsMsg::Open { topic, reply }).await {
            tracing::warn!(target: "pilothouse", topic = %name, %error, "an open topic was not woken");
        }
    }
}
