//! The thread of one script: runs it, waits for the answers to its calls, and says how it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::limits::ExecLimits;
use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{CatchResultExt, CaughtError, Coerced, Context, Ctx, Promise, Runtime, Value};
use tokio::sync::{mpsc, oneshot};

use super::console::Console;
use super::host::Host;
use crate::exec::ScriptCall;

/// How much of what a script throws is told, in characters.
const THROWN: usize = 2_000;

/// What connects the thread with the task of the call.
pub(super) struct Wires {
    pub(super) limits: ExecLimits,
    pub(super) deadline: Instant,
    /// Set when nobody waits any more.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) console: Console,
    pub(super) made: mpsc::UnboundedSender<ScriptCall>,
    pub(super) answered: Receiver<Answer>,
    pub(super) last_word: oneshot::Sender<Ended>,
}

/// The last word on one call of the script.
pub(super) struct Answer {
    pub(super) number: u32,
    pub(super) result: CallResult,
}

/// How a script ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With this value, as JSON; `None` for nothing.
    Returned(Option<String>),
    Fault(Fault),
}

/// Why a script did not return.
#[derive(Debug)]
pub(super) enum Fault {
    /// It threw; what, and where.
    Threw(String),
    /// It returned more than may be returned.
    Large(usize),
    /// What it returned is no JSON; why.
    NoJson(String),
    /// It waits for a promise that nothing will settle.
    Stuck,
    Memory,
    TimedOut,
    Cancelled,
    /// The engine itself gave up.
    Engine,
}

impl Fault {
    pub(super) fn outcome(&self) -> CallOutcome {
        match self {
            Self::TimedOut => CallOutcome::TimedOut,
            Self::Cancelled => CallOutcome::Cancelled,
            Self::Threw(_) | Self::Large(_) | Self::NoJson(_) | Self::Stuck | Self::Memory | Self::Engine => {
                CallOutcome::Failed
            }
        }
    }

    pub(super) fn words(&self, limits: &ExecLimits) -> String {
        match self {
            Self::Threw(what) => format!("the script threw {what}"),
            Self::Large(bytes) => {
                format!("the script returned {bytes} bytes, and {} are the most: return less", limits.output)
            }
            Self::NoJson(why) => format!("what the script returned cannot be written as JSON: {why}"),
            Self::Stuck => "the script waits for a promise that nothing will settle".to_owned(),
            Self::Memory => format!("the script ran out of its {} bytes of memory", limits.memory),
            Self::TimedOut => format!("the script took longer than {} ms", limits.time.as_millis()),
            Self::Cancelled => "cancelled before it ended".to_owned(),
            Self::Engine => "the engine could not go on with the script".to_owned(),
        }
    }
}

/// Runs the script and says how it ended, unless nobody waits any more.
pub(super) fn run(script: &str, wires: Wires) {
    let Wires { limits, deadline, stop, console, made, answered, last_word } = wires;
    let bounds = Bounds { deadline, stop };
    let ended = engine(&limits, bounds.clone()).and_then(|(_engine, context)| {
        context.with(|ctx| {
            let host = Host::new(&ctx, &limits, console, made)?;
            let ended = Script { ctx: ctx.clone(), host: host.clone(), bounds, limits: &limits, answered }
                .run(script);
            // Its functions would keep the engine, and the engine them.
            host.forget();
            ended
        })
    });
    // Nobody waits for a script that was stopped.
    let _gone = last_word.send(ended.map_or_else(Ended::Fault, Ended::Returned));
}

fn engine(limits: &ExecLimits, bounds: Bounds) -> Result<(Runtime, Context), Fault> {
    let engine = Runtime::new().map_err(|_none| Fault::Engine)?;
    engine.set_memory_limit(limits.memory);
    engine.set_max_stack_size(limits.stack);
    engine.set_interrupt_handler(Some(Box::new(move || bounds.passed().is_some())));
    let context = Context::full(&engine).map_err(|_none| Fault::Memory)?;
    Ok((engine, context))
}

#[derive(Clone)]
struct Bounds {
    deadline: Instant,
    stop: Arc<AtomicBool>,
}

impl Bounds {
    fn passed(&self) -> Option<Fault> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Fault::Cancelled)
        } else if Instant::now() >= self.deadline {
            Some(Fault::TimedOut)
        } else {
            None
        }
    }
}

