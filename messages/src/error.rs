//! Errors at the boundary: one enum each, each variant says what the caller can do now.

mod request;

use std::path::PathBuf;

use crate::connection::ConnectionRejection;
use crate::id::{ApprovalId, GrantId, IdError, QuestionId, ServerId, TopicId};
use crate::registry::RegistryError;
use crate::topic::rejection::TopicRejection;
pub use request::RequestError;

/// Why the store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory cannot be used.
    #[error("the data directory {path} cannot be used: {reason}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// In plain words, with what to do.
        reason: String,
    },
    /// Another process has it open.
    #[error(
        "the data directory {path} is in use by another runtime, here or in another process: stop that one, or choose another directory"
    )]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// What is on the disk cannot be read.
    #[error(
        "the store is damaged: {reason}; nothing was deleted: keep a copy, then restore the directory from a backup"
    )]
    Damaged {
        /// In plain words.
        reason: String,
    },
    /// A record was written by a newer version.
    #[error(
        "a record in {keyspace} has format {found}, this version reads up to {known}: use the newer version"
    )]
    NewerFormat {
        /// Where.
        keyspace: String,
        /// The record's format.
        found: u16,
        /// The newest that is known.
        known: u16,
    },
    /// A write did not reach the disk.
    #[error("writing to the store failed: {reason}")]
    Io {
        /// In plain words.
        reason: String,
    },
    /// The write did not become durable in time.
    #[error("the store did not acknowledge a write in time")]
    TimedOut,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The store failed its writer before, so that nobody knows what it holds; nothing was changed.
    #[error("nothing is approved until the runtime is started again, since the store failed: {reason}")]
    Stopped {
        /// What failed, in plain words.
        reason: String,
    },
    /// A value or batch is larger than the store takes.
    #[error("{what} has {bytes} bytes, the store takes at most {limit}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// What is stored is sealed with another key, with none, or with one that was not given.
    #[error("the store's seal does not fit: {reason}; nothing was changed")]
    Sealed {
        /// In plain words, with what to do.
        reason: String,
    },
}

/// Why a runtime did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store does not open.
    #[error("cannot start: the store does not open")]
    Store(#[from] StoreError),
    /// An id is not one.
    #[error("cannot start: {text:?} is no server id")]
    Id {
        /// What was given.
        text: String,
        /// Why.
        source: IdError,
    },
    /// Two servers have one id.
    #[error("cannot start: two servers have the id \"{server}\": give each its own")]
    DuplicateServer {
        /// The id.
        server: ServerId,
    },
    /// A server's URL is not one.
    #[error("cannot start: the URL of the server \"{server}\" cannot be used: {reason}")]
    Url {
        /// Whose.
        server: ServerId,
        /// In plain words; it shows no part of the URL.
        reason: String,
    },
    /// A server's header cannot be sent.
    #[error("cannot start: the header {name:?} of the server \"{server}\" cannot be sent: {reason}")]
    Header {
        /// Whose.
        server: ServerId,
        /// The header's name.
        name: String,
        /// In plain words; it shows no part of the value.
        reason: String,
    },
    /// A server's allow or deny list has a rule that is none.
    #[error("cannot start: the lists of the server \"{server}\" cannot be used: {reason}")]
    Rule {
        /// Whose.
        server: ServerId,
        /// In plain words.
        reason: String,
    },
    /// A server needs what was not compiled in.
    #[error("cannot start: the server \"{server}\" needs the cargo feature {feature}: turn it on")]
    Feature {
        /// Which.
        server: ServerId,
        /// The feature, or the choice of features.
        feature: &'static str,
    },
    /// A function cannot be registered.
    #[error("cannot start: a function cannot be registered")]
    Function(#[from] RegistryError),
    /// There is no Tokio runtime here.
    #[error("cannot start: call `start` inside a Tokio runtime with its timer enabled")]
    NoTokio,
    /// An actor did not start.
    #[error("cannot start: the {actor} actor did not start: {reason}")]
    Actor {
        /// Which.
        actor: String,
        /// In plain words.
        reason: String,
    },
    /// Several things are wrong at once; each is told with its reasons.
    #[error("cannot start: {} things are wrong: {}", .0.len(), .0.iter().map(reasons).collect::<Vec<_>>().join("; "))]
    Several(Vec<StartError>),
}

/// The words of an error and of all its sources, without the prefix that they share.
fn reasons(error: &StartError) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words.strip_prefix("cannot start: ").unwrap_or(&words).to_owned()
}

