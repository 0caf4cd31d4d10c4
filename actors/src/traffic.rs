//! Owns what a connection has heard of its server, and who uses it just now.
//!
//! Whoever asks a server something holds a [`Passage`] while he waits, and says what came of it. From that the
//! connection knows how long its server has been silent, and the supervisor whether anybody needs it. One short lock,
//! held across no wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The traffic of one connection.
#[derive(Debug)]
pub struct Traffic {
    state: Mutex<State>,
    /// Calls that timed out in a row, with no answer in between.
    unanswered: watch::Sender<u32>,
}

#[derive(Debug)]
struct State {
    /// When the server last said anything.
    heard: Instant,
    /// When the last use began or ended.
    used: Instant,
    under_way: usize,
    door: Door,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    /// The connection is ended because nobody used it: nobody may begin to.
    Closed,
}

/// Whether somebody uses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Nobody; and nobody will.
    None,
    /// The last use was this long ago; zero for one that is under way.
    Ago(Duration),
}

impl Default for Traffic {
    fn default() -> Self {
        let now = Instant::now();
        let state = State { heard: now, used: now, under_way: 0, door: Door::Open };
        Self { state: Mutex::new(state), unanswered: watch::Sender::new(0) }
    }
}

impl Traffic {
    /// Begins a use; `None` if the connection is being ended for want of any.
    pub fn enter(self: &Arc<Self>) -> Option<Passage> {
        let mut state = self.lock();
        match state.door {
            Door::Closed => None,
            Door::Open => {
                state.under_way += 1;
                state.used = Instant::now();
                Some(Passage(self.clone()))
            }
        }
    }

    /// Whether a use may begin.
    pub fn is_open(&self) -> bool {
        self.lock().door == Door::Open
    }

    /// Uses under way.
    pub fn under_way(&self) -> usize {
        self.lock().under_way
    }

    /// The server has said something, whatever it was.
    pub fn hear(&self) {
        self.lock().heard = Instant::now();
        self.unanswered.send_if_modified(|unanswered| std::mem::take(unanswered) > 0);
    }

    /// When the server last said something.
    pub fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Waits until so many calls in a row have timed out, with no answer in between.
    pub async fn until_unanswered(&self, calls: u32) {
        let mut unanswered = self.unanswered.subscribe();
        // The sender lives in self, so that this only ends by coming true.
        let _reached = unanswered.wait_for(|unanswered| *unanswered >= calls).await;
    }

    /// Closes the door if nobody has used the connection for this long.
    pub fn close_if_unused(&self, for_at_least: Duration) -> Use {
        let mut state = self.lock();
        let ago = state.used.elapsed();
        match (state.under_way, ago >= for_at_least) {
            (0, true) => {
                state.door = Door::Closed;
                Use::None
            }
            (0, false) => Use::Ago(ago),
            (_, _) => Use::Ago(Duration::ZERO),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One use of a connection, until it is dropped.
#[derive(Debug)]
pub struct Passage(Arc<Traffic>);

impl Passage {
    /// The server answered, in whatever way.
    pub fn answered(&self) {
        self.0.hear();
    }

    /// The server had not answered when the deadline came. Counts only if it has said nothing to anybody since
    /// `asked`: a slow tool of a lively server is no sign of death.
    pub fn timed_out(&self, asked: Instant) {
        if self.0.heard() <= asked {
            self.0.unanswered.send_modify(|unanswered| *unanswered = unanswered.saturating_add(1));
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way = state.under_way.saturating_sub(1);
        state.used = Instant::now();
    }
}

#[cfg(test)]
mod tests;
