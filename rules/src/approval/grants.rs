//! How grants begin and end in the ledger.

use std::sync::Arc;

use pilothouse_messages::approval::{ApprovalAnswer, ApprovalEvent, GrantFault};
use pilothouse_messages::grant::{Grant, GrantEnd, GrantPlace, RevokeAnswer};
use pilothouse_messages::id::{GrantId, TenantId};
use pilothouse_messages::time::Timestamp;

use super::{Ledger, Outcome};
use crate::Decision;
use crate::cut::{NAME_BYTES, cut};

/// How many grants one tick ends at most: each is a record. The next tick comes at once.
const ENDED_AT_ONCE: usize = 256;

impl Ledger {
    /// The grants that hold, in the order of their names.
    pub fn grants(&self) -> impl Iterator<Item = &Arc<Grant>> {
        self.grants.iter()
    }

    /// The grant of this name, while it holds.
    pub fn grant(&self, name: GrantId) -> Option<&Arc<Grant>> {
        self.grants.get(name)
    }

    /// Gives a grant. Those of the topic's earlier turns are over: it has come to a later one.
    pub(super) fn granted(&self, grant: Grant) -> Result<Vec<ApprovalEvent>, GrantFault> {
        let at = grant.given_at;
        let over: Vec<GrantId> = match &grant.place {
            GrantPlace::Turn { topic, turn } => {
                self.grants.of_earlier_turns(topic, *turn).take(ENDED_AT_ONCE).collect()
            }
            GrantPlace::Topic { .. } | GrantPlace::Always => Vec::new(),
        };
        let limit = self.limits.grants;
        if self.grants.len() - over.len() >= limit {
            return Err(GrantFault::TooMany { what: "too many grants hold", limit });
        }
        let ended = over.into_iter().map(|grant| ended(grant, GrantEnd::TurnOver, at));
        Ok([ApprovalEvent::Granted { grant }].into_iter().chain(ended).collect())
    }

    pub(super) fn revoke(
        &self,
        now: Timestamp,
        grant: GrantId,
        by: &str,
        tenant: Option<&TenantId>,
    ) -> Outcome {
        let theirs = |held: &&Arc<Grant>| tenant.is_none_or(|tenant| held.tenant == *tenant);
        let Some(held) = self.grants.get(grant).filter(theirs) else {
            return Decision::answer(ApprovalAnswer::Revoke(RevokeAnswer::Unknown));
        };
        let end = GrantEnd::Revoked { by: cut(by, NAME_BYTES).to_owned() };
        let events = vec![ended(held.grant, end, now)];
        Decision { events, ..Decision::answer(ApprovalAnswer::Revoke(RevokeAnswer::Revoked)) }
    }

    pub(super) fn void(&self, now: Timestamp, grants: &[GrantId]) -> Outcome {
        let held = grants.iter().filter(|grant| self.grants.get(**grant).is_some());
        let events = held.map(|grant| ended(*grant, GrantEnd::Void, now)).collect();
        Decision { events, ..Decision::answer(ApprovalAnswer::Noted) }
    }

    pub(super) fn grants_over(&self, now: Timestamp) -> Vec<ApprovalEvent> {
        let over = self.grants.over(now).take(ENDED_AT_ONCE);
        over.map(|grant| ended(grant, GrantEnd::Expired, now)).collect()
    }
}

fn ended(grant: GrantId, end: GrantEnd, at: Timestamp) -> ApprovalEvent {
    ApprovalEvent::GrantEnded { grant, end, at }
}
