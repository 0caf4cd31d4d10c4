//! Runs scripts in QuickJS, each with an engine and a thread of its own.
//!
//! ```text
//! task of the call                         thread of the script
//!   ├── calls ◀───────── Made ──────────────  tools.call
//!   ├── answers ──────── Answer ───────────▶  settles its promise
//!   └── last word ◀───── Ended ─────────────  returned, threw, out of something
//! ```
//!
//! The thread is no thread of Tokio's: a script that is stuck inside one built-in of the engine cannot be interrupted, and
//! must not keep a runtime from shutting down. Its call is answered in time all the same; the thread keeps its place among
//! the scripts that run at once until the built-in returns.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as thread_mpsc;
use std::task::Poll;
use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::limits::ExecLimits;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{ExecCaller, ScriptCall, ScriptEngine};
use crate::BoxFuture;

mod console;
mod host;
mod thread;

use console::Console;
use thread::{Answer, Ended, Fault, Wires};

/// How much longer than the script's own time its call waits for the thread's word.
const GRACE: Duration = Duration::from_millis(500);
/// What the engine may take beside a script's own stack.
const STACK_BESIDE: usize = 4 << 20;

/// QuickJS. Cheap to clone; clones share the places for scripts that run at once.
#[derive(Debug, Clone)]
pub struct QuickJs {
    limits: ExecLimits,
    places: Arc<Semaphore>,
}

impl QuickJs {
    /// An engine with these bounds.
    pub fn new(limits: ExecLimits) -> Self {
        let places = Arc::new(Semaphore::new(limits.scripts_at_once.clamp(1, Semaphore::MAX_PERMITS)));
        Self { limits, places }
    }
}

impl ScriptEngine for QuickJs {
    fn run<'a>(
        &'a self,
        script: String,
        caller: &'a dyn ExecCaller,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, CallResult> {
        Box::pin(async move {
            let deadline = Instant::now() + self.limits.time;
            let place = tokio::select! {
                biased;
                () = cancel.cancelled() => return CallResult::said(CallOutcome::Cancelled, "cancelled before it ran"),
                place = timeout_at(deadline, self.places.clone().acquire_owned()) => place,
            };
            let Ok(Ok(place)) = place else {
                let words = "as many scripts as may run at once are running; this one did not run";
                return CallResult::unavailable(words, None);
            };
            let (wires, run) = self.wires(deadline);
            let started = std::thread::Builder::new()
                .name("tool_exec".to_owned())
                .stack_size(self.limits.stack.saturating_add(STACK_BESIDE))
                .spawn(move || {
                    thread::run(&script, wires);
                    drop(place);
                });
            match started {
                Ok(_detached) => run.finish(caller, cancel).await,
                Err(error) => {
                    let words = format!("no thread could be started for the script: {error}");
                    CallResult::unavailable(words, None)
                }
            }
        })
    }
}

impl QuickJs {
    fn wires(&self, deadline: Instant) -> (Wires, Run) {
        let (made, calls) = mpsc::unbounded_channel();
        let (answers, answered) = thread_mpsc::channel();
        let (last_word, ended) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let console = Console::new(self.limits.output);
        let wires = Wires {
            limits: self.limits.clone(),
            // The engine asks for the time from its own thread, where no clock of Tokio's is paused.
            deadline: std::time::Instant::now() + deadline.saturating_duration_since(Instant::now()),
            stop: stop.clone(),
            console: console.clone(),
            made,
            answered,
            last_word,
        };
        let run = Run {
            limits: self.limits.clone(),
            deadline,
            console,
            calls,
            answers,
            ended,
            trace: Vec::new(),
            _stop: StopOnDrop(stop),
        };
        (wires, run)
    }
}

/// Tells the thread that nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One script that runs, seen from the task of its call.
struct Run {
    limits: ExecLimits,
    deadline: Instant,
    console: Console,
    /// Bounded by the calls that one script may make.
    calls: mpsc::UnboundedReceiver<ScriptCall>,
    /// Dropping it wakes a thread that waits for an answer.
    answers: thread_mpsc::Sender<Answer>,
    ended: oneshot::Receiver<Ended>,
    trace: Vec<Traced>,
    _stop: StopOnDrop,
}

/// One call, for the result's trace.
struct Traced {
    number: u32,
    name: String,
    stage: Stage,
}

