//! Reads a whole range of a store, page by page.

use pilothouse_messages::error::StoreError;

use super::{Keyspace, Pair, Store};

/// Pairs in one page: about 1 MiB at a time.
pub const PAGE: usize = 256;

/// Visits every pair whose key starts with `prefix`, in key order, holding one page at a time.
///
/// # Errors
/// The store's, or the first that `visit` returns.
pub async fn each_pair(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    mut visit: impl FnMut(Pair) -> Result<(), StoreError> + Send,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = store.scan(keyspace, prefix.to_vec(), after, PAGE).await?;
        let full = page.len() >= PAGE;
        after = page.last().map(|(key, _)| key.clone());
        page.into_iter().try_for_each(&mut visit)?;
        if !full {
            return Ok(());
        }
    }
}
