//! Whether the clock goes on as time does. A jump is recorded: it says why a card expired early, or a stamp looks late.

use std::time::Duration;

use pilothouse_messages::time::Timestamp;
use tokio::time::Instant;

/// Less than this is drift, or a correction that nobody has to know of.
const JUMP: Duration = Duration::from_secs(60);

/// Where the clock stood.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// The newest stamp of an earlier life: how long nobody looked is not known, but no clock stands before it.
    newest: Timestamp,
    /// When it was looked at last, and where it stood.
    last: Option<(Instant, Timestamp)>,
}

impl ClockWatch {
    /// Begins after an earlier life, whose newest stamp this is.
    pub(super) fn begin(&mut self, newest: Timestamp) {
        *self = Self { newest, last: None };
    }

    /// Where the clock should stand, and where it stands, if that is a jump.
    pub(super) fn look(&mut self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let instant = Instant::now();
        let last = self.last.replace((instant, now));
        let (should, ahead) = match last {
            Some((then, stood)) => {
                let should = stood.after(instant.saturating_duration_since(then));
                (should, now.since(should))
            }
            None => (self.newest, Duration::ZERO),
        };
        let jump = should.since(now).max(ahead) > JUMP;
        jump.then_some((should, now))
    }
}

#[cfg(test)]
mod tests;
