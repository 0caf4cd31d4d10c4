//! Owns an event stream of a server: its events one by one, within what a connection may hold.

use std::time::Duration;

use reqwest::Response;

use super::fault::Fault;
use super::intake::{Budget, Share};
use crate::response::sse::{Event, Parser};

impl Event {
    /// Whether it may hold an MCP message.
    pub(in crate::mcp) fn is_message(&self) -> bool {
        (self.name.is_empty() || self.name == "message") && !self.data.trim_ascii().is_empty()
    }
}

/// An open event stream.
pub(in crate::mcp) struct Events {
    response: Response,
    parser: Parser,
    share: Share,
    /// Bytes that came and are not looked at yet.
    chunk: bytes::Bytes,
}

impl Events {
    /// Reads the events of a response.
    pub(in crate::mcp) fn of(response: Response, budget: &Budget) -> Self {
        Self { response, parser: Parser::default(), share: budget.share(), chunk: bytes::Bytes::new() }
    }

    /// The next event; `None` at the end.
    pub(in crate::mcp) async fn next(&mut self) -> Result<Option<Event>, Fault> {
        self.share.clear();
        self.share.grow(self.parser.held())?;
        loop {
            while !self.chunk.is_empty() {
                let (used, event) = self.parser.take(&self.chunk);
                // Only what is kept for an event that is still open counts.
                self.share.grow(used)?;
                self.chunk = self.chunk.split_off(used);
                if event.is_some() {
                    return Ok(event);
                }
                if self.parser.held() == 0 {
                    self.share.clear();
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => return Ok(None),
                Err(error) => return Err(Fault::of(&error)),
            }
        }
    }

    /// What the server gave to go on from.
    pub(in crate::mcp) fn last_id(&self) -> Option<&str> {
        self.parser.last_id.as_deref()
    }

    /// How long it wants to be left alone before it is asked again.
    pub(in crate::mcp) fn retry(&self) -> Option<Duration> {
        self.parser.retry
    }

    /// Reads to the end, so that the connection can be used again.
    pub(in crate::mcp) async fn drain(mut self) {
        while let Ok(Some(_)) = self.response.chunk().await {}
    }
}
