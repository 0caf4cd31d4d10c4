//! When an actor of the house that ended is started again (OTP's restart intensity, kept for each child).
//!
//! ```text
//! ended ──▶ within the budget? ──yes──▶ start after a delay that doubles
//!                   │no
//!                   └──────────▶ parked until somebody asks for it
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_messages::time::Timestamp;

/// Ends that are forgiven within [`PERIOD`].
const INTENSITY: usize = 8;
/// How long an end is remembered.
const PERIOD: Duration = Duration::from_secs(60);
/// The first end is followed by a start at once, the second after this, and so on, doubling.
const FIRST_DELAY: Duration = Duration::from_millis(50);

/// The restarts of one child. Its budget is its own: it never brings a sibling down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restarts {
    recent: VecDeque<Timestamp>,
}

/// What to do about a child that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start a fresh one after this delay.
    StartAfter(Duration),
    /// It failed too often: leave it parked.
    Park,
}

impl Restarts {
    /// Takes note of an end and says what follows.
    pub fn ended(&mut self, now: Timestamp) -> Verdict {
        self.recent.retain(|end| now.since(*end) < PERIOD);
        self.recent.push_back(now);
        let ends = self.recent.len();
        if ends > INTENSITY {
            return Verdict::Park;
        }
        match u32::try_from(ends.saturating_sub(2)) {
            Ok(doublings) if ends > 1 => Verdict::StartAfter(FIRST_DELAY * 2u32.saturating_pow(doublings)),
            Ok(_) | Err(_) => Verdict::StartAfter(Duration::ZERO),
        }
    }

    /// Forgets every end: somebody asked for the child again.
    pub fn forgive(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests;
