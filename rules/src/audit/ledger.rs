//! What the ledger and the grants say, and who allowed what.

use std::collections::BTreeMap;

use pilothouse_messages::approval::{ApprovalEvent, Card, CardOwner, RefusedDecision, Verdict};
use pilothouse_messages::audit::{AuditFact, AuditFault, AuditLog, AuditReport, AuditRow, AuditTool};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::Grant;
use pilothouse_messages::id::{ApprovalId, CallId, GrantId, QuestionId, TenantId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::record::Record;
use pilothouse_messages::time::Timestamp;

/// Every decision and grant, as topics may rest on them.
#[derive(Debug, Default)]
pub(super) struct Authority {
    cards: BTreeMap<ApprovalId, Shown>,
    pub(super) words: BTreeMap<ApprovalId, Word>,
    pub(super) grants: BTreeMap<GrantId, Given>,
    questions: BTreeMap<QuestionId, CardOwner>,
    /// Whether the clock ever went back: then the times of two logs do not say what came first.
    pub(super) clock_went_back: bool,
}

/// Whose card it is.
#[derive(Debug)]
struct Shown {
    tenant: TenantId,
    topic: TopicId,
    call: CallId,
    at: Timestamp,
}

/// A decision.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) verdict: Verdict,
    pub(super) by: String,
    pub(super) at: Timestamp,
    pub(super) digest: Digest,
    pub(super) arguments: Option<JsonText>,
}

/// A grant, and when it ended.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) grant: Grant,
    pub(super) ended: Option<Timestamp>,
}

impl Authority {
    pub(super) fn read(&mut self, log: AuditLog, records: &[Record<ApprovalEvent>], out: &mut AuditReport) {
        let mut newest = Timestamp::default();
        for Record { sequence, payload, .. } in records {
            let (at, approval, fact) = self.fact(payload, out);
            newest = newest.max(at);
            let (tenant, topic) = self.owner(approval, payload);
            out.rows.push(AuditRow { at: newest, log, sequence: *sequence, tenant, topic, fact });
        }
    }

    /// When a card was shown for this call of this topic, if it was.
    pub(super) fn shown(&self, approval: ApprovalId, topic: &TopicId, call: CallId) -> Option<Timestamp> {
        let shown = self.cards.get(&approval).filter(|card| card.topic == *topic && card.call == call);
        shown.map(|card| card.at)
    }

    fn owner(
        &self,
        approval: Option<ApprovalId>,
        event: &ApprovalEvent,
    ) -> (Option<TenantId>, Option<TopicId>) {
        let grant = match event {
            ApprovalEvent::GrantEnded { grant, .. } => self.grants.get(grant).map(|given| &given.grant),
            ApprovalEvent::Granted { grant } => Some(grant),
            ApprovalEvent::Opened { .. }
            | ApprovalEvent::Decided { .. }
            | ApprovalEvent::DecidedWith { .. }
            | ApprovalEvent::Expired { .. }
            | ApprovalEvent::Withdrawn { .. }
            | ApprovalEvent::Paid { .. }
            | ApprovalEvent::ForeignDecider { .. }
            | ApprovalEvent::DecisionRefused { .. }
            | ApprovalEvent::ClockJumped { .. }
            | ApprovalEvent::Asked { .. }
            | ApprovalEvent::Answered { .. }
            | ApprovalEvent::QuestionOver { .. } => None,
        };
        if let Some(grant) = grant {
            return (Some(grant.tenant.clone()), grant.place.topic().cloned());
        }
        if let Some(owner) = question_of(event).and_then(|question| self.questions.get(&question)) {
            return (Some(owner.tenant.clone()), Some(owner.topic.clone()));
        }
        let card = approval.and_then(|approval| self.cards.get(&approval));
        card.map(|card| (card.tenant.clone(), card.topic.clone())).unzip()
    }

