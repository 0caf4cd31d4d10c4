//! Decides about one server's connections: when one starts, when it is ended, and when it is tried again.
//!
//! ```text
//!              Enable                Connected
//!   Stopped ──────────▶ Connecting ───────────▶ Ready
//!      ▲  ▲                │ │  ▲                │ │
//!      │  │        Disable │ │  │ Ended,         │ │ Ended
//!      │  │        Restart ▼ │  │ if again       │ │
//!      │  └── Ended ──── Ending ◀────────────────┘ │
//!      │                     │                     │
//!      │              Ended  ▼                     ▼
//!      ├── Disable ────── Backoff ── Tick at `until`, Enable, Restart ──▶ Connecting
//!      └── Disable ────── Parked ─────────────── Enable, Restart ──────▶ Connecting
//! ```
//!
//! A connection starts only after the last one has ended, so there are never two. Illegal, and refused: a report
//! of a connection that is over, a restart of a server that is switched off.

use std::sync::Arc;

use pilothouse_messages::connection::{
    Again, ConnectionCommand, ConnectionDirective, ConnectionEvent, ConnectionPhase, ConnectionRejection,
    EndReason, Generation,
};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::ServerState;
use pilothouse_messages::time::Timestamp;

use crate::{Decider, Decision};

mod backoff;

type Outcome = Decision<ConnectionEvent, ConnectionDirective, ()>;

/// What an end is called that neither side announced as a failure.
const CLOSED: &str = "the connection was closed";

/// The life of one server's connections.
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectionLife {
    /// Tells the delays of this server from those of others.
    seed: u64,
    limits: Arc<Limits>,
    /// The newest connection; 0 before the first.
    generation: Generation,
    /// Failures in a row.
    failures: u32,
    state: State,
    since: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Stopped,
    Connecting,
    Ready,
    /// We are ending the connection.
    Ending(Again),
    Backoff {
        reason: String,
        until: Timestamp,
    },
    Parked {
        reason: String,
    },
}

impl ConnectionLife {
    /// A server that has not been started. Servers with different seeds are tried again at different times.
    pub fn new(seed: u64, limits: Arc<Limits>) -> Self {
        Self {
            seed,
            limits,
            generation: Generation::default(),
            failures: 0,
            state: State::Stopped,
            since: Timestamp::default(),
        }
    }

    /// The newest connection; 0 before the first.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What readers see.
    pub fn phase(&self) -> ConnectionPhase {
        let words = |text: &str| Some(text.to_owned());
        let (state, reason, retry_at) = match &self.state {
            State::Stopped => (ServerState::Stopped, None, None),
            State::Connecting => (ServerState::Connecting, None, None),
            State::Ready => (ServerState::Ready, None, None),
            State::Ending(Again::No) => (ServerState::Stopped, words("the connection is being ended"), None),
            State::Ending(Again::Yes) => {
                (ServerState::Connecting, words("the last connection is being ended first"), None)
            }
            State::Backoff { reason, until } => (ServerState::Backoff, words(reason), Some(*until)),
            State::Parked { reason } => (ServerState::Failed, words(reason), None),
        };
        let restarts = self.generation.0.saturating_sub(1);
        ConnectionPhase { state, since: self.since, reason, attempt: self.failures, retry_at, restarts }
    }

