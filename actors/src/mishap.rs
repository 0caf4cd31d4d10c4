//! What is to befall an actor before it handles a letter: for those who test what they build on the tree.

use std::sync::{Arc, Mutex, PoisonError};

use ractor::{ActorProcessingErr, ActorRef, Message};

/// A fault of ours, as it might befall any actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Its handler panics.
    Panic,
    /// Its handler returns an error.
    Fail,
    /// Its handler never comes back.
    Hang,
    /// It is killed.
    Kill,
}

/// What befalls the actor of one slot next, over all its lives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mishaps(Arc<Mutex<Option<(u64, Mishap)>>>);

impl Mishaps {
    /// Befalls it before it handles its `letter`th letter from now on; the next one is the first.
    pub(crate) fn plan(&self, letter: u64, mishap: Mishap) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((letter.max(1), mishap));
    }

    fn due(&self) -> Option<Mishap> {
        let mut planned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (letter, mishap) = (*planned)?;
        *planned = (letter > 1).then_some((letter - 1, mishap));
        (letter == 1).then_some(mishap)
    }

    /// Does what is planned for this letter.
    pub(crate) async fn befall<M: Message>(&self, myself: &ActorRef<M>) -> Result<(), ActorProcessingErr> {
        match self.due() {
            None => Ok(()),
            Some(Mishap::Fail) => Err("a planned mishap: it fails".into()),
            Some(Mishap::Panic) => panic!("a planned mishap: it panics"),
            Some(Mishap::Hang) => std::future::pending().await,
            Some(Mishap::Kill) => {
                myself.kill();
                std::future::pending().await
            }
        }
    }
}
