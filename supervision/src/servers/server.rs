//! One server, as its supervisor sees it: the life that decides, and the connection that runs.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::connection::ConnectionMsg;
use pilothouse_actors::servers::Power;
use pilothouse_actors::slot::Letter;
use pilothouse_actors::tasks::{TaskSet, caught_now};
use pilothouse_actors::traffic::Use;
use pilothouse_actors::wiring::{Ready, ServerPlace};
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
use tokio_util::sync::CancellationToken;

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
    /// The connection before, or the one that runs: the next one waits until its process is gone.
    pub(super) last: Option<Arc<Ready>>,
    /// What the timer is set for.
    pub(super) armed: Option<Timestamp>,
    /// Cancels that timer.
    pub(super) timer: CancellationToken,
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
            life: ConnectionLife::new(
                seed_of(seed, &place.definition.id),
                limits.clone(),
                place.definition.idle_stop,
            ),
            last: None,
            place: place.clone(),
            child: Child::None,
            old: TaskSet::new(),
            armed: None,
            timer: CancellationToken::new(),
        };
        server.clear(None);
        server.publish_phase();
        server
    }

    /// Whether somebody uses the connection, as its life is told; if nobody does, nobody can begin to.
    pub(super) fn use_of(&self, generation: Generation, now: Timestamp) -> ConnectionCommand {
        let idle = self.place.definition.idle_stop.unwrap_or(Duration::MAX);
        let ready = self.place.ready.borrow();
        let current = ready.as_ref().filter(|ready| ready.generation == generation);
        match current.map(|ready| ready.traffic.close_if_unused(idle)) {
            Some(Use::Ago(ago)) => ConnectionCommand::Used { generation, at: now.before(ago) },
            // One that has gone has no users, and its end is on its way.
            Some(Use::None) | None => ConnectionCommand::Unused { generation },
        }
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
            self.last = Some(ready.clone());
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

/// What a switch tells a server's life.
pub(super) fn power(to: Power) -> ConnectionCommand {
    match to {
        Power::On => ConnectionCommand::Enable,
        Power::Off => ConnectionCommand::Disable,
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
