//! What an `error` event says: a code for programs, words for people.

use std::error::Error;

use pilothouse::error::{
    AnswerError, AskError, DecideError, RevokeError, ServerError, StartError, StoreError, TopicError,
};
use pilothouse::topic::TopicRejection;

/// Why a line in was not done. The run goes on.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn of(code: &'static str, error: &dyn Error) -> Self {
        Self { code, message: words(error) }
    }
}

/// An error with everything that caused it.
fn words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

impl From<TopicError> for Refusal {
    fn from(error: TopicError) -> Self {
        let code = match &error {
            TopicError::Unknown { .. } => "unknown_topic",
            TopicError::Id { .. } => "malformed_id",
            TopicError::UnknownModel { .. } => "unknown_model",
            TopicError::Rule { .. } => "malformed_rule",
            TopicError::Rejected(rejection) => rejected(rejection),
            TopicError::Ask(ask) => asked(ask),
            // The enum may grow; the words still say what happened.
            _ => "topic",
        };
        Self::of(code, &error)
    }
}

fn rejected(rejection: &TopicRejection) -> &'static str {
    match rejection {
        TopicRejection::NotOpen => "not_open",
        TopicRejection::EmptyText => "empty_text",
        TopicRejection::QueueFull { .. } => "queue_full",
        TopicRejection::QueueBytes { .. } => "queue_bytes",
        TopicRejection::KeyReused { .. } => "key_reused",
        TopicRejection::OtherTenant => "other_tenant",
        TopicRejection::Stale => "stale",
        TopicRejection::TooLoose { .. } => "too_loose",
        TopicRejection::UnknownMessage { .. } => "unknown_message",
        TopicRejection::NotWaiting { .. } => "not_waiting",
        TopicRejection::NotHeld { .. } => "not_held",
        TopicRejection::WrongOrder => "wrong_order",
        TopicRejection::HeldFull { .. } => "held_full",
        TopicRejection::HeldBytes { .. } => "held_bytes",
        TopicRejection::TurnOpen { .. } => "turn_open",
        TopicRejection::NothingToContinue => "nothing_to_continue",
        // The enum may grow; the words still say what happened.
        _ => "rejected",
    }
}

fn asked(ask: &AskError) -> &'static str {
    match ask {
        AskError::Busy => "busy",
        AskError::Interrupted => "interrupted",
        AskError::Absent { .. } => "absent",
        AskError::Store(store) | AskError::Unconfirmed(store) => stored(store),
        AskError::ShutDown => "shut_down",
        // The enum may grow; the words still say what happened.
        _ => "ask",
    }
}

fn stored(store: &StoreError) -> &'static str {
    match store {
        StoreError::Directory { .. } => "directory",
        StoreError::Locked { .. } => "locked",
        StoreError::Damaged { .. } => "damaged",
        StoreError::NewerFormat { .. } => "newer_format",
        StoreError::Io { .. } => "io",
        StoreError::TimedOut => "timed_out",
        StoreError::Closed => "closed",
        StoreError::Stopped { .. } => "approvals_stopped",
        StoreError::TooLarge { .. } => "too_large",
        StoreError::Sealed { .. } => "sealed",
        // The enum may grow; the words still say what happened.
        _ => "store",
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        let code = match &error {
            ServerError::Unknown { .. } => "unknown_server",
            ServerError::Refresh { .. } => "refresh",
            ServerError::Refused { .. } => "refused",
            ServerError::Duplicate { .. } => "duplicate_server",
            ServerError::Id { .. } => "malformed_id",
            ServerError::Ask(ask) => asked(ask),
            // The enum may grow; the words still say what happened.
            _ => "server",
        };
        Self::of(code, &error)
    }
}

impl From<DecideError> for Refusal {
    fn from(error: DecideError) -> Self {
        let code = match &error {
            DecideError::Id { .. } => "malformed_id",
            DecideError::Refused { .. } => "refused",
            DecideError::Ask { source, .. } => asked(source),
            // The enum may grow; the words still say what happened.
            _ => "decide",
        };
        Self::of(code, &error)
    }
}

impl From<RevokeError> for Refusal {
    fn from(error: RevokeError) -> Self {
        Self::of(asked(&error.source), &error)
    }
}

impl From<AnswerError> for Refusal {
    fn from(error: AnswerError) -> Self {
        let code = match &error {
            AnswerError::Refused { .. } => "refused",
            AnswerError::Ask { source, .. } => asked(source),
            // The enum may grow; the words still say what happened.
            _ => "answer",
        };
        Self::of(code, &error)
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Store(store) => stored(store),
            StartError::Id { .. } => "malformed_id",
            StartError::DuplicateServer { .. } => "duplicate_server",
            StartError::Actor { .. } => "actor",
            StartError::Several(_) => "several",
            // Functions and Tokio are the driver's own; the enum may also grow.
            _ => "start",
        };
        Self::of(code, &error)
    }
}
