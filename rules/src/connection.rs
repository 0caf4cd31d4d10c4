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
//!      ├── Disable ────── Parked ─── Tick at `until`, Enable, Restart ──▶ Connecting
//!      └── Disable ────── Resting ── Demand, Enable, Restart ───────────▶ Connecting
//! ```
//!
//! Resting follows an Ending that began because nobody used a server which is to run on demand only. A server that is
//! parked for its failures is tried once at `until`, and parked again if that fails; one that cannot work at all has no
//! `until`. Another way to the server ends the connection, and starts the next one wherever a restart would.
//!
//! A connection starts only after the last one has ended, so there are never two. Illegal, and refused: a report
//! of a connection that is over, a restart of a server that is switched off.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::connection::{
    Again, ConnectionCommand, ConnectionDirective, ConnectionEvent, ConnectionPhase, ConnectionRejection,
    EndReason, Failure, Generation, Reach,
};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::ServerState;
use pilothouse_messages::time::Timestamp;

use crate::{Decider, Decision};

mod backoff;

type Outcome = Decision<ConnectionEvent, ConnectionDirective, ()>;

/// What an end is called that neither side announced as a failure.
const CLOSED: &str = "the connection was closed";
/// Why a server that nobody uses is stopped.
const IDLE: &str = "idle: nobody used it for a while; the next call starts it";

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
    /// The last of them, also after it was forgotten.
    last_failure: Option<Failure>,
    /// After how long without use the server is stopped.
    idle_stop: Option<Duration>,
    /// The last use that is known of.
    used: Timestamp,
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
        until: Option<Timestamp>,
    },
    /// Stopped until somebody uses it.
    Resting,
}

impl ConnectionLife {
    /// A server that has not been started. Servers with different seeds are tried again at different times; one with
    /// an `idle_stop` is stopped after that long without use.
    pub fn new(seed: u64, limits: Arc<Limits>, idle_stop: Option<Duration>) -> Self {
        Self {
            seed,
            limits,
            generation: Generation::default(),
            failures: 0,
            last_failure: None,
            idle_stop,
            used: Timestamp::default(),
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
            State::Parked { reason, until } => (ServerState::Failed, words(reason), *until),
            State::Ending(Again::OnDemand) | State::Resting => (ServerState::Stopped, words(IDLE), None),
        };
        ConnectionPhase {
            state,
            since: self.since,
            reason,
            attempt: self.failures,
            retry_at,
            restarts: self.generation.0.saturating_sub(1),
            last_failure: self.last_failure.clone(),
            on_demand: matches!(self.state, State::Ending(Again::OnDemand) | State::Resting),
        }
    }

