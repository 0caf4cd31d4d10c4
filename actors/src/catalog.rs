//! The catalog actor: the single writer of tool listings.
//!
//! | Owns | Receives (what, from whom) | Asks of (whom, with what deadline) | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | every server's listing and its published [`CatalogPlace`] | `Command` from connections, `Refresh` from handles, `ColdRead` from readers | a server's pages: the connect deadline while it connects, then `listing` | a record does not become durable, or the store cannot be read: a fresh one reads the listings back and lists what is connected | 256 letters; 256 waiters a server; one fetch a server |
//!
//! A listing is durable before anybody sees it. What a connection's listing says about its tools is confirmed on the
//! connection before the listing is reported, so no reader sees a tool that cannot be called yet.

mod fetch;
mod journal;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::listing::{
    CatalogCommand, CatalogDirective, CatalogEvent, ListingView, RefreshCause, RefreshTicket,
};
use pilothouse_messages::registry::ServerTools;
use pilothouse_messages::server::ServerDefinition;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::Decider;
use pilothouse_rules::catalog::Catalog;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::durable::{Committed, Durable, Ground, Pictured, Released, after_earlier_life, follow};
use crate::phase::Phase;
use crate::registry::RegistryMsg;
use crate::slot::{Letter, Reply};
use crate::tasks::TaskSet;
use crate::wiring::{CatalogPlace, Wiring};
use journal::{CatalogJournal, Loaded};

/// Askers that wait for one server's refresh; a further one is told that they are too many.
const WAITERS: usize = 256;

/// What the actor is born with.
pub struct CatalogArgs {
    /// The runtime's wiring.
    pub wiring: Arc<Wiring>,
}

/// What changes during its life.
pub struct CatalogShell {
    /// The runtime's wiring; the places of its `catalog` port are written here only.
    wiring: Arc<Wiring>,
    /// Where its tasks report.
    myself: ActorRef<Letter<CatalogMsg>>,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// The listings, once they are read.
    phase: Phase<Catalog, CatalogJournal, CatalogMsg>,
    /// Who waits for a refresh; they hold the other ends.
    waiters: BTreeMap<ServerId, Vec<RefreshReply>>,
    /// Ends the fetch of a server that another one overtakes.
    fetching: BTreeMap<ServerId, CancellationToken>,
    /// What the timer is set for.
    armed: Option<Timestamp>,
    /// Cancels it.
    timer: CancellationToken,
}

/// Told how a refresh ended.
pub type RefreshReply = Reply<Result<Revision, String>>;

/// The whole mailbox.
pub enum CatalogMsg {
    /// Something to decide about; from connections and from the actor's fetches.
    Command {
        /// What.
        command: CatalogCommand,
    },
    /// List the server now; from a handle.
    Refresh {
        /// Which server.
        server: ServerId,
        /// Answered when the refresh that it started or joined is over.
        reply: RefreshReply,
    },
    /// What the embedder says about a server's tools has changed, its listing has not: tell the registry.
    Reoffer {
        /// Which server.
        server: ServerId,
    },
    /// Somebody read a cold listing.
    ColdRead {
        /// Of which server.
        server: ServerId,
    },
    /// Say when the stored listings can be read; from the start of a runtime.
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
    Loaded(Result<Loaded, StoreError>),
    Committed(Committed),
    Tick,
}