/// How far a call has come.
enum Stage {
    Waiting,
    Running,
    Done(CallOutcome),
}

type Running<'a> = Vec<(u32, BoxFuture<'a, CallResult>)>;

impl Run {
    async fn finish(mut self, caller: &dyn ExecCaller, cancel: CancellationToken) -> CallResult {
        let mut waiting: VecDeque<ScriptCall> = VecDeque::new();
        let mut running: Running<'_> = Vec::new();
        let ended = loop {
            while running.len() < self.limits.calls_at_once.max(1)
                && let Some(call) = waiting.pop_front()
            {
                self.note(call.number, Stage::Running);
                running.push(start(caller, call));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Ended::Fault(Fault::Cancelled),
                ended = &mut self.ended => break ended.unwrap_or(Ended::Fault(Fault::Engine)),
                (number, result) = next_done(&mut running), if !running.is_empty() => {
                    self.note(number, Stage::Done(result.outcome));
                    // A script that has ended takes no more answers; its last word comes next.
                    let _gone = self.answers.send(Answer { number, result });
                }
                Some(call) = self.calls.recv() => {
                    self.trace.push(Traced { number: call.number, name: call.name.clone(), stage: Stage::Waiting });
                    waiting.push_back(call);
                }
                () = sleep_until(self.deadline + GRACE) => break Ended::Fault(Fault::TimedOut),
            }
        };
        // Calls that the script made just before its end were never begun.
        while let Ok(call) = self.calls.try_recv() {
            self.trace.push(Traced { number: call.number, name: call.name, stage: Stage::Waiting });
        }
        self.result(ended)
    }

    fn note(&mut self, number: u32, stage: Stage) {
        if let Some(traced) = self.trace.iter_mut().find(|traced| traced.number == number) {
            traced.stage = stage;
        }
    }

    /// What the model is told: the answer or the fault, what was logged, and which calls were made.
    fn result(self, ended: Ended) -> CallResult {
        let (outcome, words) = match ended {
            Ended::Returned(Some(json)) => (CallOutcome::Succeeded, json),
            Ended::Returned(None) => (
                CallOutcome::Succeeded,
                "[the script returned nothing: end it with `return value`]".to_owned(),
            ),
            Ended::Fault(fault) => (fault.outcome(), fault.words(&self.limits)),
        };
        let mut content = vec![Content::Text(words)];
        content.extend(self.console.shown().map(|lines| Content::Text(format!("[console]\n{lines}"))));
        let lines: Vec<_> = self.trace.iter().map(Traced::line).collect();
        if !lines.is_empty() {
            content.push(Content::Text(format!("[calls]\n{}", lines.join("\n"))));
        }
        CallResult { outcome, content, retry_after_ms: None }
    }
}

impl Traced {
    fn line(&self) -> String {
        let end = match self.stage {
            Stage::Done(CallOutcome::Succeeded) => "succeeded",
            Stage::Done(CallOutcome::Failed) => "failed",
            Stage::Done(CallOutcome::Rejected) => "rejected",
            Stage::Done(CallOutcome::Denied) => "denied",
            Stage::Done(CallOutcome::Unavailable) => "unavailable",
            Stage::Done(CallOutcome::TimedOut) => "timed out",
            Stage::Done(CallOutcome::Cancelled) => "cancelled",
            Stage::Done(CallOutcome::Unknown) => "nobody knows whether it ran",
            Stage::Running => "not finished: nobody knows whether it ran",
            Stage::Waiting => "not begun",
        };
        format!("{}. {}: {end}", self.number, self.name)
    }
}

fn start(caller: &dyn ExecCaller, call: ScriptCall) -> (u32, BoxFuture<'_, CallResult>) {
    (call.number, caller.call(call))
}

/// The next call that is done. There are few, so each is asked whenever one is awake.
async fn next_done(running: &mut Running<'_>) -> (u32, CallResult) {
    poll_fn(|cx| {
        let done =
            running.iter_mut().enumerate().find_map(|(place, (_, call))| match call.as_mut().poll(cx) {
                Poll::Ready(result) => Some((place, result)),
                Poll::Pending => None,
            });
        match done {
            Some((place, result)) => Poll::Ready((running.swap_remove(place).0, result)),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests;
