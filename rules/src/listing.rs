//! Decides what a server's `tools/list` pages amount to: which tools are good, and when reading ends.
//!
//! Each tool is judged alone, so a bad one drops itself only. The pages are bounded in number, tools and bytes: a
//! listing that breaks a bound fails whole, and the last known good one stays. A cursor that comes again ends the
//! reading, and what was read is the listing: a server that leads in a circle has no other tools to give.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::{DroppedTool, ListedTools};
use serde_json::Value;

mod tool;

pub use tool::tool_of;

/// The pages of one listing, as far as they were read.
#[derive(Debug)]
pub struct Pages {
    limits: Arc<Limits>,
    listed: ListedTools,
    names: BTreeSet<String>,
    cursors: BTreeSet<String>,
    /// Whether the page that comes was asked for by an empty cursor.
    by_empty_cursor: bool,
    pages: usize,
    bytes: usize,
}

/// What follows a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStep {
    /// Another page, at this cursor.
    ///
    /// It may be the empty string: to us a cursor is opaque (MCP 2025-11-25, "Pagination"). That one is followed once:
    /// some servers write it on their last page, and answer it with their first.
    More(String),
    /// The listing is complete.
    Done,
}

/// Why a whole listing fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// The listing has too many pages.
    #[error("the listing has more than {limit} pages")]
    TooManyPages {
        /// How many it may have.
        limit: usize,
    },
    /// The listing has too many tools, good and bad.
    #[error("the listing has more than {limit} tools")]
    TooManyTools {
        /// How many it may have.
        limit: usize,
    },
    /// The listing is too large, as compact JSON with its cursors.
    #[error("the listing has more than {limit} bytes")]
    TooManyBytes {
        /// How many it may have.
        limit: usize,
    },
}

impl Pages {
    /// No page read yet; `listing_pages`, `listing_tools` and `listing_bytes` bound what follows.
    pub fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            listed: ListedTools::default(),
            names: BTreeSet::new(),
            cursors: BTreeSet::new(),
            by_empty_cursor: false,
            pages: 0,
            bytes: 0,
        }
    }

    /// Reads one page: its tools as the server sent them, and where the next page starts.
    ///
    /// # Errors
    /// A bound is broken: the listing fails whole.
    pub fn take(&mut self, tools: Vec<Value>, next: Option<String>) -> Result<PageStep, PagingError> {
        self.count_page(next.as_deref())?;
        if self.by_empty_cursor && tools.iter().all(|tool| self.knows(tool)) {
            return Ok(PageStep::Done);
        }
        let repeated = next.as_deref().is_some_and(|cursor| self.cursors.contains(cursor));
        for tool in tools {
            // A page of a circle was read before: what is on it is no second tool of its name.
            if repeated && self.knows(&tool) {
                continue;
            }
            self.count_tool(&tool)?;
            self.judge(tool);
        }
        let Some(cursor) = next else {
            return Ok(PageStep::Done);
        };
        self.by_empty_cursor = cursor.is_empty();
        if self.cursors.insert(cursor.clone()) {
            return Ok(PageStep::More(cursor));
        }
        if !cursor.is_empty() {
            self.listed.dropped.push(circle(&cursor));
        }
        Ok(PageStep::Done)
    }

    /// What the pages amount to.
    pub fn into_listed(self) -> ListedTools {
        self.listed
    }

    fn knows(&self, tool: &Value) -> bool {
        tool.get("name").and_then(Value::as_str).is_some_and(|name| self.names.contains(name))
    }

    /// A page that promises one too many fails before that one is fetched.
    fn count_page(&mut self, next: Option<&str>) -> Result<(), PagingError> {
        let limit = self.limits.listing_pages;
        self.pages += 1;
        let promised = self.pages + usize::from(next.is_some());
        if promised > limit {
            return Err(PagingError::TooManyPages { limit });
        }
        self.count_bytes(next.map_or(0, str::len))
    }

    fn count_tool(&mut self, tool: &Value) -> Result<(), PagingError> {
        let limit = self.limits.listing_tools;
        if self.listed.tools.len() + self.listed.dropped.len() >= limit {
            return Err(PagingError::TooManyTools { limit });
        }
        self.count_bytes(compact_bytes(tool))
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), PagingError> {
        let limit = self.limits.listing_bytes;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limit { Err(PagingError::TooManyBytes { limit }) } else { Ok(()) }
    }

    fn judge(&mut self, tool: Value) {
        match tool_of(tool) {
            Ok(tool) if self.names.insert(tool.name.clone()) => self.listed.tools.push(tool),
            Ok(tool) => self.listed.dropped.push(DroppedTool {
                name: Some(tool.name),
                reason: "an earlier tool of the listing has the same name".to_owned(),
            }),
            Err(dropped) => self.listed.dropped.push(dropped),
        }
    }
}

/// What is told of a listing that leads back to a page of its own.
fn circle(cursor: &str) -> DroppedTool {
    let shown: String = cursor.chars().take(64).collect();
    let reason = format!("the server gave the cursor {shown:?} twice, so what comes after it was not read");
    DroppedTool { name: None, reason }
}

/// The length of the value as compact JSON, without writing it anywhere.
fn compact_bytes(value: &Value) -> usize {
    let mut counter = ByteCounter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // A JSON value always has a text and the counter takes all of it; if ever not, it breaks the bound.
        Err(_) => usize::MAX,
    }
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