    fn fact(
        &mut self,
        event: &ApprovalEvent,
        out: &mut AuditReport,
    ) -> (Timestamp, Option<ApprovalId>, AuditFact) {
        match event {
            ApprovalEvent::Opened { card, at } => (*at, Some(card.approval), self.opened(card, *at)),
            ApprovalEvent::Decided { approval, verdict, by, reason, digest, at } => {
                let word =
                    Word { verdict: *verdict, by: by.clone(), at: *at, digest: *digest, arguments: None };
                (*at, Some(*approval), self.decided(*approval, word, reason.clone(), out))
            }
            ApprovalEvent::DecidedWith { approval, verdict, by, reason, digest, arguments, terms: _, at } => {
                let (by, arguments) = (by.clone(), arguments.clone());
                let word = Word { verdict: *verdict, by, at: *at, digest: *digest, arguments };
                (*at, Some(*approval), self.decided(*approval, word, reason.clone(), out))
            }
            ApprovalEvent::Expired { approval, at } => {
                (*at, Some(*approval), AuditFact::Expired { approval: *approval })
            }
            ApprovalEvent::Withdrawn { approval, reason, at } => {
                let fact = AuditFact::Withdrawn { approval: *approval, reason: reason.clone() };
                (*at, Some(*approval), fact)
            }
            ApprovalEvent::Paid { approval, payment, at } => {
                (*at, Some(*approval), AuditFact::Told { approval: *approval, payment: *payment })
            }
            ApprovalEvent::ForeignDecider { approval, by, at } => {
                let why = RefusedDecision::Foreign;
                (
                    *at,
                    Some(*approval),
                    AuditFact::DecisionRefused { approval: *approval, by: by.clone(), why },
                )
            }
            ApprovalEvent::DecisionRefused { approval, by, why, at } => {
                let fact = AuditFact::DecisionRefused { approval: *approval, by: by.clone(), why: *why };
                (*at, Some(*approval), fact)
            }
            ApprovalEvent::Granted { grant } => {
                self.grants.insert(grant.grant, Given { grant: grant.clone(), ended: None });
                (grant.given_at, None, AuditFact::Granted { grant: Box::new(grant.clone()) })
            }
            ApprovalEvent::GrantEnded { grant, end, at } => {
                if let Some(given) = self.grants.get_mut(grant) {
                    given.ended.get_or_insert(*at);
                }
                (*at, None, AuditFact::GrantEnded { grant: *grant, end: end.clone() })
            }
            ApprovalEvent::ClockJumped { from, to, at } => {
                self.clock_went_back |= to < from;
                (*at, None, AuditFact::ClockJumped { from: *from, to: *to })
            }
            ApprovalEvent::Asked { card, at } => {
                let owner = CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() };
                self.questions.insert(card.question, owner);
                let fact = AuditFact::QuestionAsked { card: Box::new(card.clone()), digest: card.digest() };
                (*at, None, fact)
            }
            ApprovalEvent::Answered { question, word, by, content, at } => {
                let (by, content) = (Some(by.clone()), *content);
                let (question, word) = (*question, *word);
                (*at, None, AuditFact::QuestionEnded { question, word, by, content, reason: None })
            }
            ApprovalEvent::QuestionOver { question, word, reason, at } => {
                let (question, word, reason) = (*question, *word, Some(reason.clone()));
                let (by, content) = (None, None);
                (*at, None, AuditFact::QuestionEnded { question, word, by, content, reason })
            }
        }
    }

    fn opened(&mut self, card: &Card, at: Timestamp) -> AuditFact {
        let (tenant, topic) = (card.tenant.clone(), card.topic.clone());
        self.cards.insert(card.approval, Shown { tenant, topic, call: card.call, at });
        AuditFact::CardOpened {
            approval: card.approval,
            call: card.call,
            tool: AuditTool {
                name: card.tool.clone(),
                source: card.source.clone(),
                effect: card.effect,
                fingerprint: card.fingerprint,
                definition: card.definition,
            },
            arguments: card.arguments.clone(),
            digest: card.digest(),
            reason: card.reason.clone(),
            expires_at: card.expires_at,
        }
    }

    fn decided(
        &mut self,
        approval: ApprovalId,
        word: Word,
        reason: Option<String>,
        out: &mut AuditReport,
    ) -> AuditFact {
        let fact = AuditFact::Decided {
            approval,
            verdict: word.verdict,
            by: word.by.clone(),
            reason,
            digest: word.digest,
            arguments: word.arguments.clone(),
        };
        if self.words.contains_key(&approval) || !self.cards.contains_key(&approval) {
            out.faults.push(AuditFault::DecidedTwice { approval });
        } else {
            self.words.insert(approval, word);
        }
        fact
    }
}

fn question_of(event: &ApprovalEvent) -> Option<QuestionId> {
    match event {
        ApprovalEvent::Asked { card, .. } => Some(card.question),
        ApprovalEvent::Answered { question, .. } | ApprovalEvent::QuestionOver { question, .. } => {
            Some(*question)
        }
        ApprovalEvent::Opened { .. }
        | ApprovalEvent::Decided { .. }
        | ApprovalEvent::DecidedWith { .. }
        | ApprovalEvent::Expired { .. }
        | ApprovalEvent::Withdrawn { .. }
        | ApprovalEvent::Paid { .. }
        | ApprovalEvent::ForeignDecider { .. }
        | ApprovalEvent::DecisionRefused { .. }
        | ApprovalEvent::ClockJumped { .. }
        | ApprovalEvent::Granted { .. }
        | ApprovalEvent::GrantEnded { .. } => None,
    }
}
