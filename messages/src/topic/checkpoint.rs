//! What is stored of a topic between two of its turns, so that its records need not be read from the first one, and
//! how its past is paged through.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{MessageId, TurnId};
use crate::time::Timestamp;
use crate::topic::event::{HoldReason, StopReason, TopicEvent};
use crate::topic::queue::Level;
use crate::topic::view::{Receipt, TurnView};

/// A topic after one of its turns has ended, without the turns themselves. Stored: its bytes are frozen (see
/// [`crate::record`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicCheckpoint {
    /// The record of its journal that comes after it.
    pub next: u64,
    /// The last turn of the checkpoint before it, by which that one is found; 0 if there is none.
    pub previous: TurnId,
    /// The newest stamp so far.
    pub at: Timestamp,
    /// The configuration, as events that record it.
    pub config: Vec<TopicEvent>,
    /// The newest message.
    pub last_message: MessageId,
    /// The turn that has just ended; names the checkpoint.
    pub last_turn: TurnId,
    /// How many turns have ended.
    pub turns: u64,
    /// How the last one ended.
    pub stop: Option<StopReason>,
    /// Whether the model had the last word in it.
    pub model_spoke_last: bool,
    /// Messages that wait, head first.
    pub queue: Vec<WaitingMessage>,
    /// Messages that are held.
    pub held: Vec<(WaitingMessage, HoldReason)>,
    /// Client keys of messages that no closed turn has taken.
    pub keys: Vec<StoredKey>,
}

/// A message that no turn has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    /// Its id.
    pub message: MessageId,
    /// Its text.
    pub text: String,
    /// Digest of the sender's key.
    pub key: Option<Digest>,
    /// When it was accepted.
    pub at: Timestamp,
    /// How soon it is to be seen.
    pub level: Level,
}

/// What a client key stands for, as long as its topic lives. Stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// Digest of the key.
    pub key: Digest,
    /// The message that has it.
    pub message: MessageId,
    /// Digest of the message's text.
    pub text: Digest,
    /// Where it is; `None` while it waits.
    pub receipt: Option<Receipt>,
}

/// A place in a topic's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HistoryCursor {
    /// The page ends before this turn.
    before: TurnId,
    /// Where reading begins, if that is known already.
    from: Option<TurnId>,
}

impl HistoryCursor {
    /// The turns before this one.
    pub fn before(turn: TurnId) -> Self {
        Self { before: turn, from: None }
    }

    /// The same place, with the checkpoint from which it can be read.
    #[must_use]
    pub fn from_checkpoint(self, last_turn: TurnId) -> Self {
        Self { from: Some(last_turn), ..self }
    }

    /// The page ends before this turn.
    pub fn turn(&self) -> TurnId {
        self.before
    }

    /// The checkpoint from which it can be read, if that is known.
    pub fn checkpoint(&self) -> Option<TurnId> {
        self.from
    }
}

/// One page of a topic's records as JSON Lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportPage {
    /// One JSON object for each record: `topic`, `sequence`, `event`.
    pub lines: Vec<String>,
    /// The record with which the next page begins; `None` after the last one.
    pub next: Option<u64>,
}

/// One page of a topic's past.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryPage {
    /// Closed turns, oldest first.
    pub turns: Vec<Arc<TurnView>>,
    /// Where the page before it is; `None` if this is the first, or what came before is not kept any more.
    pub earlier: Option<HistoryCursor>,
}

impl HistoryPage {
    /// A page.
    pub fn new(turns: Vec<Arc<TurnView>>, earlier: Option<HistoryCursor>) -> Self {
        Self { turns, earlier }
    }
}
