//! The registry actor: the single writer of the tool table and of the stored wire names.
//!
//! | Owns | Receives (what, from whom) | Asks of (whom, with what deadline) | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | every tool's wire name and the published [`ToolTable`] | `Offer` and `Withdraw` from the catalog | nobody | a name does not become durable, or the store cannot be read: a fresh one reads the names back and takes its offers from the published listings | one letter for each change of a listing |
//!
//! A name is durable before a table shows it. Only names are stored; the rest follows from the listings. A task of its own
//! makes the index of the search, in order, so that no letter waits for it.

mod journal;
mod publish;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_adapters::exec::ScriptTool;
use pilothouse_adapters::tool::Function;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::listing::ListingView;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::{
    Entry, NameRecord, RegistryCommand, RegistryError, RegistryEvent, ServerTools,
};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_rules::Decider;
use pilothouse_rules::meta::exec_definition;
use pilothouse_rules::registry::{Registry, ToolTable};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use crate::catalog::offer;
use crate::durable::{Committed, Durable, Ground, Pictured, Released, after_earlier_life, follow};
use crate::phase::Phase;
use crate::slot::{Letter, Reply};
use crate::tasks::TaskSet;
use crate::wiring::Wiring;
use journal::NamesJournal;
use publish::{Edition, publish};

/// What the actor is born with.
pub struct RegistryArgs {
    /// The runtime's wiring; the embedder's functions come from there.
    pub wiring: Arc<Wiring>,
}

/// What changes during its life.
pub struct RegistryShell {
    /// The runtime's wiring; the table of its `registry` port is written here only.
    wiring: Arc<Wiring>,
    /// Where its tasks report.
    myself: ActorRef<Letter<RegistryMsg>>,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// The names, once they are read.
    phase: Phase<Registry, NamesJournal, RegistryMsg>,
    /// What is durable, to its publisher, which is a task: one for each change of a listing.
    editions: mpsc::UnboundedSender<Edition>,
}

/// The whole mailbox.
pub enum RegistryMsg {
    /// A server's tools are these now; from the catalog.
    Offer(Box<ServerTools>),
    /// A server is gone; from the catalog.
    Withdraw {
        /// Which.
        server: ServerId,
    },
    /// Say when the stored names have been read; from the start of a runtime.
    Greet {
        /// Answered then.
        reply: Reply<()>,
    },
    /// What the actor sends itself.
    Own(Own),
}

/// What the actor sends itself.
pub struct Own(Report);

enum Report {
    Loaded(Result<Vec<NameRecord>, StoreError>),
    Committed(Committed),
}

/// The registry actor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for RegistryActor {
    type Msg = Letter<RegistryMsg>;
    type State = RegistryShell;
    type Arguments = RegistryArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: RegistryArgs,
    ) -> Result<RegistryShell, ActorProcessingErr> {
        let tasks = args.wiring.registry.slot.tasks();
        let (wiring, actor) = (args.wiring.clone(), myself.clone());
        tasks.spawn(async move {
            let loaded = async {
                let store = wiring.store.as_ref();
                after_earlier_life(&wiring.registry.slot, store).await?;
                journal::load(store).await
            };
            let loaded = loaded.await;
            // An actor that has ended needs no names.
            let _gone = actor.cast(Letter::inside(RegistryMsg::Own(Own(Report::Loaded(loaded)))));
        });
        let (editions, made) = mpsc::unbounded_channel();
        tasks.spawn(publish(args.wiring.clone(), made));
        let phase = Phase::loading();
        Ok(RegistryShell { wiring: args.wiring, myself, tasks, phase, editions })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut RegistryShell,
    ) -> Result<(), ActorProcessingErr> {
        match (letter, &mut shell.phase) {
            (Letter { body: RegistryMsg::Own(Own(Report::Loaded(loaded))), .. }, _) => {
                shell.loaded(loaded?)?
            }
            (letter, Phase::Loading(stash)) => stash.push_back(letter),
            (letter, Phase::Live(_)) => shell.take(letter.body)?,
        }
        Ok(())
    }
}

impl Pictured for Registry {
    type Picture = Arc<ToolTable>;

    fn take(&mut self, events: &[RegistryEvent]) -> Arc<ToolTable> {
        events.iter().for_each(|event| self.apply(event));
        self.table()
    }
}

