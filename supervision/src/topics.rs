//! The topics' supervisor: one session for each live topic.
//!
//! | Owns | Receives (what, from whom) | Asks of | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the sessions and their budgets | `Open` from handles and at start; supervision events; `Cleared` from its own tasks | nobody | never by itself; when it is killed, its sessions end and recover when they are opened again | one restart budget for each session |

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_actors::session::{SessionActor, SessionArgs, SessionMsg};
use pilothouse_actors::slot::{Letter, Presence, Reply};
use pilothouse_actors::tasks::TaskSet;
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::{TopicPlace, Wiring};
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
}

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
        for place in wiring.topics.places.load().values() {
            let reason = "its supervisor was restarted".to_owned();
            let old = place.slot.vacate(Some(reason.clone()));
            let actor = place.slot.name().to_owned();
            wiring.events.publish(RuntimeEvent::Restarted { actor, reason });
            let topic = place.topic.clone();
            clear(&tasks, &myself, old, topic, &wiring, std::time::Duration::ZERO);
        }
        Ok(TopicsShell { wiring, tasks, alive: BTreeMap::new(), restarts: BTreeMap::new() })
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
        let place = match self.wiring.topics.place(&topic) {
            Some(place) => {
                if matches!(place.slot.presence(), Presence::Parked(_)) {
                    self.restarts.entry(topic).or_default().forgive();
                    self.spawn(&place, Recovery::SessionRestart, me).await?;
                }
                place
            }
            None => {
                let place = Arc::new(TopicPlace::new(topic.clone(), &self.wiring.limits));
                let mut places = BTreeMap::clone(&self.wiring.topics.places.load());
                places.insert(topic.clone(), place.clone());
                self.wiring.topics.places.store(Arc::new(places));
                self.spawn(&place, Recovery::ProcessRestart, me).await?;
                self.wiring.events.publish(RuntimeEvent::TopicOpened { topic });
                place
            }
        };
        reply.send(Ok(place));
        Ok(())
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
        let (session, _join) = Actor::spawn_linked(None, SessionActor, args, me).await?;
        self.alive.insert(session.get_id(), place.topic.clone());
        place.slot.fill(session);
        Ok(())
    }

    fn ended(&mut self, myself: &ActorRef<Letter<TopicsMsg>>, id: ActorId, reason: String) {
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
            for place in wiring.topics.places.load().values().cloned() {
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
            for place in wiring.topics.places.load().values() {
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
