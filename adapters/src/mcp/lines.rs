//! Cuts a byte stream into lines, and holds never more than one bounded line of it.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line that is read (16 MiB); a longer one ends its connection.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// What an idle reader keeps for the next line.
const KEPT_BYTES: usize = 256 << 10;

/// What the next read brought.
#[derive(Debug)]
pub(super) enum Line {
    /// A whole line, or the rest of the stream; without its line break.
    Whole(Vec<u8>),
    /// A line passed the bound; the stream cannot be used any more.
    TooLong,
    /// The stream has ended.
    End,
    /// The stream broke.
    Broken(io::Error),
}

/// Reads lines of at most a fixed size.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    cap: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader whose lines have at most `cap` bytes.
    pub(super) fn new(input: R, cap: usize) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), line: Vec::new(), cap }
    }

    /// Reads the next line.
    ///
    /// # Cancel safety
    /// What was read stays here, and the next call goes on with it.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            let ready = match self.input.fill_buf().await {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Line::Broken(error),
            };
            if ready.is_empty() {
                return if self.line.is_empty() { Line::End } else { Line::Whole(self.take()) };
            }
            let (part, used, whole) = match ready.iter().position(|byte| *byte == b'\n') {
                Some(end) => (ready.get(..end).unwrap_or_default(), end + 1, true),
                None => (ready, ready.len(), false),
            };
            if self.line.len() + part.len() > self.cap {
                self.line = Vec::new();
                return Line::TooLong;
            }
            self.line.extend_from_slice(part);
            self.input.consume(used);
            if whole {
                return Line::Whole(self.take());
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let spare = Vec::with_capacity(self.line.len().min(KEPT_BYTES));
        std::mem::replace(&mut self.line, spare)
    }
}

#[cfg(test)]
mod tests;
