//! The audit: what became of every card, grant and call, in one order, and what does not add up.
//!
//! It is read from the ledger and the journals of topics, never kept beside them. A row is one record; a fault is
//! something that the records say and the rules do not allow.

use serde::Serialize;

use crate::approval::{RefusedDecision, Verdict};
use crate::call::CallOutcome;
use crate::digest::Digest;
use crate::grant::{Grant, GrantEnd, GrantPlace};
use crate::id::{ApprovalId, Attempt, CallId, GrantId, QuestionId, TenantId, TopicId};
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
}

/// Something that the records say and the rules do not allow, or records that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum AuditFault {
    /// A log is not whole; what comes behind its last good record is not in the audit.
    #[error("{} is whole up to record {whole}, and not behind it: {reason}", log_name(*.log, .topic.as_ref()))]
    Damaged {
        /// Which log.
        log: AuditLog,
        /// Of which topic.
        topic: Option<TopicId>,
        /// The last good record.
        whole: u64,
        /// What is wrong behind it.
        reason: String,
    },
    /// A call ran on a card that nobody allowed.
    #[error("call {call} of topic {topic} ran, but nobody allowed card {approval}")]
    RanUndecided {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
    },
    /// A call ran with another tool or other arguments than were allowed.
    #[error("call {call} of topic {topic} ran otherwise than card {approval} was allowed")]
    RanOtherwise {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
    },
    /// A call ran on a grant that did not cover it.
    #[error("call {call} of topic {topic} ran, but grant {grant} did not cover it")]
    RanUngranted {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// The grant.
        grant: GrantId,
    },
    /// A call ran in a mode that does not let it.
    #[error("call {call} of topic {topic} ran, but the mode {mode:?} does not allow it on its basis")]
    RanAgainstMode {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// The mode.
        mode: PermissionMode,
    },
    /// A call ran without a plan, or one attempt of it twice.
    #[error("attempt {attempt} at call {call} of topic {topic} ran without a plan, or a second time")]
    RanUnplanned {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// A card has two last words, or a last word without having been shown.
    #[error("card {approval} has a last word that it should not have")]
    DecidedTwice {
        /// The card.
        approval: ApprovalId,
    },
}

fn log_name(log: AuditLog, topic: Option<&TopicId>) -> String {
    match (log, topic) {
        (AuditLog::Ledger, _) => "the ledger".to_owned(),
        (AuditLog::Grants, _) => "the log of grants".to_owned(),
        (AuditLog::Topic, Some(topic)) => format!("the journal of topic {topic}"),
        (AuditLog::Topic, None) => "a topic's journal".to_owned(),
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
}

impl AuditReport {
    /// Only what belongs to one tenant; faults stay, since they concern everybody.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &TenantId) -> Self {
        self.rows.retain(|row| row.tenant.as_ref() == Some(tenant));
        self
    }

    /// Only what belongs to one topic; faults stay.
    #[must_use]
    pub fn of_topic(mut self, topic: &TopicId) -> Self {
        self.rows.retain(|row| row.topic.as_ref() == Some(topic));
        self
    }

    /// JSON Lines: a row a line, then a fault a line.
    pub fn json_lines(&self) -> String {
        let rows = self.rows.iter().map(serde_json::to_string);
        let faults = self.faults.iter().map(serde_json::to_string);
        // Nothing in a row or a fault has a key that is no text, which is all that could fail.
        rows.chain(faults).filter_map(Result::ok).flat_map(|line| [line, "\n".to_owned()]).collect()
    }
}
