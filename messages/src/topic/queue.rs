//! Messages that wait or are held: how soon each is to be seen, and what people may do with them.

use serde::{Deserialize, Serialize};

use crate::id::MessageId;

/// How soon a message is to be seen. What is for the next turn waits behind everything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// At the next step boundary: after the results of the calls that run.
    #[default]
    NextStep,
    /// At once as far as that goes: calls that run and may be interrupted are cancelled first.
    Now,
    /// When the turn has ended by itself.
    NextTurn,
}

impl Level {
    /// Whether a turn that runs yields to it, or takes it in, at its step boundary.
    pub fn steers(self) -> bool {
        match self {
            Self::NextStep | Self::Now => true,
            Self::NextTurn => false,
        }
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::NextStep => "next_step",
            Self::Now => "now",
            Self::NextTurn => "next_turn",
        }
    }
}

/// What a person does with a message that waits or is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueCommand {
    /// Gives it another text.
    Edit {
        /// The message.
        message: MessageId,
        /// The text.
        text: String,
    },
    /// Takes it away: it never runs.
    Drop {
        /// The message.
        message: MessageId,
        /// Who asked.
        by: String,
    },
    /// Puts the messages that wait into another order.
    Reorder {
        /// Each of them once, the head first; those for the next turn last.
        messages: Vec<MessageId>,
    },
    /// Lets a held one wait again, or start a turn if none is open.
    Resend {
        /// The message.
        message: MessageId,
    },
    /// Chooses how soon it is to be seen.
    Relevel {
        /// The message.
        message: MessageId,
        /// How soon.
        level: Level,
    },
}
