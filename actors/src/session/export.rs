//! A topic's records as JSON Lines, page by page.

use std::ops::ControlFlow;

use pilothouse_adapters::store::log::{self, JOURNAL, topic_prefix};
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::topic::{ExportPage, TopicEvent};
use serde_json::json;

use super::reading::Reading;

/// Records of one page at most, and bytes of its lines, but for the one record that every page has.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// One page of a topic's records from this one on; those that are not kept any more are left out.
///
/// # Errors
/// The store's own.
pub async fn page(store: &dyn Store, topic: &TopicId, from: u64) -> Result<ExportPage, StoreError> {
    let prefix = topic_prefix(topic);
    let mut reading = Reading::begin(store, &prefix).await?;
    while let Some(kept) = reading {
        match page_from(store, topic, from.max(kept.head.kept_from)).await {
            Err(damage @ StoreError::Damaged { .. }) => reading = kept.again(damage).await?,
            answer => return answer,
        }
    }
    Ok(ExportPage::default())
}

async fn page_from(store: &dyn Store, topic: &TopicId, first: u64) -> Result<ExportPage, StoreError> {
    let prefix = topic_prefix(topic);
    let (mut page, mut bytes) = (ExportPage::default(), 0);
    log::read_log_from::<TopicEvent>(store, Keyspace::Journal, &prefix, &JOURNAL, first, |record| {
        let full = page.lines.len() >= PAGE_RECORDS || bytes >= PAGE_BYTES;
        if full {
            page.next = Some(record.sequence);
            return ControlFlow::Break(());
        }
        let line = json!({"topic": topic, "sequence": record.sequence, "event": record.payload}).to_string();
        bytes += line.len();
        page.lines.push(line);
        ControlFlow::Continue(())
    })
    .await?;
    Ok(page)
}
