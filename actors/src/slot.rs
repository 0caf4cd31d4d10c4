//! Slots: how everything finds an actor that may be restarted at any moment.
//!
//! A handle holds a slot, never a reference. The slot knows the current reference, counts the mailbox's permits
//! (ractor's mailboxes have no bound of their own) and holds the current life's tasks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use pilothouse_messages::error::{AskError, StoreError};
use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::tasks::TaskSet;

/// A message with the permit that it rides on; the permit is given back when the letter has been handled.
pub struct Letter<M> {
    /// The message.
    pub body: M,
    _permit: Option<OwnedSemaphorePermit>,
}

/// ractor's `cluster` takes its blanket implementation away. A letter is never serialised: it stays in its process.
#[cfg(feature = "ractor-cluster")]
impl<M: Send + 'static> ractor::Message for Letter<M> {}

impl<M> Letter<M> {
    /// A letter of the house itself (a report, a tick): rides on no permit.
    pub fn inside(body: M) -> Self {
        Self { body, _permit: None }
    }
}

// The blanket impl covers every feature set of ractor but its cluster, where a message says that it never travels.
impl<M> fmt::Debug for Letter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Letter")
    }
}

/// Where an answer goes.
pub struct Reply<T>(oneshot::Sender<Result<T, StoreError>>);

impl<T> Reply<T> {
    /// Answers. An asker that has gone is no concern of the actor.
    pub fn send(self, answer: Result<T, StoreError>) {
        let _gone = self.0.send(answer);
    }

    /// A reply with the asker's end of it.
    pub(crate) fn pair() -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// `true` if nobody waits any more.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// What an actor is doing, as its slot sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It has not been started yet, or is being restarted.
    Away,
    /// It takes messages.
    Here,
    /// It failed too often and is not started again by itself.
    Parked(String),
    /// The runtime has shut down.
    Closed,
    /// It was put to sleep; whoever asks has it woken.
    Asleep,
}

/// What a slot is after it was told to become something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    This,
    Closed,
}

/// How many letters of those who end work lie beside a full mailbox.
const RESERVE: usize = 16;

/// The place of one actor in the tree, over all its lives.
pub struct Slot<M: Send + 'static> {
    name: String,
    current: ArcSwapOption<ActorRef<Letter<M>>>,
    /// Who was put to sleep and has not ended yet.
    leaving: ArcSwapOption<ActorRef<Letter<M>>>,
    permits: Arc<Semaphore>,
    mailbox: usize,
    /// Permits beside those of the mailbox, for what ends work.
    reserve: Arc<Semaphore>,
    presence: watch::Sender<Presence>,
    absent_within: Duration,
    answer_within: Duration,
    restarts: AtomicU64,
    last_failure: Mutex<Option<String>>,
    tasks: Mutex<TaskSet>,
    /// Has it woken, where it can sleep.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
    /// What a test lets befall its actor.
    #[cfg(feature = "testing")]
    pub(crate) mishaps: crate::mishap::Mishaps,
}

impl<M: Send + 'static> fmt::Debug for Slot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("name", &self.name).field("presence", &*self.presence.borrow()).finish()
    }
}

/// The bounds of a slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotBounds {
    /// Letters in the mailbox.
    pub mailbox: usize,
    /// How long an asker waits for an actor that is away.
    pub absent_within: Duration,
    /// How long an asker waits for an answer.
    pub answer_within: Duration,
}

impl SlotBounds {
    /// As the limits say: an answer may take one commit, and a restart besides.
    pub fn of(limits: &pilothouse_messages::limits::Limits) -> Self {
        Self {
            mailbox: limits.mailbox,
            absent_within: limits.actor_absent,
            answer_within: limits.commit + limits.actor_absent,
        }
    }
}

