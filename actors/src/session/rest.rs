//! What a session lets go of when nothing happens: first what its model was told before, then all of itself.

use std::time::Duration;

use pilothouse_messages::error::StoreError;
use pilothouse_messages::topic::TopicCommand;
use tokio::time::{Instant, sleep_until};

use super::{Own, OwnMsg, SessionMsg, SessionShell};
use crate::phase::Phase;
use crate::slot::Letter;
use crate::topics::TopicsMsg;

/// After this the past is read again by whoever needs it.
const FORGETS_AFTER: Duration = Duration::from_secs(10);

/// How long nothing has happened.
#[derive(Debug)]
pub(super) struct Quiet {
    since: Instant,
    clock: Clock,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { since: Instant::now(), clock: Clock::Stands }
    }
}

/// Whether a task waits for the end of a while; one at a time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Stands,
    Runs,
}

/// A while is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rested;

impl SessionShell {
    /// Something happened.
    pub(super) fn stir(&mut self) {
        self.quiet.since = Instant::now();
        if self.quiet.clock == Clock::Stands && self.is_idle() {
            self.wait_until(self.quiet.since + self.forgets_after());
        }
    }

    fn is_idle(&self) -> bool {
        matches!(&self.phase, Phase::Live(topic) if !topic.state().is_open())
    }

    fn forgets_after(&self) -> Duration {
        FORGETS_AFTER.min(self.wiring.limits.topic_idle)
    }

    fn wait_until(&mut self, at: Instant) {
        self.quiet.clock = Clock::Runs;
        let myself = self.myself.clone();
        self.tasks.spawn(async move {
            sleep_until(at).await;
            // One that has ended rests already.
            let _gone = myself.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::Rested(Rested)))));
        });
    }

    pub(super) fn rested(&mut self, Rested: Rested) -> Result<(), StoreError> {
        self.quiet.clock = Clock::Stands;
        if !self.is_idle() {
            return Ok(());
        }
        let (now, since, whole) = (Instant::now(), self.quiet.since, self.wiring.limits.topic_idle);
        if now < since + self.forgets_after() {
            self.wait_until(since + self.forgets_after());
        } else if now < since + whole {
            self.earlier = None;
            self.look_back();
            self.wait_until(since + whole);
        } else if self.place.hub.windows() > 0 {
            // Somebody looks at it.
            self.wait_until(now + whole);
        } else {
            return self.commit(&TopicCommand::Sleep, None);
        }
        Ok(())
    }

    /// The record of it is durable: nothing is lost with this actor. The supervisor looks whether that still holds.
    pub(super) fn fall_asleep(&self) {
        // A command that came meanwhile waits for its record; it has set the clock anew.
        if !matches!(&self.phase, Phase::Live(topic) if topic.is_settled()) {
            return;
        }
        self.place.set_rests(true);
        self.wiring.topics.slot.inform(TopicsMsg::Asleep { topic: self.place.topic.clone() });
    }
}