impl StartError {
    /// What is wrong, with all of its reasons, for a sentence of the caller's own.
    pub fn reasons(&self) -> String {
        reasons(self)
    }

    /// One error as it is, several as [`StartError::Several`].
    pub fn of(mut wrong: Vec<Self>) -> Self {
        match (wrong.pop(), wrong.is_empty()) {
            (Some(only), true) => only,
            (Some(last), false) => {
                wrong.push(last);
                Self::Several(wrong)
            }
            (None, _) => Self::Several(wrong),
        }
    }
}

/// Why an actor could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Its mailbox is full.
    #[error("too many requests wait there: try again in a moment")]
    Busy,
    /// It ended before it answered; it may have recorded the request.
    #[error("the actor was restarted before it answered: look at the view, then try again")]
    Interrupted,
    /// It is being restarted and did not come back in time.
    #[error("the actor is not running: {reason}")]
    Absent {
        /// In plain words.
        reason: String,
    },
    /// The store did not take the record, so nothing was changed.
    #[error("nothing was changed")]
    Store(#[source] StoreError),
    /// The store did not confirm the record: it may be durable or not, and what is durable counts.
    #[error("it was not confirmed: look at the view, then try again")]
    Unconfirmed(#[source] StoreError),
    /// The runtime has shut down.
    #[error("the runtime has shut down")]
    ShutDown,
}

impl AskError {
    /// `true` if the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy | Self::Interrupted | Self::Absent { .. } | Self::Unconfirmed(_) => true,
            // What the store does not take now it does not take later.
            Self::Store(_) | Self::ShutDown => false,
        }
    }

    /// What a failed record means to the asker: whether it may have happened all the same.
    pub fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::TimedOut | StoreError::Io { .. } | StoreError::Closed => Self::Unconfirmed(error),
            StoreError::Directory { .. }
            | StoreError::Locked { .. }
            | StoreError::Damaged { .. }
            | StoreError::NewerFormat { .. }
            | StoreError::Stopped { .. }
            | StoreError::TooLarge { .. }
            | StoreError::Sealed { .. } => Self::Store(error),
        }
    }
}

/// Why a topic did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// No such topic.
    #[error("there is no topic \"{topic}\": open it first")]
    Unknown {
        /// Which.
        topic: TopicId,
    },
    /// The id is not one.
    #[error("{text:?} is no topic id")]
    Id {
        /// What was given.
        text: String,
        /// Why.
        source: IdError,
    },
    /// The builder's resolver knows no model of this name.
    #[error("no model is called \"{model}\": name one that the runtime was built with")]
    UnknownModel {
        /// The name.
        model: String,
    },
    /// The topic's allow or deny list has a rule that is none; nothing was changed.
    #[error("the topic's lists cannot be used: {reason}")]
    Rule {
        /// In plain words.
        reason: String,
    },
    /// The topic said no; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] TopicRejection),
    /// The topic could not be asked.
    #[error("the topic could not be asked")]
    Ask(#[from] AskError),
}

impl TopicError {
    /// `true` if the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Id { .. } | Self::UnknownModel { .. } | Self::Rule { .. } => false,
            Self::Rejected(rejection) => rejection.is_retryable(),
            Self::Ask(ask) => ask.is_retryable(),
        }
    }
}

