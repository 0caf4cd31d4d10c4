//! Keeps the end of a server's output that never became a line: a question put to a person who is not there.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::stderr::StderrLog;
use crate::words::Cut;

/// What is kept of it.
const TAIL_BYTES_MAX: usize = 256;

/// The output of a process; what it leaves without a line break is noted among its words when it is given up.
pub(super) struct Tail<R> {
    output: R,
    /// What came since the last line break, cut to the bound.
    rest: Vec<u8>,
    log: StderrLog,
}

impl<R> Tail<R> {
    pub(super) fn of(output: R, log: StderrLog) -> Self {
        Self { output, rest: Vec::new(), log }
    }

    fn take(&mut self, read: &[u8]) {
        let rest = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => {
                self.rest.clear();
                read.get(end + 1..).unwrap_or_default()
            }
            None => read,
        };
        let room = TAIL_BYTES_MAX - self.rest.len();
        self.rest.extend_from_slice(rest.get(..room).unwrap_or(rest));
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Tail<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(cx, buffer);
        let read = buffer.filled().get(before..).unwrap_or_default();
        if !read.is_empty() {
            self.take(read);
        }
        polled
    }
}

impl<R> Drop for Tail<R> {
    fn drop(&mut self) {
        if self.rest.iter().any(|byte| !byte.is_ascii_whitespace()) {
            let said = [b"(on its output, without a line break) ", self.rest.as_slice()].concat();
            self.log.note(&said, Cut::No);
        }
    }
}
