//! The tasks of one actor's life: all are cancelled together, and waited for with a bound.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks that end together.
///
/// A task that is cancelled is dropped at its next await, so whatever it holds (a permit, a reply) is released.
#[derive(Debug, Clone, Default)]
pub struct TaskSet {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl TaskSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that fires when the set is cancelled.
    pub fn token(&self) -> CancellationToken {
        self.cancel.child_token()
    }

    /// Runs a task until it is done or the set is cancelled.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        // The tracker knows when the task is over; nobody joins a single one.
        drop(self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = task => {}
            }
        }));
    }

    /// Cancels every task.
    pub fn cancel(&self) {
        self.cancel.cancel();
        self.tracker.close();
    }

    /// Cancels every task and waits until all are gone, or `within` has passed.
    pub async fn end(&self, within: Duration) -> Ended {
        self.cancel();
        match tokio::time::timeout(within, self.tracker.wait()).await {
            Ok(()) => Ended::All,
            Err(_elapsed) => Ended::SomeLeft(self.tracker.len()),
        }
    }
}

/// Runs a future of the embedder: a panic becomes its words, and nothing else ends.
///
/// # Errors
/// What the panic said.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |cx| {
        // A future that panicked is not polled again, so whatever it left half done is never seen.
        let poll = AssertUnwindSafe(|| future.as_mut().poll(cx));
        match catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(words_of(panic.as_ref()))),
        }
    })
    .await
}

/// Runs a closure of the embedder: a panic becomes its words.
///
/// # Errors
/// What the panic said.
pub fn caught_now<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| words_of(panic.as_ref()))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// How a set ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// No task is left.
    All,
    /// So many did not end in time; they end at their next await.
    SomeLeft(usize),
}
