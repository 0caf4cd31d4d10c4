//! Grants: standing approvals, what they cover, and how they end. Those parts that are stored are frozen.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{ApprovalId, GrantId, ServerId, TenantId, TopicId, TurnId};
use crate::json::JsonText;
use crate::time::Timestamp;
use crate::tool::ToolSource;

/// How long a decision reaches beyond its card, as a decider says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// To the end of the turn that asked.
    Turn,
    /// As long as the topic that asked.
    Topic,
    /// Every topic of the tenant.
    Always,
}

/// What a decision reaches beyond its card, as a decider says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantReach {
    /// The card's tool.
    Tool,
    /// Every tool that the card's server offers at the moment of the decision.
    Server,
}

/// How the components of two paths are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathCase {
    /// Byte for byte, as on Linux.
    #[default]
    Sensitive,
    /// After Unicode lower-casing of both, as macOS and Windows do nearly. Choose it only for tools on such a system.
    Insensitive,
}

/// What the arguments of a call have to be for a grant to cover it. Whatever cannot be told to hold does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRule {
    /// The arguments are exactly these: their [digest](ArgumentRule::exactly).
    Exact {
        /// Digest of the canonical JSON.
        digest: Digest,
    },
    /// The value at a place is this one.
    Equals {
        /// A JSON Pointer (RFC 6901) into the arguments; the empty one is all of them.
        pointer: String,
        /// The value; compared in canonical form.
        value: JsonText,
    },
    /// The text at a place is a path at or below this one.
    ///
    /// Both are read as text only, with `/` between components: `.` and empty components count for nothing, `..` takes
    /// one back. A path that leaves its beginning, or that holds a backslash or a control character, is below
    /// nothing; nor is a relative path below an absolute one. No disk is asked: a symbolic link below the path may
    /// lead out of it.
    Under {
        /// A JSON Pointer to the path.
        pointer: String,
        /// The directory.
        path: String,
        /// How components are compared.
        case: PathCase,
    },
}

impl ArgumentRule {
    /// The arguments are exactly these.
    pub fn exactly(arguments: &JsonText) -> Self {
        Self::Exact { digest: arguments_digest(arguments) }
    }
}

/// Digest of a call's arguments, as [`ArgumentRule::Exact`] compares it.
pub fn arguments_digest(arguments: &JsonText) -> Digest {
    digest_of_arguments(&arguments.value())
}

/// The same digest, of arguments that are parsed already.
pub fn digest_of_arguments(arguments: &serde_json::Value) -> Digest {
    Digest::of_json("pilothouse/arguments/1", arguments)
}

/// What a decider wants to be allowed from now on, beside the card.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GrantOffer {
    /// For how long.
    pub scope: GrantScope,
    /// For what.
    pub of: GrantReach,
    /// With which arguments; all have to hold, none means any.
    pub arguments: Vec<ArgumentRule>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl GrantOffer {
    /// Any arguments, no expiry.
    pub fn new(scope: GrantScope, of: GrantReach) -> Self {
        Self { scope, of, arguments: Vec::new(), expires_at: None }
    }

    /// Only calls whose arguments keep this rule, too.
    #[must_use]
    pub fn when(mut self, rule: ArgumentRule) -> Self {
        self.arguments.push(rule);
        self
    }

    /// Ends by itself then.
    #[must_use]
    pub fn until(mut self, at: Timestamp) -> Self {
        self.expires_at = Some(at);
        self
    }
}

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantPlace {
    /// In one turn.
    Turn {
        /// Of this topic.
        topic: TopicId,
        /// The turn.
        turn: TurnId,
    },
    /// In one topic.
    Topic {
        /// Which.
        topic: TopicId,
    },
    /// In every topic of the tenant.
    Always,
}

impl GrantPlace {
    /// The topic that it is bound to.
    pub fn topic(&self) -> Option<&TopicId> {
        match self {
            Self::Turn { topic, .. } | Self::Topic { topic } => Some(topic),
            Self::Always => None,
        }
    }
}

/// What a grant is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantSubject {
    /// One tool.
    Tool(ToolSource),
    /// The tools of one server.
    Server(ServerId),
}

/// A standing approval. It holds for what it saw: another fingerprint or definition is another tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub grant: GrantId,
    /// The card whose decision gave it.
    pub approval: ApprovalId,
    /// Whose it is; nobody else's calls are covered.
    pub tenant: TenantId,
    /// Where it holds.
    pub place: GrantPlace,
    /// What it is about.
    pub subject: GrantSubject,
    /// The fingerprints of the tools that it covers, sorted. A fingerprint is over the tool's raw name, too.
    pub fingerprints: Vec<Digest>,
    /// Fingerprint of the server's definition; of the function's name for a built-in.
    pub definition: Digest,
    /// What the arguments have to be.
    pub arguments: Vec<ArgumentRule>,
    /// Who gave it.
    pub by: String,
    /// Why, in the giver's words.
    pub reason: Option<String>,
    /// When.
    pub given_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Why a grant ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantEnd {
    /// Somebody took it back.
    Revoked {
        /// Who.
        by: String,
    },
    /// Its time was over.
    Expired,
    /// What it was given for is not there any more: another fingerprint, or another definition.
    Void,
    /// Its turn is over.
    TurnOver,
}

/// What somebody who takes a grant back is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RevokeAnswer {
    /// It is over, and that is durable.
    Revoked,
    /// No such grant, or it has ended before.
    Unknown,
}
