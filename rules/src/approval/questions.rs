//! Decides about questions of servers: which one waits for a person, and whose answer is its last word.
//!
//! ```text
//!                  ┌─ Answer ─────────────▶ Accepted | Declined | Dismissed ── the call that asked is told
//! Ask ──▶ open ────┼─ expires_at reached ─▶ Expired ────────────────────────── the call that asked is told
//!                  └─ DropQuestions ──────▶ Withdrawn    its call is gone: nobody is left to tell
//! ```
//!
//! Nothing but a person's answer accepts one. The answer itself goes to the call alone; the record keeps its digest. An
//! answer that is given again changes nothing and is told again: the first telling may have been lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalDirective, ApprovalEvent, ApprovalRejection, CardOwner,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::QuestionId;
use pilothouse_messages::question::{Answer, AnswerOutcome, QuestionCard, QuestionEnd, QuestionWord, Reply};
use pilothouse_messages::time::Timestamp;

use super::{Ledger, Outcome};
use crate::Decision;
use crate::cut::{NAME_BYTES, cut};

/// Questions that wait, and the last words of all others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Questions {
    open: BTreeMap<QuestionId, Arc<QuestionCard>>,
    deadlines: BTreeSet<(Timestamp, QuestionId)>,
    ended: BTreeMap<QuestionId, Ended>,
}

/// What is kept of a question that has its last word.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    owner: CardOwner,
    end: QuestionEnd,
    content: Option<Digest>,
}

impl Questions {
    pub(super) fn open(&mut self, card: &QuestionCard) {
        if !self.ended.contains_key(&card.question) {
            self.deadlines.insert((card.expires_at, card.question));
            self.open.insert(card.question, Arc::new(card.clone()));
        }
    }

    pub(super) fn end(
        &mut self,
        question: QuestionId,
        word: QuestionWord,
        by: Option<String>,
        content: Option<Digest>,
        at: Timestamp,
    ) {
        let Some(card) = self.open.remove(&question) else { return };
        self.deadlines.remove(&(card.expires_at, question));
        let owner = CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() };
        self.ended.insert(question, Ended { owner, end: QuestionEnd { word, by, at }, content });
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Ledger {
    /// The questions that wait for a person, in the order of topics and calls.
    pub fn open_questions(&self) -> Vec<Arc<QuestionCard>> {
        let mut cards: Vec<_> = self.questions.open.values().cloned().collect();
        cards.sort_by(|a, b| (&a.topic, a.call, a.question).cmp(&(&b.topic, b.call, b.question)));
        cards
    }

    /// The question of this name, while it waits.
    pub fn question(&self, question: QuestionId) -> Option<&Arc<QuestionCard>> {
        self.questions.open.get(&question)
    }

    /// The last word of this question, once it has one.
    pub fn question_end(&self, question: QuestionId) -> Option<&QuestionEnd> {
        self.questions.ended.get(&question).map(|ended| &ended.end)
    }

    /// Whose question it is, also when it has its last word.
    pub(super) fn asked_of(&self, question: QuestionId) -> Option<CardOwner> {
        let open = self.questions.open.get(&question);
        let open = open.map(|card| CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() });
        open.or_else(|| self.questions.ended.get(&question).map(|ended| ended.owner.clone()))
    }

    pub(super) fn ask(&self, at: Timestamp, card: &QuestionCard) -> Result<Outcome, ApprovalRejection> {
        let question = card.question;
        if self.questions.open.contains_key(&question) {
            return Ok(Decision::answer(ApprovalAnswer::Opened));
        }
        if let Some(ended) = self.questions.ended.get(&question) {
            return Ok(Decision::answer(ApprovalAnswer::Over(ended.end.clone())));
        }
        let of_topic = self.questions.open.values().filter(|open| open.topic == card.topic);
        let (open, limit) = (of_topic.count(), self.limits.cards_per_topic);
        if open >= limit {
            return Err(ApprovalRejection::TooManyCards { open, limit });
        }
        let mut card = card.clone();
        if card.expires_at <= at {
            // As for a card: the clock that made it stood far before this ledger's.
            card.expires_at = at.after(self.limits.question);
        }
        let events = vec![ApprovalEvent::Asked { card, at }];
        Ok(Decision { events, ..Decision::answer(ApprovalAnswer::Opened) })
    }

