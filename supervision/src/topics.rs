//! The topics' supervisor: one session for each live topic.
//!
//! | Owns | Receives (what, from whom) | Asks of | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the sessions and their budgets | `Open` from handles and at start; `Wake` from slots and `Asleep` from sessions; supervision events; `Cleared` from its own tasks | nobody | never by itself; when it is killed, its sessions end and recover when they are opened again | one restart budget for each session |

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pilothouse_actors::session::{SessionActor, SessionArgs, SessionMsg, removal};
use pilothouse_actors::slot::{Letter, Presence, Reply};
use pilothouse_actors::tasks::TaskSet;
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::watched::Watched;
use pilothouse_actors::wiring::{Retired, TopicPlace, Wiring};
use pilothouse_messages::id::TopicId;
use pilothouse_messages::topic::{Recovery, TopicCommand};
use pilothouse_messages::tree::RuntimeEvent;
use pilothouse_rules::restart::{Restarts, Verdict};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::task::JoinSet;

use crate::root::{end_of, vacate};

/// What the supervisor is born with.
pub(crate) struct TopicsArgs {
    pub(crate) wiring: Arc<Wiring>,
}

pub(crate) struct TopicsShell {
    wiring: Arc<Wiring>,
    /// Waits for old lives to end.
    tasks: TaskSet,
    alive: BTreeMap<ActorId, TopicId>,
    restarts: BTreeMap<TopicId, Restarts>,
    /// Sessions that were put to sleep and have not ended yet.
    ending: BTreeMap<ActorId, TopicId>,
    /// Topics whose records are being taken away, with those who ask for them meanwhile.
    removing: BTreeMap<TopicId, Vec<Reply<Arc<TopicPlace>>>>,
    /// Topics that sleep, and that somebody held when they were looked at last.
    held: VecDeque<TopicId>,
}

/// Topics that sleep and are looked at with each one that is opened or put to sleep.
const SWEPT_AT_ONCE: usize = 4;

