//! The one algorithm of every shell: **decide → apply → append → (durable) → perform**.
//!
//! ```text
//!  command ─▶ decide ─▶ apply to the private state ─▶ append to the lane ─▶ the handler goes on
//!                                                             │ acknowledged, in order
//!                                                             ▼
//!                        reply, picture and directives of that batch are released
//! ```
//!
//! Decisions therefore never see old state, many batches share one flush, and nobody sees what could still be lost.
//! A commit that fails or takes too long ends the actor: held replies get the error, and its successor reads the
//! truth back from the store.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pilothouse_adapters::clock::Clock;
use pilothouse_adapters::store::{Ack, Batch, Lane, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::{Decider, Decision};

use ractor::ActorRef;

use crate::slot::{Letter, Reply, Slot};
use crate::tasks::TaskSet;

/// What an asker is told about a command: its answer, or why nothing changed.
pub type Told<D> = Result<<D as Decider>::Answer, <D as Decider>::Rejection>;

/// A decider whose changes can be published.
pub trait Pictured: Decider {
    /// What readers get to see of one batch.
    type Picture: Send + 'static;

    /// Applies the events of one batch, in order, and returns what readers see once it is durable.
    fn take(&mut self, events: &[Self::Event]) -> Self::Picture;
}

/// How a shell's events become changes of the store.
pub trait Journal<D: Decider>: Send + 'static {
    /// The batches that store these events; `state` is the state after them. None if nothing is stored.
    ///
    /// # Errors
    /// If an event cannot be written as a record; the actor ends and nothing of the batch is seen.
    fn stage(&mut self, events: &[D::Event], state: &D) -> Result<Vec<Batch>, StoreError>;
}

/// A shell that stores nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unstored;

impl<D: Decider> Journal<D> for Unstored {
    fn stage(&mut self, _events: &[D::Event], _state: &D) -> Result<Vec<Batch>, StoreError> {
        Ok(Vec::new())
    }
}

/// What may be done now that a batch is durable.
pub struct Released<D: Pictured> {
    /// Whom to tell what.
    pub reply: Option<(Reply<Told<D>>, Told<D>)>,
    /// What readers see, if the batch changed anything.
    pub picture: Option<D::Picture>,
    /// What to do, in order.
    pub directives: Vec<D::Directive>,
}

struct Held<D: Pictured> {
    batch: u64,
    released: Released<D>,
}

/// What a shell does next.
pub enum Step<D: Pictured> {
    /// These are durable: answer, publish, perform, in order.
    Now(Vec<Released<D>>),
    /// Wait for this in a task and report its outcome to [`Durable::acknowledged`].
    Wait(Waiting),
    /// Nothing yet: it goes out with a batch that is already waited for.
    Later,
}

/// An acknowledgement that has not come yet.
#[derive(Debug)]
pub struct Waiting {
    batch: u64,
    acks: Vec<Ack>,
    within: Duration,
}

/// The outcome of a commit, as a task reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    batch: u64,
    result: Result<(), StoreError>,
}

impl Waiting {
    /// Waits until the batch is durable, the store says that it never will be, or the bound has passed.
    pub async fn outcome(self) -> Committed {
        let Self { batch, acks, within } = self;
        let all = async {
            for ack in acks {
                ack.await?;
            }
            Ok(())
        };
        let result = tokio::time::timeout(within, all).await.unwrap_or(Err(StoreError::TimedOut));
        Committed { batch, result }
    }
}

/// A decider with its lane: the private state, and what waits to be durable.
pub struct Durable<D: Pictured, J> {
    state: D,
    journal: J,
    lane: Option<Arc<dyn Lane>>,
    clock: Arc<dyn Clock>,
    newest: Timestamp,
    within: Duration,
    appended: u64,
    acknowledged: u64,
    held: VecDeque<Held<D>>,
}

/// What a shell is built over.
pub struct Ground {
    /// Its lane; `None` for a shell that stores nothing.
    pub lane: Option<Arc<dyn Lane>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How long a commit may take.
    pub within: Duration,
}

impl<D: Pictured, J: Journal<D>> Durable<D, J> {
    /// A shell over this state; `newest` is the newest stored stamp, below which its time never falls.
    pub fn new(state: D, journal: J, ground: Ground, newest: Timestamp) -> Self {
        Self {
            state,
            journal,
            lane: ground.lane,
            clock: ground.clock,
            newest,
            within: ground.within,
            appended: 0,
            acknowledged: 0,
            held: VecDeque::new(),
        }
    }

    /// The private state: ahead of what is durable.
    pub fn state(&self) -> &D {
        &self.state
    }

    /// The time, never below one that was given before.
    pub fn now(&mut self) -> Timestamp {
        self.newest = self.newest.max(self.clock.now());
        self.newest
    }

    /// Decides, applies and appends.
    ///
    /// # Errors
    /// If the events cannot be written as records; the actor has to end.
    pub fn commit(
        &mut self,
        command: &D::Command,
        reply: Option<Reply<Told<D>>>,
    ) -> Result<Step<D>, StoreError> {
        let now = self.now();
        match self.state.decide(now, command) {
            Ok(decision) => self.take(decision, reply),
            Err(rejection) => {
                let reply = reply.map(|reply| (reply, Err(rejection)));
                self.hold(Released { reply, picture: None, directives: Vec::new() }, Vec::new())
            }
        }
    }

