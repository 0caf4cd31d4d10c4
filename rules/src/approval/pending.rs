//! The cards that wait for a person, found by name, by deadline and by topic; no look-up walks over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_messages::approval::Card;
use pilothouse_messages::id::{ApprovalId, TopicId};
use pilothouse_messages::time::Timestamp;

/// Pending cards. Cards are shared, since readers hold them, too.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    cards: BTreeMap<ApprovalId, Arc<Card>>,
    deadlines: BTreeSet<(Timestamp, ApprovalId)>,
    per_topic: BTreeMap<TopicId, usize>,
}

impl Pending {
    pub(super) fn get(&self, approval: ApprovalId) -> Option<&Arc<Card>> {
        self.cards.get(&approval)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Card>> {
        self.cards.values()
    }

    pub(super) fn of_topic(&self, topic: &TopicId) -> usize {
        self.per_topic.get(topic).copied().unwrap_or_default()
    }

    /// Takes in a card; the first one of a name stays.
    pub(super) fn insert(&mut self, card: &Card) {
        if self.cards.contains_key(&card.approval) {
            return;
        }
        self.deadlines.insert((card.expires_at, card.approval));
        *self.per_topic.entry(card.topic.clone()).or_default() += 1;
        self.cards.insert(card.approval, Arc::new(card.clone()));
    }

    pub(super) fn remove(&mut self, approval: ApprovalId) -> Option<Arc<Card>> {
        let card = self.cards.remove(&approval)?;
        self.deadlines.remove(&(card.expires_at, approval));
        if let Some(count) = self.per_topic.get_mut(&card.topic) {
            *count -= 1;
            if *count == 0 {
                self.per_topic.remove(&card.topic);
            }
        }
        Some(card)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Those that have waited long enough, the longest first.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Arc<Card>> {
        let due = self.deadlines.iter().take_while(move |(deadline, _)| *deadline <= now);
        due.filter_map(|(_, approval)| self.cards.get(approval))
    }
}