struct Script<'js, 'a> {
    ctx: Ctx<'js>,
    host: Host<'js>,
    bounds: Bounds,
    limits: &'a ExecLimits,
    answered: Receiver<Answer>,
}

impl<'js> Script<'js, '_> {
    fn run(&self, script: &str) -> Result<Option<String>, Fault> {
        let mut options = EvalOptions::default();
        options.filename = Some("script".to_owned());
        // On one line, so that an error's line is the script's own.
        let source = format!("(async () => {{ {script}\n}})()");
        let begun: Promise<'js> = self.caught(self.ctx.eval_with_options(source, options))?;
        loop {
            self.jobs()?;
            match (begun.state(), self.host.in_flight()) {
                (PromiseState::Resolved, 0) => return self.returned(&begun),
                (PromiseState::Rejected, _) => return self.returned(&begun),
                (PromiseState::Pending, 0) => return Err(Fault::Stuck),
                // A call that the script did not wait for is a call all the same.
                (PromiseState::Resolved, _) => {
                    let answer = self.wait()?;
                    if answer.result.outcome != CallOutcome::Succeeded {
                        let words = answer.result.text();
                        return Err(Fault::Threw(cut(&format!(
                            "Error in a call it did not wait for: {words}"
                        ))));
                    }
                    self.caught(self.host.settle(answer))?;
                }
                (PromiseState::Pending, _) => {
                    let answer = self.wait()?;
                    self.caught(self.host.settle(answer))?;
                }
            }
        }
    }

    /// Runs whatever can run without an answer. Each job is short or interrupted; there may be any number.
    fn jobs(&self) -> Result<(), Fault> {
        loop {
            if let Some(fault) = self.bounds.passed() {
                return Err(fault);
            }
            if !self.ctx.execute_pending_job() {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> Result<Answer, Fault> {
        let left = self.bounds.deadline.saturating_duration_since(Instant::now());
        self.answered.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Fault::TimedOut,
            RecvTimeoutError::Disconnected => Fault::Cancelled,
        })
    }

    fn returned(&self, promise: &Promise<'js>) -> Result<Option<String>, Fault> {
        let Some(result) = promise.result::<Value<'js>>() else { return Err(Fault::Stuck) };
        let value = self.caught(result)?;
        // May run code of the script's own (`toJSON`).
        let json = self.caught(self.ctx.json_stringify(value)).map_err(|fault| match fault {
            Fault::Threw(why) => Fault::NoJson(why),
            fault => fault,
        })?;
        let Some(json) = json else { return Ok(None) };
        let json = json.to_string().map_err(|_unpaired| Fault::NoJson("it is no Unicode text".to_owned()))?;
        if json.len() > self.limits.output { Err(Fault::Large(json.len())) } else { Ok(Some(json)) }
    }

    /// Whatever went wrong in the engine as a fault. What the script throws is read with its own code (getters, proxies),
    /// which is bounded as the script is.
    fn caught<T>(&self, result: rquickjs::Result<T>) -> Result<T, Fault> {
        let error = match result.catch(&self.ctx) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if let Some(fault) = self.bounds.passed() {
            return Err(fault);
        }
        let thrown = match error {
            CaughtError::Exception(exception) => {
                let message = exception.message().unwrap_or_default();
                if message == "out of memory" {
                    return Err(Fault::Memory);
                }
                let name = exception
                    .get::<_, Coerced<String>>("name")
                    .map_or_else(|_| "Error".to_owned(), |name| name.0);
                let line = exception.stack().as_deref().and_then(line);
                let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                format!("{}: {}{place}", cut(&name), cut(&message))
            }
            CaughtError::Value(value) if value.is_null() => return Err(Fault::Memory),
            CaughtError::Value(value) => {
                let shown =
                    value.get::<Coerced<String>>().map_or_else(|_| "something".to_owned(), |shown| shown.0);
                format!("no Error, but {}", cut(&shown))
            }
            CaughtError::Error(rquickjs::Error::Allocation) => return Err(Fault::Memory),
            CaughtError::Error(error) => cut(&error.to_string()),
        };
        // Reading it may have used up what was left.
        self.bounds.passed().map_or(Err(Fault::Threw(thrown)), Err)
    }
}

/// The first line of the script in a stack.
fn line(stack: &str) -> Option<u32> {
    let after = stack.split("script:").nth(1)?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn cut(text: &str) -> String {
    text.chars().take(THROWN).collect()
}
