//! The audit: what became of every card, grant and call, in one order, and what does not add up.
//!
//! It is read from the ledger and the journals of topics, never kept beside them. A row is one record; a fault is
//! something that the records say and the rules do not allow.

use serde::Serialize;

pub mod books;
mod fault;

pub use books::{AuditBooks, TopicRecords};
pub use fault::AuditFault;

use crate::approval::{RefusedDecision, Verdict};
use crate::call::{CallOutcome, LateAnswer};
use crate::digest::Digest;
use crate::grant::{Grant, GrantEnd, GrantPlace};
use crate::id::{ApprovalId, Attempt, CallId, GrantId, QuestionId, TenantId, TopicId, TurnId};
use crate::json::JsonText;
use crate::question::{QuestionCard, QuestionWord};
use crate::time::Timestamp;
use crate::tool::{Effect, ToolSource};
use crate::topic::command::{Payment, ResolvedTool};
use crate::topic::config::{Headless, PermissionMode};

/// Which log a row was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditLog {
    /// Cards and decisions.
    Ledger,
    /// Standing approvals.
    Grants,
    /// One topic's journal.
    Topic,
}

/// One record, as an auditor reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditRow {
    /// When. A topic's record without a time of its own was written then or later.
    pub at: Timestamp,
    /// Where it stands.
    pub log: AuditLog,
    /// Its place in that log.
    pub sequence: u64,
    /// Whose it is; `None` where that is not known.
    pub tenant: Option<TenantId>,
    /// The topic; `None` where there is none.
    pub topic: Option<TopicId>,
    /// What it says.
    #[serde(flatten)]
    pub fact: AuditFact,
}

/// The tool of a card or call, as it stood then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditTool {
    /// Its wire name.
    pub name: String,
    /// Who runs it.
    pub source: ToolSource,
    /// What it may do.
    pub effect: Effect,
    /// Its fingerprint.
    pub fingerprint: Digest,
    /// Fingerprint of its server's definition.
    pub definition: Digest,
}

impl From<&ResolvedTool> for AuditTool {
    fn from(tool: &ResolvedTool) -> Self {
        Self {
            name: tool.name.clone(),
            source: tool.source.clone(),
            effect: tool.effect,
            fingerprint: tool.fingerprint,
            definition: tool.definition,
        }
    }
}

/// Why a call was allowed, with who allowed it where somebody did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum AuditBasis {
    /// The mode lets this effect run.
    Mode {
        /// The stricter of the turn's and the topic's newest.
        mode: PermissionMode,
    },
    /// A person approved its card.
    Approved {
        /// The card.
        approval: ApprovalId,
        /// Who; `None` if no allowing decision is found.
        by: Option<String>,
        /// When.
        decided_at: Option<Timestamp>,
    },
    /// A standing approval covers it.
    Grant {
        /// The grant.
        grant: GrantId,
        /// Who gave it; `None` if no such grant is found.
        by: Option<String>,
        /// When.
        given_at: Option<Timestamp>,
        /// Where it holds.
        place: Option<GrantPlace>,
    },
    /// The embedder's classifier let it run.
    Classified,
}

/// What one record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum AuditFact {
    /// A person was asked.
    CardOpened {
        /// The card.
        approval: ApprovalId,
        /// The call that waits.
        call: CallId,
        /// Its tool.
        tool: AuditTool,
        /// Its arguments.
        arguments: JsonText,
        /// What a decision is bound to.
        digest: Digest,
        /// Why a person is asked.
        reason: String,
        /// When it stops waiting.
        expires_at: Timestamp,
    },
    /// A person decided.
    Decided {
        /// The card.
        approval: ApprovalId,
        /// Yes or no.
        verdict: Verdict,
        /// Who.
        by: String,
        /// Why.
        reason: Option<String>,
        /// The digest of the card that was decided.
        digest: Digest,
        /// The arguments that replace the card's.
        arguments: Option<JsonText>,
    },
    /// Nobody decided in time.
    Expired {
        /// The card.
        approval: ApprovalId,
    },
    /// The topic took the card back.
    Withdrawn {
        /// The card.
        approval: ApprovalId,
        /// Why.
        reason: String,
    },
    /// The topic has the decision.
    Told {
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
    },
    /// A decision changed nothing.
    DecisionRefused {
        /// The card that it named.
        approval: ApprovalId,
        /// Who.
        by: String,
        /// Why.
        why: RefusedDecision,
    },
    /// A standing approval was given.
    Granted {
        /// The grant.
        grant: Box<Grant>,
    },
    /// A standing approval is over.
    GrantEnded {
        /// The grant.
        grant: GrantId,
        /// Why.
        end: GrantEnd,
    },
    /// The clock stood elsewhere than the time that had passed.
    ClockJumped {
        /// Where it should have stood.
        from: Timestamp,
        /// Where it stood.
        to: Timestamp,
    },
    /// The topic's configuration.
    Configured {
        /// How freely tools run.
        mode: PermissionMode,
    },
    /// What becomes of calls that need a person.
    HeadlessSet {
        /// What.
        headless: Headless,
    },
    /// A call was allowed, and is about to be sent.
    Allowed {
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
        /// Its tool; `None` if its plan is not found.
        tool: Option<AuditTool>,
        /// The arguments that are sent.
        arguments: Option<JsonText>,
        /// Why it was allowed.
        #[serde(flatten)]
        basis: AuditBasis,
    },
    /// A call was not allowed, or could not be made.
    NotAllowed {
        /// The call.
        call: CallId,
        /// The name that the model wrote.
        name: String,
        /// Why, as the model was told.
        reason: String,
    },
    /// A server asked a person.
    QuestionAsked {
        /// The question.
        card: Box<QuestionCard>,
        /// What an answer may be bound to.
        digest: Digest,
    },
    /// A question has its last word.
    QuestionEnded {
        /// The question.
        question: QuestionId,
        /// How it ended.
        word: QuestionWord,
        /// Who answered.
        by: Option<String>,
        /// Digest of what was written.
        content: Option<Digest>,
        /// Why it ended without an answer.
        reason: Option<String>,
    },
    /// A call has its result.
    Finished {
        /// The call.
        call: CallId,
        /// Which attempt; 0 if it never ran.
        attempt: Attempt,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// A script made a call, or a call of it has its result.
    ScriptCall {
        /// The call that the script runs in.
        call: CallId,
        /// Which of its script's calls.
        number: u32,
        /// What happened with it.
        #[serde(flatten)]
        what: ScriptCallFact,
    },
    /// The server answered a call when nobody waited for it any more; nothing followed from it.
    AnsweredLate {
        /// The call, or the one that its script runs in.
        call: CallId,
        /// What it said.
        #[serde(flatten)]
        answer: LateAnswer,
    },
}