    fn enable(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Stopped | State::Backoff { .. } | State::Parked { .. } | State::Resting => self.start(now),
            State::Ending(Again::No | Again::OnDemand) => ending(now, Again::Yes),
            State::Connecting | State::Ready | State::Ending(Again::Yes) => Decision::answer(()),
        }
    }

    fn disable(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Connecting | State::Ready => self.end(now, Again::No),
            State::Ending(Again::Yes | Again::OnDemand) => ending(now, Again::No),
            State::Backoff { .. } | State::Parked { .. } | State::Resting => {
                only(ConnectionEvent::Stopped { at: now })
            }
            State::Stopped | State::Ending(Again::No) => Decision::answer(()),
        }
    }

    fn restart(&self, now: Timestamp) -> Result<Outcome, ConnectionRejection> {
        match &self.state {
            State::Stopped | State::Ending(Again::No) => Err(ConnectionRejection::Disabled),
            State::Connecting | State::Ready => Ok(self.end(now, Again::Yes)),
            State::Ending(Again::Yes) => Ok(Decision::answer(())),
            State::Ending(Again::OnDemand) => Ok(ending(now, Again::Yes)),
            State::Backoff { .. } | State::Parked { .. } | State::Resting => Ok(self.start(now)),
        }
    }

    fn demand(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Resting => self.start(now),
            State::Ending(Again::OnDemand) => ending(now, Again::Yes),
            State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(Again::Yes | Again::No)
            | State::Backoff { .. }
            | State::Parked { .. } => Decision::answer(()),
        }
    }

    fn edit(&self, now: Timestamp, idle_stop: Option<Duration>, reach: Reach) -> Outcome {
        // A server that is switched off stays so, whichever way leads to it.
        let again = match reach {
            Reach::Same => Decision::answer(()),
            Reach::Other => self.restart(now).unwrap_or_else(|_off| Decision::answer(())),
        };
        let edited = ConnectionEvent::Edited { idle_stop };
        Decision { events: [edited].into_iter().chain(again.events).collect(), ..again }
    }

    fn unused(&self, now: Timestamp, generation: Generation) -> Result<Outcome, ConnectionRejection> {
        self.of_ready(generation)?;
        Ok(self.end(now, Again::OnDemand))
    }

    fn used(&self, generation: Generation, at: Timestamp) -> Result<Outcome, ConnectionRejection> {
        self.of_ready(generation)?;
        Ok(only(ConnectionEvent::Used { at }))
    }

    fn of_ready(&self, generation: Generation) -> Result<(), ConnectionRejection> {
        self.of_current(generation)?;
        if self.state == State::Ready { Ok(()) } else { Err(ConnectionRejection::Stale) }
    }

    fn connected(&self, now: Timestamp, generation: Generation) -> Result<Outcome, ConnectionRejection> {
        self.of_current(generation)?;
        match &self.state {
            State::Connecting => Ok(only(ConnectionEvent::BecameReady { at: now })),
            // Told twice, or just after we began to end it.
            State::Ready | State::Ending(Again::Yes | Again::No | Again::OnDemand) => {
                Ok(Decision::answer(()))
            }
            State::Stopped | State::Backoff { .. } | State::Parked { .. } | State::Resting => {
                Err(ConnectionRejection::Stale)
            }
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
            State::Ending(Again::OnDemand) => Ok(only(ConnectionEvent::Rested { at: now })),
            State::Stopped | State::Backoff { .. } | State::Parked { .. } | State::Resting => {
                Err(ConnectionRejection::Stale)
            }
        }
    }

    fn tick(&self, now: Timestamp) -> Outcome {
        match &self.state {
            State::Backoff { reason: _, until } | State::Parked { reason: _, until: Some(until) }
                if *until <= now =>
            {
                self.start(now)
            }
            State::Ready if self.idle_at().is_some_and(|idle| idle <= now) => {
                let generation = self.generation;
                let look = vec![ConnectionDirective::LookForUse { generation }];
                Decision { directives: look, ..Decision::answer(()) }
            }
            State::Backoff { .. }
            | State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(Again::Yes | Again::No | Again::OnDemand)
            | State::Parked { .. }
            | State::Resting => Decision::answer(()),
        }
    }

    /// When the server counts as idle, unless it is used until then.
    fn idle_at(&self) -> Option<Timestamp> {
        self.idle_stop.map(|idle| self.used.after(idle))
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
        Decision { directives: vec![ConnectionDirective::Stop { generation, again }], ..ending(now, again) }
    }

    /// The connection ended without our doing.
    fn fell(&self, now: Timestamp, reason: &EndReason) -> Outcome {
        let reason = match reason {
            EndReason::Permanent(reason) => {
                return only(ConnectionEvent::Parked { reason: reason.clone(), until: None, at: now });
            }
            EndReason::Failed(reason) => reason.as_str(),
            EndReason::Closed => CLOSED,
        };
        let failures = self.failures_at(now);
        if failures > self.limits.restart_budget {
            let reason =
                format!("failed {failures} times in a row, so it is only tried now and then: {reason}");
            let pause = backoff::half_open(self.seed, self.generation, &self.limits);
            return only(ConnectionEvent::Parked { reason, until: Some(now.after(pause)), at: now });
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
            | State::Parked { .. }
            | State::Resting => false,
        };
        if held { 1 } else { self.failures.saturating_add(1) }
    }

    /// Failures in a row that a start at this time takes along. Only the start that a pause itself brings about takes
    /// them: one that comes earlier, or in another state, was asked for by somebody.
    fn failures_kept(&self, at: Timestamp) -> u32 {
        match &self.state {
            State::Backoff { reason: _, until } | State::Parked { reason: _, until: Some(until) }
                if *until <= at =>
            {
                self.failures
            }
            State::Backoff { .. }
            | State::Stopped
            | State::Connecting
            | State::Ready
            | State::Ending(_)
            | State::Parked { .. }
            | State::Resting => 0,
        }
    }

    fn fail(&mut self, reason: &str, at: Timestamp) {
        self.failures = self.failures_at(at);
        self.last_failure = Some(Failure { reason: reason.to_owned(), at });
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
            ConnectionCommand::Demand => Ok(self.demand(now)),
            ConnectionCommand::Unused { generation } => self.unused(now, *generation),
            ConnectionCommand::Used { generation, at } => self.used(*generation, *at),
            ConnectionCommand::Edit { idle_stop, reach } => Ok(self.edit(now, *idle_stop, *reach)),
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
            ConnectionEvent::BecameReady { at } => {
                self.used = *at;
                self.enter(State::Ready, *at);
            }
            ConnectionEvent::Used { at } => self.used = self.used.max(*at),
            ConnectionEvent::Edited { idle_stop } => self.idle_stop = *idle_stop,
            ConnectionEvent::Ending { again, at } => self.enter(State::Ending(*again), *at),
            ConnectionEvent::BackedOff { reason, until, at } => {
                self.fail(reason, *at);
                self.enter(State::Backoff { reason: reason.clone(), until: *until }, *at);
            }
            ConnectionEvent::Parked { reason, until, at } => {
                self.fail(reason, *at);
                self.enter(State::Parked { reason: reason.clone(), until: *until }, *at);
            }
            ConnectionEvent::Rested { at } => {
                self.failures = 0;
                self.enter(State::Resting, *at);
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
            State::Parked { reason: _, until } => *until,
            State::Ready => self.idle_at(),
            State::Stopped
            | State::Connecting
            | State::Ending(Again::Yes | Again::No | Again::OnDemand)
            | State::Resting => None,
        }
    }

    fn resume(&self) -> Vec<ConnectionDirective> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
