//! The mailbox of the servers' supervisor; the supervisor itself watches, so it lives in `pilothouse-supervision`.

use std::sync::Arc;

use pilothouse_adapters::server::Connector;
use pilothouse_messages::connection::{ConnectionRejection, EndReason, Generation};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::server::ServerDefinition;

use crate::slot::Reply;
use crate::wiring::{Ready, ServerPlace};

/// Everything that the servers' supervisor can be told.
pub enum ServersMsg {
    /// A connection answers; from its actor.
    Connected {
        /// Of which server.
        server: ServerId,
        /// The connection.
        ready: Arc<Ready>,
    },
    /// A connection is over, with all that it had; from its actor, which the supervisor then stops.
    Ended {
        /// Of which server.
        server: ServerId,
        /// Which connection.
        generation: Generation,
        /// Why.
        reason: EndReason,
    },
    /// Take in one more server, and run it if it is to run.
    Add {
        /// Its place.
        place: Arc<ServerPlace>,
        /// Answered once it can be read and asked for.
        reply: Reply<Added>,
    },
    /// Define a server anew, under its old id.
    Edit {
        /// The definition.
        definition: Box<ServerDefinition>,
        /// How it is reached.
        connector: Arc<dyn Connector>,
        /// Answered once it is read and asked for under the new definition; not once it is ready.
        reply: Reply<Result<Arc<ServerPlace>, ConnectionRejection>>,
    },
    /// Forget a server.
    Remove {
        /// Which.
        server: ServerId,
        /// Answered once its connection is gone.
        reply: Reply<Result<(), ConnectionRejection>>,
    },
    /// Somebody wants to use a server that may be stopped for want of use; from calls and refreshes.
    Demand {
        /// Which server.
        server: ServerId,
    },
    /// End the connection and start a new one now.
    Restart {
        /// Which server.
        server: ServerId,
        /// Answered once it is decided, not once it is ready.
        reply: Reply<Result<(), ConnectionRejection>>,
    },
    /// Switch a server on or off.
    Switch {
        /// Which server.
        server: ServerId,
        /// On or off.
        to: Power,
        /// Answered once it is decided.
        reply: Reply<Result<(), ConnectionRejection>>,
    },
    /// A deadline has come; from the supervisor itself.
    Tick {
        /// Of which server.
        server: ServerId,
    },
    /// The old life's tasks are gone, the successor may start; from the supervisor itself.
    Cleared {
        /// Of which server.
        server: ServerId,
        /// Which connection starts.
        generation: Generation,
    },
    /// End every connection, in order, and answer when all are gone.
    StopAll {
        /// Answered when none is left.
        reply: Reply<()>,
    },
}

/// Whether a server was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was.
    Yes,
    /// Another one has its id; nothing was changed.
    Duplicate,
}

/// Whether a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    On,
    /// It does not.
    Off,
}
