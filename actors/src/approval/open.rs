//! The open cards, as everybody reads them.
//!
//! One record changes one card, and thousands may wait: a snapshot for each record would cost all of them. The lock is
//! held for a look-up by the writer and for a copy of pointers by a reader, never while anybody waits for anything.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_messages::approval::Card;
use pilothouse_messages::id::ApprovalId;

/// What readers of the open cards see of one event.
#[derive(Debug)]
pub enum CardChange {
    /// One more card waits.
    Shown(Arc<Card>),
    /// This one has its last word.
    Gone(ApprovalId),
}

/// The cards that wait for a person and are durable; written by the approval actor only.
#[derive(Debug, Default)]
pub struct OpenCards(RwLock<BTreeMap<ApprovalId, Arc<Card>>>);

impl OpenCards {
    /// The cards, ordered by topic and call.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        // Nothing in here panics, so a poisoned lock still holds whole cards.
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut cards: Vec<_> = open.values().cloned().collect();
        drop(open);
        cards.sort_by(|a, b| (&a.topic, a.call).cmp(&(&b.topic, b.call)));
        cards
    }

    /// The card of this name, while it waits.
    pub fn card(&self, approval: ApprovalId) -> Option<Arc<Card>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&approval).cloned()
    }

    pub(super) fn replace(&self, cards: Vec<Arc<Card>>) {
        let cards = cards.into_iter().map(|card| (card.approval, card)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = cards;
    }

    /// The changes of one batch are seen together.
    pub(super) fn change(&self, changes: Vec<CardChange>) {
        if changes.is_empty() {
            return;
        }
        let mut open = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            match change {
                CardChange::Shown(card) => open.insert(card.approval, card),
                CardChange::Gone(approval) => open.remove(&approval),
            };
        }
    }
}
