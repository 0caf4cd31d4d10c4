//! The fields of the verbs about messages that wait or are held, and about a turn that was cut short.

use pilothouse::id::{MessageId, TopicId};
use pilothouse::topic::Level;
use serde::Deserialize;

/// `edit`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditFields {
    /// In which topic.
    pub topic: TopicId,
    /// Which message.
    pub message: MessageId,
    /// Its new text.
    pub text: String,
}

/// `drop`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropFields {
    /// In which topic.
    pub topic: TopicId,
    /// Which message.
    pub message: MessageId,
    /// Who asks (default: the harness).
    #[serde(default = "harness")]
    pub by: String,
}

fn harness() -> String {
    "harness".to_owned()
}

/// `reorder`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderFields {
    /// In which topic.
    pub topic: TopicId,
    /// Each message that waits, the head first.
    pub messages: Vec<MessageId>,
}

/// `resend`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResendFields {
    /// In which topic.
    pub topic: TopicId,
    /// Which held message.
    pub message: MessageId,
}

/// `relevel`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelevelFields {
    /// In which topic.
    pub topic: TopicId,
    /// Which message.
    pub message: MessageId,
    /// How soon it is to be seen.
    pub level: Level,
}
