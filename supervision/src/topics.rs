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
use pilothouse_actors::wiring::{Retired, TopicPlace, Wiring};
use pilothouse_messages::id::TopicId;
use pilothouse_messages::topic::{Recovery, TopicCommand};
use pilothouse_messages::tree::RuntimeEvent;
use pilothouse_rules::restart::{Restarts, Verdict};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::task::JoinSet;

use crate::root::{end_of, spawn, vacate};

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
    ending: BTreeMap<TopicId, Ending>,
    /// Topics whose records are being taken away, with those who ask for them meanwhile.
    removing: BTreeMap<TopicId, Vec<Waiting>>,
    /// Topics that sleep, and that somebody held when they were looked at last.
    held: VecDeque<TopicId>,
    course: Course,
}

/// A session that was put to sleep and has not ended yet; no other one begins beside it.
struct Ending {
    session: Session,
    then: Then,
}

/// What follows the end of a session that was put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Sleep,
    /// Somebody asked for the topic meanwhile.
    Wake,
}

/// Who waits for the end of a removal.
enum Waiting {
    Open(Reply<Arc<TopicPlace>>),
    Remove(Reply<()>),
}

impl Waiting {
    /// Who is too many is told at once that there will be no answer, as the reply is dropped.
    fn join(self, others: &mut Vec<Self>) {
        others.retain(|other| !other.is_closed());
        if others.len() < WAITERS {
            others.push(self);
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Open(reply) => reply.is_closed(),
            Self::Remove(reply) => reply.is_closed(),
        }
    }
}

/// Once the runtime stops no session begins or falls asleep any more: each that lives is told to record its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Serves,
    Stops,
}

type Session = Arc<ActorRef<Letter<SessionMsg>>>;

/// What is left of a session that was told to end.
struct OldLife {
    session: Option<Session>,
    tasks: Option<TaskSet>,
}

impl OldLife {
    /// Waits for the end of it. A session that does not end in time is killed, and has no tasks any more.
    async fn end(self, within: std::time::Duration) {
        if let Some(session) = self.session
            && session.wait(Some(within)).await.is_err()
        {
            session.kill();
        }
        if let Some(tasks) = self.tasks {
            // Whatever is left after the bound ends at its next await.
            let _left = tasks.end(within).await;
        }
    }
}

/// Askers that wait for the end of one topic's removal.
const WAITERS: usize = 256;

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
            // ractor has told it to end; it may not have done so yet, also if it was put to sleep.
            let leaving = place.slot.take_leaving();
            match place.slot.presence() {
                Presence::Asleep if leaving.is_none() => {
                    held.push_back(place.topic.clone());
                    continue;
                }
                // Nobody but who opens it again starts it: it was removed, or failed too often.
                Presence::Parked(_) | Presence::Closed => continue,
                Presence::Asleep | Presence::Here | Presence::Away => {}
            }
            let reason = "its supervisor was restarted".to_owned();
            let session = leaving.or_else(|| place.slot.current());
            let old = OldLife { session, tasks: Some(place.slot.vacate(Some(reason.clone()))) };
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
            course: Course::Serves,
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
            TopicsMsg::Removed { topic } => shell.removed(&topic, &myself).await?,
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
            shell.ended(&myself, actor, reason).await?;
        }
        Ok(())
    }
}

