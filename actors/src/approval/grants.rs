//! The grants that hold, as the gate reads them.
//!
//! As for open cards: a snapshot for each change would cost all of thousands. The lock is held for one look-up.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pilothouse_messages::grant::Grant;
use pilothouse_messages::id::GrantId;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::grant::{Asked, Coverage, GrantBook};

/// The grants that hold and are durable; written by the approval actor only.
#[derive(Debug, Default)]
pub struct LiveGrants(RwLock<GrantBook>);

impl LiveGrants {
    /// All of them, in the order of their names.
    pub fn all(&self) -> Vec<Arc<Grant>> {
        self.read().iter().cloned().collect()
    }

    /// What they say about one call.
    pub fn covers(&self, asked: &Asked<'_>) -> Coverage {
        self.read().covers(asked)
    }

    /// Whether this one holds now.
    pub fn holds(&self, grant: GrantId, now: Timestamp) -> bool {
        self.read().get(grant).is_some_and(|grant| grant.expires_at.is_none_or(|at| now < at))
    }

    pub(super) fn replace(&self, grants: impl Iterator<Item = Arc<Grant>>) {
        let mut book = GrantBook::default();
        grants.for_each(|grant| book.insert(grant));
        *self.write() = book;
    }

    pub(super) fn give(&self, grant: Arc<Grant>) {
        self.write().insert(grant);
    }

    pub(super) fn end(&self, grant: GrantId) {
        // One that ended before it was ever read is not here.
        drop(self.write().remove(grant));
    }

    // Nothing in here panics half-way through a change, so a poisoned lock still holds a whole book.
    fn read(&self) -> RwLockReadGuard<'_, GrantBook> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, GrantBook> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
