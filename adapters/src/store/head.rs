//! The head of a stored topic: its epoch, its newest checkpoint, and from where its records are kept.

use super::{Keyspace, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{MessageId, TurnId};

/// The head of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Grows with each life of its session.
    pub epoch: u64,
    /// The newest checkpoint, by its last turn; 0 if there is none.
    pub checkpoint: TurnId,
    /// The first record of the journal that is kept.
    pub kept_from: u64,
    /// Numbers that an earlier topic of this name has used: cards and idempotency keys are named by them, so that they
    /// are never given again.
    pub used: Used,
    /// Whether there is a topic.
    pub presence: Present,
}

/// Numbers that were given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The newest turn.
    pub turn: TurnId,
    /// The newest message.
    pub message: MessageId,
}

/// Whether there is a topic under this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Present {
    /// There is.
    Yes,
    /// It was removed; its numbers stay.
    Removed,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            epoch: 0,
            checkpoint: TurnId::default(),
            kept_from: 1,
            used: Used::default(),
            presence: Present::Yes,
        }
    }
}

impl Head {
    /// Reads the head of the topic with this prefix.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is none; else the store's own.
    pub async fn read(store: &dyn Store, prefix: &[u8]) -> Result<Option<Self>, StoreError> {
        let bytes = store.get(Keyspace::Head, prefix.to_vec()).await?;
        bytes.map(|bytes| Self::parse(&bytes)).transpose()
    }

    /// Its bytes. Frozen: numbers, big-endian, then one byte.
    pub fn to_bytes(self) -> Vec<u8> {
        let Self { epoch, checkpoint, kept_from, used: Used { turn, message }, presence } = self;
        let numbers = [epoch, checkpoint.0, kept_from, turn.0, message.0];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
        bytes.push(match presence {
            Present::Yes => 0,
            Present::Removed => 1,
        });
        bytes
    }

    /// Reads it back; the first version wrote the epoch alone.
    fn parse(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged { reason: "the head of a topic cannot be read".to_owned() };
        let (numbers, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect();
        match (numbers.as_slice(), rest) {
            ([epoch], []) => Ok(Self { epoch: *epoch, ..Self::default() }),
            ([epoch, checkpoint, kept_from, turn, message], [presence @ (0 | 1)]) => Ok(Self {
                epoch: *epoch,
                checkpoint: TurnId(*checkpoint),
                kept_from: *kept_from,
                used: Used { turn: TurnId(*turn), message: MessageId(*message) },
                presence: if *presence == 0 { Present::Yes } else { Present::Removed },
            }),
            _ => Err(damaged()),
        }
    }
}

#[cfg(test)]
mod tests;
