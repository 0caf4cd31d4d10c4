//! Why a topic refuses a command; nothing has changed then.

use crate::id::{MessageId, TurnId};
use crate::topic::config::PermissionMode;

/// Why a command changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicRejection {
    /// The topic was never opened.
    #[error("the topic was never opened: open it with a configuration first")]
    NotOpen,
    /// The message has no text.
    #[error("the message is empty: send some text")]
    EmptyText,
    /// Too many messages wait.
    #[error(
        "{queued} messages already wait, the limit is {limit}: send again when the topic has worked some off"
    )]
    QueueFull {
        /// How many wait.
        queued: usize,
        /// How many may.
        limit: usize,
    },
    /// Too much text waits.
    #[error("{bytes} bytes of messages would wait, the limit is {limit}: send less text, or send it later")]
    QueueBytes {
        /// How many bytes would wait.
        bytes: usize,
        /// How many may.
        limit: usize,
    },
    /// The key was used for another text.
    #[error("the key of this message was used for message {message} with another text: use a new key")]
    KeyReused {
        /// The message that has the key.
        message: MessageId,
    },
    /// The mode lets more run than the runtime allows a topic.
    #[error(
        "the mode {mode:?} lets more run than {max:?}, the loosest that this runtime allows: choose a stricter one"
    )]
    TooLoose {
        /// The mode.
        mode: PermissionMode,
        /// The loosest.
        max: PermissionMode,
    },
    /// The topic belongs to another tenant.
    #[error("the topic belongs to another tenant")]
    OtherTenant,
    /// A result of an attempt, call or card that is over.
    #[error("this belongs to an attempt that is over")]
    Stale,
    /// No message has this id.
    #[error("there is no message {message} in this topic")]
    UnknownMessage {
        /// The id.
        message: MessageId,
    },
    /// The message neither waits nor is held.
    #[error(
        "message {message} neither waits nor is held, so nothing about it can be changed: send another one"
    )]
    NotWaiting {
        /// The message.
        message: MessageId,
    },
    /// The message is not held.
    #[error("message {message} is not held: only a held one can be sent again")]
    NotHeld {
        /// The message.
        message: MessageId,
    },
    /// The order is not one of the queue.
    #[error(
        "the order is not one of this queue: name each message that waits once, those for the next turn last"
    )]
    WrongOrder,
    /// Too many messages are held.
    #[error("{held} messages wait or are held, the limit is {limit}: send held ones again, or drop them")]
    HeldFull {
        /// How many wait or are held.
        held: usize,
        /// How many may.
        limit: usize,
    },
    /// Too much text is held.
    #[error(
        "{bytes} bytes of messages would wait or be held, the limit is {limit}: send held ones again, or drop them"
    )]
    HeldBytes {
        /// How many bytes would wait or be held.
        bytes: usize,
        /// How many may.
        limit: usize,
    },
    /// A turn is open.
    #[error("turn {turn} is open: it goes on by itself")]
    TurnOpen {
        /// The turn.
        turn: TurnId,
    },
    /// The last turn was not cut short.
    #[error(
        "no turn was cut short: only one that was truncated, interrupted, at its step limit or expired can go on"
    )]
    NothingToContinue,
    /// A script has made as many calls as it may.
    #[error("the script has made {limit} calls, the most that it may: make fewer, or several scripts")]
    NestedCalls {
        /// How many it may make.
        limit: u32,
    },
    /// The mode became stricter before a script's call was recorded.
    #[error(
        "the mode {mode:?} does not let this call run any more: call it outside the script, or loosen the mode"
    )]
    ModeForbids {
        /// The mode.
        mode: PermissionMode,
    },
}

impl TopicRejection {
    /// `true` if the same command may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::QueueBytes { .. })
    }
}
