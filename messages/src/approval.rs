//! Approvals: cards, decisions, the ledger's events, and what deciders are told.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::grant::GrantOffer;
use crate::id::{ApprovalId, CallId, TenantId, TopicId};
use crate::json::JsonText;
use crate::time::Timestamp;
use crate::tool::{Effect, ToolSource};

mod face;
mod ledger;

pub use face::{FacePart, SeenAs, ToolChange, ToolFace};
pub use ledger::{
    ApprovalAnswer, ApprovalCommand, ApprovalDirective, ApprovalEvent, ApprovalRejection, GrantFault, Matter,
    RefusedDecision,
};

/// One approval shown to a person. What is agreed to is bound by [`Card::digest`].
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
        card_digest(&self.tool, self.fingerprint, self.definition, &self.arguments)
    }
}

/// Digest of what the person agrees to who is shown a card: the tool by its wire name, both fingerprints, and the
/// arguments.
pub fn card_digest(tool: &str, fingerprint: Digest, definition: Digest, arguments: &JsonText) -> Digest {
    Digest::of_json(
        "pilothouse/approval/1",
        &serde_json::json!({
            "tool": tool,
            "fingerprint": fingerprint.to_string(),
            "definition": definition.to_string(),
            "arguments": arguments.value(),
        }),
    )
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
