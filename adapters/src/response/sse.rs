//! Reads Server-Sent Events: chunks in, events out, whatever the chunks' borders are (HTML, "Server-sent events").

use std::time::Duration;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its type; empty for a plain message.
    pub(crate) name: String,
    /// Its data, lines joined.
    pub(crate) data: Vec<u8>,
}

/// The lines of a stream so far.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a carriage return, which a line feed may follow.
    after_cr: bool,
    /// Whether the first line is over: only before it there may be a byte order mark.
    begun: bool,
    /// What the server gave to go on from.
    pub(crate) last_id: Option<String>,
    /// How long the server wants to be left alone before it is asked again.
    pub(crate) retry: Option<Duration>,
}

/// A longer id (1 KiB) is not kept: it would have to go into a header.
const ID_BYTES_MAX: usize = 1 << 10;

impl Parser {
    /// The bytes that it keeps.
    pub(crate) fn held(&self) -> usize {
        self.line.len() + self.event.data.len() + self.event.name.len()
    }

    /// Takes bytes up to the end of an event, or all.
    pub(crate) fn take(&mut self, chunk: &[u8]) -> (usize, Option<Event>) {
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
