//! What the ledger and the grants say, and who allowed what.

use std::collections::BTreeMap;

use pilothouse_messages::approval::{ApprovalEvent, Card, CardOwner, Matter, RefusedDecision, Verdict};
use pilothouse_messages::audit::{AuditFact, AuditFault, AuditLog, AuditReport, AuditRow, AuditTool};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::Grant;
use pilothouse_messages::id::{ApprovalId, CallId, GrantId, QuestionId, TenantId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::question::QuestionCard;
use pilothouse_messages::record::Record;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::command::Payment;

/// Every decision and grant, as topics may rest on them.
#[derive(Debug, Default)]
pub(super) struct Authority {
    cards: BTreeMap<ApprovalId, Shown>,
    pub(super) words: BTreeMap<ApprovalId, Word>,
    pub(super) grants: BTreeMap<GrantId, Given>,
    questions: BTreeMap<QuestionId, CardOwner>,
    /// Words that topics said they had recorded, by the record that says so.
    recorded: Vec<(u64, ApprovalId)>,
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
            newest = newest.max(payload.at());
            let fact = self.fact(*sequence, payload, out);
            let (tenant, topic) = self.owner(payload);
            out.rows.push(AuditRow { at: newest, log, sequence: *sequence, tenant, topic, fact });
        }
    }

    /// When a card was shown for this call of this topic, if it was.
    pub(super) fn shown(&self, approval: ApprovalId, topic: &TopicId, call: CallId) -> Option<Timestamp> {
        let shown = self.cards.get(&approval).filter(|card| card.topic == *topic && card.call == call);
        shown.map(|card| card.at)
    }

    /// The words on cards whose topics said that they had recorded them, up to this record: topic, call and card.
    pub(super) fn recorded(&self, through: u64) -> impl Iterator<Item = (&TopicId, CallId, ApprovalId)> {
        let known = self.recorded.iter().filter(move |(sequence, _)| *sequence <= through);
        known.filter_map(|(_, approval)| {
            self.cards.get(approval).map(|card| (&card.topic, card.call, *approval))
        })
    }

    /// Whose a topic is, as its cards say.
    pub(super) fn tenant(&self, topic: &TopicId) -> Option<&TenantId> {
        self.cards.values().find(|card| card.topic == *topic).map(|card| &card.tenant)
    }

    /// Whose it is: the owner of the card, grant or question, if that is known.
    fn owner(&self, event: &ApprovalEvent) -> (Option<TenantId>, Option<TopicId>) {
        let owner = match event.about() {
            Some(Matter::Card(approval)) => {
                self.cards.get(&approval).map(|card| (card.tenant.clone(), Some(card.topic.clone())))
            }
            Some(Matter::Grant(grant)) => {
                let given = self.grants.get(&grant).map(|given| &given.grant);
                given.map(|grant| (grant.tenant.clone(), grant.place.topic().cloned()))
            }
            Some(Matter::Question(question)) => {
                let owner = self.questions.get(&question);
                owner.map(|owner| (owner.tenant.clone(), Some(owner.topic.clone())))
            }
            None => None,
        };
        let (tenant, topic) = owner.unzip();
        (tenant, topic.flatten())
    }

    fn fact(&mut self, sequence: u64, event: &ApprovalEvent, out: &mut AuditReport) -> AuditFact {
        match event {
            ApprovalEvent::Opened { card, at } | ApprovalEvent::OpenedShowing { card, face: _, at } => {
                self.opened(card, *at)
            }
            ApprovalEvent::Decided { approval, verdict, by, reason, digest, at } => {
                let (by, arguments) = (by.clone(), None);
                let word = Word { verdict: *verdict, by, at: *at, digest: *digest, arguments };
                self.decided(*approval, word, reason.clone(), out)
            }
            ApprovalEvent::DecidedWith { approval, verdict, by, reason, digest, arguments, terms: _, at } => {
                let (by, arguments) = (by.clone(), arguments.clone());
                let word = Word { verdict: *verdict, by, at: *at, digest: *digest, arguments };
                self.decided(*approval, word, reason.clone(), out)
            }
            ApprovalEvent::Expired { approval, at: _ } => AuditFact::Expired { approval: *approval },
            ApprovalEvent::Withdrawn { approval, reason, at: _ } => {
                AuditFact::Withdrawn { approval: *approval, reason: reason.clone() }
            }
            ApprovalEvent::Paid { approval, payment, at: _ } => {
                match payment {
                    Payment::Paid => self.recorded.push((sequence, *approval)),
                    Payment::Void => {}
                }
                AuditFact::Told { approval: *approval, payment: *payment }
            }
            ApprovalEvent::ForeignDecider { approval, by, at: _ } => {
                let (by, why) = (by.clone(), RefusedDecision::Foreign);
                AuditFact::DecisionRefused { approval: *approval, by, why }
            }
            ApprovalEvent::DecisionRefused { approval, by, why, at: _ } => {
                AuditFact::DecisionRefused { approval: *approval, by: by.clone(), why: *why }
            }
            ApprovalEvent::Granted { grant } => {
                self.grants.insert(grant.grant, Given { grant: grant.clone(), ended: None });
                AuditFact::Granted { grant: Box::new(grant.clone()) }
            }
            ApprovalEvent::GrantEnded { grant, end, at } => {
                if let Some(given) = self.grants.get_mut(grant) {
                    given.ended.get_or_insert(*at);
                }
                AuditFact::GrantEnded { grant: *grant, end: end.clone() }
            }
            ApprovalEvent::ClockJumped { from, to, at: _ } => {
                self.clock_went_back |= to < from;
                AuditFact::ClockJumped { from: *from, to: *to }
            }
            ApprovalEvent::Asked { card, at: _ } => self.asked(card),
            ApprovalEvent::Answered { question, word, by, content, at: _ } => {
                let (question, word, by) = (*question, *word, Some(by.clone()));
                AuditFact::QuestionEnded { question, word, by, content: *content, reason: None }
            }
            ApprovalEvent::QuestionOver { question, word, reason, at: _ } => {
                let (question, word, reason) = (*question, *word, Some(reason.clone()));
                AuditFact::QuestionEnded { question, word, by: None, content: None, reason }
            }
        }
    }

    fn asked(&mut self, card: &QuestionCard) -> AuditFact {
        let owner = CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() };
        self.questions.insert(card.question, owner);
        AuditFact::QuestionAsked { card: Box::new(card.clone()), digest: card.digest() }
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
