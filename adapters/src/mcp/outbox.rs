//! Owns a server's input: lines wait in a bounded queue for one task that writes them, and nobody waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::SETTLE;
use super::life::Life;

/// Lines that wait for a server to read them.
const QUEUED_LINES_MAX: usize = 1_024;
/// Their bytes (64 MiB); one line may be larger if it is alone.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Where lines for the server are left.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    lines: mpsc::Sender<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    closed: CancellationToken,
    life: Arc<Life>,
}

/// The other end of an outbox.
pub(super) struct Queue {
    lines: mpsc::Receiver<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    closed: CancellationToken,
    life: Arc<Life>,
}

impl Outbox {
    /// Starts the task that writes. It ends with the connection, and the input is closed then.
    pub(super) fn open(input: impl AsyncWrite + Send + Unpin + 'static, life: Arc<Life>) -> Self {
        let (outbox, queue) = Self::queue(life);
        tokio::spawn(queue.write_to(input));
        outbox
    }

    /// An outbox whose lines somebody else takes.
    pub(super) fn queue(life: Arc<Life>) -> (Self, Queue) {
        let (sender, lines) = mpsc::channel(QUEUED_LINES_MAX);
        let queued = Arc::new(AtomicUsize::new(0));
        let closed = CancellationToken::new();
        let queue = Queue { lines, queued: queued.clone(), closed: closed.clone(), life: life.clone() };
        (Self { lines: sender, queued, closed, life }, queue)
    }

    /// Leaves a line. Never waits: a server that has left the whole queue unread is given up.
    ///
    /// # Errors
    /// If the input is closed, or the connection was given up.
    pub(super) fn push(&self, line: Vec<u8>) -> io::Result<()> {
        let bytes = line.len();
        let before = self.queued.fetch_add(bytes, Ordering::AcqRel);
        let refused = if before > 0 && before + bytes > QUEUED_BYTES_MAX {
            io::ErrorKind::WouldBlock
        } else {
            match self.lines.try_send(line) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => io::ErrorKind::WouldBlock,
                Err(mpsc::error::TrySendError::Closed(_)) => io::ErrorKind::NotConnected,
            }
        };
        self.queued.fetch_sub(bytes, Ordering::AcqRel);
        if refused == io::ErrorKind::WouldBlock {
            self.life.end("stopped reading its input");
        }
        Err(refused.into())
    }

    /// Closes the input at once; what still waits is not written.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }
}

/// A line that was taken and is not sent yet.
#[cfg(feature = "mcp-http")]
pub(super) struct Queued {
    line: Vec<u8>,
    counted: Counted,
}

#[cfg(feature = "mcp-http")]
impl Queued {
    /// The line.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The line, and what counts it among those that wait.
    pub(super) fn open(self) -> (Vec<u8>, Counted) {
        (self.line, self.counted)
    }
}

/// Counts a line among those that wait, until it is dropped.
#[cfg(feature = "mcp-http")]
pub(super) struct Counted {
    queued: Arc<AtomicUsize>,
    bytes: usize,
}

#[cfg(feature = "mcp-http")]
impl Drop for Counted {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Ends the connection if the input of a server inside this process panics: nobody else would notice.
struct Panics(Arc<Life>);

impl Drop for Panics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end("its input panicked");
        }
    }
}

impl Queue {
    /// The next line; `None` once the outbox is closed or the connection has ended. It counts as waiting until what
    /// comes with it is dropped.
    #[cfg(feature = "mcp-http")]
    pub(super) async fn next(&mut self) -> Option<Queued> {
        let line = tokio::select! {
            biased;
            () = self.life.over() => None,
            () = self.closed.cancelled() => None,
            line = self.lines.recv() => line,
        }?;
        let counted = Counted { queued: self.queued.clone(), bytes: line.len() };
        Some(Queued { line, counted })
    }

    async fn write_to(mut self, mut input: impl AsyncWrite + Unpin) {
        let (life, closed) = (self.life.clone(), self.closed.clone());
        let _noticed = Panics(life.clone());
        let broke = tokio::select! {
            biased;
            () = life.over() => false,
            () = closed.cancelled() => false,
            broke = self.write_all(&mut input) => broke,
        };
        // Half of a split pipe stays open when it is dropped; one that cannot be shut down in time is dropped.
        let _ = tokio::time::timeout(SETTLE, input.shutdown()).await;
        drop(input);
        if broke {
            // A dying server breaks its input first and says why a moment later.
            let _ = tokio::time::timeout(SETTLE, life.over()).await;
            life.end("closed its input");
        }
    }

    /// Writes until nobody can leave a line any more, or the input breaks; says whether it broke.
    async fn write_all(&mut self, input: &mut (impl AsyncWrite + Unpin)) -> bool {
        while let Some(line) = self.lines.recv().await {
            let wrote = input.write_all(&line).await.is_ok() && input.flush().await.is_ok();
            self.queued.fetch_sub(line.len(), Ordering::AcqRel);
            if !wrote {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
