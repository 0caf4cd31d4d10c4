//! Ids: the embedder's strings, and the counters that grow within a topic.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The longest id an embedder may choose, in UTF-8 bytes.
pub const ID_BYTES_MAX: usize = 128;

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The string has no characters.
    #[error("an id needs at least one character")]
    Empty,
    /// The string is longer than [`ID_BYTES_MAX`].
    #[error("an id has at most {ID_BYTES_MAX} bytes, this one has {bytes}: choose a shorter one")]
    TooLong {
        /// Length of what was given.
        bytes: usize,
    },
    /// The string holds a control character, which no log or view could show.
    #[error("an id holds no control characters, this one has U+{code:04X}: remove it")]
    Control {
        /// The first offending character.
        code: u32,
    },
}

fn checked(text: String) -> Result<String, IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong { bytes: text.len() });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(IdError::Control { code: c as u32 }),
        None => Ok(text),
    }
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the string: not empty, at most [`ID_BYTES_MAX`] bytes, no control characters.
            ///
            /// # Errors
            /// An [`IdError`] that says which of these does not hold.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                checked(text.into()).map(Self)
            }

            /// The id as the embedder wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

string_id! {
    /// One customer of the embedder; everything that is not shared belongs to one.
    TenantId
}
string_id! {
    /// One conversation, the unit of order.
    TopicId
}
string_id! {
    /// One MCP server, stable over renames.
    ServerId
}

impl Default for TenantId {
    fn default() -> Self {
        Self("default".into())
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $int);

        impl $name {
            /// The next one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// A user message; counts up from 1 within its topic.
    MessageId(u64)
}
counter! {
    /// A turn; counts up from 1 within its topic.
    TurnId(u64)
}
counter! {
    /// A step; counts up from 1 within its turn.
    StepId(u32)
}
counter! {
    /// How often an effect was tried; counts up from 1. A result of an old attempt changes nothing.
    Attempt(u32)
}
counter! {
    /// A version of one server's listing; grows with every real change.
    Revision(u64)
}

/// Where a subscriber is in a topic's events: the epoch grows at each load, `n` with each event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// Grows each time that the topic is loaded.
    pub epoch: u64,
    /// Counts the events since that load.
    pub n: u64,
}

/// One tool call of one step: `turn.step.index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// The turn.
    pub turn: TurnId,
    /// The step within the turn.
    pub step: StepId,
    /// The place among the calls of that step, from 0.
    pub index: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.turn, self.step, self.index)
    }
}

/// One step of one turn, in one attempt; what every effect of a model carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepRef {
    /// The turn.
    pub turn: TurnId,
    /// The step within it.
    pub step: StepId,
    /// The attempt at that step.
    pub attempt: Attempt,
}

/// One approval card, named by the digest of (topic, call).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(pub Digest);

impl ApprovalId {
    /// The card of one call of one topic: always the same, so telling the ledger twice is harmless.
    pub fn of(topic: &TopicId, call: CallId) -> Self {
        Self(Digest::of_parts("pilothouse/card/1", &[topic.as_str().as_bytes(), call.to_string().as_bytes()]))
    }

    /// Reads the 64 hex digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Digest::parse(text).map(Self)
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one question of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId(pub Digest);

impl QuestionId {
    /// The question that a call asks at this moment; `n` tells those of one moment apart.
    pub fn of(topic: &TopicId, call: CallId, at: crate::time::Timestamp, n: u64) -> Self {
        let call = call.to_string();
        let parts = [topic.as_str().as_bytes(), call.as_bytes(), &at.0.to_be_bytes(), &n.to_be_bytes()];
        Self(Digest::of_parts("pilothouse/question-id/1", &parts))
    }

    /// Reads the 64 hex digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Digest::parse(text).map(Self)
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One grant, named by the digest of the card whose decision gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Digest);

impl GrantId {
    /// The grant of one card: always the same, and one at most.
    pub fn of(approval: ApprovalId) -> Self {
        Self(Digest::of_parts("pilothouse/grant/1", &[&approval.0.0]))
    }

    /// Reads the 64 hex digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Digest::parse(text).map(Self)
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
