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

use std::collections::BTreeMap;

use pilothouse_messages::audit::{AuditBooks, AuditFault, AuditGap, AuditLog, AuditReport, AuditRow};
use pilothouse_messages::id::TopicId;
use pilothouse_messages::record::Record;

use ledger::Authority;
use topic::Read;

/// Draws up the account.
pub fn account(books: &AuditBooks) -> AuditReport {
    let mut report = AuditReport::default();
    report.faults.extend(books.damage.iter().cloned());
    let mut authority = Authority::default();
    // Decisions and their grants first: topics rest on both.
    authority.read(AuditLog::Ledger, &books.ledger, &mut report);
    authority.read(AuditLog::Grants, &books.grants, &mut report);
    let mut topics = BTreeMap::new();
    for records in &books.topics {
        topics.insert(&records.topic, topic::read(records, &authority, &mut report));
    }
    lost_words(books, &authority, &topics, &mut report);
    report.gaps.extend(
        books.removed.iter().map(|topic| AuditGap::Removed {
            tenant: authority.tenant(topic).cloned(),
            topic: topic.clone(),
        }),
    );
    report.ledger = count(&books.ledger);
    report.grants = count(&books.grants);
    report.topics = books.topics.len();
    // Stable, and times never fall within a log: each log keeps its order.
    report.rows.sort_by_key(|row: &AuditRow| (row.at, row.log));
    report
}

/// A topic says that it has recorded a word only when that is durable. So a word that it has not, and has not removed,
/// was lost behind its back.
fn lost_words(
    books: &AuditBooks,
    authority: &Authority,
    topics: &BTreeMap<&TopicId, Read>,
    out: &mut AuditReport,
) {
    for (topic, call, approval) in authority.recorded(books.durable) {
        let there = match topics.get(topic) {
            Some(read) => call.turn <= read.after_turn || read.words.contains(&approval),
            None => books.removed.contains(topic),
        };
        if !there {
            out.faults.push(AuditFault::WordLost { topic: topic.clone(), call, approval });
        }
    }
}

fn count<T>(records: &[Record<T>]) -> u64 {
    records.last().map_or(0, |record| record.sequence)
}

#[cfg(test)]
mod tests;
