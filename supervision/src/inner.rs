//! What all handles of one runtime share; when the last one is dropped the runtime shuts down.

use std::sync::Arc;

use pilothouse_actors::slot::Letter;
use pilothouse_actors::wiring::Wiring;
use pilothouse_adapters::policy::ServerPolicy;
use pilothouse_messages::error::{AskError, StoreError};
use ractor::ActorRef;
use tokio::sync::watch;

use crate::root::RootMsg;
use crate::stop::{self, Shutdown};

/// What a failed read means to the asker.
pub(crate) fn unread(error: StoreError) -> AskError {
    match error {
        StoreError::Closed => AskError::ShutDown,
        error => AskError::Store(error),
    }
}

/// How far the end has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Life {
    Running,
    Stopping,
    Over(Shutdown),
}

pub(crate) struct Inner {
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) root: ActorRef<Letter<RootMsg>>,
    /// Where the shutdown of a dropped runtime runs.
    pub(crate) tokio: tokio::runtime::Handle,
    pub(crate) life: watch::Sender<Life>,
    /// Who is asked before a server is reached.
    pub(crate) policy: Arc<dyn ServerPolicy>,
}

impl Inner {
    /// Shuts down once; whoever comes later waits for the same end.
    pub(crate) async fn shutdown(&self) -> Shutdown {
        let first = self.life.send_if_modified(|life| {
            let first = *life == Life::Running;
            if first {
                *life = Life::Stopping;
            }
            first
        });
        if first {
            // A task of its own, so that an impatient caller does not leave it half done.
            let (wiring, root, last) = (self.wiring.clone(), self.root.clone(), LastWord(self.life.clone()));
            let task = async move {
                let outcome = stop::in_order(&wiring, &root).await;
                last.0.send_replace(Life::Over(outcome));
            };
            drop(self.tokio.spawn(task));
        }
        let mut life = self.life.subscribe();
        let over = life.wait_for(|life| matches!(life, Life::Over(_))).await;
        match over.as_deref() {
            Ok(Life::Over(outcome)) => outcome.clone(),
            // The sender lives in self, so that it waits until it is over.
            Ok(Life::Running | Life::Stopping) | Err(_) => LastWord::cut_short(),
        }
    }
}

/// Says that it is over, also when the shutdown's task panics or is dropped with its Tokio runtime.
struct LastWord(watch::Sender<Life>);

impl LastWord {
    fn cut_short() -> Shutdown {
        Shutdown::forced(vec![
            "the shutdown was cut short: its Tokio runtime ended, or a part panicked".to_owned(),
        ])
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.send_if_modified(|life| {
            let cut_short = !matches!(life, Life::Over(_));
            if cut_short {
                *life = Life::Over(Self::cut_short());
            }
            cut_short
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.life.borrow() != Life::Running {
            return;
        }
        let (wiring, root) = (self.wiring.clone(), self.root.clone());
        // On a Tokio runtime that has ended this does nothing: everything went with it.
        drop(self.tokio.spawn(async move {
            let _outcome = stop::in_order(&wiring, &root).await;
        }));
    }
}
