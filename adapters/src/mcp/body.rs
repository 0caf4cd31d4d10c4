//! Owns what a connection is made of outside our code: a process group, or the far end of a pipe.
//!
//! ```text
//! alive ──exit──▶ reaped ──▶ group killed ──▶ last words read ──▶ over ──▶ gone
//!   └──over (by us, or its output ended)──▶ group killed ──▶ reaped ──────────┘
//! ```
//!
//! The leader is waited for by exactly one task, so no zombie is left. A group's number may belong to somebody else
//! once the group is empty, so no signal is sent after that task has buried it. Between the reaping and the burial,
//! some microseconds apart, one may still be sent, the burial's own among them: it would reach a stranger only if
//! the system gave the number of an empty group away, to the leader of a new one, within that time. Closing the gap
//! takes a handle on the process instead of its number, which not every Unix has.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::process::ProcessMark;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::SETTLE;
use super::life::Life;
use super::outbox::Outbox;
use super::stderr::StderrLog;
use crate::process;
use crate::server::ProcessNotes;

/// How long killed grandchildren may take to vanish before they are no longer waited for.
const VANISH: Duration = Duration::from_millis(50);

/// How to end a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Ask.
    Terminate,
    /// Do not ask.
    Kill,
}

/// A process group that is signalled as one.
#[derive(Debug)]
struct Group {
    /// The leader's process id; `None` once it is buried.
    leader: Mutex<Option<u32>>,
}

impl Group {
    fn signal(&self, ending: Ending) {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = *leader {
            signal_group(leader, ending);
        }
    }

    /// Kills what the leader left behind; no signal is sent from then on. `Some` if there was something.
    fn bury(&self) -> Option<u32> {
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        leader.take().filter(|leader| signal_group(*leader, Ending::Kill))
    }
}

/// Whether there was anybody to signal.
#[cfg(unix)]
fn signal_group(leader: u32, ending: Ending) -> bool {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;
    let signal = match ending {
        Ending::Terminate => Signal::SIGTERM,
        Ending::Kill => Signal::SIGKILL,
    };
    i32::try_from(leader).is_ok_and(|leader| killpg(Pid::from_raw(leader), signal).is_ok())
}

/// Without process groups the leader alone is killed, by the task that waits for it.
#[cfg(not(unix))]
fn signal_group(_leader: u32, _ending: Ending) -> bool {
    false
}

#[cfg(unix)]
fn is_empty(leader: u32) -> bool {
    use nix::sys::signal::killpg;
    use nix::unistd::Pid;
    i32::try_from(leader).is_ok_and(|leader| killpg(Pid::from_raw(leader), None).is_err())
}

#[cfg(not(unix))]
fn is_empty(_leader: u32) -> bool {
    true
}

/// A child process and its group. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    group: Arc<Group>,
    /// Dropped, hence removed, after the group has been killed.
    noted: Option<Noted>,
}

/// A process that is noted to be ended after our own death; dropping this removes the note.
pub(super) struct Noted {
    notes: Arc<dyn ProcessNotes>,
    process: ProcessMark,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.process.fmt(f)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.notes.ended(&self.process);
    }
}

impl Leader {
    /// Takes charge of a child that was started as the leader of its own group.
    pub(super) fn new(child: Child) -> Self {
        let group = Arc::new(Group { leader: Mutex::new(child.id()) });
        Self { child, group, noted: None }
    }

    /// Has the process noted, before anything is asked of it. One that the system does not tell apart is not noted.
    pub(super) async fn note(&mut self, notes: &Arc<dyn ProcessNotes>, server: &ServerId) {
        let Some(process) = self.child.id().and_then(|pid| process::mark(server, pid)) else { return };
        let noted = notes.started(process.clone());
        // From here on it may be durable, whether or not we wait until it is.
        self.noted = Some(Noted { notes: notes.clone(), process });
        noted.await;
    }

    /// The child, for its pipes.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.group.signal(Ending::Kill);
        // Fails only if the child has ended already.
        let _ = self.child.start_kill();
        self.child.wait().await
    }

    async fn bury(&self) {
        let Some(leader) = self.group.bury() else {
            return;
        };
        let vanished = async {
            while !is_empty(leader) {
                sleep(Duration::from_millis(2)).await;
            }
        };
        // A grandchild that its new parent does not reap keeps the group's number; it runs no more.
        let _ = timeout(VANISH, vanished).await;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.group.signal(Ending::Kill);
    }
}