/// Why a decision was not taken. The usual answers are in [`crate::approval::DecideAnswer`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The text is no card's name.
    #[error("\"{text}\" is no approval id: it has 64 hex digits")]
    Id {
        /// What was given.
        text: String,
    },
    /// The decision asks for what cannot be; nothing was decided.
    #[error("the decision on {approval} was refused: {reason}")]
    Refused {
        /// The card.
        approval: ApprovalId,
        /// In plain words, with what to do.
        reason: String,
    },
    /// The ledger could not be asked.
    #[error("no answer about the decision on {approval}")]
    Ask {
        /// The card.
        approval: ApprovalId,
        /// Why.
        source: AskError,
    },
}

/// Why a grant was not taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer about the grant {grant}")]
pub struct RevokeError {
    /// The grant.
    pub grant: GrantId,
    /// Why.
    pub source: AskError,
}

/// Why an answer to a server's question was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// What was written does not fit the question; nothing was answered.
    #[error("the answer to {question} was refused: {reason}")]
    Refused {
        /// The question.
        question: QuestionId,
        /// In plain words, with what to do.
        reason: String,
    },
    /// The ledger could not be asked.
    #[error("no answer about the question {question}")]
    Ask {
        /// The question.
        question: QuestionId,
        /// Why.
        source: AskError,
    },
}

/// Why a server was not reached, or not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No such server.
    #[error("there is no server \"{server}\": add it first")]
    Unknown {
        /// Which.
        server: ServerId,
    },
    /// The refresh failed; the last known good listing stays.
    #[error("the tools of \"{server}\" could not be listed: {reason}")]
    Refresh {
        /// Which.
        server: ServerId,
        /// In plain words.
        reason: String,
    },
    /// The id is not one.
    #[error("{text:?} is no server id")]
    Id {
        /// What was given.
        text: String,
        /// Why.
        source: IdError,
    },
    /// Its definition can reach no server.
    #[error("the server cannot be added: {reason}")]
    Definition {
        /// In plain words.
        reason: String,
    },
    /// Another server has the id.
    #[error("there is a server \"{server}\" already: give each its own id")]
    Duplicate {
        /// Which.
        server: ServerId,
    },
    /// Its state does not allow it; nothing was changed.
    #[error("\"{server}\": {rejection}")]
    Refused {
        /// Which.
        server: ServerId,
        /// Why.
        rejection: ConnectionRejection,
    },
    /// It could not be asked.
    #[error("the server's supervisor could not be asked")]
    Ask(#[from] AskError),
}

/// Why a connection did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The program does not exist, or may not be run. Trying again does not help.
    #[error("cannot run \"{command}\": {reason}")]
    Spawn {
        /// The program.
        command: String,
        /// In plain words, with what to do.
        reason: String,
    },
    /// The server ended, or spoke no MCP, before the handshake was done.
    #[error("the handshake failed: {reason}")]
    Handshake {
        /// In plain words.
        reason: String,
    },
    /// The server wants other credentials, or none would do. Trying again does not help.
    #[error("not authorised: {reason}")]
    Unauthorised {
        /// In plain words, with what to do.
        reason: String,
        /// What the server's `WWW-Authenticate` header says.
        challenge: Option<String>,
    },
    /// The embedder's server policy does not allow it. Trying again does not help.
    #[error("the server policy refused {what}: {reason}")]
    Refused {
        /// The program, or the host with its addresses.
        what: String,
        /// The policy's words.
        reason: String,
    },
    /// The server was silent.
    #[error("no answer to the handshake within {within_ms} ms")]
    TimedOut {
        /// The deadline.
        within_ms: u64,
    },
}

impl ConnectError {
    /// `true` if only a change of the definition or of the machine can help.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Spawn { .. } | Self::Unauthorised { .. } | Self::Refused { .. } => true,
            Self::Handshake { .. } | Self::TimedOut { .. } => false,
        }
    }
}
