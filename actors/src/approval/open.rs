//! The open cards, as everybody reads them.
//!
//! One record changes one card, and thousands may wait: a snapshot for each record would cost all of them. The lock is
//! held for a look-up by the writer and for a copy of pointers by a reader, never while anybody waits for anything.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_messages::approval::{Card, ToolChange};
use pilothouse_messages::id::ApprovalId;
use pilothouse_rules::approval::Ledger;

/// What readers of the open cards see of one event.
#[derive(Debug)]
pub enum CardChange {
    /// One more card waits, with what has changed about its tool since a person has seen it.
    Shown(Arc<Card>, Option<Arc<ToolChange>>),
    /// This one has its last word.
    Gone(ApprovalId),
}

/// The cards that wait for a person and are durable; written by the approval actor only.
#[derive(Debug, Default)]
pub struct OpenCards(RwLock<BTreeMap<ApprovalId, Open>>);

#[derive(Debug)]
struct Open {
    card: Arc<Card>,
    change: Option<Arc<ToolChange>>,
}

impl OpenCards {
    /// The cards, ordered by topic and call.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        // Nothing in here panics, so a poisoned lock still holds whole cards.
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut cards: Vec<_> = open.values().map(|open| open.card.clone()).collect();
        drop(open);
        cards.sort_by(|a, b| (&a.topic, a.call).cmp(&(&b.topic, b.call)));
        cards
    }

    /// The card of this name, while it waits.
    pub fn card(&self, approval: ApprovalId) -> Option<Arc<Card>> {
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&approval).map(|open| open.card.clone())
    }

    /// What has changed about the card's tool since a person has seen it.
    pub fn change_of(&self, approval: ApprovalId) -> Option<Arc<ToolChange>> {
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&approval)?.change.clone()
    }

    pub(super) fn replace(&self, ledger: &Ledger) {
        let open = |card: Arc<Card>| {
            let change = ledger.change_of(card.approval).cloned();
            (card.approval, Open { card, change })
        };
        let cards = ledger.open_cards().into_iter().map(open).collect();
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
                CardChange::Shown(card, change) => open.insert(card.approval, Open { card, change }),
                CardChange::Gone(approval) => open.remove(&approval),
            };
        }
    }
}
