//! MCP's versions, and what is heard and done while a client and a server agree on one.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::ServerId;

/// Versions without a handshake: `server/discover`, and metadata in every request. The best one first.
pub const MODERN: [&str; 1] = ["2026-07-28"];
/// Versions with an `initialize` handshake. The best one first; it is the one that is offered.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The rules by which a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// With an `initialize` handshake; the server asks by requests of its own.
    Legacy,
    /// Without a handshake; the server asks within its answers.
    Modern,
}

/// What is known about a server's protocol before it is connected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Remembered {
    /// It was never spoken to.
    #[default]
    Nothing,
    /// It spoke this legacy version.
    Legacy(String),
    /// It spoke this modern version.
    Modern(String),
    /// It ended when it was asked `server/discover` first, as servers do that take nothing before `initialize`.
    EndedWhenDiscovered,
}

/// What a server spoke last, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpokenRecord {
    /// The server.
    pub server: ServerId,
    /// The definition under which it spoke so.
    pub definition: Digest,
    /// What.
    pub spoken: Remembered,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolStep {
    /// Ask `server/discover`, speaking this version.
    Discover {
        /// The version in the request's metadata.
        version: String,
        /// How long to wait.
        patience: Patience,
    },
    /// Do the `initialize` handshake, offering this version.
    Initialize {
        /// The version that is offered.
        version: String,
    },
    /// Agreed: go on under these rules.
    Speak {
        /// The rules.
        era: Era,
        /// The version.
        version: String,
    },
    /// There is nothing to agree on; why, in plain words.
    GiveUp(String),
}

/// How long a greeting may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A share of the connect deadline: silence tells something, too.
    Share,
    /// All of it.
    Whole,
}

/// What became of a greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// `server/discover` was answered with these versions.
    Supported(Vec<String>),
    /// `initialize` was answered with this version.
    Answered(String),
    /// An error that belongs to the greeting.
    Error {
        /// Its JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// The versions in its data, as error −32022 has them.
        supported: Vec<String>,
    },
    /// An answer of another shape; what is wrong with it.
    Misshapen(String),
    /// An HTTP status instead of an answer.
    Status {
        /// The status.
        status: u16,
        /// In plain words.
        reason: String,
    },
    /// Nothing: what lies between did not carry the question, or lost its answer.
    Unreached(String),
    /// Nothing, for as long as there was patience.
    Silence,
    /// The end of the connection; why.
    Ended(String),
}
