//! Carries messages from the outbox to the server, each in a task of its own, until the connection ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::head::Head;
use super::session::Session;
use super::{exchange, standing};
use crate::mcp::outbox::{Queue, Queued};

/// Messages under way; a server that lets more of them wait is given up.
const UNDER_WAY_MAX: usize = 1_024;
/// How long after the handshake calls wait for the server's own stream: some servers show that it is open only with
/// its first event.
const OPEN_WITHIN: Duration = Duration::from_secs(1);

/// Everything that one connection is doing. Dropping it ends it all.
pub(in crate::mcp) struct Mail {
    session: Arc<Session>,
    queue: Queue,
    /// Each yields the request that it has seen to.
    tasks: JoinSet<Option<RequestId>>,
    waiting: HashMap<RequestId, AbortHandle>,
    /// Once there is a stream on which the server speaks by itself.
    opening: Option<Opening>,
}

/// A stream that is being opened.
#[derive(Clone)]
struct Opening {
    opened: CancellationToken,
    until: Instant,
}

impl Opening {
    /// Waits for it: a question that a server asks before then is lost with many, and the call hangs on it.
    async fn over(self) {
        // A stream that does not open in time keeps nobody waiting.
        let _ = timeout_at(self.until, self.opened.cancelled()).await;
    }
}

impl Mail {
    /// Carries what is left in `queue`.
    pub(in crate::mcp) fn new(session: Arc<Session>, queue: Queue) -> Self {
        Self { session, queue, tasks: JoinSet::new(), waiting: HashMap::new(), opening: None }
    }

    /// Does something besides as long as the connection lives.
    pub(in crate::mcp) fn besides(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            task.await;
            None
        });
    }

    /// Runs until the connection ends, and ends it when the outbox is closed.
    pub(in crate::mcp) async fn run(mut self) {
        let session = self.session.clone();
        tokio::select! {
            biased;
            () = session.life().over() => {}
            () = self.serve() => {}
        }
    }

    async fn serve(&mut self) {
        loop {
            tokio::select! {
                letter = self.queue.next() => match letter {
                    Some(letter) => self.carry(letter).await,
                    None => break,
                },
                Some(done) = self.tasks.join_next() => self.done(done),
            }
        }
        self.tasks.abort_all();
        self.session.leave().await;
        self.session.life().end("closed");
    }

    fn done(&mut self, done: Result<Option<RequestId>, JoinError>) {
        match done {
            Ok(Some(request)) => drop(self.waiting.remove(&request)),
            Ok(None) => {}
            Err(error) if error.is_cancelled() => {}
            Err(_panicked) => self.session.life().end("its connection failed here"),
        }
    }

    async fn carry(&mut self, letter: Queued) {
        if self.tasks.len() >= UNDER_WAY_MAX {
            self.session.life().end(format!("left more than {UNDER_WAY_MAX} messages waiting"));
            return;
        }
        let (session, head) = (self.session.clone(), Head::of(letter.line()));
        if let Some(request) = head.request().cloned() {
            let key = request.clone();
            let opening = self.opening.clone().filter(|_| head.is("tools/call"));
            let handle = self.tasks.spawn(async move {
                if let Some(opening) = opening {
                    opening.over().await;
                }
                exchange::request(&session, &head, &request, letter).await;
                Some(request)
            });
            self.waiting.insert(key, handle);
        } else if head.is("notifications/initialized") {
            // Requests wait: a server may refuse what overtakes this.
            exchange::note(&session, &head, letter).await;
            if session.speaks_by_itself() {
                let opened = CancellationToken::new();
                self.opening = Some(Opening { opened: opened.clone(), until: Instant::now() + OPEN_WITHIN });
                self.besides(async move { standing::listen(&session, opened.drop_guard()).await });
            }
        } else if let Some(request) = head.cancelled() {
            let waiting = self.waiting.remove(request);
            let modern = session.is_modern();
            if modern {
                // There, a connection that is closed is what cancels.
                waiting.inspect(AbortHandle::abort);
                return;
            }
            self.besides(async move {
                exchange::note(&session, &head, letter).await;
                waiting.inspect(AbortHandle::abort);
            });
        } else {
            self.besides(async move { exchange::note(&session, &head, letter).await });
        }
    }
}
