//! What is kept of a topic while somebody reads it: old records may go meanwhile, which looks like damage to whoever
//! is reading them just then.

use pilothouse_adapters::store::Store;
use pilothouse_adapters::store::head::{Head, Present};
use pilothouse_messages::error::StoreError;

/// How often a read is begun whose beginning goes each time.
const READS: u8 = 3;

/// A read of what the head says is kept.
pub(super) struct Reading<'a> {
    store: &'a dyn Store,
    prefix: &'a [u8],
    pub(super) head: Head,
    left: u8,
}

impl<'a> Reading<'a> {
    /// Begins to read; `None` if there is no topic.
    pub(super) async fn begin(store: &'a dyn Store, prefix: &'a [u8]) -> Result<Option<Self>, StoreError> {
        let head = Head::read(store, prefix).await?.filter(|head| head.presence == Present::Yes);
        Ok(head.map(|head| Self { store, prefix, head, left: READS }))
    }

    /// After damage: reads again from what is kept now, if more has gone than this read knew of; `None` if the topic
    /// has gone.
    ///
    /// # Errors
    /// The damage, if nothing has gone that explains it.
    pub(super) async fn again(self, damage: StoreError) -> Result<Option<Self>, StoreError> {
        let Some(now) = Self::begin(self.store, self.prefix).await? else { return Ok(None) };
        let left = self.left.saturating_sub(1);
        if left == 0 || now.head.kept_from <= self.head.kept_from {
            return Err(damage);
        }
        Ok(Some(Self { left, ..now }))
    }
}
