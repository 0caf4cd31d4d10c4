//! The life of one server's connections: one connects, serves and ends; the next one follows.

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
    /// The clock reached the deadline.
    Tick,
}

/// Whether a new connection follows the one that is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Again {
    /// The next one starts as soon as this one is gone.
    Yes,
    /// The server is switched off.
    No,
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
    /// It ended and is not tried again by itself.
    Parked {
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
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
    },
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
}