/// The catalog actor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub struct CatalogActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for CatalogActor {
    type Msg = Letter<CatalogMsg>;
    type State = CatalogShell;
    type Arguments = CatalogArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: CatalogArgs,
    ) -> Result<CatalogShell, ActorProcessingErr> {
        let tasks = args.wiring.catalog.slot.tasks();
        let (wiring, actor) = (args.wiring.clone(), myself.clone());
        tasks.spawn(async move {
            let loaded = async {
                let store = wiring.store.as_ref();
                after_earlier_life(&wiring.catalog.slot, store).await?;
                journal::load(store).await
            };
            let loaded = loaded.await;
            // An actor that has ended needs no listings.
            let _gone = actor.cast(Letter::inside(CatalogMsg::Own(Own(Report::Loaded(loaded)))));
        });
        Ok(CatalogShell {
            wiring: args.wiring,
            myself,
            tasks,
            phase: Phase::loading(),
            waiters: BTreeMap::new(),
            fetching: BTreeMap::new(),
            armed: None,
            timer: CancellationToken::new(),
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut CatalogShell,
    ) -> Result<(), ActorProcessingErr> {
        match (letter, &mut shell.phase) {
            (Letter { body: CatalogMsg::Own(Own(Report::Loaded(loaded))), .. }, _) => {
                shell.loaded(loaded?)?
            }
            (letter, Phase::Loading(stash)) => stash.push_back(letter),
            (letter, Phase::Live(_)) => shell.take(letter.body)?,
        }
        Ok(())
    }
}

impl Pictured for Catalog {
    /// The places that changed; `None` for a server that is gone.
    type Picture = BTreeMap<ServerId, Option<ListingView>>;

    fn take(&mut self, events: &[CatalogEvent]) -> Self::Picture {
        events.iter().for_each(|event| self.apply(event));
        let touched = events.iter().filter_map(shown_in);
        touched.map(|server| (server.clone(), self.view(server))).collect()
    }
}

/// The server whose place shows the event.
fn shown_in(event: &CatalogEvent) -> Option<&ServerId> {
    match event {
        CatalogEvent::Defined { server, definition: _ }
        | CatalogEvent::Listed { server, .. }
        | CatalogEvent::Confirmed { server, .. }
        | CatalogEvent::WentStale { server, reason: _ }
        | CatalogEvent::Dropped { server }
        | CatalogEvent::Removed { server } => Some(server),
        CatalogEvent::RefreshStarted { .. }
        | CatalogEvent::RefreshQueued { .. }
        | CatalogEvent::RefreshEnded { .. }
        | CatalogEvent::Rested { .. }
        | CatalogEvent::RetrySet { .. } => None,
    }
}

impl CatalogShell {
    fn loaded(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        let lane = self.wiring.store.lane();
        for batch in loaded.leftovers {
            // Nothing depends on it: what is not removed now is found again at the next start.
            drop(lane.append(batch));
        }
        let ground =
            Ground { lane: Some(lane), clock: self.wiring.clock.clone(), within: self.wiring.limits.commit };
        let stored = loaded.catalog.views();
        self.publish(self.still_valid(&stored));
        let durable = Durable::new(loaded.catalog, loaded.journal, ground, loaded.newest);
        let early = self.phase.begin(durable);
        self.define(stored.keys())?;
        early.into_iter().try_for_each(|letter| self.take(letter.body))
    }

    /// Those whose server is defined as it was then: no reader sees a listing of another definition.
    fn still_valid(
        &self,
        stored: &BTreeMap<ServerId, ListingView>,
    ) -> BTreeMap<ServerId, Option<ListingView>> {
        let places = self.wiring.servers.places.load();
        let is_valid = |(server, view): &(&ServerId, &ListingView)| {
            let listed_under = view.listing.as_ref().map(|listing| listing.definition);
            places.get(*server).map(|place| place.fingerprint) == listed_under
        };
        stored.iter().filter(is_valid).map(|(server, view)| (server.clone(), Some(view.clone()))).collect()
    }

    /// Tells the decider about every server there is, and about those that are gone; what is connected is listed.
    fn define<'a>(&mut self, stored: impl Iterator<Item = &'a ServerId> + Clone) -> Result<(), StoreError> {
        let places = self.wiring.servers.places.load_full();
        for server in stored.clone().filter(|server| !places.contains_key(*server)) {
            self.commit(&CatalogCommand::Remove { server: server.clone() })?;
        }
        for (server, place) in places.iter() {
            self.commit(&CatalogCommand::Define { server: server.clone(), definition: place.fingerprint })?;
            if place.ready.borrow().is_some() {
                let cause = RefreshCause::Connected;
                self.commit(&CatalogCommand::Refresh { server: server.clone(), cause })?;
            }
        }
        // The registry may have been there before.
        stored.for_each(|server| self.changed(server));
        Ok(())
    }

    fn take(&mut self, message: CatalogMsg) -> Result<(), StoreError> {
        match message {
            CatalogMsg::Command { command } => self.commit(&command),
            CatalogMsg::Refresh { server, reply } => self.refresh(server, reply),
            CatalogMsg::ColdRead { server } => {
                self.commit(&CatalogCommand::Refresh { server, cause: RefreshCause::Asked })
            }
            CatalogMsg::Reoffer { server } => {
                self.changed(&server);
                Ok(())
            }
            CatalogMsg::Own(Own(Report::Tick)) => {
                self.armed = None;
                self.commit(&CatalogCommand::Tick)
            }
            CatalogMsg::Greet { reply } => {
                reply.send(Ok(()));
                Ok(())
            }
            CatalogMsg::Own(Own(Report::Committed(committed))) => self.committed(committed),
            CatalogMsg::Own(Own(Report::Loaded(loaded))) => self.loaded(loaded?),
        }
    }

    fn refresh(&mut self, server: ServerId, reply: RefreshReply) -> Result<(), StoreError> {
        if !self.wiring.servers.places.load().contains_key(&server) {
            reply.send(Ok(Err(format!("there is no server \"{server}\""))));
            return Ok(());
        }
        let waiters = self.waiters.entry(server.clone()).or_default();
        waiters.retain(|waiter| !waiter.is_closed());
        if waiters.len() >= WAITERS {
            reply.send(Ok(Err(format!("{WAITERS} askers already wait for this refresh"))));
            return Ok(());
        }
        waiters.push(reply);
        self.commit(&CatalogCommand::Refresh { server, cause: RefreshCause::Asked })
    }

    fn committed(&mut self, committed: Committed) -> Result<(), StoreError> {
        let released = self.phase.acknowledged(committed)?;
        self.perform(released);
        Ok(())
    }

    fn commit(&mut self, command: &CatalogCommand) -> Result<(), StoreError> {
        let Phase::Live(catalog) = &mut self.phase else { return Ok(()) };
        let step = catalog.commit(command, None)?;
        let report = |committed| CatalogMsg::Own(Own(Report::Committed(committed)));
        let released = follow(step, &self.tasks, &self.myself, report);
        self.perform(released);
        self.arm();
        Ok(())
    }

    /// Sets the timer for the first listing that expires, unless it is set for that time or an earlier one already.
    fn arm(&mut self) {
        let Phase::Live(catalog) = &mut self.phase else { return };
        let Some(deadline) = catalog.state().next_deadline() else { return };
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.armed = Some(deadline);
        // One timer at a time: a later one would else live on beside this, and set another when it fires.
        self.timer.cancel();
        self.timer = self.tasks.token();
        let (wait, myself, timer) = (deadline.since(catalog.now()), self.myself.clone(), self.timer.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = timer.cancelled() => {}
                () = sleep(wait) => {
                    // A successor sets its own.
                    let _gone = myself.cast(Letter::inside(CatalogMsg::Own(Own(Report::Tick))));
                }
            }
        });
    }

    fn perform(&mut self, released: Vec<Released<Catalog>>) {
        for Released { reply: _, picture, directives } in released {
            if let Some(picture) = picture {
                self.publish(picture);
            }
            for directive in directives {
                match directive {
                    CatalogDirective::Fetch { server, ticket } => self.fetch(server, ticket),
                    CatalogDirective::Changed { server } => self.changed(&server),
                    CatalogDirective::Answer { server, result } => self.answer(&server, &result),
                }
            }
        }
    }

    fn publish(&self, changed: BTreeMap<ServerId, Option<ListingView>>) {
        if changed.is_empty() {
            return;
        }
        let mut places = BTreeMap::clone(&self.wiring.catalog.places.load());
        for (server, view) in changed {
            match view {
                Some(view) => places.insert(server, Arc::new(CatalogPlace::new(view))),
                None => places.remove(&server),
            };
        }
        self.wiring.catalog.places.store(Arc::new(places));
    }

    fn fetch(&mut self, server: ServerId, ticket: RefreshTicket) {
        let overtaken = self.tasks.token();
        if let Some(last) = self.fetching.insert(server.clone(), overtaken.clone()) {
            // Two at once could confirm an old listing after a new one.
            last.cancel();
        }
        let (wiring, myself) = (self.wiring.clone(), self.myself.clone());
        self.tasks.spawn(async move {
            let Some(fetched) = overtaken.run_until_cancelled(fetch::fetch(&wiring, &server)).await else {
                return;
            };
            let command = match fetched {
                Ok(listed) => CatalogCommand::Fetched { server, ticket, listed },
                Err((reason, contact)) => CatalogCommand::FetchFailed { server, ticket, reason, contact },
            };
            // A successor lists again what is connected.
            let _gone = myself.cast(Letter::inside(CatalogMsg::Command { command }));
        });
    }

    /// Tells the registry what the readers see now; it tells the subscribers once the tools can be called.
    fn changed(&self, server: &ServerId) {
        let listing =
            self.wiring.catalog.places.load().get(server).map(|place| ListingView::clone(&place.view));
        let definition = self.wiring.servers.place(server);
        self.wiring.registry.slot.inform(match (&listing, &definition) {
            (Some(view), Some(place)) => RegistryMsg::Offer(Box::new(offer(&place.definition, view.clone()))),
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                RegistryMsg::Withdraw { server: server.clone() }
            }
        });
    }

    fn answer(&mut self, server: &ServerId, result: &Result<Revision, String>) {
        for waiter in self.waiters.remove(server).unwrap_or_default() {
            waiter.send(Ok(result.clone()));
        }
    }
}

/// What the registry has to know about a server with this listing.
pub fn offer(definition: &ServerDefinition, listing: ListingView) -> ServerTools {
    ServerTools {
        server: definition.id.clone(),
        name: definition.name.clone(),
        tenant: definition.tenant.clone(),
        listing,
        disabled: definition.disabled.clone(),
        tools: definition.tools.clone(),
        force_prompt: definition.force_prompt.clone(),
        interruptible: definition.interruptible.clone(),
        effects: definition.effects.iter().map(|(tool, effect)| (tool.clone(), *effect)).collect(),
        trust_annotations: definition.trust_annotations,
    }
}