fn clear(
    tasks: &TaskSet,
    supervisor: &ActorRef<Letter<TopicsMsg>>,
    old: OldLife,
    topic: TopicId,
    wiring: &Wiring,
    delay: std::time::Duration,
) {
    let (supervisor, within) = (supervisor.clone(), wiring.limits.stop_child);
    tasks.spawn(async move {
        old.end(within).await;
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
        if self.course == Course::Stops {
            // Who asks is told by the end of the reply.
            return Ok(());
        }
        if let Some(waiting) = self.removing.get_mut(&topic) {
            Waiting::Open(reply).join(waiting);
            return Ok(());
        }
        let place = match self.wiring.topics.place(&topic) {
            Some(place) => {
                match place.slot.presence() {
                    Presence::Parked(_) => {
                        self.restarts.entry(topic).or_default().forgive();
                        self.spawn(&place, Recovery::SessionRestart, me).await?;
                    }
                    Presence::Asleep => self.wake(&topic, me).await?,
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
        if self.course == Course::Stops {
            return;
        }
        let Some(place) = self.wiring.topics.place(&topic) else { return };
        let Some(session) = place.slot.rest(|| place.rests() && place.hub.windows() == 0) else { return };
        self.restarts.remove(&topic);
        session.stop(Some("it sleeps".to_owned()));
        self.ending.insert(topic.clone(), Ending { session, then: Then::Sleep });
        self.wiring.events.publish(RuntimeEvent::TopicSlept { topic });
    }

    /// Starts a session where one sleeps; once the old one has ended, if it has not yet.
    async fn wake(&mut self, topic: &TopicId, me: ActorCell) -> Result<(), SpawnErr> {
        let Some(place) = self.wiring.topics.place(topic) else { return Ok(()) };
        if self.course == Course::Stops || place.slot.presence() != Presence::Asleep {
            return Ok(());
        }
        match self.ending.get_mut(topic) {
            Some(ending) => {
                ending.then = Then::Wake;
                Ok(())
            }
            None => self.spawn(&place, Recovery::ProcessRestart, me).await,
        }
    }

    /// Ends the session, then takes the records away. Handles of the old topic are told so for ever; whoever opens it
    /// meanwhile waits and gets a new one.
    fn remove(&mut self, topic: TopicId, reply: Reply<()>, myself: &ActorRef<Letter<TopicsMsg>>) {
        if let Some(waiting) = self.removing.get_mut(&topic) {
            return Waiting::Remove(reply).join(waiting);
        }
        self.removing.insert(topic.clone(), Vec::new());
        let place = self.wiring.topics.place(&topic);
        // One that was put to sleep has left its slot, and may not have ended yet.
        let sleeper = self.ending.remove(&topic).map(|ending| ending.session);
        let session = sleeper.or_else(|| place.as_ref().and_then(|place| place.slot.current()));
        if let Some(session) = &session {
            self.alive.remove(&session.get_id());
            session.stop(Some("its topic is removed".to_owned()));
        }
        let tasks = place.as_ref().map(|place| {
            let tasks = place.slot.vacate(None);
            place.slot.park("the topic was removed: open it again for a new one".to_owned());
            tasks
        });
        let (wiring, myself) = (self.wiring.clone(), myself.clone());
        self.tasks.spawn(async move {
            OldLife { session, tasks }.end(wiring.limits.stop_child).await;
            // What was kept aside of it is of no use to a topic that was stopped, so that it may go first.
            let removed = match wiring.asides.forget(&topic).await {
                Ok(()) => removal::remove(wiring.store.as_ref(), &topic, wiring.limits.clone()).await,
                Err(error) => Err(error),
            };
            // Also if the supervisor ends now: whoever is told finds nothing of it.
            if let Some(place) = place {
                wiring.topics.places.remove(&topic);
                place.hub.close();
            }
            reply.send(removed);
            let _gone = myself.cast(Letter::inside(TopicsMsg::Removed { topic }));
        });
    }

    /// Those who waited are served in order; another removal takes away what was opened before it.
    async fn removed(
        &mut self,
        topic: &TopicId,
        myself: &ActorRef<Letter<TopicsMsg>>,
    ) -> Result<(), SpawnErr> {
        self.restarts.remove(topic);
        for waiting in self.removing.remove(topic).into_iter().flatten() {
            match waiting {
                Waiting::Open(reply) => self.open(topic.clone(), reply, myself.get_cell()).await?,
                Waiting::Remove(reply) => self.remove(topic.clone(), reply, myself),
            }
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

    /// The old life is over. If a session lives all the same, or the topic is being removed, nobody is started.
    async fn again(&mut self, topic: &TopicId, me: ActorCell) -> Result<(), SpawnErr> {
        match self.wiring.topics.place(topic) {
            Some(place) if self.course == Course::Serves && place.slot.presence() == Presence::Away => {
                self.spawn(&place, Recovery::SessionRestart, me).await
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn spawn(
        &mut self,
        place: &Arc<TopicPlace>,
        cause: Recovery,
        me: ActorCell,
    ) -> Result<(), SpawnErr> {
        let args = SessionArgs { wiring: self.wiring.clone(), place: place.clone(), cause };
        let session = spawn(&place.slot, SessionActor, args, (&self.wiring, me)).await?;
        self.alive.insert(session, place.topic.clone());
        Ok(())
    }

    async fn ended(
        &mut self,
        myself: &ActorRef<Letter<TopicsMsg>>,
        id: ActorId,
        reason: String,
    ) -> Result<(), SpawnErr> {
        // One whose topic is being removed is not known any more.
        let Some(topic) = self.alive.remove(&id) else { return Ok(()) };
        if let Some(ending) = self.ending.remove(&topic) {
            if let Some(place) = self.wiring.topics.place(&topic) {
                drop(place.slot.take_leaving());
            }
            if ending.then == Then::Wake {
                return self.wake(&topic, myself.get_cell()).await;
            }
            self.held.push_front(topic);
            self.sweep();
        } else if let Some(place) = self.wiring.topics.place(&topic) {
            self.failed(myself, &place, reason);
        }
        Ok(())
    }

    fn failed(&mut self, myself: &ActorRef<Letter<TopicsMsg>>, place: &TopicPlace, reason: String) {
        if place.slot.presence() == Presence::Closed {
            return;
        }
        let topic = place.topic.clone();
        let verdict = self.restarts.entry(topic.clone()).or_default().ended(self.wiring.clock.now());
        let old = OldLife { session: None, tasks: Some(vacate(&place.slot, &reason, verdict)) };
        tracing::warn!(target: "pilothouse", actor = place.slot.name(), %reason, "an actor ended");
        let actor = place.slot.name().to_owned();
        self.wiring.events.publish(RuntimeEvent::Restarted { actor, reason });
        if let Verdict::StartAfter(delay) = verdict {
            clear(&self.tasks, myself, old, topic, &self.wiring, delay);
        }
    }

    /// Ends every session: each records the end of its turn first. They do so side by side, since each waits for the
    /// store only, and share its commits.
    fn stop_all(&mut self, reply: Reply<()>) {
        self.course = Course::Stops;
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

#[cfg(test)]
mod tests;
