//! Reads a whole range of a store, page by page.

use std::ops::ControlFlow;

use pilothouse_messages::error::StoreError;

use super::{Keyspace, Pair, Store};

/// Pairs in one page: about 1 MiB at a time.
pub const PAGE: usize = 256;

/// Visits every pair whose key starts with `prefix`, in key order. The next page is read while one is
/// looked at, so that two are held.
///
/// # Errors
/// The store's, or the first that `visit` returns.
pub async fn each_pair(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    mut visit: impl FnMut(Pair) -> Result<(), StoreError> + Send,
) -> Result<(), StoreError> {
    each_pair_after(store, keyspace, prefix, None, |pair| visit(pair).map(ControlFlow::Continue)).await
}

/// Visits the pairs whose key starts with `prefix` and comes after `after`, until `visit` has seen enough.
///
/// # Errors
/// As for [`each_pair`].
pub async fn each_pair_after(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    after: Option<Vec<u8>>,
    mut visit: impl FnMut(Pair) -> Result<ControlFlow<()>, StoreError> + Send,
) -> Result<(), StoreError> {
    let scan = |after, most| store.scan(keyspace, prefix.to_vec(), after, most);
    let (mut from, mut most) = (after, PAGE);
    let mut scanned = scan(from.clone(), most);
    loop {
        let page = match scanned.await {
            // What lies before the pair that cannot be read is seen all the same.
            Err(StoreError::Damaged { .. }) if most > 1 => {
                most = 1;
                scanned = scan(from.clone(), most);
                continue;
            }
            page => page?,
        };
        from = page.last().map(|(key, _)| key.clone());
        let next = (page.len() >= most).then(|| scan(from.clone(), most));
        for pair in page {
            if visit(pair)?.is_break() {
                return Ok(());
            }
        }
        let Some(next) = next else { return Ok(()) };
        scanned = next;
    }
}
