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
//!
//! A decision that changes nothing is recorded, too, within a bound: an auditor sees who tried what.
//!
//! A card whose tool is not what a person has seen of it shows what has changed.
//!
//! What servers ask of people lies beside the cards: the first answer wins, and a question whose call is gone is over.
//!
//! An approval may also give a grant, in the same batch; a grant ends when it is revoked, its time or turn is over, or
//! what it was given for has changed. One that has ended never comes back.

mod faces;
mod grants;
mod pending;
mod questions;
mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalDirective, ApprovalEvent, ApprovalRejection, Card, CardOwner,
    CardState, DecideAnswer, Decision as Said, Settlement, ToolFace, Verdict,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::Grant;
use pilothouse_messages::id::{ApprovalId, TenantId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::command::{CardNews, Payment};

use crate::cut::{NAME_BYTES, cut};
use crate::grant::{GrantBook, given};
use crate::{Decider, Decision};
use faces::Faces;
pub use faces::face;
use pending::Pending;
use questions::Questions;
use refused::Refused;

type Outcome = Decision<ApprovalEvent, ApprovalDirective, ApprovalAnswer>;

/// Every card and its last word, and the grants that hold.
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
    /// The grants that hold.
    grants: GrantBook,
    /// How many decisions that changed nothing are recorded.
    refused: Refused,
    /// What servers ask.
    questions: Questions,
    /// What people were shown of tools.
    faces: Faces,
}

/// What is kept of a card that has its last word.
#[derive(Debug, PartialEq, Eq)]
struct Settled {
    tenant: TenantId,
    topic: TopicId,
    settlement: Settlement,
    /// The decision's terms, where it was more than yes or no.
    terms: Option<Digest>,
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
        Self {
            limits,
            pending: Pending::default(),
            settled: BTreeMap::new(),
            debts: BTreeMap::new(),
            grants: GrantBook::default(),
            refused: Refused::default(),
            questions: Questions::default(),
            faces: Faces::default(),
        }
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

    fn open(
        &self,
        now: Timestamp,
        card: &Card,
        face: Option<&ToolFace>,
    ) -> Result<Outcome, ApprovalRejection> {
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
        let (mut card, at) = (card.clone(), now);
        if card.expires_at <= now {
            // It was made by a clock that stood far before this ledger's, or waited long to be shown: nobody has seen it.
            card.expires_at = now.after(self.limits.approval);
        }
        let event = match face.filter(|face| self.faces.is_news(&card, face)).cloned() {
            Some(face) => ApprovalEvent::OpenedShowing { card, face, at },
            None => ApprovalEvent::Opened { card, at },
        };
        let events = vec![event];
        Ok(Decision { answer: ApprovalAnswer::Opened, events, directives: Vec::new() })
    }

    fn room_for(&self, topic: &TopicId) -> Result<(), ApprovalRejection> {
        let open = self.pending.of_topic(topic);
        let limit = self.limits.cards_per_topic;
        if open < limit { Ok(()) } else { Err(ApprovalRejection::TooManyCards { open, limit }) }
    }

    fn settle(
        &self,
        now: Timestamp,
        approval: ApprovalId,
        said: &Said,
        present: &[Digest],
    ) -> Result<Outcome, ApprovalRejection> {
        if said.tenant.is_some() && self.owner(approval).map(|owner| owner.tenant) != said.tenant {
            return Ok(self.foreign(now, approval, &said.by));
        }
        if let Some(settled) = self.settled.get(&approval) {
            return Ok(self.refused(now, approval, &said.by, too_late(settled, said)));
        }
        let Some(card) = self.pending.get(approval) else {
            return Ok(self.refused(now, approval, &said.by, DecideAnswer::Unknown));
        };
        if card.expires_at <= now {
            let settlement = Settlement { state: CardState::Expired, by: None, at: now };
            let (event, directive) = expiry(now, card);
            let refused = self.refused(now, approval, &said.by, DecideAnswer::Expired(settlement));
            let events = [event].into_iter().chain(refused.events).collect();
            return Ok(Decision { answer: refused.answer, events, directives: vec![directive] });
        }
        let digest = card.digest();
        if said.digest.is_some_and(|shown| shown != digest) {
            return Ok(self.refused(now, approval, &said.by, DecideAnswer::Changed { digest }));
        }
        let grant = given(card, said, present, now, &self.limits).map_err(ApprovalRejection::Grant)?;
        let events = self.decided(now, card, said, grant)?;
        let news = news_of(said.verdict, &self.by(said), self.reason(said).as_ref(), said.arguments.as_ref());
        let directive = ApprovalDirective::TellTopic { topic: card.topic.clone(), approval, news };
        let answer = ApprovalAnswer::Decide(DecideAnswer::Applied);
        Ok(Decision { answer, events, directives: vec![directive] })
    }

