//! Decides what the records of approvals and topics add up to: one account in order, and what the rules do not allow.
//!
//! ```text
//! ledger  ──┐  cards, decisions, jumps of the clock      ┌─▶ rows    merged by time, each log in its own order
//! grants  ──┼─ standing approvals and their ends ────────┤
//! journal ──┘  plans, intents with their basis, results  └─▶ faults  intents whose basis does not hold
//! ```
//!
//! The account is drawn up from records alone and trusts none of them: for each intent the decision, grant or mode that
//! it names is looked up, and the digest of what ran is compared with the digest of what was decided.

mod ledger;
mod topic;

use pilothouse_messages::approval::ApprovalEvent;
use pilothouse_messages::audit::{AuditLog, AuditReport, AuditRow};
use pilothouse_messages::id::TopicId;
use pilothouse_messages::record::Record;
use pilothouse_messages::topic::TopicEvent;

use ledger::Authority;

/// The records that an account is drawn up from.
#[derive(Debug, Clone, Copy)]
pub struct Books<'a> {
    /// Of cards and decisions.
    pub ledger: &'a [Record<ApprovalEvent>],
    /// Of grants.
    pub grants: &'a [Record<ApprovalEvent>],
    /// Of each topic.
    pub topics: &'a [(TopicId, Vec<Record<TopicEvent>>)],
}

/// Draws up the account.
pub fn account(books: Books<'_>) -> AuditReport {
    let mut report = AuditReport::default();
    let mut authority = Authority::default();
    // Decisions and their grants first: topics rest on both.
    authority.read(AuditLog::Ledger, books.ledger, &mut report);
    authority.read(AuditLog::Grants, books.grants, &mut report);
    for (name, records) in books.topics {
        topic::read(name, records, &authority, &mut report);
    }
    report.ledger = count(books.ledger);
    report.grants = count(books.grants);
    report.topics = books.topics.len();
    // Stable, and times never fall within a log: each log keeps its order.
    report.rows.sort_by_key(|row: &AuditRow| (row.at, row.log));
    report
}

fn count<T>(records: &[Record<T>]) -> u64 {
    records.last().map_or(0, |record| record.sequence)
}

#[cfg(test)]
mod tests;
