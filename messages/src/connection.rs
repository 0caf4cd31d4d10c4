//! The life of one server's connections: one connects, serves and ends; the next one follows.

use std::time::Duration;

use serde::Serialize;

use crate::server::ServerState;
use crate::time::Timestamp;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// It failed in a way that may pass: exit, broken pipe, deadline, protocol error.
    Failed(String),
    /// It cannot work until something changes: no such program, no permission.
    Permanent(String),
    /// We closed it.
    Closed,
}

/// Names one connection of a server; a report of an earlier one changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Everything that a server's slot can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionCommand {
    /// Run: at start, or when switched on.
    Enable,
    /// Do not run.
    Disable,
    /// End the connection and start a new one now; also un-parks.
    Restart,
    /// The handshake is done.
    Connected {
        /// Of which connection.
        generation: Generation,
    },
    /// The connection is over and everything that it had is gone.
    Ended {
        /// Which connection.
        generation: Generation,
        /// Why.
        reason: EndReason,
    },
    /// Somebody wants to use the server: one that was stopped because nobody did starts again.
    Demand,
    /// Nobody uses the connection, and it takes no more users.
    Unused {
        /// Which connection.
        generation: Generation,
    },
    /// The connection is in use, or was until this time.
    Used {
        /// Which connection.
        generation: Generation,
        /// The last use.
        at: Timestamp,
    },
    /// The server is defined anew.
    Edit {
        /// Stopped after this long without use, from now on.
        idle_stop: Option<Duration>,
        /// Whether a connection of the old definition is one of the new.
        reach: Reach,
    },
    /// The clock reached the deadline.
    Tick,
}

/// Whether two definitions of a server lead to the same peer in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// They do.
    Same,
    /// They do not: a connection of the one is none of the other.
    Other,
}

/// Whether a new connection follows the one that is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Again {
    /// The next one starts as soon as this one is gone.
    Yes,
    /// The server is switched off.
    No,
    /// Nobody uses the server; the next one starts when somebody does.
    OnDemand,
}

/// What happened to a server's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A connection begins.
    Started {
        /// Which.
        generation: Generation,
        /// When.
        at: Timestamp,
    },
    /// It answers.
    BecameReady {
        /// When.
        at: Timestamp,
    },
    /// It is being ended by us.
    Ending {
        /// Whether a new one follows.
        again: Again,
        /// When.
        at: Timestamp,
    },
    /// It ended; the next one starts at this time.
    BackedOff {
        /// Why it ended.
        reason: String,
        /// When the next one starts.
        until: Timestamp,
        /// When it ended.
        at: Timestamp,
    },
    /// It was in use at this time.
    Used {
        /// When.
        at: Timestamp,
    },
    /// It ended too often, or cannot work.
    Parked {
        /// Why.
        reason: String,
        /// When it is tried once; `None` if something has to change first.
        until: Option<Timestamp>,
        /// When.
        at: Timestamp,
    },
    /// It ended because nobody used it.
    Rested {
        /// When.
        at: Timestamp,
    },
    /// The server is defined anew.
    Edited {
        /// Stopped after this long without use.
        idle_stop: Option<Duration>,
    },
    /// It is switched off.
    Stopped {
        /// When.
        at: Timestamp,
    },
}

/// What a server's slot wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionDirective {
    /// Start a connection.
    Start {
        /// Which.
        generation: Generation,
    },
    /// End the connection: close, then terminate, then kill.
    Stop {
        /// Which.
        generation: Generation,
        /// Whether another one follows.
        again: Again,
    },
    /// Report whether somebody uses the connection; if nobody does, let nobody begin to.
    LookForUse {
        /// Which.
        generation: Generation,
    },
}

/// A failure of a server's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// In plain words.
    pub reason: String,
    /// When the connection ended.
    pub at: Timestamp,
}

/// The state that readers see, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionPhase {
    /// The state.
    pub state: ServerState,
    /// Since when.
    pub since: Timestamp,
    /// Why, in plain words.
    pub reason: Option<String>,
    /// Failures in a row.
    pub attempt: u32,
    /// When it is tried next.
    pub retry_at: Option<Timestamp>,
    /// How often a connection followed another.
    pub restarts: u64,
    /// The last failure, also while the server answers again.
    pub last_failure: Option<Failure>,
    /// Whether it is stopped only until somebody uses it.
    pub on_demand: bool,
}

/// Why a server's slot changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionRejection {
    /// A report of an earlier connection.
    #[error("this belongs to a connection that is over")]
    Stale,
    /// The server is switched off.
    #[error("the server is switched off: enable it first")]
    Disabled,
    /// The server was removed.
    #[error("there is no such server any more")]
    Removed,
}
