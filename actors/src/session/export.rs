//! A topic's records as JSON Lines, page by page.

use std::ops::ControlFlow;

use pilothouse_adapters::store::head::{Head, Present};
use pilothouse_adapters::store::log::{self, JOURNAL, topic_prefix};
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::topic::{ExportPage, TopicEvent};
use serde_json::json;

/// Records of one page at most, and bytes of its lines, but for the one record that every page has.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// One page of a topic's records from this one on; those that are not kept any more are left out.
///
/// # Errors
/// The store's own.
pub async fn page(store: &dyn Store, topic: &TopicId, from: u64) -> Result<ExportPage, StoreError> {
    let prefix = topic_prefix(topic);
    let head = Head::read(store, &prefix).await?.filter(|head| head.presence == Present::Yes);
    let Some(head) = head else { return Ok(ExportPage::default()) };
    let (mut page, mut bytes) = (ExportPage::default(), 0);
    let first = from.max(head.kept_from);
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
