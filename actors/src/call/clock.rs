//! Decides how long a call may still take: progress makes it longer, up to a cap, and an open question stops it.

use std::time::Duration;

use tokio::time::Instant;

/// One call's time.
#[derive(Debug, Clone)]
pub(super) struct CallClock {
    /// How long it may take without a sign of life.
    within: Duration,
    start: Instant,
    /// When it is over, were the clock not stopped.
    ends_at: Instant,
    /// No sign of life moves its end beyond this.
    cap: Instant,
    /// How long questions may still stop it.
    pauses_left: Duration,
    paused: Option<Instant>,
}

impl CallClock {
    /// Starts at `now`: `within` without a sign of life, at most `cap` with, and stopped for at most `pauses` in all.
    pub(super) fn new(now: Instant, within: Duration, cap: Duration, pauses: Duration) -> Self {
        let (ends_at, cap) = (now + within, now + cap.max(within));
        Self { within, start: now, ends_at, cap, pauses_left: pauses, paused: None }
    }

    /// The server showed that it works on.
    pub(super) fn alive(&mut self, now: Instant) {
        self.ends_at = self.ends_at.max((now + self.within).min(self.cap));
    }

    /// As many questions are open.
    pub(super) fn questions(&mut self, now: Instant, open: usize) {
        match (self.paused, open) {
            (None, 0) | (Some(_), 1..) => {}
            (None, 1..) => self.paused = Some(now),
            (Some(since), 0) => {
                let pause = now.saturating_duration_since(since).min(self.pauses_left);
                self.pauses_left -= pause;
                self.ends_at += pause;
                self.cap += pause;
                self.start += pause;
                self.paused = None;
            }
        }
    }

    /// When it is over, if nothing changes.
    pub(super) fn ends_at(&self) -> Instant {
        match self.paused {
            Some(_) => self.ends_at + self.pauses_left,
            None => self.ends_at,
        }
    }

    /// How long the server has had by then, pauses left out.
    pub(super) fn whole(&self) -> Duration {
        self.ends_at.saturating_duration_since(self.start)
    }
}

#[cfg(test)]
mod tests;
