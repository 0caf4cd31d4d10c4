//! Reads a whole range of a store, page by page.

use std::ops::ControlFlow;

use pilothouse_messages::error::StoreError;

use super::{Keyspace, Pair, Store};

/// Pairs in one page: about 1 MiB at a time.
pub const PAGE: usize = 256;

/// Whether the next page is asked for while one is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Yes,
    No,
}

/// Visits every pair whose key starts with `prefix`, in key order. The next page is asked for while one is looked at, so
/// that two may be held.
///
/// # Errors
/// The store's, or the first that `visit` returns.
pub async fn each_pair(
    store: &dyn Store,
    keyspace: Keyspace,
    prefix: &[u8],
    mut visit: impl FnMut(Pair) -> Result<(), StoreError> + Send,
) -> Result<(), StoreError> {
    let visit = |pair| visit(pair).map(ControlFlow::Continue);
    each_page((store, keyspace, prefix), None, Ahead::Yes, visit).await
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
    visit: impl FnMut(Pair) -> Result<ControlFlow<()>, StoreError> + Send,
) -> Result<(), StoreError> {
    // It may stop anywhere: a page that it does not look at would be read for nothing.
    each_page((store, keyspace, prefix), after, Ahead::No, visit).await
}

async fn each_page(
    (store, keyspace, prefix): (&dyn Store, Keyspace, &[u8]),
    after: Option<Vec<u8>>,
    ahead: Ahead,
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
        let is_last = page.len() < most;
        let next = (ahead == Ahead::Yes && !is_last).then(|| scan(from.clone(), most));
        for pair in page {
            if visit(pair)?.is_break() {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
        scanned = next.unwrap_or_else(|| scan(from.clone(), most));
    }
}