/// The supervisor's behaviour.
pub(crate) struct TopicsActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for TopicsActor {
    type Msg = Letter<TopicsMsg>;
    type State = TopicsShell;
    type Arguments = TopicsArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: TopicsArgs,
    ) -> Result<TopicsShell, ActorProcessingErr> {
        let TopicsArgs { wiring } = args;
        let tasks = wiring.topics.slot.tasks();
        // Topics of an earlier life of this supervisor lost their sessions with it.
        let mut held = VecDeque::new();
        for place in wiring.topics.places.all() {
            if place.slot.presence() == Presence::Asleep {
                held.push_back(place.topic.clone());
                continue;
            }
            let reason = "its supervisor was restarted".to_owned();
            let old = place.slot.vacate(Some(reason.clone()));
            let actor = place.slot.name().to_owned();
            wiring.events.publish(RuntimeEvent::Restarted { actor, reason });
            let topic = place.topic.clone();
            clear(&tasks, &myself, old, topic, &wiring, std::time::Duration::ZERO);
        }
        Ok(TopicsShell {
            wiring,
            tasks,
            alive: BTreeMap::new(),
            restarts: BTreeMap::new(),
            ending: BTreeMap::new(),
            removing: BTreeMap::new(),
            held,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut TopicsShell,
    ) -> Result<(), ActorProcessingErr> {
        match letter.body {
            TopicsMsg::Open { topic, reply } => shell.open(topic, reply, myself.get_cell()).await?,
            TopicsMsg::Cleared { topic } => shell.again(&topic, myself.get_cell()).await?,
            TopicsMsg::Asleep { topic } => shell.asleep(topic),
            TopicsMsg::Remove { topic, reply } => shell.remove(topic, reply, &myself),
            TopicsMsg::Removed { topic } => shell.removed(&topic, myself.get_cell()).await?,
            TopicsMsg::Wake { topic } => shell.wake(&topic, myself.get_cell()).await?,
            TopicsMsg::StopAll { reply } => shell.stop_all(reply),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        shell: &mut TopicsShell,
    ) -> Result<(), ActorProcessingErr> {
        if let Some((actor, reason)) = end_of(event) {
            shell.ended(&myself, actor, reason);
        }
        Ok(())
    }
}

fn clear(
    tasks: &TaskSet,
    supervisor: &ActorRef<Letter<TopicsMsg>>,
    old: TaskSet,
    topic: TopicId,
    wiring: &Wiring,
    delay: std::time::Duration,
) {
    let (supervisor, within) = (supervisor.clone(), wiring.limits.stop_child);
    tasks.spawn(async move {
        // Whatever is left after the bound ends at its next await.
        let _left = old.end(within).await;
        tokio::time::sleep(delay).await;
        let _gone = supervisor.cast(Letter::inside(TopicsMsg::Cleared { topic }));
    });
}

impl TopicsShell {
    async fn open(
        &mut self,
        topic: TopicId,
        reply: Reply<Arc<TopicPlace>>,
        me: ActorCell,
    ) -> Result<(), SpawnErr> {
        if let Some(waiting) = self.removing.get_mut(&topic) {
            waiting.push(reply);
            return Ok(());
        }
        let place = match self.wiring.topics.place(&topic) {
            Some(place) => {
                match place.slot.presence() {
                    Presence::Parked(_) => {
                        self.restarts.entry(topic).or_default().forgive();
                        self.spawn(&place, Recovery::SessionRestart, me).await?;
                    }
                    Presence::Asleep => self.spawn(&place, Recovery::ProcessRestart, me).await?,
                    Presence::Away | Presence::Here | Presence::Closed => {}
                }
                place
            }
            None => {
                let place = Arc::new(TopicPlace::new(topic.clone(), &self.wiring));
                self.wiring.topics.places.insert(place.clone());
                self.spawn(&place, Recovery::ProcessRestart, me).await?;
                self.wiring.events.publish(RuntimeEvent::TopicOpened { topic });
                place
            }
        };
        reply.send(Ok(place));
        self.sweep();
        Ok(())
    }

    /// A session that rests has nothing open, and all that it recorded is durable: its end loses nothing. Not if
    /// somebody asks for it just now, or attached a window.
    fn asleep(&mut self, topic: TopicId) {
        let Some(place) = self.wiring.topics.place(&topic) else { return };
        let Some(session) = place.slot.rest(|| place.rests() && place.hub.windows() == 0) else { return };
        self.alive.remove(&session.get_id());
        self.restarts.remove(&topic);
        self.ending.insert(session.get_id(), topic.clone());
        session.stop(Some("it sleeps".to_owned()));
        self.wiring.events.publish(RuntimeEvent::TopicSlept { topic });
    }

    async fn wake(&mut self, topic: &TopicId, me: ActorCell) -> Result<(), SpawnErr> {
        match self.wiring.topics.place(topic) {
            Some(place) if place.slot.presence() == Presence::Asleep => {
                self.spawn(&place, Recovery::ProcessRestart, me).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the session, then takes the records away. Handles of the old topic are told so for ever; whoever opens it
    /// meanwhile waits and gets a new one.
    fn remove(&mut self, topic: TopicId, reply: Reply<()>, myself: &ActorRef<Letter<TopicsMsg>>) {
        if self.removing.contains_key(&topic) {
            return reply.send(Ok(()));
        }
        self.removing.insert(topic.clone(), Vec::new());
        let place = self.wiring.topics.place(&topic);
        let session = place.as_ref().and_then(|place| place.slot.current());
        let old = place.as_ref().map(|place| {
            let old = place.slot.vacate(None);
            place.slot.park("the topic was removed: open it again for a new one".to_owned());
            old
        });
        if let Some(session) = &session {
            self.alive.remove(&session.get_id());
            session.stop(Some("its topic is removed".to_owned()));
        }
        let (wiring, myself) = (self.wiring.clone(), myself.clone());
        self.tasks.spawn(async move {
            let within = wiring.limits.stop_child;
            if let Some(session) = session {
                // One that does not end in time has no tasks any more and is told nothing.
                let _late = session.wait(Some(within)).await;
            }
            if let Some(old) = old {
                // Whatever is left after the bound ends at its next await.
                let _left = old.end(within).await;
            }
            // What was kept aside of it is of no use to a topic that was stopped, so that it may go first.
            let removed = match wiring.asides.forget(&topic).await {
                Ok(()) => removal::remove(wiring.store.as_ref(), &topic, wiring.limits.clone()).await,
                Err(error) => Err(error),
            };
            reply.send(removed);
            let _gone = myself.cast(Letter::inside(TopicsMsg::Removed { topic }));
        });
    }

    async fn removed(&mut self, topic: &TopicId, me: ActorCell) -> Result<(), SpawnErr> {
        if let Some(place) = self.wiring.topics.place(topic) {
            place.hub.close();
        }
        self.wiring.topics.places.remove(topic);
        for reply in self.removing.remove(topic).into_iter().flatten() {
            self.open(topic.clone(), reply, me.clone()).await?;
        }
        Ok(())
    }

    /// Lets go of topics that sleep; those that somebody still holds are looked at again later, a few at a time.
    fn sweep(&mut self) {
        for _ in 0..SWEPT_AT_ONCE.min(self.held.len()) {
            let Some(topic) = self.held.pop_front() else { return };
            if self.wiring.topics.places.retire(&topic) == Retired::StillHeld {
                self.held.push_back(topic);
            }
        }
    }

    async fn again(&mut self, topic: &TopicId, me: ActorCell) -> Result<(), SpawnErr> {
        match self.wiring.topics.place(topic) {
            Some(place) => self.spawn(&place, Recovery::SessionRestart, me).await,
            None => Ok(()),
        }
    }

    async fn spawn(
        &mut self,
        place: &Arc<TopicPlace>,
        cause: Recovery,
        me: ActorCell,
    ) -> Result<(), SpawnErr> {
        let args = SessionArgs { wiring: self.wiring.clone(), place: place.clone(), cause };
        let watched = Watched::new(SessionActor, &place.slot, &self.wiring.limits);
        let (session, _join) = Actor::spawn_linked(None, watched, args, me).await?;
        self.alive.insert(session.get_id(), place.topic.clone());
        place.slot.fill(session);
        Ok(())
    }

    fn ended(&mut self, myself: &ActorRef<Letter<TopicsMsg>>, id: ActorId, reason: String) {
        if let Some(topic) = self.ending.remove(&id) {
            self.held.push_front(topic);
            return self.sweep();
        }
        let Some(topic) = self.alive.remove(&id) else { return };
        let Some(place) = self.wiring.topics.place(&topic) else { return };
        if place.slot.presence() == Presence::Closed {
            return;
        }
        let verdict = self.restarts.entry(topic.clone()).or_default().ended(self.wiring.clock.now());
        let old = vacate(&place.slot, &reason, verdict);
        tracing::warn!(target: "pilothouse", actor = place.slot.name(), %reason, "an actor ended");
        let actor = place.slot.name().to_owned();
        self.wiring.events.publish(RuntimeEvent::Restarted { actor, reason });
        if let Verdict::StartAfter(delay) = verdict {
            clear(&self.tasks, myself, old, topic, &self.wiring, delay);
        }
    }

    /// Ends every session: each records the end of its turn first. They do so side by side, since each waits for the
    /// store only, and share its commits.
    fn stop_all(&self, reply: Reply<()>) {
        let wiring = self.wiring.clone();
        self.tasks.spawn(async move {
            let mut ends = JoinSet::new();
            for place in wiring.topics.places.all() {
                ends.spawn(async move {
                    let command = Box::new(TopicCommand::ShutDown);
                    // A session that cannot record its end any more recovers at the next start.
                    let told =
                        place.slot.ask_last(|reply| SessionMsg::Command { command, reply: Some(reply) });
                    drop(told.await);
                });
            }
            // A panic in one of them is a topic that recovers.
            while ends.join_next().await.is_some() {}
            for place in wiring.topics.places.all() {
                if let Some(session) = place.slot.current() {
                    session.stop(Some("the runtime shuts down".to_owned()));
                }
                place.slot.close();
                place.slot.tasks().cancel();
                place.hub.close();
            }
            reply.send(Ok(()));
        });
    }
}
