//! Decisions that change nothing: each is answered, and recorded as long as there is room.

use std::collections::BTreeMap;

use pilothouse_messages::approval::{ApprovalAnswer, ApprovalEvent, DecideAnswer, RefusedDecision};
use pilothouse_messages::id::ApprovalId;
use pilothouse_messages::time::Timestamp;

use super::{Ledger, Outcome};
use crate::Decision;
use crate::cut::{NAME_BYTES, cut};

/// How many are recorded for one card; further ones are still refused.
const OF_A_CARD_MAX: u32 = 16;
/// How many that belong to no card are recorded in one hour, jumps of the clock among them.
const STRAYS_MAX: u32 = 256;
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// How many are recorded, so that nobody fills the ledger with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    of_cards: BTreeMap<ApprovalId, u32>,
    /// The hour of the newest stray, and how many that hour has seen.
    strays: (u64, u32),
}

impl Refused {
    pub(super) fn count(&mut self, card: Option<ApprovalId>, at: Timestamp) {
        match card {
            Some(card) => *self.of_cards.entry(card).or_default() += 1,
            None => self.strays = (at.0 / HOUR_MS, self.strays_in(at) + 1),
        }
    }

    fn has_room(&self, card: Option<ApprovalId>, at: Timestamp) -> bool {
        match card {
            Some(card) => self.of_cards.get(&card).copied().unwrap_or_default() < OF_A_CARD_MAX,
            None => self.strays_in(at) < STRAYS_MAX,
        }
    }

    fn strays_in(&self, at: Timestamp) -> u32 {
        let (hour, seen) = self.strays;
        if hour == at.0 / HOUR_MS { seen } else { 0 }
    }
}

impl Ledger {
    /// Answers a decision that changes nothing.
    pub(super) fn refused(
        &self,
        at: Timestamp,
        approval: ApprovalId,
        by: &str,
        answer: DecideAnswer,
    ) -> Outcome {
        let why = match &answer {
            DecideAnswer::Already(_) => RefusedDecision::Repeated,
            DecideAnswer::Conflict(_) => RefusedDecision::Conflict,
            DecideAnswer::Expired(_) => RefusedDecision::Expired,
            DecideAnswer::Withdrawn(_) => RefusedDecision::Withdrawn,
            DecideAnswer::Changed { .. } => RefusedDecision::Changed,
            DecideAnswer::Unknown => RefusedDecision::Unknown,
            // One that was applied is its own record.
            DecideAnswer::Applied => return Decision::answer(ApprovalAnswer::Decide(answer)),
        };
        let events = self.refusal(at, approval, by, why);
        Decision { events, ..Decision::answer(ApprovalAnswer::Decide(answer)) }
    }

    /// A decision that was refused before it got here, for what it brought or for who brought it.
    pub(super) fn unfit(
        &self,
        at: Timestamp,
        approval: ApprovalId,
        by: &str,
        why: RefusedDecision,
    ) -> Outcome {
        let events = self.refusal(at, approval, by, why);
        Decision { events, ..Decision::answer(ApprovalAnswer::Noted) }
    }

    /// Somebody who may not decide learns nothing; the ledger keeps who it was.
    pub(super) fn foreign(&self, at: Timestamp, approval: ApprovalId, by: &str) -> Outcome {
        let why = match self.owner(approval) {
            Some(_) => RefusedDecision::Foreign,
            None => RefusedDecision::Unknown,
        };
        let events = self.refusal(at, approval, by, why);
        Decision { events, ..Decision::answer(ApprovalAnswer::Decide(DecideAnswer::Unknown)) }
    }

    pub(super) fn clock_jumped(&self, at: Timestamp, from: Timestamp, to: Timestamp) -> Outcome {
        let kept = self.refused.has_room(None, at);
        let events = kept.then_some(ApprovalEvent::ClockJumped { from, to, at }).into_iter().collect();
        Decision { events, ..Decision::answer(ApprovalAnswer::Noted) }
    }

    fn refusal(
        &self,
        at: Timestamp,
        approval: ApprovalId,
        by: &str,
        why: RefusedDecision,
    ) -> Vec<ApprovalEvent> {
        let card = self.owner(approval).map(|_| approval);
        let by = cut(by, NAME_BYTES).to_owned();
        let event = match why {
            RefusedDecision::Foreign => ApprovalEvent::ForeignDecider { approval, by, at },
            RefusedDecision::Repeated
            | RefusedDecision::Conflict
            | RefusedDecision::Expired
            | RefusedDecision::Withdrawn
            | RefusedDecision::Changed
            | RefusedDecision::Unknown
            | RefusedDecision::Unfit => ApprovalEvent::DecisionRefused { approval, by, why, at },
        };
        self.refused.has_room(card, at).then_some(event).into_iter().collect()
    }
}