    fn enable(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Stopped | State::Backoff { .. } | State::Parked { .. } => self.start(now),
            State::Ending(Again::No) => ending(now, Again::Yes),
            State::Connecting | State::Ready | State::Ending(Again::Yes) => Decision::answer(()),
        }
    }

    fn disable(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Connecting | State::Ready => self.end(now, Again::No),
            State::Ending(Again::Yes) => ending(now, Again::No),
            State::Backoff { .. } | State::Parked { .. } => only(ConnectionEvent::Stopped { at: now }),
            State::Stopped | State::Ending(Again::No) => Decision::answer(()),
        }
    }

    fn restart(&self, now: Timestamp) -> Result<Outcome, ConnectionRejection> {
        match &self.state {
            State::Stopped | State::Ending(Again::No) => Err(ConnectionRejection::Disabled),
            State::Connecting | State::Ready => Ok(self.end(now, Again::Yes)),
            State::Ending(Again::Yes) => Ok(Decision::answer(())),
            State::Backoff { .. } | State::Parked { .. } => Ok(self.start(now)),
        }
    }

    fn connected(&self, now: Timestamp, generation: Generation) -> Result<Outcome, ConnectionRejection> {
        self.of_current(generation)?;
        match &self.state {
            State::Connecting => Ok(only(ConnectionEvent::BecameReady { at: now })),
            // Told twice, or just after we began to end it.
            State::Ready | State::Ending(Again::Yes | Again::No) => Ok(Decision::answer(())),
            State::Stopped | State::Backoff { .. } | State::Parked { .. } => Err(ConnectionRejection::Stale),
        }
    }

    fn ended(
        &self,
        now: Timestamp,
        generation: Generation,
        reason: &EndReason,
    ) -> Result<Outcome, ConnectionRejection> {
        self.of_current(generation)?;
        match &self.state {
            State::Connecting | State::Ready => Ok(self.fell(now, reason)),
            State::Ending(Again::Yes) => Ok(self.start(now)),
            State::Ending(Again::No) => Ok(only(ConnectionEvent::Stopped { at: now })),
            State::Stopped | State::Backoff { .. } | State::Parked { .. } => Err(ConnectionRejection::Stale),
        }
    }

    fn tick(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Backoff { reason: _, until } if *until <= now => self.start(now),
            State::Backoff { .. }
            | State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(Again::Yes | Again::No)
            | State::Parked { .. } => Decision::answer(()),
        }
    }

    fn of_current(&self, generation: Generation) -> Result<(), ConnectionRejection> {
        if generation == self.generation { Ok(()) } else { Err(ConnectionRejection::Stale) }
    }

    fn start(&self, now: Timestamp) -> Outcome {
        let generation = Generation(self.generation.0 + 1);
        Decision {
            answer: (),
            events: vec![ConnectionEvent::Started { generation, at: now }],
            directives: vec![ConnectionDirective::Start { generation }],
        }
    }

    fn end(&self, now: Timestamp, again: Again) -> Outcome {
        let generation = self.generation;
        Decision { directives: vec![ConnectionDirective::Stop { generation }], ..ending(now, again) }
    }

    /// The connection ended without our doing.
    fn fell(&self, now: Timestamp, reason: &EndReason) -> Outcome {
        let reason = match reason {
            EndReason::Permanent(reason) => {
                return only(ConnectionEvent::Parked { reason: reason.clone(), at: now });
            }
            EndReason::Failed(reason) => reason.as_str(),
            EndReason::Closed => CLOSED,
        };
        let failures = self.failures_at(now);
        if failures > self.limits.restart_budget {
            let reason = format!("failed {failures} times in a row, so it waits for a restart: {reason}");
            return only(ConnectionEvent::Parked { reason, at: now });
        }
        let until = now.after(backoff::delay(self.seed, self.generation, failures, &self.limits));
        only(ConnectionEvent::BackedOff { reason: reason.to_owned(), until, at: now })
    }

    /// Failures in a row if the connection ends at this time. Only one that held for the longest back-off makes
    /// the failures before it forgotten: a server that connects and dies at once, again and again, does not.
    fn failures_at(&self, at: Timestamp) -> u32 {
        let held = match self.state {
            State::Ready => at.since(self.since) >= self.limits.backoff_max,
            State::Stopped
            | State::Connecting
            | State::Ending(_)
            | State::Backoff { .. }
            | State::Parked { .. } => false,
        };
        if held { 1 } else { self.failures.saturating_add(1) }
    }

    /// Failures in a row that a start at this time takes along. Only the start that a back-off itself brings about
    /// takes them: one that comes earlier, or in another state, was asked for by somebody.
    fn failures_kept(&self, at: Timestamp) -> u32 {
        match &self.state {
            State::Backoff { reason: _, until } if *until <= at => self.failures,
            State::Backoff { .. }
            | State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(_)
            | State::Parked { .. } => 0,
        }
    }

    fn enter(&mut self, state: State, since: Timestamp) {
        self.state = state;
        self.since = since;
    }
}

fn only(event: ConnectionEvent) -> Outcome {
    Decision { events: vec![event], ..Decision::answer(()) }
}

fn ending(now: Timestamp, again: Again) -> Outcome {
    only(ConnectionEvent::Ending { again, at: now })
}

impl Decider for ConnectionLife {
    type Command = ConnectionCommand;
    type Event = ConnectionEvent;
    type Directive = ConnectionDirective;
    type Answer = ();
    type Rejection = ConnectionRejection;

    fn decide(&self, now: Timestamp, command: &ConnectionCommand) -> Result<Outcome, ConnectionRejection> {
        match command {
            ConnectionCommand::Enable => Ok(self.enable(now)),
            ConnectionCommand::Disable => Ok(self.disable(now)),
            ConnectionCommand::Restart => self.restart(now),
            ConnectionCommand::Connected { generation } => self.connected(now, *generation),
            ConnectionCommand::Ended { generation, reason } => self.ended(now, *generation, reason),
            ConnectionCommand::Tick => Ok(self.tick(now)),
        }
    }

    fn apply(&mut self, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Started { generation, at } => {
                self.failures = self.failures_kept(*at);
                self.generation = *generation;
                self.enter(State::Connecting, *at);
            }
            ConnectionEvent::BecameReady { at } => self.enter(State::Ready, *at),
            ConnectionEvent::Ending { again, at } => self.enter(State::Ending(*again), *at),
            ConnectionEvent::BackedOff { reason, until, at } => {
                self.failures = self.failures_at(*at);
                self.enter(State::Backoff { reason: reason.clone(), until: *until }, *at);
            }
            ConnectionEvent::Parked { reason, at } => {
                self.failures = self.failures_at(*at);
                self.enter(State::Parked { reason: reason.clone() }, *at);
            }
            ConnectionEvent::Stopped { at } => {
                self.failures = 0;
                self.enter(State::Stopped, *at);
            }
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        match &self.state {
            State::Backoff { reason: _, until } => Some(*until),
            State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(Again::Yes | Again::No)
            | State::Parked { .. } => None,
        }
    }

    fn resume(&self) -> Vec<ConnectionDirective> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
