//! Approvals: cards, decisions, the ledger's events, and what deciders are told.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::grant::{Grant, GrantEnd, GrantOffer, RevokeAnswer};
use crate::id::{ApprovalId, CallId, GrantId, TenantId, TopicId};
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
    /// For which tenant the decider speaks; another tenant's card is unknown to it. `None` is the embedder itself.
    pub tenant: Option<TenantId>,
    /// The arguments to send instead of the card's. They pass validation, deny lists and guards again.
    pub arguments: Option<JsonText>,
    /// What is allowed from now on, beside this card.
    pub grant: Option<GrantOffer>,
}

impl Decision {
    /// Run it.
    pub fn allow(by: impl Into<String>) -> Self {
        Self::new(Verdict::Allow, by.into(), None)
    }

    /// Do not run it; the model is told the reason.
    pub fn deny(by: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(Verdict::Deny, by.into(), Some(reason.into()))
    }

    fn new(verdict: Verdict, by: String, reason: Option<String>) -> Self {
        Self { verdict, by, reason, digest: None, tenant: None, arguments: None, grant: None }
    }

    /// Binds the decision to the card that was shown.
    #[must_use]
    pub fn of(mut self, card: &Card) -> Self {
        self.digest = Some(card.digest());
        self
    }

    /// Speaks for this tenant only.
    #[must_use]
    pub fn for_tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sends these arguments instead of the card's.
    #[must_use]
    pub fn with_arguments(mut self, arguments: JsonText) -> Self {
        self.arguments = Some(arguments);
        self
    }

    /// Also allows this from now on.
    #[must_use]
    pub fn granting(mut self, offer: GrantOffer) -> Self {
        self.grant = Some(offer);
        self
    }
}

impl Decision {
    /// Digest of what two decisions of one verdict may differ in: the arguments, and what is granted beside.
    pub fn terms(&self) -> Digest {
        let offer = self.grant.as_ref();
        let arguments = self.arguments.as_ref().map(|text| text.value());
        Digest::of_json(
            "pilothouse/terms/1",
            &serde_json::json!({
                "arguments": arguments,
                "scope": offer.map(|offer| offer.scope),
                "of": offer.map(|offer| offer.of),
                "rules": offer.map(|offer| &offer.arguments),
                "expires_at": offer.map(|offer| offer.expires_at),
            }),
        )
    }

    /// `true` if it decides about the card as it is, and about nothing else.
    pub fn is_plain(&self) -> bool {
        self.arguments.is_none() && self.grant.is_none()
    }
}

/// Whose card it is, also when it has its last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The topic that asked.
    pub topic: TopicId,
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
    /// The card already has the same verdict, arguments and scope.
    Already(Settlement),
    /// The card already has another verdict, other arguments or another scope.
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
        decision: Box<Decision>,
        /// Fingerprints of what the card's server offers now; a grant of a whole server covers these.
        present: Vec<Digest>,
    },
    /// Asks whose card this is; changes nothing.
    Find {
        /// The card.
        approval: ApprovalId,
    },
    /// Somebody who may not decide about the card tried to.
    Foreign {
        /// The card.
        approval: ApprovalId,
        /// Who.
        by: String,
    },
    /// Somebody takes a grant back.
    Revoke {
        /// The grant.
        grant: GrantId,
        /// Who.
        by: String,
        /// For which tenant; another tenant's grant is unknown to it. `None` is the embedder itself.
        tenant: Option<TenantId>,
    },
    /// What these grants were given for has changed.
    Void {
        /// The grants.
        grants: Vec<GrantId>,
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
    /// As `Decided`, with other arguments or beside a grant.
    DecidedWith {
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
        /// The arguments that replace the card's.
        arguments: Option<JsonText>,
        /// The digest of the [terms](Decision::terms).
        terms: Digest,
        /// When.
        at: Timestamp,
    },
    /// Somebody who may not decide about the card tried to.
    ForeignDecider {
        /// The card.
        approval: ApprovalId,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// A standing approval was given.
    Granted {
        /// The grant.
        grant: Grant,
    },
    /// A standing approval is over.
    GrantEnded {
        /// The grant.
        grant: GrantId,
        /// Why.
        end: GrantEnd,
        /// When.
        at: Timestamp,
    },
}

impl ApprovalEvent {
    /// `true` if it is about a grant and is kept with those.
    pub fn is_about_grants(&self) -> bool {
        match self {
            Self::Granted { .. } | Self::GrantEnded { .. } => true,
            Self::Opened { .. }
            | Self::Decided { .. }
            | Self::Expired { .. }
            | Self::Withdrawn { .. }
            | Self::Paid { .. }
            | Self::DecidedWith { .. }
            | Self::ForeignDecider { .. } => false,
        }
    }
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
    /// Whose card it is; `None` if there is no such card.
    Found(Option<CardOwner>),
    /// The answer to a revocation.
    Revoke(RevokeAnswer),
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
    /// A grant was asked for that cannot be given; nothing was decided.
    #[error("the decision was not taken: {0}")]
    Grant(GrantFault),
}

/// Why a grant cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantFault {
    /// A denial grants nothing.
    #[error("a denial grants nothing: leave the scope out")]
    OfDenial,
    /// The tool belongs to no server.
    #[error("the tool belongs to no server: grant the tool")]
    NoServer,
    /// It would be over before it begins.
    #[error("the grant would be over before it begins: name a later time")]
    Over,
    /// A rule can hold for no arguments.
    #[error("the rule about `{pointer}` can hold for no arguments: {reason}")]
    Rule {
        /// Where in the arguments.
        pointer: String,
        /// In plain words.
        reason: &'static str,
    },
    /// There is no room.
    #[error("{what}, the limit is {limit}: revoke some, or grant less")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}
