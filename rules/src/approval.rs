//! Decides about approvals: which card waits, whose word is its last one, and which topic is owed the news.
//!
//! ```text
//!                    ┌─ Decide(allow) ──────▶ Approved ──┐
//! Open ──▶ Pending ──┼─ Decide(deny) ───────▶ Denied ────┼─ the topic is owed the news ── Pay ──▶ paid
//!                    ├─ expires_at reached ─▶ Expired ───┘
//!                    └─ Withdraw ───────────▶ Withdrawn      the topic's own wish: nothing is owed
//! ```
//!
//! All states but `Pending` are final. Illegal, and without effect: a second decision, a withdrawal of another
//! topic's card, a payment by another topic, and any step of a card that has its last word.
//! A settled card keeps its last word and loses its arguments.

mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalDirective, ApprovalEvent, ApprovalRejection, Card, CardState,
    DecideAnswer, Decision as Said, Settlement, Verdict,
};
use pilothouse_messages::id::{ApprovalId, TopicId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::command::{CardNews, Payment};

use crate::cut::{NAME_BYTES, cut};
use crate::{Decider, Decision};
use pending::Pending;

type Outcome = Decision<ApprovalEvent, ApprovalDirective, ApprovalAnswer>;

/// Every card and its last word.
///
/// The type cannot be cloned: one holder decides, everybody else sees what the holder publishes.
#[derive(Debug, PartialEq, Eq)]
pub struct Ledger {
    limits: Arc<Limits>,
    /// Cards that wait for a person, whole.
    pending: Pending,
    /// Cards that have their last word, without what was shown.
    settled: BTreeMap<ApprovalId, Settled>,
    /// News that a topic has not recorded yet; every name is also in `settled`.
    debts: BTreeMap<ApprovalId, Debt>,
}

/// What is kept of a card that has its last word.
#[derive(Debug, PartialEq, Eq)]
struct Settled {
    topic: TopicId,
    settlement: Settlement,
}

/// What a topic is owed.
#[derive(Debug, PartialEq, Eq)]
struct Debt {
    topic: TopicId,
    news: CardNews,
}

impl Ledger {
    /// A ledger without cards.
    pub fn new(limits: Arc<Limits>) -> Self {
        Self { limits, pending: Pending::default(), settled: BTreeMap::new(), debts: BTreeMap::new() }
    }

    /// The cards that wait for a person, ordered by topic and call.
    pub fn open_cards(&self) -> Vec<Arc<Card>> {
        let mut cards: Vec<_> = self.pending.iter().cloned().collect();
        cards.sort_by(|a, b| (&a.topic, a.call).cmp(&(&b.topic, b.call)));
        cards
    }

    /// The card, while it waits for a person.
    pub fn card(&self, approval: ApprovalId) -> Option<&Arc<Card>> {
        self.pending.get(approval)
    }

    fn open(&self, now: Timestamp, card: &Card) -> Result<Outcome, ApprovalRejection> {
        let approval = card.approval;
        if approval != ApprovalId::of(&card.topic, card.call) {
            return Err(ApprovalRejection::ForeignName);
        }
        if self.pending.get(approval).is_some() {
            return Ok(Decision::answer(ApprovalAnswer::Opened));
        }
        if let Some(settled) = self.settled.get(&approval) {
            let answer = ApprovalAnswer::Settled(settled.settlement.clone());
            let debt = self.debts.get(&approval);
            let directives = debt.map(|debt| debt.told(approval)).into_iter().collect();
            return Ok(Decision { answer, events: Vec::new(), directives });
        }
        self.room_for(&card.topic)?;
        let events = vec![ApprovalEvent::Opened { card: card.clone(), at: now }];
        Ok(Decision { answer: ApprovalAnswer::Opened, events, directives: Vec::new() })
    }

    fn room_for(&self, topic: &TopicId) -> Result<(), ApprovalRejection> {
        let open = self.pending.of_topic(topic);
        let limit = self.limits.cards_per_topic;
        if open < limit { Ok(()) } else { Err(ApprovalRejection::TooManyCards { open, limit }) }
    }

    fn settle(&self, now: Timestamp, approval: ApprovalId, said: &Said) -> Outcome {
        if let Some(settled) = self.settled.get(&approval) {
            return Decision::answer(ApprovalAnswer::Decide(too_late(&settled.settlement, said.verdict)));
        }
        let Some(card) = self.pending.get(approval) else {
            return Decision::answer(ApprovalAnswer::Decide(DecideAnswer::Unknown));
        };
        if card.expires_at <= now {
            let settlement = Settlement { state: CardState::Expired, by: None, at: now };
            let answer = ApprovalAnswer::Decide(DecideAnswer::Expired(settlement));
            let (event, directive) = expiry(now, card);
            return Decision { answer, events: vec![event], directives: vec![directive] };
        }
        let digest = card.digest();
        if said.digest.is_some_and(|shown| shown != digest) {
            return Decision::answer(ApprovalAnswer::Decide(DecideAnswer::Changed { digest }));
        }
        let by = cut(&said.by, NAME_BYTES).to_owned();
        let reason = said.reason.as_deref().map(|reason| self.kept(reason));
        let verdict = said.verdict;
        let news = CardNews::Decided { verdict, by: by.clone(), reason: reason.clone() };
        let event = ApprovalEvent::Decided { approval, verdict, by, reason, digest, at: now };
        let directive = ApprovalDirective::TellTopic { topic: card.topic.clone(), approval, news };
        let answer = ApprovalAnswer::Decide(DecideAnswer::Applied);
        Decision { answer, events: vec![event], directives: vec![directive] }
    }

    fn kept(&self, reason: &str) -> String {
        cut(reason, self.limits.description_bytes).to_owned()
    }

    fn withdraw(&self, now: Timestamp, topic: &TopicId, approvals: &[ApprovalId], reason: &str) -> Outcome {
        let named: BTreeSet<&ApprovalId> = approvals.iter().collect();
        let own = named.into_iter().filter(|approval| {
            let card = self.pending.get(**approval);
            card.is_some_and(|card| card.topic == *topic)
        });
        let events = own.map(|approval| ApprovalEvent::Withdrawn {
            approval: *approval,
            reason: self.kept(reason),
            at: now,
        });
        Decision { events: events.collect(), ..Decision::answer(ApprovalAnswer::Noted) }
    }

    fn pay(&self, now: Timestamp, topic: &TopicId, approval: ApprovalId, payment: Payment) -> Outcome {
        let owed = self.debts.get(&approval).is_some_and(|debt| debt.topic == *topic);
        let events = owed.then_some(ApprovalEvent::Paid { approval, payment, at: now });
        Decision { events: events.into_iter().collect(), ..Decision::answer(ApprovalAnswer::Noted) }
    }

    fn tick(&self, now: Timestamp) -> Outcome {
        let (events, news): (Vec<_>, Vec<_>) = self.pending.due(now).map(|card| expiry(now, card)).unzip();
        let directives = self.resume().into_iter().chain(news).collect();
        Decision { answer: ApprovalAnswer::Noted, events, directives }
    }

    fn take_word(
        &mut self,
        approval: ApprovalId,
        state: CardState,
        by: Option<String>,
        at: Timestamp,
    ) -> Option<TopicId> {
        let topic = self.pending.remove(approval)?.topic.clone();
        let settlement = Settlement { state, by, at };
        self.settled.insert(approval, Settled { topic: topic.clone(), settlement });
        Some(topic)
    }
}

impl Debt {
    fn told(&self, approval: ApprovalId) -> ApprovalDirective {
        ApprovalDirective::TellTopic { topic: self.topic.clone(), approval, news: self.news.clone() }
    }
}

/// What a decision about a card with a last word is answered.
fn too_late(settlement: &Settlement, verdict: Verdict) -> DecideAnswer {
    let settlement = settlement.clone();
    match (settlement.state, verdict) {
        (CardState::Approved, Verdict::Allow) | (CardState::Denied, Verdict::Deny) => {
            DecideAnswer::Already(settlement)
        }
        (CardState::Approved, Verdict::Deny) | (CardState::Denied, Verdict::Allow) => {
            DecideAnswer::Conflict(settlement)
        }
        (CardState::Expired, Verdict::Allow | Verdict::Deny) => DecideAnswer::Expired(settlement),
        (CardState::Withdrawn, Verdict::Allow | Verdict::Deny) => DecideAnswer::Withdrawn(settlement),
        // A settlement is never pending; the honest answer to one is that there is no last word to name.
        (CardState::Pending, Verdict::Allow | Verdict::Deny) => DecideAnswer::Unknown,
    }
}

fn expiry(now: Timestamp, card: &Card) -> (ApprovalEvent, ApprovalDirective) {
    let approval = card.approval;
    let news = CardNews::Expired;
    (
        ApprovalEvent::Expired { approval, at: now },
        ApprovalDirective::TellTopic { topic: card.topic.clone(), approval, news },
    )
}

impl Decider for Ledger {
    type Command = ApprovalCommand;
    type Event = ApprovalEvent;
    type Directive = ApprovalDirective;
    type Answer = ApprovalAnswer;
    type Rejection = ApprovalRejection;

    fn decide(&self, now: Timestamp, command: &ApprovalCommand) -> Result<Outcome, ApprovalRejection> {
        match command {
            ApprovalCommand::Open(card) => self.open(now, card),
            ApprovalCommand::Decide { approval, decision } => Ok(self.settle(now, *approval, decision)),
            ApprovalCommand::Withdraw { topic, approvals, reason } => {
                Ok(self.withdraw(now, topic, approvals, reason))
            }
            ApprovalCommand::Pay { topic, approval, payment } => {
                Ok(self.pay(now, topic, *approval, *payment))
            }
            ApprovalCommand::Tick => Ok(self.tick(now)),
        }
    }

    fn apply(&mut self, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Opened { card, at: _ } => {
                if !self.settled.contains_key(&card.approval) {
                    self.pending.insert(card);
                }
            }
            ApprovalEvent::Decided { approval, verdict, by, reason, digest: _, at } => {
                let state = match verdict {
                    Verdict::Allow => CardState::Approved,
                    Verdict::Deny => CardState::Denied,
                };
                if let Some(topic) = self.take_word(*approval, state, Some(by.clone()), *at) {
                    let news =
                        CardNews::Decided { verdict: *verdict, by: by.clone(), reason: reason.clone() };
                    self.debts.insert(*approval, Debt { topic, news });
                }
            }
            ApprovalEvent::Expired { approval, at } => {
                if let Some(topic) = self.take_word(*approval, CardState::Expired, None, *at) {
                    self.debts.insert(*approval, Debt { topic, news: CardNews::Expired });
                }
            }
            ApprovalEvent::Withdrawn { approval, reason: _, at } => {
                self.take_word(*approval, CardState::Withdrawn, None, *at);
            }
            ApprovalEvent::Paid { approval, payment: Payment::Paid | Payment::Void, at: _ } => {
                self.debts.remove(approval);
            }
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.next_deadline()
    }

    fn resume(&self) -> Vec<ApprovalDirective> {
        self.debts.iter().map(|(approval, debt)| debt.told(*approval)).collect()
    }
}

#[cfg(test)]
mod tests;
