//! The one place where lines go out.
//!
//! While a line in is being done, events wait for its reply: whoever expects the reply first and then what it caused
//! finds both. No event waits longer than [`HOLD`], so a slow line hides nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse::clock::Clock;
use pilothouse::id::ApprovalId;
use pilothouse::time::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::refusal::Refusal;
use crate::line::{Line, LineError, Outcome, Search, Writer};

/// The longest that an event waits for a reply.
const HOLD: Duration = Duration::from_millis(250);

/// How often it is looked whether an event has waited long enough.
const TICK: Duration = Duration::from_millis(50);

/// Fields of a line out.
pub(super) type Fields = Map<String, Value>;

/// Writes lines from several tasks, one at a time.
pub(super) struct Out {
    state: Mutex<State>,
    /// The run's clock: that of the runtime.
    clock: Arc<dyn Clock>,
    /// How many lines are out; whoever waits for a line holds a receiver.
    written: watch::Sender<usize>,
}

struct State {
    writer: Writer<Box<dyn io::Write + Send>>,
    holding: Holding,
    held: VecDeque<Held>,
    /// The cards that were printed, the newest last.
    cards: Vec<ApprovalId>,
    /// Why the output cannot be written any more.
    failure: Option<io::Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    No,
    Yes,
}

struct Held {
    since: Instant,
    kind: &'static str,
    fields: Fields,
}

impl Out {
    pub(super) fn new(out: Box<dyn io::Write + Send>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            writer: Writer::new(out),
            holding: Holding::No,
            held: VecDeque::new(),
            cards: Vec::new(),
            failure: None,
        };
        Arc::new(Self { state: Mutex::new(state), clock, written: watch::Sender::new(0) })
    }

    /// The time of the run.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A poisoned lock still holds whole lines: each is written in one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, write: impl FnOnce(&mut State)) {
        let mut state = self.state();
        write(&mut state);
        let lines = state.writer.lines().len();
        drop(state);
        self.written.send_replace(lines);
    }

    /// Prints an event, now or after the reply to the line that is being done.
    pub(super) fn event(&self, kind: &'static str, fields: Fields) {
        self.with(|state| match state.holding {
            Holding::No => state.event(kind, fields),
            Holding::Yes => state.held.push_back(Held { since: Instant::now(), kind, fields }),
        });
    }

    /// Prints a reply, with what waited for it.
    pub(super) fn reply(&self, to: usize, fields: Fields) {
        self.with(|state| {
            let written = state.writer.reply(to, fields);
            state.note(written);
        });
    }

    /// Prints what was refused.
    pub(super) fn refused(&self, line: Option<usize>, refusal: &Refusal) {
        self.with(|state| {
            let written = state.writer.error(line, refusal.code, &refusal.message);
            state.note(written);
        });
    }

    /// Prints why the input is wrong: the last line of a run.
    pub(super) fn wrong(&self, error: &LineError) {
        let mut fields = Fields::new();
        fields.insert("line".into(), error.line.into());
        fields.insert("code".into(), "wrong_input".into());
        fields.insert("message".into(), error.to_string().into());
        if let Some(field) = &error.field {
            fields.insert("field".into(), field.clone().into());
        }
        self.event("error", fields);
    }

    /// Prints that an expectation held.
    pub(super) fn held(&self, line: usize) {
        self.with(|state| {
            let written = state.writer.expectation(line, &Outcome::Held);
            state.note(written);
        });
    }

    /// Prints that an expectation did not hold, and says what was seen: for one that a line broke, that line.
    pub(super) fn missed(
        &self,
        line: usize,
        search: &Search,
        broken_by: Option<usize>,
        seed: u64,
    ) -> Vec<Line> {
        let mut seen = Vec::new();
        self.with(|state| {
            let lines = state.writer.lines();
            seen = match broken_by.and_then(|index| lines.get(index)) {
                Some(line) => vec![line.clone()],
                None => search.seen(lines).into_iter().cloned().collect(),
            };
            let missed = Outcome::Missed { wanted: search.pattern(), seen: seen.iter().collect(), seed };
            let written = state.writer.expectation(line, &missed);
            state.note(written);
        });
        seen
    }

    /// Does a line in; events wait until [`release`](Self::release), or until they are old.
    pub(super) async fn hold<T>(&self, work: impl Future<Output = T>) -> T {
        self.state().holding = Holding::Yes;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep(TICK) => self.with(|state| state.print_held(HOLD)),
            }
        }
    }

    /// Prints what waited.
    pub(super) fn release(&self) {
        self.with(|state| {
            state.holding = Holding::No;
            state.print_held(Duration::ZERO);
        });
    }

    /// Looks at the lines that are out.
    pub(super) fn read<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(self.state().writer.lines())
    }

    /// Tells of every line from now on.
    pub(super) fn written(&self) -> watch::Receiver<usize> {
        self.written.subscribe()
    }

    /// Remembers that a card was printed.
    pub(super) fn note_card(&self, approval: ApprovalId) {
        let mut state = self.state();
        state.cards.retain(|printed| *printed != approval);
        state.cards.push(approval);
    }

    /// The cards that were printed, the newest last.
    pub(super) fn cards(&self) -> Vec<ApprovalId> {
        self.state().cards.clone()
    }

    /// Whether the lines still reach the output.
    ///
    /// # Errors
    /// The output's own error, once.
    pub(super) fn check(&self) -> io::Result<()> {
        self.state().failure.take().map_or(Ok(()), Err)
    }
}

impl State {
    fn event(&mut self, kind: &str, fields: Fields) {
        let written = self.writer.event(kind, fields);
        self.note(written);
    }

    fn print_held(&mut self, older_than: Duration) {
        while self.held.front().is_some_and(|held| held.since.elapsed() >= older_than) {
            if let Some(Held { kind, fields, .. }) = self.held.pop_front() {
                self.event(kind, fields);
            }
        }
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests;
