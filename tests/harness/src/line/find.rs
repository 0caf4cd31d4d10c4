//! Looking for a partial line in the lines out.
//!
//! A search begins after the last match, so nothing that came between two expectations is missed, and a match
//! moves that place. A search from the start covers everything and moves nothing.

use serde_json::Value;

use super::expect::{Pattern, Since};
use super::write::{Body, Line};

/// Lines that are shown when an expectation did not hold.
const SHOWN: usize = 5;

/// Whether a value has everything that the pattern gives: of objects the given fields, of arrays and all else
/// the same, of a text that begins with `~` what follows it, anywhere.
pub fn matches(pattern: &Value, actual: &Value) -> bool {
    match (pattern, actual) {
        (Value::Object(given), Value::Object(actual)) => {
            given.iter().all(|(key, value)| actual.get(key).is_some_and(|actual| matches(value, actual)))
        }
        (Value::String(given), Value::String(actual)) => match given.strip_prefix('~') {
            Some(part) => actual.contains(part),
            None => given == actual,
        },
        (pattern, actual) => pattern == actual,
    }
}

impl Pattern {
    /// Whether this line is one.
    pub fn matches(&self, line: &Line) -> bool {
        match (self, &line.body) {
            (Self::Event(given), Body::Event(actual)) | (Self::Reply(given), Body::Reply(actual)) => {
                matches(given, actual)
            }
            (Self::Event(_) | Self::Reply(_), Body::Event(_) | Body::Reply(_) | Body::Expect(_)) => false,
        }
    }

    /// Whether this line is of the same kind, matching or not.
    fn resembles(&self, line: &Line) -> bool {
        match (self, &line.body) {
            (Self::Event(given), Body::Event(actual)) => given.get("kind") == actual.get("kind"),
            (Self::Reply(_), Body::Reply(_)) => true,
            (Self::Event(_) | Self::Reply(_), Body::Event(_) | Body::Reply(_) | Body::Expect(_)) => false,
        }
    }
}

/// Where the next search begins: after the line of the last match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    next: usize,
}

impl Cursor {
    /// A search that has looked at nothing yet.
    pub fn search(&self, pattern: Pattern, since: Since) -> Search {
        let begun = match since {
            Since::LastMatch => self.next,
            Since::Start => 0,
        };
        Search { pattern, since, begun, next: begun }
    }

    /// Goes on with a search and moves to its match, if it has one now and does not cover all lines.
    pub fn advance(&mut self, search: &mut Search, lines: &[Line]) -> Option<usize> {
        let found = search.advance(lines)?;
        match search.since {
            Since::LastMatch => self.next = found + 1,
            Since::Start => {}
        }
        Some(found)
    }
}

/// One search, which goes on as lines come.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    pattern: Pattern,
    since: Since,
    begun: usize,
    next: usize,
}

impl Search {
    /// Looks at the lines that came since the last look; the index of the first match.
    pub fn advance(&mut self, lines: &[Line]) -> Option<usize> {
        let fresh = lines.iter().enumerate().skip(self.next);
        let found =
            fresh.map(|(index, line)| (index, self.pattern.matches(line))).find(|(_, matches)| *matches);
        self.next = found.map_or(lines.len(), |(index, _)| index + 1);
        found.map(|(index, _)| index)
    }

    /// What it looks for.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// What came instead: the last lines of the same kind, or else the last lines.
    pub fn seen<'a>(&self, lines: &'a [Line]) -> Vec<&'a Line> {
        let covered = lines.get(self.begun..).unwrap_or_default();
        let alike: Vec<&Line> = covered.iter().filter(|line| self.pattern.resembles(line)).collect();
        let shown = if alike.is_empty() { covered.iter().collect() } else { alike };
        shown.iter().skip(shown.len().saturating_sub(SHOWN)).copied().collect()
    }
}