impl<M: Send + 'static> Slot<M> {
    /// An empty slot under this name.
    pub fn new(name: impl Into<String>, bounds: SlotBounds) -> Self {
        Self {
            name: name.into(),
            current: ArcSwapOption::empty(),
            leaving: ArcSwapOption::empty(),
            permits: Arc::new(Semaphore::new(bounds.mailbox)),
            mailbox: bounds.mailbox,
            reserve: Arc::new(Semaphore::new(RESERVE)),
            presence: watch::Sender::new(Presence::Away),
            absent_within: bounds.absent_within,
            answer_within: bounds.answer_within,
            restarts: AtomicU64::new(0),
            last_failure: Mutex::new(None),
            tasks: Mutex::new(TaskSet::new()),
            wake: None,
            #[cfg(feature = "testing")]
            mishaps: crate::mishap::Mishaps::default(),
        }
    }

    /// A slot whose actor may sleep; `wake` tells its supervisor that somebody asks for it.
    #[must_use]
    pub fn that_wakes_by(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }

    /// The actor's name in the tree.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets this befall its actor before it handles the `letter`th letter from now on; the next one is the first.
    #[cfg(feature = "testing")]
    pub fn plan_mishap(&self, letter: u64, mishap: crate::mishap::Mishap) {
        self.mishaps.plan(letter, mishap);
    }

    /// What the actor is doing.
    pub fn presence(&self) -> Presence {
        self.presence.borrow().clone()
    }

    /// Letters that wait or are being handled.
    pub fn queued(&self) -> usize {
        let reserved = RESERVE.saturating_sub(self.reserve.available_permits());
        self.mailbox.saturating_sub(self.permits.available_permits()) + reserved
    }

    /// How often a fresh actor took the place of another.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Why the last one ended.
    pub fn last_failure(&self) -> Option<String> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tasks of the current life.
    pub fn tasks(&self) -> TaskSet {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts an actor into the slot. Called by its supervisor only. A closed slot takes nobody: the actor is killed.
    pub fn fill(&self, actor: ActorRef<Letter<M>>) {
        self.current.store(Some(Arc::new(actor.clone())));
        if self.become_unless_closed(Presence::Here) == Became::Closed {
            self.current.store(None);
            actor.kill();
            self.tasks().cancel();
        }
    }

    /// The actor is gone: new letters wait for its successor; the old life's tasks are cancelled and returned, so
    /// that the supervisor can wait for their end.
    pub fn vacate(&self, failure: Option<String>) -> TaskSet {
        self.current.store(None);
        self.become_unless_closed(Presence::Away);
        if let Some(failure) = failure {
            self.restarts.fetch_add(1, Ordering::Relaxed);
            *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        }
        let old = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        old.cancel();
        old
    }

    /// Puts the actor to sleep, unless somebody is on the way to it or it has something to do again. Its supervisor
    /// then ends the actor; its tasks are cancelled here. Letters of the house itself, which ride on no permit, are
    /// lost with it, as with any end. An empty slot has nobody to put to sleep and stays as it is: a successor is on
    /// its way, and one that is woken besides would be the second.
    pub fn rest(&self, still_rests: impl FnOnce() -> bool) -> Option<Arc<ActorRef<Letter<M>>>> {
        self.current()?;
        if self.become_unless_closed(Presence::Asleep) == Became::Closed {
            return None;
        }
        let actor = self.current.swap(None)?;
        // Whoever asks takes a permit first: without any out nobody holds the old reference, and later ones see that
        // it sleeps.
        if self.queued() > 0 || !still_rests() {
            self.current.store(Some(actor));
            self.become_unless_closed(Presence::Here);
            return None;
        }
        self.leaving.store(Some(actor.clone()));
        let old = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        old.cancel();
        Some(actor)
    }

    /// The actor that was put to sleep, taken from the slot, if its supervisor has not told its end.
    pub fn take_leaving(&self) -> Option<Arc<ActorRef<Letter<M>>>> {
        self.leaving.swap(None)
    }

    /// The actor failed too often: askers are told why, until somebody starts it again.
    pub fn park(&self, reason: String) {
        self.current.store(None);
        self.become_unless_closed(Presence::Parked(reason));
    }

    /// An actor that ends while the runtime shuts down opens no slot again.
    fn become_unless_closed(&self, next: Presence) -> Became {
        let open = self.presence.send_if_modified(|presence| {
            let open = *presence != Presence::Closed;
            if open {
                *presence = next;
            }
            open
        });
        if open { Became::This } else { Became::Closed }
    }

    /// The runtime has shut down: askers are told so at once.
    pub fn close(&self) {
        self.current.store(None);
        self.presence.send_replace(Presence::Closed);
    }

    /// The current actor, for its supervisor.
    pub fn current(&self) -> Option<Arc<ActorRef<Letter<M>>>> {
        self.current.load_full()
    }

    /// Tells the actor something of the house itself; lost if it is away, since its successor starts from its records.
    pub fn inform(&self, body: M) {
        if let Some(actor) = &*self.current.load() {
            // A failed cast means the same as being away.
            let _away = actor.cast(Letter::inside(body));
        } else if let (Presence::Asleep, Some(wake)) = (self.presence(), &self.wake) {
            // What is worth telling is told again.
            wake();
        }
    }

    /// Asks the actor and waits for the answer.
    ///
    /// # Errors
    /// [`AskError::Busy`] at once if its mailbox is full; [`AskError::Absent`] if it did not come back in time;
    /// [`AskError::Interrupted`] if it ended before it answered; [`AskError::Unconfirmed`] if the store did not confirm
    /// its record; [`AskError::Store`] if the store did not take it.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; what was asked may happen all the same.
    pub async fn ask<T>(&self, body: impl FnOnce(Reply<T>) -> M) -> Result<T, AskError> {
        self.ask_within(self.answer_within, body).await
    }

    /// Asks the actor and waits this long for the answer, for what takes longer than a commit.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    ///
    /// # Cancel safety
    /// As [`ask`](Self::ask).
    pub async fn ask_within<T>(
        &self,
        within: Duration,
        body: impl FnOnce(Reply<T>) -> M,
    ) -> Result<T, AskError> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_full| AskError::Busy)?;
        self.ask_on(permit, within, body).await
    }

    /// Asks as [`ask`](Self::ask) does, also where the mailbox is full: for what ends work, so that a flood cannot keep
    /// it out.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); [`AskError::Busy`] if 16 such letters lie beside a full mailbox.
    ///
    /// # Cancel safety
    /// As [`ask`](Self::ask).
    pub async fn ask_urgently<T>(&self, body: impl FnOnce(Reply<T>) -> M) -> Result<T, AskError> {
        let permit = self.permits.clone().try_acquire_owned();
        let permit = permit.or_else(|_full| self.reserve.clone().try_acquire_owned());
        self.ask_on(permit.map_err(|_full| AskError::Busy)?, self.answer_within, body).await
    }

    async fn ask_on<T>(
        &self,
        permit: OwnedSemaphorePermit,
        within: Duration,
        body: impl FnOnce(Reply<T>) -> M,
    ) -> Result<T, AskError> {
        let actor = self.present().await?;
        let (sender, receiver) = oneshot::channel();
        let letter = Letter { body: body(Reply(sender)), _permit: Some(permit) };
        actor.cast(letter).map_err(|_gone| AskError::Interrupted)?;
        match tokio::time::timeout(within, receiver).await {
            Ok(Ok(answer)) => answer.map_err(AskError::of_store),
            Ok(Err(_dropped)) => Err(self.closed().unwrap_or(AskError::Interrupted)),
            Err(_elapsed) => Err(AskError::Interrupted),
        }
    }

    /// Asks the actor a last time: everybody who asks from now on is told that the runtime has shut down, and what was
    /// asked before is handled first.
    ///
    /// # Errors
    /// [`AskError::ShutDown`] if the actor is away; else as [`ask`](Self::ask).
    pub async fn ask_last<T>(&self, body: impl FnOnce(Reply<T>) -> M) -> Result<T, AskError> {
        self.presence.send_replace(Presence::Closed);
        let actor = self.current.load_full().ok_or(AskError::ShutDown)?;
        let (sender, receiver) = oneshot::channel();
        actor.cast(Letter::inside(body(Reply(sender)))).map_err(|_gone| AskError::ShutDown)?;
        match tokio::time::timeout(self.answer_within, receiver).await {
            Ok(Ok(answer)) => answer.map_err(AskError::of_store),
            Ok(Err(_)) | Err(_) => Err(AskError::Interrupted),
        }
    }

    fn closed(&self) -> Option<AskError> {
        matches!(*self.presence.borrow(), Presence::Closed).then_some(AskError::ShutDown)
    }

    async fn present(&self) -> Result<Arc<ActorRef<Letter<M>>>, AskError> {
        let mut presence = self.presence.subscribe();
        if let (Presence::Asleep, Some(wake)) = (&*presence.borrow(), &self.wake) {
            wake();
        }
        let settled = presence.wait_for(|presence| !matches!(presence, Presence::Away | Presence::Asleep));
        let seen = match tokio::time::timeout(self.absent_within, settled).await {
            Ok(Ok(presence)) => presence.clone(),
            Ok(Err(_)) | Err(_) => Presence::Away,
        };
        match seen {
            Presence::Here => self.current.load_full().ok_or(AskError::Interrupted),
            Presence::Parked(reason) => Err(AskError::Absent { reason }),
            Presence::Closed => Err(AskError::ShutDown),
            Presence::Away | Presence::Asleep => {
                let reason = self.last_failure().unwrap_or_else(|| "it has not started yet".to_owned());
                Err(AskError::Absent { reason })
            }
        }
    }
}

#[cfg(test)]
mod tests;