/// What one record says of a call that a script made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "script_call", rename_all = "snake_case")]
pub enum ScriptCallFact {
    /// It was allowed, and is about to be sent.
    Allowed {
        /// Its tool.
        tool: Box<AuditTool>,
        /// The arguments that are sent, as far as they are recorded.
        arguments: JsonText,
        /// Why it was allowed.
        #[serde(flatten)]
        basis: AuditBasis,
    },
    /// It was not allowed, or answered from what is known here: nothing ran.
    Answered {
        /// The name that the script wrote.
        name: String,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// It has its result.
    Finished {
        /// How it ended.
        outcome: CallOutcome,
    },
}

/// What is not in the account because it was removed on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum AuditGap {
    /// The oldest turns of a topic are not kept any more.
    Trimmed {
        /// Whose it is; `None` where that is not known.
        tenant: Option<TenantId>,
        /// The topic.
        topic: TopicId,
        /// The last turn that is gone.
        through: TurnId,
    },
    /// A topic was removed. What the ledger says of it is in the account.
    Removed {
        /// Whose it was; `None` where that is not known.
        tenant: Option<TenantId>,
        /// The topic.
        topic: TopicId,
    },
}

impl AuditGap {
    /// Whose it is, where that is known.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Trimmed { tenant, .. } | Self::Removed { tenant, .. } => tenant.as_ref(),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &TopicId {
        match self {
            Self::Trimmed { topic, .. } | Self::Removed { topic, .. } => topic,
        }
    }
}

/// Everything that an auditor is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// What happened, in one order.
    pub rows: Vec<AuditRow>,
    /// What does not add up.
    pub faults: Vec<AuditFault>,
    /// Records of the ledger that are whole and in their chain.
    pub ledger: u64,
    /// Records of grants that are whole and in their chain.
    pub grants: u64,
    /// Topics whose journals were read.
    pub topics: usize,
    /// What was removed on purpose.
    pub gaps: Vec<AuditGap>,
}

impl AuditReport {
    /// Only what belongs to one tenant; faults stay, since they concern everybody.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &TenantId) -> Self {
        self.rows.retain(|row| row.tenant.as_ref() == Some(tenant));
        self.gaps.retain(|gap| gap.tenant() == Some(tenant));
        self
    }

    /// Only what belongs to one topic; faults stay.
    #[must_use]
    pub fn of_topic(mut self, topic: &TopicId) -> Self {
        self.rows.retain(|row| row.topic.as_ref() == Some(topic));
        self.gaps.retain(|gap| gap.topic() == topic);
        self
    }

    /// JSON Lines: a row a line, then a gap a line, then a fault a line.
    pub fn json_lines(&self) -> String {
        let rows = self.rows.iter().map(serde_json::to_string);
        let gaps = self.gaps.iter().map(serde_json::to_string);
        let faults = self.faults.iter().map(serde_json::to_string);
        // Nothing in a row, gap or fault has a key that is no text, which is all that could fail.
        rows.chain(gaps)
            .chain(faults)
            .filter_map(Result::ok)
            .flat_map(|line| [line, "\n".to_owned()])
            .collect()
    }
}
