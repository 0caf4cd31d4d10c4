//! Approvals: cards, decisions, the ledger's events, and what deciders are told.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{ApprovalId, CallId, TenantId, TopicId};
use crate::json::JsonText;
use crate::time::Timestamp;
use crate::tool::{Effect, ToolSource};
use crate::topic::command::{CardNews, Payment};

/// One approval shown to a person. Everything on it is bound by [`Card::digest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its name.
    pub approval: ApprovalId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The topic that asks.
    pub topic: TopicId,
    /// The call that waits.
    pub call: CallId,
    /// The wire name of the tool.
    pub tool: String,
    /// Who runs it.
    pub source: ToolSource,
    /// The embedder's label of the server, or of the function.
    pub label: String,
    /// The owner's title: text from outside, to be shown as a quotation.
    pub title: Option<String>,
    /// What it may do.
    pub effect: Effect,
    /// The arguments, whole, as they will be sent.
    pub arguments: JsonText,
    /// Fingerprint of the tool.
    pub fingerprint: Digest,
    /// Fingerprint of the server's definition.
    pub definition: Digest,
    /// Why a person is asked.
    pub reason: String,
    /// When it stops waiting.
    pub expires_at: Timestamp,
}

impl Card {
    /// Digest of what the person agrees to: tool, both fingerprints and arguments.
    pub fn digest(&self) -> Digest {
        Digest::of_json(
            "pilothouse/approval/1",
            &serde_json::json!({
                "tool": self.tool,
                "fingerprint": self.fingerprint.to_string(),
                "definition": self.definition.to_string(),
                "arguments": self.arguments.value(),
            }),
        )
    }
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Do not run it.
    Deny,
}

/// One decision about one card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Run it or not.
    pub verdict: Verdict,
    /// Who decides; 256 bytes are kept.
    pub by: String,
    /// Why, in the decider's words; the model is told. 8 KiB are kept ([`Limits::description_bytes`]).
    ///
    /// [`Limits::description_bytes`]: crate::limits::Limits::description_bytes
    pub reason: Option<String>,
    /// The digest of the card that was shown: a different one is refused.
    pub digest: Option<Digest>,
}

impl Decision {
    /// Run it.
    pub fn allow(by: impl Into<String>) -> Self {
        Self { verdict: Verdict::Allow, by: by.into(), reason: None, digest: None }
    }

    /// Do not run it; the model is told the reason.
    pub fn deny(by: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny, by: by.into(), reason: Some(reason.into()), digest: None }
    }

    /// Binds the decision to the card that was shown.
    #[must_use]
    pub fn of(mut self, card: &Card) -> Self {
        self.digest = Some(card.digest());
        self
    }
}

/// The state of a card. All but `Pending` are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardState {
    /// Waits for a person.
    Pending,
    /// A person said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The topic no longer wants it.
    Withdrawn,
}

/// A card's last word, as deciders are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The final state.
    pub state: CardState,
    /// Who decided.
    pub by: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What a decider is told. The first decision wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecideAnswer {
    /// This decision is the card's last word, and it is durable.
    Applied,
    /// The card already has the same verdict.
    Already(Settlement),
    /// The card already has the other verdict.
    Conflict(Settlement),
    /// Nobody decided in time.
    Expired(Settlement),
    /// The topic no longer wants it.
    Withdrawn(Settlement),
    /// The card that was shown is not this one: show it again.
    Changed {
        /// The digest of the card as it is.
        digest: Digest,
    },
    /// No such card.
    Unknown,
}

/// Everything that the approval actor can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalCommand {
    /// A topic asks for a person (idempotent by card name).
    Open(Box<Card>),
    /// A person decides.
    Decide {
        /// The card.
        approval: ApprovalId,
        /// The decision.
        decision: Decision,
    },
    /// A topic no longer wants these cards.
    Withdraw {
        /// The topic.
        topic: TopicId,
        /// The cards.
        approvals: Vec<ApprovalId>,
        /// Why.
        reason: String,
    },
    /// A topic has recorded a decision.
    Pay {
        /// The topic.
        topic: TopicId,
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
    },
    /// The clock reached [`next_deadline`](ApprovalCommand): cards expire, debts are told again.
    Tick,
}

/// What happened in the ledger. These are stored: their bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "read once, written once, never kept in numbers")]
pub enum ApprovalEvent {
    /// A card waits for a person.
    Opened {
        /// The card.
        card: Card,
        /// When.
        at: Timestamp,
    },
    /// A person decided; the topic is owed the news until it has recorded it.
    Decided {
        /// The card.
        approval: ApprovalId,
        /// Approved or denied.
        verdict: Verdict,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
        /// The digest of the card that was decided.
        digest: Digest,
        /// When.
        at: Timestamp,
    },
    /// Nobody decided in time; the topic is owed the news.
    Expired {
        /// The card.
        approval: ApprovalId,
        /// When.
        at: Timestamp,
    },
    /// The topic no longer wants the card.
    Withdrawn {
        /// The card.
        approval: ApprovalId,
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// The topic has recorded the news, or it came too late.
    Paid {
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
        /// When.
        at: Timestamp,
    },
}

/// What the ledger wants done, once its events are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDirective {
    /// Tell the topic about a card; told again until paid.
    TellTopic {
        /// The topic.
        topic: TopicId,
        /// The card.
        approval: ApprovalId,
        /// The news.
        news: CardNews,
    },
}

/// What the one who told the ledger something is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// The card is stored and may be shown.
    Opened,
    /// The card already had this last word.
    Settled(Settlement),
    /// The answer to a decision.
    Decide(DecideAnswer),
    /// Done; nothing to say.
    Noted,
}

/// Why the ledger changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalRejection {
    /// Too many cards of one topic wait.
    #[error("{open} cards of this topic already wait for a person, the limit is {limit}")]
    TooManyCards {
        /// How many wait.
        open: usize,
        /// How many may.
        limit: usize,
    },
    /// The card is named for another call than it shows.
    #[error("the card's name does not belong to its topic and call")]
    ForeignName,
}