    pub(super) fn answer(&self, at: Timestamp, question: QuestionId, answer: &Answer) -> Outcome {
        let told = |outcome| Decision::answer(ApprovalAnswer::Answer(outcome));
        let theirs = |owner: &CardOwner| answer.tenant.as_ref().is_none_or(|tenant| *tenant == owner.tenant);
        if let Some(ended) = self.questions.ended.get(&question).filter(|ended| theirs(&ended.owner)) {
            return too_late(question, ended, answer);
        }
        let card = self.questions.open.get(&question);
        let theirs =
            |card: &&Arc<QuestionCard>| answer.tenant.as_ref().is_none_or(|tenant| *tenant == card.tenant);
        let Some(card) = card.filter(theirs) else { return told(AnswerOutcome::Unknown) };
        if card.expires_at <= at {
            let end = QuestionEnd { word: QuestionWord::Expired, by: None, at };
            let (event, directive) = expiry(at, question);
            return Decision {
                events: vec![event],
                directives: vec![directive],
                ..told(AnswerOutcome::Over(end))
            };
        }
        let digest = card.digest();
        if answer.digest.is_some_and(|shown| shown != digest) {
            return told(AnswerOutcome::Changed { digest });
        }
        let (word, content) = answer.word();
        let by = cut(&answer.by, NAME_BYTES).to_owned();
        let events = vec![ApprovalEvent::Answered { question, word, by, content, at }];
        let directives = vec![ApprovalDirective::TellAsker { question, reply: answer.reply.clone() }];
        Decision { events, directives, ..told(AnswerOutcome::Applied) }
    }

    pub(super) fn drop_questions(&self, at: Timestamp, questions: &[QuestionId], reason: &str) -> Outcome {
        let named: BTreeSet<&QuestionId> = questions.iter().collect();
        let open = named.into_iter().filter(|question| self.questions.open.contains_key(question));
        let over = open.map(|question| ApprovalEvent::QuestionOver {
            question: *question,
            word: QuestionWord::Withdrawn,
            reason: self.kept(reason),
            at,
        });
        Decision { events: over.collect(), ..Decision::answer(ApprovalAnswer::Noted) }
    }

    pub(super) fn questions_over(&self, now: Timestamp) -> (Vec<ApprovalEvent>, Vec<ApprovalDirective>) {
        let due = self.questions.deadlines.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, question)| expiry(now, *question)).unzip()
    }
}

fn expiry(at: Timestamp, question: QuestionId) -> (ApprovalEvent, ApprovalDirective) {
    let reason = "nobody answered in time".to_owned();
    (
        ApprovalEvent::QuestionOver { question, word: QuestionWord::Expired, reason, at },
        ApprovalDirective::TellAsker { question, reply: Reply::Dismiss },
    )
}

/// The call that asked may not have been told: whoever gave the answer dies between the disk and the telling, and the
/// ledger does not keep what was written. One that says the same again brings it.
fn too_late(question: QuestionId, Ended { end, content, .. }: &Ended, answer: &Answer) -> Outcome {
    let told = |outcome| Decision::answer(ApprovalAnswer::Answer(outcome));
    match end.word {
        QuestionWord::Expired | QuestionWord::Withdrawn => told(AnswerOutcome::Over(end.clone())),
        QuestionWord::Accepted | QuestionWord::Declined | QuestionWord::Dismissed => {
            let (word, said) = answer.word();
            if (end.word, *content) != (word, said) {
                return told(AnswerOutcome::Conflict(end.clone()));
            }
            let again = ApprovalDirective::TellAsker { question, reply: answer.reply.clone() };
            Decision { directives: vec![again], ..told(AnswerOutcome::Already(end.clone())) }
        }
    }
}
