//! The servers' supervisor: starts, ends and restarts each server's connection, and none because of another.
//!
//! | Owns | Receives (what, from whom) | Asks of (whom, with what deadline) | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | one [`ConnectionLife`] and at most one connection actor a server | `Connected`, `Ended` from connections; `Add`, `Edit`, `Remove`, `Restart`, `Switch` from handles; `Demand` from calls and refreshes; `StopAll` from the root; ticks from itself | a connection to end: `stop_child` and a second, then it is killed; a process that an earlier life of the host has left: `stop_child`, then it is killed | never by itself; if it does, ractor kills its connections, which clean up behind themselves, and a fresh one starts every server anew | one timer and one connection a server; 2 s for the last life's tasks |
//!
//! A connection starts only after the tasks of the last one are gone. Whatever a connection's end looks like (a
//! report, a failure, a kill), the server's life is told exactly one `Ended`.

mod change;
mod leftover;
mod server;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::connection::{ConnectionActor, ConnectionArgs, ConnectionMsg};
use pilothouse_actors::servers::{Power, ServersMsg};
use pilothouse_actors::slot::{Letter, Reply};
use pilothouse_actors::tasks::{Ended, TaskSet, caught};
use pilothouse_actors::watched::Watched;
use pilothouse_actors::wiring::{Ready, Wiring};
use pilothouse_messages::connection::{
    Again, ConnectionCommand, ConnectionDirective, ConnectionRejection, EndReason, Generation,
};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::server::{ServerState, ServerView};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tree::RuntimeEvent;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use server::{Child, Server};
use tokio::time::{sleep, timeout};

/// How long the tasks of an ended connection are waited for.
const OLD_TASKS: Duration = Duration::from_secs(2);
/// How much longer than its own grace a connection may take to end before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// What the supervisor is born with.
pub(crate) struct ServersArgs {
    /// The runtime's wiring.
    pub(crate) wiring: Arc<Wiring>,
    /// Tells the restart delays of this runtime from those of others.
    pub(crate) seed: u64,
}

/// What changes during its life.
pub(crate) struct ServersShell {
    /// The runtime's wiring.
    wiring: Arc<Wiring>,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// Seeds the jitter of every server's restarts.
    seed: u64,
    /// Every server, in the order in which they are started and ended.
    servers: BTreeMap<ServerId, Server>,
    /// Whose connection an actor is; until ractor has told its end.
    children: HashMap<ActorId, (ServerId, Generation)>,
    /// Who waits for the end of all, once that has begun; nothing starts any more then.
    stopping: Option<Vec<Reply<()>>>,
    /// Who waits for the end of a server that is being removed; readers see it no more.
    removing: BTreeMap<ServerId, Vec<Reply<Result<(), ConnectionRejection>>>>,
    /// The time never falls.
    newest: Timestamp,
}

