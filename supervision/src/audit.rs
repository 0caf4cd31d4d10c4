//! The audit of a store: its books, drawn up into one account.

use pilothouse_adapters::store::{Store, books};
use pilothouse_messages::audit::AuditReport;
use pilothouse_messages::error::StoreError;
use pilothouse_rules::audit;

/// Reads what was asked, decided, granted and run, checks the chain of the ledger and that every call had a basis that
/// holds. For a store that no runtime has open, or a copy of it; a running one has [`Runtime::audit`].
///
/// Damage is no error: the report names it as a fault and has what lies before it.
///
/// [`Runtime::audit`]: crate::Runtime::audit
///
/// # Errors
/// What keeps the store from being read at all.
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn audit_store(store: &dyn Store) -> Result<AuditReport, StoreError> {
    Ok(audit::account(&books::read(store).await?))
}
