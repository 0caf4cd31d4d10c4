//! One server, as its supervisor sees it: the life that decides, and the connection that runs.

use std::sync::Arc;

use pilothouse_actors::connection::ConnectionMsg;
use pilothouse_actors::slot::Letter;
use pilothouse_actors::tasks::{TaskSet, caught_now};
use pilothouse_actors::wiring::ServerPlace;
use pilothouse_messages::connection::{
    ConnectionCommand, ConnectionDirective, ConnectionRejection, EndReason, Generation,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::Decider;
use pilothouse_rules::connection::ConnectionLife;
use ractor::ActorRef;

/// One server.
pub(super) struct Server {
    /// Its place, which readers see.
    pub(super) place: Arc<ServerPlace>,
    /// What decides about it. Kept nowhere: a start begins anew.
    life: ConnectionLife,
    /// Its connection.
    pub(super) child: Child,
    /// The tasks of the connection before.
    pub(super) old: TaskSet,
    /// What the timer is set for.
    pub(super) armed: Option<Timestamp>,
}

/// A server's connection.
pub(super) enum Child {
    /// There is none.
    None,
    /// This one waits until the tasks of the last one are gone.
    Clearing(Generation),
    /// This one runs.
    Running(ActorRef<Letter<ConnectionMsg>>, Generation),
}

impl Child {
    pub(super) fn generation(&self) -> Option<Generation> {
        match self {
            Self::None => None,
            Self::Clearing(generation) | Self::Running(_, generation) => Some(*generation),
        }
    }
}

impl Server {
    /// A server that does not run. What a supervisor that failed has left behind is ended first.
    pub(super) fn new(place: &Arc<ServerPlace>, seed: u64, limits: &Arc<Limits>) -> Self {
        let mut server = Self {
            life: ConnectionLife::new(seed_of(seed, &place.definition.id), limits.clone()),
            place: place.clone(),
            child: Child::None,
            old: TaskSet::new(),
            armed: None,
        };
        server.clear(None);
        server.publish_phase();
        server
    }

    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        command: &ConnectionCommand,
    ) -> Result<Vec<ConnectionDirective>, ConnectionRejection> {
        let decision = self.life.decide(now, command)?;
        decision.events.iter().for_each(|event| self.life.apply(event));
        Ok(decision.directives)
    }

    /// Shows readers what the server does now; says whether that is news.
    pub(super) fn publish_phase(&self) -> bool {
        let phase = self.life.phase();
        self.place.phase.send_if_modified(|shown| {
            let is_news = *shown != phase;
            *shown = phase;
            is_news
        })
    }

    /// The connection is over, however it came to that.
    pub(super) fn vacate(&mut self, reason: &EndReason) {
        match std::mem::replace(&mut self.child, Child::None) {
            Child::Running(actor, _) => {
                actor.stop(None);
                self.clear(failure(reason));
            }
            Child::Clearing(_) | Child::None => {}
        }
    }

    fn clear(&mut self, failure: Option<String>) {
        self.old = self.place.slot.vacate(failure);
        // Usually done by the connection's actor; a failed one's state may not be dropped yet.
        if let Some(ready) = self.place.ready.send_replace(None) {
            ready.ended.cancel();
            if caught_now(|| ready.connection.kill()).is_err() {
                tracing::error!(server = %self.place.definition.id, "killing a connection panicked");
            }
        }
    }

    /// The time for which the timer has to be set now; it counts as set from here on.
    pub(super) fn deadline_to_arm(&mut self) -> Option<Timestamp> {
        let deadline = self.life.next_deadline().filter(|deadline| self.armed != Some(*deadline))?;
        self.armed = Some(deadline);
        Some(deadline)
    }
}

fn failure(reason: &EndReason) -> Option<String> {
    match reason {
        EndReason::Failed(words) | EndReason::Permanent(words) => Some(words.clone()),
        EndReason::Closed => None,
    }
}

fn seed_of(seed: u64, server: &ServerId) -> u64 {
    let digest = Digest::of_parts("pilothouse/backoff/1", &[&seed.to_be_bytes(), server.as_str().as_bytes()]);
    let [a, b, c, d, e, f, g, h, ..] = digest.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