    fn decided(
        &self,
        at: Timestamp,
        card: &Card,
        said: &Said,
        grant: Option<Grant>,
    ) -> Result<Vec<ApprovalEvent>, ApprovalRejection> {
        let (approval, digest, verdict) = (card.approval, card.digest(), said.verdict);
        let (by, reason) = (self.by(said), self.reason(said));
        if said.is_plain() {
            return Ok(vec![ApprovalEvent::Decided { approval, verdict, by, reason, digest, at }]);
        }
        let (arguments, terms) = (said.arguments.clone(), said.terms());
        let mut events =
            vec![ApprovalEvent::DecidedWith { approval, verdict, by, reason, digest, arguments, terms, at }];
        if let Some(grant) = grant {
            events.extend(self.granted(grant).map_err(ApprovalRejection::Grant)?);
        }
        Ok(events)
    }

    /// Whose card it is.
    fn owner(&self, approval: ApprovalId) -> Option<CardOwner> {
        let of =
            |tenant: &TenantId, topic: &TopicId| CardOwner { tenant: tenant.clone(), topic: topic.clone() };
        let pending = self.pending.get(approval).map(|card| of(&card.tenant, &card.topic));
        pending.or_else(|| self.settled.get(&approval).map(|settled| of(&settled.tenant, &settled.topic)))
    }

    fn by(&self, said: &Said) -> String {
        cut(&said.by, NAME_BYTES).to_owned()
    }

    fn reason(&self, said: &Said) -> Option<String> {
        said.reason.as_deref().map(|reason| self.kept(reason))
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
        let (over, told) = self.questions_over(now);
        let directives = self.resume().into_iter().chain(news).chain(told).collect();
        let events = events.into_iter().chain(self.grants_over(now)).chain(over).collect();
        Decision { answer: ApprovalAnswer::Noted, events, directives }
    }

    fn take_card(&mut self, card: &Card) {
        if !self.settled.contains_key(&card.approval) {
            self.pending.insert(card);
            self.faces.open(card);
        }
    }

    fn take_word(
        &mut self,
        approval: ApprovalId,
        state: CardState,
        by: Option<String>,
        at: Timestamp,
    ) -> Option<TopicId> {
        let card = self.pending.remove(approval)?;
        if state == CardState::Approved {
            self.faces.allow(approval);
        }
        self.faces.close(approval);
        let (tenant, topic) = (card.tenant.clone(), card.topic.clone());
        let settlement = Settlement { state, by, at };
        self.settled.insert(approval, Settled { tenant, topic: topic.clone(), settlement, terms: None });
        Some(topic)
    }

    fn take_verdict(&mut self, approval: ApprovalId, by: &str, at: Timestamp, news: CardNews) {
        let state = match &news {
            CardNews::Decided { verdict: Verdict::Allow, .. } => CardState::Approved,
            CardNews::Decided { verdict: Verdict::Deny, .. } => CardState::Denied,
            CardNews::Opened(_) | CardNews::Waits | CardNews::Refused(_) | CardNews::Expired => return,
        };
        if let Some(topic) = self.take_word(approval, state, Some(by.to_owned()), at) {
            self.debts.insert(approval, Debt { topic, news });
        }
    }
}

fn news_of(verdict: Verdict, by: &str, reason: Option<&String>, arguments: Option<&JsonText>) -> CardNews {
    let (by, reason, arguments) = (by.to_owned(), reason.cloned(), arguments.cloned());
    CardNews::Decided { verdict, by, reason, arguments }
}

impl Debt {
    fn told(&self, approval: ApprovalId) -> ApprovalDirective {
        ApprovalDirective::TellTopic { topic: self.topic.clone(), approval, news: self.news.clone() }
    }
}

