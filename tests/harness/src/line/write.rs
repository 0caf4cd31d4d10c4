//! The lines out: numbered without gaps, stamped, written and kept.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::expect::Pattern;

/// One line out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its number, from 1 without gaps.
    pub n: u64,
    /// Milliseconds since the start, on Tokio's clock.
    pub at: u64,
    /// What it says.
    #[serde(flatten)]
    pub body: Body,
}

/// What a line out says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Something happened.
    Event(Value),
    /// The answer to a line in.
    Reply(Value),
    /// What became of an expectation.
    Expect(Value),
}

/// What became of an expectation.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<'a> {
    /// It held.
    Held,
    /// It did not.
    Missed {
        /// What was looked for.
        wanted: &'a Pattern,
        /// What was seen instead; for a line that must not come, that line.
        seen: Vec<&'a Line>,
        /// The seed of the run.
        seed: u64,
    },
}

/// Writes lines, one flush each, and keeps all of them: a search may cover the whole run. A run is as long as
/// its lines in, so this is the memory of a test and not of a service.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    started: Instant,
    lines: Vec<Line>,
}

impl<W: io::Write> Writer<W> {
    /// A writer whose time starts now.
    pub fn new(out: W) -> Self {
        Self { out, started: Instant::now(), lines: Vec::new() }
    }

    /// Writes an event of this kind.
    ///
    /// # Errors
    /// The output's own error; the line has no number then.
    pub fn event(&mut self, kind: &str, mut fields: Map<String, Value>) -> io::Result<()> {
        fields.insert("kind".into(), json!(kind));
        self.write(Body::Event(Value::Object(fields)))
    }

    /// Writes an `error` event about a line in, or about the whole run.
    ///
    /// # Errors
    /// The output's own error; the line has no number then.
    pub fn error(&mut self, line: Option<usize>, code: &str, message: &str) -> io::Result<()> {
        let mut fields = Map::new();
        fields.insert("code".into(), json!(code));
        fields.insert("message".into(), json!(message));
        if let Some(line) = line {
            fields.insert("line".into(), json!(line));
        }
        self.event("error", fields)
    }

    /// Writes the reply to a line in.
    ///
    /// # Errors
    /// The output's own error; the line has no number then.
    pub fn reply(&mut self, to: usize, mut fields: Map<String, Value>) -> io::Result<()> {
        fields.insert("to".into(), json!(to));
        self.write(Body::Reply(Value::Object(fields)))
    }

    /// Writes what became of the expectation in a line in.
    ///
    /// # Errors
    /// The output's own error; the line has no number then.
    pub fn expectation(&mut self, line: usize, outcome: &Outcome<'_>) -> io::Result<()> {
        let body = match outcome {
            Outcome::Held => json!({"line": line, "ok": true}),
            Outcome::Missed { wanted, seen, seed } => {
                let wanted = match wanted {
                    Pattern::Event(given) => json!({"event": given}),
                    Pattern::Reply(given) => json!({"reply": given}),
                };
                json!({"line": line, "ok": false, "wanted": wanted, "seen": seen, "seed": seed})
            }
        };
        self.write(Body::Expect(body))
    }

    /// All lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Gives the output back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn write(&mut self, body: Body) -> io::Result<()> {
        let n = u64::try_from(self.lines.len()).unwrap_or(u64::MAX).saturating_add(1);
        let at = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let line = Line { n, at, body };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        self.lines.push(line);
        Ok(())
    }
}