impl RegistryShell {
    fn loaded(&mut self, names: Vec<NameRecord>) -> Result<(), ActorProcessingErr> {
        let mut registry = registry_of(&self.wiring.functions, self.wiring.exec.as_ref())?;
        names.into_iter().map(Registry::restore).for_each(|event| registry.apply(&event));
        let ground = Ground {
            lane: Some(self.wiring.store.lane()),
            clock: self.wiring.clock.clone(),
            within: self.wiring.limits.commit,
        };
        // Names hold no stamps.
        let durable = Durable::new(registry, NamesJournal, ground, Timestamp::default());
        let early = self.phase.begin(durable);
        self.take_published()?;
        early.into_iter().try_for_each(|letter| self.take(letter.body))?;
        Ok(())
    }

    /// What the catalog offered to the one before, or before this one was there.
    fn take_published(&mut self) -> Result<(), StoreError> {
        for (server, listed) in self.wiring.catalog.places.load_full().iter() {
            if let Some(place) = self.wiring.servers.place(server) {
                let tools = offer(&place.definition, ListingView::clone(&listed.view));
                self.commit(&RegistryCommand::Offer(Box::new(tools)))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, message: RegistryMsg) -> Result<(), StoreError> {
        match message {
            RegistryMsg::Offer(tools) => self.commit(&RegistryCommand::Offer(tools)),
            RegistryMsg::Withdraw { server } => self.commit(&RegistryCommand::Withdraw { server }),
            RegistryMsg::Greet { reply } => {
                reply.send(Ok(()));
                Ok(())
            }
            RegistryMsg::Own(Own(Report::Committed(committed))) => self.committed(committed),
            // The names are read once in a life.
            RegistryMsg::Own(Own(Report::Loaded(_))) => Ok(()),
        }
    }

    fn committed(&mut self, committed: Committed) -> Result<(), StoreError> {
        let released = self.phase.acknowledged(committed)?;
        self.perform(released);
        Ok(())
    }

    fn commit(&mut self, command: &RegistryCommand) -> Result<(), StoreError> {
        let Phase::Live(registry) = &mut self.phase else { return Ok(()) };
        let step = registry.commit(command, None)?;
        let report = |committed| RegistryMsg::Own(Own(Report::Committed(committed)));
        let released = follow(step, &self.tasks, &self.myself, report);
        self.perform(released);
        Ok(())
    }

    fn perform(&self, released: Vec<Released<Registry>>) {
        for Released { reply: _, picture, directives } in released {
            // What may be called is seen at once; what a search finds follows.
            if let Some(table) = &picture {
                self.wiring.registry.table.store(table.clone());
            }
            // Its publisher lives as long as this life's tasks.
            let _over = self.editions.send(Edition { table: picture, directives });
        }
    }
}

/// The namespace of the tools about tools.
const META: &str = "meta";

/// The registry before any server has offered anything.
///
/// # Errors
/// As [`Registry::new`].
pub fn registry_of(
    functions: &BTreeMap<String, Function>,
    exec: Option<&ScriptTool>,
) -> Result<Registry, RegistryError> {
    let registry = Registry::new(builtins(functions))?;
    Ok(match exec {
        Some(exec) => registry.with_meta(MetaTool::Exec, exec_entry(exec)),
        None => registry,
    })
}

/// It executes, so a script whose end nobody knows is not run again.
fn exec_entry(exec: &ScriptTool) -> Entry {
    let name = MetaTool::Exec.name();
    let owner = Digest::of_parts("pilothouse/function/1", &[name.as_bytes()]);
    let source = ToolSource::Builtin { name: name.to_owned() };
    let mut entry = Entry::new(name.to_owned(), source, Arc::new(exec_definition()), owner);
    entry.effect = Effect::Executes;
    entry.namespace = META.to_owned();
    entry.applies.clone_from(&exec.applies);
    entry
}

/// The registry's entries of the embedder's functions.
fn builtins(functions: &BTreeMap<String, Function>) -> Vec<Entry> {
    functions.iter().map(|(name, function)| builtin(name, function)).collect()
}

fn builtin(name: &str, function: &Function) -> Entry {
    let source = ToolSource::Builtin { name: name.to_owned() };
    let owner = Digest::of_parts("pilothouse/function/1", &[name.as_bytes()]);
    let mut entry = Entry::new(name.to_owned(), source, Arc::new(function.definition.clone()), owner);
    entry.effect = function.effect;
    entry.force_prompt = function.force_prompt;
    entry.interruptible = function.interruptible;
    entry.namespace.clone_from(&function.namespace);
    entry.defer = function.defer;
    entry.applies.clone_from(&function.applies);
    entry
}