    fn take(
        &mut self,
        decision: Decision<D::Event, D::Directive, D::Answer>,
        reply: Option<Reply<Told<D>>>,
    ) -> Result<Step<D>, StoreError> {
        let Decision { answer, events, directives } = decision;
        let picture = (!events.is_empty()).then(|| self.state.take(&events));
        let batches =
            if events.is_empty() { Vec::new() } else { self.journal.stage(&events, &self.state)? };
        let acks = match &self.lane {
            Some(lane) => batches.into_iter().map(|batch| lane.append(batch)).collect(),
            None => Vec::new(),
        };
        let reply = reply.map(|reply| (reply, Ok(answer)));
        self.hold(Released { reply, picture, directives }, acks)
    }

    /// Appends what no command asked for, in its place among the records; nobody waits for it.
    ///
    /// # Errors
    /// If the store refuses it; the actor has to end.
    pub fn write(
        &mut self,
        writing: impl FnOnce(&mut J, &D) -> Result<Vec<Batch>, StoreError>,
    ) -> Result<Step<D>, StoreError> {
        let batches = writing(&mut self.journal, &self.state)?;
        let acks = match &self.lane {
            Some(lane) => batches.into_iter().map(|batch| lane.append(batch)).collect(),
            None => Vec::new(),
        };
        self.hold(Released { reply: None, picture: None, directives: Vec::new() }, acks)
    }

    /// Whether everything so far is durable and told.
    pub fn is_settled(&self) -> bool {
        self.held.is_empty()
    }

    /// How the events are stored.
    pub fn journal(&self) -> &J {
        &self.journal
    }

    /// Holds what a batch released until it, and all before it, are durable.
    fn hold(&mut self, released: Released<D>, acks: Vec<Ack>) -> Result<Step<D>, StoreError> {
        let mut pending = Vec::new();
        for mut ack in acks {
            match poll_now(&mut ack) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.held.push_back(Held { batch: self.appended, released });
                    self.fail(&error);
                    return Err(error);
                }
                None => pending.push(ack),
            }
        }
        if !pending.is_empty() {
            self.appended += 1;
            self.held.push_back(Held { batch: self.appended, released });
            return Ok(Step::Wait(Waiting { batch: self.appended, acks: pending, within: self.within }));
        }
        if self.appended == self.acknowledged {
            return Ok(Step::Now(vec![released]));
        }
        // What waits for nothing of its own goes out with the batch before it.
        self.held.push_back(Held { batch: self.appended, released });
        Ok(Step::Later)
    }

    /// Takes the report of a task that waited.
    ///
    /// # Errors
    /// The store's error, after every held reply was given it: the actor has to end.
    pub fn acknowledged(&mut self, committed: Committed) -> Result<Vec<Released<D>>, StoreError> {
        if let Err(error) = committed.result {
            self.fail(&error);
            return Err(error);
        }
        // Reports of earlier batches may still be on their way; the lane acknowledged those first.
        self.acknowledged = self.acknowledged.max(committed.batch);
        let ready = self.held.iter().take_while(|held| held.batch <= self.acknowledged).count();
        Ok(self.held.drain(..ready).map(|held| held.released).collect())
    }

    /// Gives every held reply this error.
    pub fn fail(&mut self, error: &StoreError) {
        for held in self.held.drain(..) {
            if let Some((reply, _answer)) = held.released.reply {
                reply.send(Err(error.clone()));
            }
        }
    }
}

/// Waits until whatever an earlier life of this actor has appended is durable or never will be. One that ended because
/// a commit took too long may have left a batch behind that is still under way: the successor reads after it.
///
/// # Errors
/// The store's own.
pub async fn after_earlier_life<M: Send + 'static>(
    slot: &Slot<M>,
    store: &dyn Store,
) -> Result<(), StoreError> {
    if slot.restarts() == 0 {
        return Ok(());
    }
    store.lane().append(Batch::new()).await
}

/// What may be done now; what has to wait is waited for in a task, which reports to the actor.
pub fn follow<D, M>(
    step: Step<D>,
    tasks: &TaskSet,
    actor: &ActorRef<Letter<M>>,
    report: fn(Committed) -> M,
) -> Vec<Released<D>>
where
    D: Pictured,
    M: Send + 'static,
{
    match step {
        Step::Now(released) => released,
        Step::Later => Vec::new(),
        Step::Wait(waiting) => {
            let actor = actor.clone();
            tasks.spawn(async move {
                let committed = waiting.outcome().await;
                // An actor that has ended has given its askers their errors already.
                let _gone = actor.cast(Letter::inside(report(committed)));
            });
            Vec::new()
        }
    }
}

/// Polls an acknowledgement once, without waiting.
fn poll_now(ack: &mut Ack) -> Option<Result<(), StoreError>> {
    let ack: Pin<&mut Ack> = pin!(ack);
    match ack.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests;
