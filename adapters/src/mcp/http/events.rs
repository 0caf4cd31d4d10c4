//! Reads Server-Sent Events: chunks in, events out, whatever the chunks' borders are (HTML, "Server-sent events").

use std::time::Duration;

use reqwest::Response;

use super::fault::Fault;
use super::intake::{Budget, Share};

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::mcp) struct Event {
    /// Its type; empty for a plain message.
    pub(in crate::mcp) name: String,
    /// Its data, lines joined.
    pub(in crate::mcp) data: Vec<u8>,
}

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

/// The lines of a stream so far.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a carriage return, which a line feed may follow.
    after_cr: bool,
    /// Whether the first line is over: only before it there may be a byte order mark.
    begun: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// A longer id (1 KiB) is not kept: it would have to go into a header.
const ID_BYTES_MAX: usize = 1 << 10;

impl Parser {
    /// The bytes that it keeps.
    fn held(&self) -> usize {
        self.line.len() + self.event.data.len() + self.event.name.len()
    }

    /// Takes bytes up to the end of an event, or all.
    fn take(&mut self, chunk: &[u8]) -> (usize, Option<Event>) {
        let mut used = 0;
        if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
            used = 1;
        }
        while let Some(rest) = chunk.get(used..).filter(|rest| !rest.is_empty()) {
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                return (chunk.len(), None);
            };
            self.line.extend_from_slice(rest.get(..end).unwrap_or_default());
            used += end + 1;
            if rest.get(end) == Some(&b'\r') {
                match chunk.get(used) {
                    Some(b'\n') => used += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            let line = std::mem::take(&mut self.line);
            if let Some(event) = self.end_of_line(&line) {
                return (used, Some(event));
            }
        }
        (used, None)
    }

    fn end_of_line(&mut self, line: &[u8]) -> Option<Event> {
        let line = if self.begun { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if value.len() <= ID_BYTES_MAX && !value.contains(&0) => {
                self.last_id = std::str::from_utf8(value).ok().filter(|id| !id.is_empty()).map(str::to_owned);
            }
            b"retry" => {
                let digits =
                    std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                self.retry =
                    digits.and_then(|text| text.parse().ok()).map(Duration::from_millis).or(self.retry);
            }
            // A comment, a field of a later standard, or an id that is none.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