/// What a decision about a card with a last word is answered.
fn too_late(settled: &Settled, said: &Said) -> DecideAnswer {
    let settlement = settled.settlement.clone();
    let same = settled.terms == (!said.is_plain()).then(|| said.terms());
    match (settlement.state, said.verdict) {
        (CardState::Approved | CardState::Denied, Verdict::Allow | Verdict::Deny) if !same => {
            DecideAnswer::Conflict(settlement)
        }
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
            ApprovalCommand::Open(card) => self.open(now, card, None),
            ApprovalCommand::Decide { approval, decision, present } => {
                self.settle(now, *approval, decision, present)
            }
            ApprovalCommand::Find { approval } => {
                Ok(Decision::answer(ApprovalAnswer::Found(self.owner(*approval))))
            }
            ApprovalCommand::Foreign { approval, by } => Ok(self.foreign(now, *approval, by)),
            ApprovalCommand::Revoke { grant, by, tenant } => {
                Ok(self.revoke(now, *grant, by, tenant.as_ref()))
            }
            ApprovalCommand::Void { grants } => Ok(self.void(now, grants)),
            ApprovalCommand::Withdraw { topic, approvals, reason } => {
                Ok(self.withdraw(now, topic, approvals, reason))
            }
            ApprovalCommand::Pay { topic, approval, payment } => {
                Ok(self.pay(now, topic, *approval, *payment))
            }
            ApprovalCommand::Tick => Ok(self.tick(now)),
            ApprovalCommand::Refuse { approval, by, why } => Ok(self.unfit(now, *approval, by, *why)),
            ApprovalCommand::Clock { from, to } => Ok(self.clock_jumped(now, *from, *to)),
            ApprovalCommand::Ask(card) => self.ask(now, card),
            ApprovalCommand::Answer { question, answer } => Ok(self.answer(now, *question, answer)),
            ApprovalCommand::DropQuestions { questions, reason } => {
                Ok(self.drop_questions(now, questions, reason))
            }
            ApprovalCommand::FindQuestion { question } => {
                Ok(Decision::answer(ApprovalAnswer::Found(self.asked_of(*question))))
            }
            ApprovalCommand::OpenShowing { card, face } => self.open(now, card, Some(face)),
        }
    }

    fn apply(&mut self, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Opened { card, at: _ } => self.take_card(card),
            ApprovalEvent::OpenedShowing { card, face, at: _ } => {
                self.faces.show(card, face);
                self.take_card(card);
            }
            ApprovalEvent::Decided { approval, verdict, by, reason, digest: _, at } => {
                self.take_verdict(*approval, by, *at, news_of(*verdict, by, reason.as_ref(), None));
            }
            ApprovalEvent::DecidedWith { approval, verdict, by, reason, digest: _, arguments, terms, at } => {
                let news = news_of(*verdict, by, reason.as_ref(), arguments.as_ref());
                self.take_verdict(*approval, by, *at, news);
                if let Some(settled) = self.settled.get_mut(approval) {
                    settled.terms = Some(*terms);
                }
            }
            ApprovalEvent::ForeignDecider { approval, by: _, at }
            | ApprovalEvent::DecisionRefused { approval, by: _, why: _, at } => {
                let card = self.owner(*approval).map(|_| *approval);
                self.refused.count(card, *at);
            }
            ApprovalEvent::ClockJumped { from: _, to: _, at } => self.refused.count(None, *at),
            ApprovalEvent::Asked { card, at: _ } => self.questions.open(card),
            ApprovalEvent::Answered { question, word, by, content, at } => {
                self.questions.end(*question, *word, Some(by.clone()), *content, *at);
            }
            ApprovalEvent::QuestionOver { question, word, reason: _, at } => {
                self.questions.end(*question, *word, None, None, *at);
            }
            ApprovalEvent::Granted { grant } => self.grants.insert(Arc::new(grant.clone())),
            ApprovalEvent::GrantEnded { grant, end: _, at: _ } => drop(self.grants.remove(*grant)),
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
        let ends = [self.pending.next_deadline(), self.grants.next_end(), self.questions.next_deadline()];
        ends.into_iter().flatten().min()
    }

    fn resume(&self) -> Vec<ApprovalDirective> {
        self.debts.iter().map(|(approval, debt)| debt.told(*approval)).collect()
    }
}

#[cfg(test)]
mod tests;