/// The outside part of one connection. Dropping it kills at once, in or outside a runtime.
#[derive(Debug)]
pub(super) struct Body {
    life: Arc<Life>,
    group: Option<Arc<Group>>,
    closing: CancellationToken,
    gone: CancellationToken,
}

impl Body {
    /// Starts the task that watches over a process. `output_over` fires when its output has ended.
    pub(super) fn of_process(
        leader: Leader,
        life: Arc<Life>,
        output_over: CancellationToken,
        stderr: (StderrLog, JoinHandle<()>),
    ) -> Self {
        let (log, drained) = stderr;
        let body = Self {
            life: life.clone(),
            group: Some(leader.group.clone()),
            closing: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        let watch =
            Watch { life, output_over, closing: body.closing.clone(), gone: body.gone.clone(), log, drained };
        tokio::spawn(watch.over(leader));
        body
    }

    /// Starts the task that watches over a pipe.
    pub(super) fn of_pipe(life: Arc<Life>, output_over: CancellationToken) -> Self {
        let gone = CancellationToken::new();
        let body =
            Self { life: life.clone(), group: None, closing: CancellationToken::new(), gone: gone.clone() };
        tokio::spawn(async move {
            // Whoever ends the life also drops the reader, which fires this token.
            output_over.cancelled().await;
            life.end("closed its output");
            gone.cancel();
        });
        body
    }

    /// Ends the connection at once.
    pub(super) fn kill(&self, reason: &str) {
        self.life.end(reason);
        if let Some(group) = &self.group {
            group.signal(Ending::Kill);
        }
    }

    /// Starts the polite end as a task of its own, so that it goes on when nobody waits for it.
    pub(super) fn close(&self, outbox: Outbox, grace: Duration) -> JoinHandle<()> {
        let farewell = Farewell {
            life: self.life.clone(),
            group: self.group.clone(),
            closing: self.closing.clone(),
            gone: self.gone.clone(),
        };
        tokio::spawn(farewell.say(outbox, grace))
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.kill("dropped");
    }
}

struct Farewell {
    life: Arc<Life>,
    group: Option<Arc<Group>>,
    closing: CancellationToken,
    gone: CancellationToken,
}

impl Farewell {
    async fn say(self, outbox: Outbox, grace: Duration) {
        let share = grace / 3;
        self.life.foretell("closed");
        self.closing.cancel();
        outbox.close();
        if self.is_gone(share).await {
            return;
        }
        if let Some(group) = &self.group {
            group.signal(Ending::Terminate);
        }
        if self.is_gone(share).await {
            return;
        }
        self.life.end("closed");
        if let Some(group) = &self.group {
            group.signal(Ending::Kill);
        }
        self.is_gone(share.max(SETTLE)).await;
    }

    async fn is_gone(&self, within: Duration) -> bool {
        timeout(within, self.gone.cancelled()).await.is_ok()
    }
}

/// What the task that waits for a process knows.
struct Watch {
    life: Arc<Life>,
    output_over: CancellationToken,
    closing: CancellationToken,
    gone: CancellationToken,
    log: StderrLog,
    drained: JoinHandle<()>,
}

impl Watch {
    async fn over(mut self, mut leader: Leader) {
        let exited = tokio::select! {
            status = leader.child.wait() => Some(status),
            () = self.life.over() => None,
            () = self.output_closed() => {
                self.life.end(self.with_last_words("closed its output"));
                None
            }
        };
        let status = match exited {
            Some(status) => status,
            None => leader.kill().await,
        };
        leader.bury().await;
        // Answers and words that are still in the pipes came before the end.
        let (_, _) =
            tokio::join!(timeout(SETTLE, self.output_over.cancelled()), timeout(SETTLE, &mut self.drained));
        self.drained.abort();
        self.life.end(self.with_last_words(&ending_of(status)));
        self.gone.cancel();
    }

    /// Waits until the output has ended and no exit follows; for ever while we close, since then that is asked for.
    async fn output_closed(&self) {
        self.output_over.cancelled().await;
        sleep(SETTLE).await;
        if self.closing.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    fn with_last_words(&self, ending: &str) -> String {
        match self.log.last() {
            Some(words) => format!("{ending}; its last words: {words}"),
            None => ending.to_owned(),
        }
    }
}

fn ending_of(status: io::Result<ExitStatus>) -> String {
    let status = match status {
        Ok(status) => status,
        Err(error) => return format!("ended in an unknown way: {error}"),
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("killed by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exited with status {code}"),
        None => "ended in an unknown way".to_owned(),
    }
}
