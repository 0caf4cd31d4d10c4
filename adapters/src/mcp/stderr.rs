//! Keeps the last lines of a server's stderr, so that a dead server's words can be shown.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::words::{Cut, Words};

/// What is kept of one line (1 KiB).
const LINE_BYTES_MAX: usize = 1 << 10;

/// A bounded ring of lines, shared by all connections of one connector.
#[derive(Debug, Clone)]
pub(super) struct StderrRing {
    lines: Arc<Mutex<VecDeque<String>>>,
    capacity: usize,
}

impl StderrRing {
    /// A ring of this many lines.
    pub(super) fn new(capacity: usize) -> Self {
        Self { lines: Arc::default(), capacity }
    }

    /// The lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        while lines.len() > self.capacity {
            lines.pop_front();
        }
    }
}

/// One connection's share of the ring: it also knows its own last line, which says most about its end.
#[derive(Debug, Clone)]
pub(super) struct StderrLog {
    ring: StderrRing,
    last: Arc<Mutex<Option<String>>>,
    /// What a line may show.
    words: Words,
}

impl StderrLog {
    /// A log of one connection; its lines are kept as `words` has them.
    pub(super) fn new(ring: StderrRing, words: Words) -> Self {
        Self { ring, last: Arc::default(), words }
    }

    /// The last line of this connection.
    pub(super) fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note(&self, raw: &[u8], cut: Cut) {
        let shown: String =
            String::from_utf8_lossy(raw).chars().filter(|c| *c == '\t' || !c.is_control()).collect();
        let shown = self.words.kept(&shown, cut, LINE_BYTES_MAX);
        let shown = shown.trim_end();
        if shown.is_empty() {
            return;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown.to_owned());
        self.ring.push(shown.to_owned());
    }

    /// Reads until the stream ends; a server never waits for us to read its stderr.
    pub(super) async fn drain(self, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 << 10];
        let (mut line, mut cut) = (Vec::new(), Cut::No);
        // A secret across the bound is masked whole.
        let read_bytes_max = LINE_BYTES_MAX + self.words.margin();
        // A broken stderr says no more than an ended one.
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            for byte in chunk.iter().take(read) {
                if *byte == b'\n' {
                    self.note(&line, cut);
                    line.clear();
                    cut = Cut::No;
                } else if line.len() < read_bytes_max {
                    line.push(*byte);
                } else {
                    cut = Cut::Yes;
                }
            }
        }
        self.note(&line, cut);
    }
}

#[cfg(test)]
mod tests;
