//! A shell that keeps something, before and after it has read its records.

use std::collections::VecDeque;

use pilothouse_messages::error::StoreError;

use crate::durable::{Committed, Durable, Journal, Pictured, Released};
use crate::slot::Letter;

/// What a shell is doing.
pub enum Phase<D: Pictured, J, M> {
    /// Reading its records; letters that come earlier wait, bounded by the mailbox's permits.
    Loading(VecDeque<Letter<M>>),
    /// At work.
    Live(Box<Durable<D, J>>),
}

impl<D: Pictured, J: Journal<D>, M> Phase<D, J, M> {
    /// A shell that has just been born.
    pub fn loading() -> Self {
        Self::Loading(VecDeque::new())
    }

    /// Goes to work; returns what came too early, in order.
    pub fn begin(&mut self, durable: Durable<D, J>) -> VecDeque<Letter<M>> {
        match std::mem::replace(self, Self::Live(Box::new(durable))) {
            Self::Loading(letters) => letters,
            Self::Live(_) => VecDeque::new(),
        }
    }

    /// Takes the report of a commit; nothing is under way before the records are read.
    ///
    /// # Errors
    /// The store's error: the actor has to end.
    pub fn acknowledged(&mut self, committed: Committed) -> Result<Vec<Released<D>>, StoreError> {
        match self {
            Self::Loading(_) => Ok(Vec::new()),
            Self::Live(durable) => durable.acknowledged(committed),
        }
    }
}
