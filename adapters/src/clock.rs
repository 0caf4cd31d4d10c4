//! The time.

use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_messages::time::Timestamp;
use tokio::time::Instant;

/// Tells the time. Waits are always Tokio's; this only stamps records and compares deadlines.
pub trait Clock: Send + Sync + 'static {
    /// Now, in Unix milliseconds. May jump; the shells never let it fall below a stored stamp.
    fn now(&self) -> Timestamp;
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Tokio's clock, counted from a fixed stamp: moves with a paused runtime.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that reads `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.start.after(self.started.elapsed())
    }
}
