//! Watches an actor's handlers: one that waits longer than it may ends its actor, and a fresh one takes its place.
//!
//! No handler of the house waits for anything, so one that does is a fault like a panic, and is healed like one: its
//! supervisor hears why, and whoever waited for an answer is told that there will be none. Only what waits can be ended:
//! a handler that computes keeps its thread until it is done, as all code of Tokio does.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pilothouse_messages::limits::Limits;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use thiserror::Error;
use tokio::time::timeout;

#[cfg(feature = "testing")]
use crate::mishap::Mishaps;
use crate::slot::Slot;

/// Why an actor was ended that did not come back from a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("it was stuck in one message for {within:?}")]
pub struct Stuck {
    /// As long as it may take.
    pub within: Duration,
}

/// An actor whose handlers are watched; everything else is its own.
#[derive(Debug)]
pub struct Watched<A> {
    actor: A,
    within: Duration,
    #[cfg(feature = "testing")]
    mishaps: Mishaps,
}

impl<A> Watched<A> {
    /// The actor that is to fill this slot.
    #[cfg_attr(not(feature = "testing"), allow(unused_variables, reason = "only mishaps are the slot's"))]
    pub fn new<M: Send + 'static>(actor: A, slot: &Slot<M>, limits: &Limits) -> Self {
        Self {
            actor,
            within: limits.handler,
            #[cfg(feature = "testing")]
            mishaps: slot.mishaps.clone(),
        }
    }
}

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl<A: Actor> Actor for Watched<A> {
    type Msg = A::Msg;
    type State = A::State;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        args: A::Arguments,
    ) -> Result<A::State, ActorProcessingErr> {
        within(self.within, self.actor.pre_start(myself, args)).await
    }

    async fn post_start(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        within(self.within, self.actor.post_start(myself, state)).await
    }

    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let handling = async {
            #[cfg(feature = "testing")]
            self.mishaps.befall(&myself).await?;
            self.actor.handle(myself, message, state).await
        };
        within(self.within, handling).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        within(self.within, self.actor.handle_supervisor_evt(myself, event, state)).await
    }

    async fn post_stop(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        within(self.within, self.actor.post_stop(myself, state)).await
    }
}

/// Nearly every handler is done at once, and costs no timer.
async fn within<T>(
    bound: Duration,
    work: impl Future<Output = Result<T, ActorProcessingErr>>,
) -> Result<T, ActorProcessingErr> {
    let mut work = pin!(work);
    match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        Poll::Ready(done) => done,
        Poll::Pending => match timeout(bound, work).await {
            Ok(done) => done,
            Err(_elapsed) => Err(Box::new(Stuck { within: bound })),
        },
    }
}
