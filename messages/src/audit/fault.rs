//! What an auditor finds that does not add up.

use serde::Serialize;

use super::AuditLog;
use crate::id::{ApprovalId, Attempt, CallId, GrantId, TopicId};
use crate::topic::config::PermissionMode;

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
    /// A topic had recorded the last word on a card, and its journal does not have it: the journal has lost its end, or
    /// is gone.
    #[error(
        "topic {topic} had recorded the word on card {approval} of call {call}, and its journal does not have it"
    )]
    WordLost {
        /// The topic.
        topic: TopicId,
        /// The call.
        call: CallId,
        /// The card.
        approval: ApprovalId,
    },
    /// A script made a call outside of its own, or a second time.
    #[error(
        "call {number} of the script of call {call} of topic {topic} was made outside of its script, or a second time"
    )]
    ScriptCallUnplanned {
        /// The topic.
        topic: TopicId,
        /// The call that the script runs in.
        call: CallId,
        /// Which of its script's calls.
        number: u32,
    },
    /// A script's call ran on a basis that does not hold.
    #[error("call {number} of the script of call {call} of topic {topic} ran on a basis that does not hold")]
    ScriptCallUnfounded {
        /// The topic.
        topic: TopicId,
        /// The call that the script runs in.
        call: CallId,
        /// Which of its script's calls.
        number: u32,
    },
    /// The store has lost its end: records of any log may be missing behind its last one.
    #[error("the store has lost its end, and records of any log may be missing: {reason}")]
    EndLost {
        /// What is known of it.
        reason: String,
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