/// The supervisor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServersActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for ServersActor {
    type Msg = Letter<ServersMsg>;
    type State = ServersShell;
    type Arguments = ServersArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        args: ServersArgs,
    ) -> Result<ServersShell, ActorProcessingErr> {
        let ServersArgs { wiring, seed } = args;
        let places = wiring.servers.places.load_full();
        let server =
            |(id, place): (&ServerId, &Arc<_>)| (id.clone(), Server::new(place, seed, &wiring.limits));
        Ok(ServersShell {
            seed,
            servers: places.iter().map(server).collect(),
            tasks: wiring.servers.slot.tasks(),
            wiring,
            children: HashMap::new(),
            stopping: None,
            removing: BTreeMap::new(),
            newest: Timestamp::default(),
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shell: &mut ServersShell,
    ) -> Result<(), ActorProcessingErr> {
        shell.servers.values().for_each(|server| shell.take_notes(&server.place));
        shell.look_back();
        let wanted = shell.servers.iter().filter(|(_, server)| server.place.is_wanted());
        let wanted: Vec<_> = wanted.map(|(id, _)| id.clone()).collect();
        for server in wanted {
            shell.report(&myself, &server, &ConnectionCommand::Enable);
        }
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut ServersShell,
    ) -> Result<(), ActorProcessingErr> {
        match letter.body {
            ServersMsg::Connected { server, ready } => shell.connected(&myself, &server, ready),
            ServersMsg::Ended { server, generation, reason } => {
                shell.ended(&myself, &server, generation, reason)
            }
            ServersMsg::Add { place, reply } => shell.add(&myself, &place, reply),
            ServersMsg::Edit { definition, connector, reply } => {
                shell.edit(&myself, *definition, connector, reply)
            }
            ServersMsg::Remove { server, reply } => shell.remove(&myself, server, reply),
            ServersMsg::Demand { server } => shell.demand(&myself, &server),
            ServersMsg::Restart { server, reply } => shell.restart(&myself, &server, reply),
            ServersMsg::Switch { server, to, reply } => shell.switch(&myself, &server, to, reply),
            ServersMsg::Tick { server } => shell.tick(&myself, &server),
            ServersMsg::Cleared { server, generation } => shell.cleared(&myself, &server, generation).await,
            ServersMsg::StopAll { reply } => shell.stop_all(&myself, reply),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        shell: &mut ServersShell,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(child, error) => {
                shell.child_ended(&myself, &child, format!("the connection's actor failed: {error}"));
            }
            SupervisionEvent::ActorTerminated(child, state, reason) => {
                // The state may hold what has to go before the next connection starts.
                drop(state);
                let reason = reason.unwrap_or_else(|| "it stopped".to_owned());
                shell.child_ended(&myself, &child, format!("the connection's actor ended: {reason}"));
            }
            // ractor's own enum, with variants that depend on its features; none of the others is about an end.
            _ => {}
        }
        Ok(())
    }
}

impl ServersShell {
    fn connected(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId, ready: Arc<Ready>) {
        let Some(server) = self.servers.get_mut(id) else { return };
        let generation = ready.generation;
        if server.child.generation() == Some(generation) {
            server.last = Some(ready);
        }
        self.report(myself, id, &ConnectionCommand::Connected { generation });
    }

    fn ended(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        id: &ServerId,
        generation: Generation,
        reason: EndReason,
    ) {
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.child.generation() != Some(generation) {
            return;
        }
        server.vacate(&reason);
        self.report(myself, id, &ConnectionCommand::Ended { generation, reason });
        self.forget_if_removed(id);
        self.answer_if_all_ended();
    }

    /// ractor's word that an actor is gone: usually long known from its report.
    fn child_ended(&mut self, myself: &ActorRef<Letter<ServersMsg>>, child: &ActorCell, words: String) {
        let Some((server, generation)) = self.children.remove(&child.get_id()) else { return };
        // A server that was removed and taken in again counts its connections anew.
        let is_current = self.servers.get(&server).is_some_and(|server| match &server.child {
            Child::Running(actor, _) => actor.get_id() == child.get_id(),
            Child::Clearing(_) | Child::None => false,
        });
        if is_current {
            if self.stopping.is_none() {
                let (actor, reason) = (format!("connection/{server}"), words.clone());
                tracing::warn!(target: "pilothouse", %actor, %reason, "an actor ended");
                self.wiring.events.publish(RuntimeEvent::Restarted { actor, reason });
            }
            self.ended(myself, &server, generation, EndReason::Failed(words));
        }
    }

    fn restart(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        server: &ServerId,
        reply: Reply<Result<(), ConnectionRejection>>,
    ) {
        reply.send(Ok(self.ask(myself, server, &ConnectionCommand::Restart)));
    }

    fn switch(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        server: &ServerId,
        to: Power,
        reply: Reply<Result<(), ConnectionRejection>>,
    ) {
        if let Some(server) = self.servers.get(server) {
            server.place.want(to);
        }
        reply.send(Ok(self.ask(myself, server, &server::power(to))));
    }

    /// Not while everything ends: the caller finds no connection.
    fn demand(&mut self, myself: &ActorRef<Letter<ServersMsg>>, server: &ServerId) {
        if let Err(rejection) = self.ask(myself, server, &ConnectionCommand::Demand) {
            tracing::debug!(%server, %rejection, "a server that somebody wants to use does not start");
        }
    }

    fn tick(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId) {
        if let Some(server) = self.servers.get_mut(id) {
            server.armed = None;
            self.report(myself, id, &ConnectionCommand::Tick);
        }
    }

    /// The tasks of the last connection are gone: this one starts, unless it has been ended in the meantime.
    async fn cleared(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        id: &ServerId,
        generation: Generation,
    ) {
        let Some(server) = self.servers.get_mut(id) else { return };
        match &server.child {
            Child::Clearing(current) if *current == generation => {}
            Child::Clearing(_) | Child::Running(..) | Child::None => return,
        }
        let args = ConnectionArgs {
            wiring: self.wiring.clone(),
            place: server.place.clone(),
            generation,
            supervisor: myself.clone(),
        };
        let watched = Watched::new(ConnectionActor, &server.place.slot, &self.wiring.limits);
        // Waits for `pre_start` only, which reaches nothing.
        match Actor::spawn_linked(None, watched, args, myself.get_cell()).await {
            Ok((actor, _joined)) => {
                self.children.insert(actor.get_id(), (id.clone(), generation));
                server.place.slot.fill(actor.clone());
                server.child = Child::Running(actor, generation);
            }
            Err(error) => {
                let reason = EndReason::Failed(format!("the connection's actor did not start: {error}"));
                self.ended(myself, id, generation, reason);
            }
        }
    }

    fn stop_all(&mut self, myself: &ActorRef<Letter<ServersMsg>>, reply: Reply<()>) {
        self.stopping.get_or_insert_default().push(reply);
        let servers: Vec<_> = self.servers.keys().cloned().collect();
        for server in servers {
            self.report(myself, &server, &ConnectionCommand::Disable);
        }
        self.answer_if_all_ended();
    }

    fn answer_if_all_ended(&mut self) {
        let all_ended = self.servers.values().all(|server| matches!(server.child, Child::None));
        if let (Some(waiting), true) = (&mut self.stopping, all_ended) {
            waiting.drain(..).for_each(|reply| reply.send(Ok(())));
        }
    }

    /// Decides about what somebody asked for.
    fn ask(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        id: &ServerId,
        command: &ConnectionCommand,
    ) -> Result<(), ConnectionRejection> {
        match (&self.stopping, self.removing.contains_key(id)) {
            (Some(_), _) => Err(ConnectionRejection::Disabled),
            (None, true) => Err(ConnectionRejection::Removed),
            (None, false) => self.decide(myself, id, command),
        }
    }

    /// Decides about what has happened.
    fn report(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId, command: &ConnectionCommand) {
        if let Err(rejection) = self.decide(myself, id, command) {
            tracing::debug!(server = %id, %rejection, "a report changed nothing");
        }
    }

    fn decide(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        id: &ServerId,
        command: &ConnectionCommand,
    ) -> Result<(), ConnectionRejection> {
        self.newest = self.newest.max(self.wiring.clock.now());
        let Some(server) = self.servers.get_mut(id) else { return Err(ConnectionRejection::Removed) };
        let directives = server.decide(self.newest, command)?;
        if server.publish_phase() {
            let view = server.place.view(&self.wiring);
            log(&view);
            self.wiring.events.publish(RuntimeEvent::Server(Box::new(view)));
        }
        for directive in directives {
            match directive {
                ConnectionDirective::Start { generation } => self.start(myself, id, generation),
                ConnectionDirective::Stop { generation, again } => self.stop(myself, id, generation, again),
                ConnectionDirective::LookForUse { generation } => self.look_for_use(myself, id, generation),
            }
        }
        self.arm(myself, id);
        Ok(())
    }

    fn start(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId, generation: Generation) {
        let Some(server) = self.servers.get_mut(id) else { return };
        server.child = Child::Clearing(generation);
        let (old, last, myself, place) =
            (server.old.clone(), server.last.clone(), myself.clone(), server.place.clone());
        let (processes, protocols) =
            (self.wiring.servers.processes.clone(), self.wiring.servers.protocols.clone());
        let server = id.clone();
        self.tasks.spawn(async move {
            if let Ended::SomeLeft(tasks) = old.end(OLD_TASKS).await {
                tracing::warn!(%server, tasks, "tasks of the last connection did not end in time");
            }
            if let Some(last) = last {
                until_gone(&last).await;
            }
            tokio::join!(processes.until_cleared(&server), protocols.recall(&place));
            tell(&myself, ServersMsg::Cleared { server, generation });
        });
    }

    fn look_for_use(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId, generation: Generation) {
        let Some(server) = self.servers.get_mut(id) else { return };
        let command = server.use_of(generation, self.newest);
        self.report(myself, id, &command);
    }

    fn stop(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        id: &ServerId,
        generation: Generation,
        again: Again,
    ) {
        let Some(server) = self.servers.get_mut(id) else { return };
        match &server.child {
            Child::Running(actor, _) => {
                // One that has just ended has reported so.
                let _gone = actor.cast(Letter::inside(ConnectionMsg::Stop(again)));
                let (actor, patience) = (actor.clone(), self.wiring.limits.stop_child + KILL_AFTER);
                self.tasks.spawn(async move {
                    sleep(patience).await;
                    // Nothing happens to one that has ended.
                    actor.kill();
                });
            }
            Child::Clearing(_) | Child::None => {
                let (server, reason) = (id.clone(), EndReason::Closed);
                tell(myself, ServersMsg::Ended { server, generation, reason });
            }
        }
    }

    /// Sets the server's timer, unless it is set for that time already.
    fn arm(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: &ServerId) {
        let Some(server) = self.servers.get_mut(id) else { return };
        let Some(until) = server.deadline_to_arm() else { return };
        // One timer a server: an older one would else live on beside this, and set another when it fires.
        server.timer.cancel();
        server.timer = self.tasks.token();
        let timer = server.timer.clone();
        let (wait, myself, server) = (until.since(self.newest), myself.clone(), id.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = timer.cancelled() => {}
                () = sleep(wait) => tell(&myself, ServersMsg::Tick { server }),
            }
        });
    }
}

/// Waits until the process of a connection that has been closed or killed is gone, within a bound; at once if it is.
async fn until_gone(last: &Ready) {
    let gone = caught(async { last.connection.close(OLD_TASKS).await });
    let _gone_or_given_up = timeout(OLD_TASKS, gone).await;
}

fn log(view: &ServerView) {
    let (server, reason) = (&view.server, view.reason.as_deref().unwrap_or_default());
    match view.state {
        ServerState::Failed => {
            tracing::warn!(target: "pilothouse", %server, reason, "a server has failed and waits")
        }
        ServerState::Backoff => {
            let attempt = view.attempt;
            tracing::info!(target: "pilothouse", %server, reason, attempt, "a server is down and is tried again");
        }
        ServerState::Connecting | ServerState::Ready | ServerState::Stopped => {
            tracing::debug!(target: "pilothouse", %server, state = ?view.state, "a server does something else");
        }
    }
}

fn tell(myself: &ActorRef<Letter<ServersMsg>>, message: ServersMsg) {
    // A successor starts every server anew.
    let _gone = myself.cast(Letter::inside(message));
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;
