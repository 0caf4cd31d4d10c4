//! Runs a runtime as lines say, and prints what it does.
//!
//! Lines are done one after the other; what happens meanwhile is printed as it comes. The runtime starts at the first
//! line that is no `server` line, so that its servers are known by then.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep, timeout_at};

use crate::input::LineReader;
use crate::line::{Cursor, Expect, ExpectAbsent, Line, LineError, Pattern, Search, Verb, parse};

mod models;
mod news;
mod out;
mod past;
mod questions;
mod queue;
mod refusal;
mod show;
mod stage;
mod verbs;
mod virtual_time;
mod windows;

use out::{Fields, Out};
use refusal::Refusal;
use stage::{Data, Stage};
use virtual_time::VirtualTime;

/// The most that is read of an input that is read whole (64 MiB).
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// How a run is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the data is kept. Without it, in a directory that goes with the run.
    pub data: Option<PathBuf>,
    /// Seeds the jitter of restart delays; printed with a failure.
    pub seed: u64,
    /// Which clock the run has.
    pub clock: Clock,
}

/// Which clock a run has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The real one.
    #[default]
    Real,
    /// Tokio's, paused: what waits takes no time. The store is in memory and so are all servers; `crash` drops the
    /// runtime and keeps what was durable, and the run goes on with a fresh one.
    Virtual,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every expectation held.
    Held,
    /// One did not; the last line says which.
    Missed,
    /// The input is wrong; the last line says where.
    WrongInput,
}

/// Does the lines of `input` until it ends, an expectation does not hold, or a line is wrong; then shuts the runtime
/// down. Every line out is flushed. A `crash` line kills the whole process, the caller's own included, but for
/// [`Clock::Virtual`]: that reads all of `input` first, and leaves [`Options::data`] aside.
///
/// # Errors
/// That the output cannot be written, or that there is no place for the data; in virtual time also that the input cannot
/// be read.
///
/// # Panics
/// Outside a Tokio runtime; in virtual time also in one whose time is not paused (`start_paused` of its builder).
///
/// # Cancel safety
/// Dropping the future ends the run; the runtime then shuts down in the background.
pub async fn run<R>(input: R, out: Box<dyn io::Write + Send>, options: Options) -> io::Result<Ended>
where
    R: AsyncRead + Unpin,
{
    let data = match (options.clock, options.data.clone()) {
        (Clock::Virtual, _) => Data::Virtual(VirtualTime::new()),
        (Clock::Real, Some(path)) => Data::Given(path),
        (Clock::Real, None) => Data::Scratch(tempfile::Builder::new().prefix("pilothouse-").tempdir()?),
    };
    match options.clock {
        Clock::Real => play(input, out, data, options.seed).await,
        Clock::Virtual => {
            // Whoever waits for the real world while time stands still waits for ever, or no time at all.
            let text = read_all(input).await?;
            // It fails outside of virtual time, where nothing of what follows would hold.
            tokio::time::advance(Duration::ZERO).await;
            play(text.as_slice(), out, data, options.seed).await
        }
    }
}

/// The whole input, within a bound.
async fn read_all<R: AsyncRead + Unpin>(input: R) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.take(INPUT_BYTES_MAX + 1).read_to_end(&mut text).await?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let words =
            format!("in virtual time the input is read whole, and this is more than {INPUT_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(text)
}

async fn play<R: AsyncRead + Unpin>(
    input: R,
    out: Box<dyn io::Write + Send>,
    data: Data,
    seed: u64,
) -> io::Result<Ended> {
    let out = Out::new(out, data.clock());
    let stage = Stage::new(out.clone(), data, seed);
    let mut driver = Driver { stage, out, cursor: Cursor::default(), seed };
    let end = driver.play(LineReader::new(input)).await;
    let unstarted = driver.stage.unstarted;
    let (forced, _kept) = driver.stage.close().await;
    let out = driver.out;
    if !forced.is_empty() {
        out.refused(
            None,
            &Refusal::new("forced", format!("these parts did not end in time: {}", forced.join("; "))),
        );
    }
    let ended = match end? {
        // Nothing was driven: whoever expects nothing has to hear of it all the same.
        End::OfInput if unstarted => Ended::WrongInput,
        End::OfInput => Ended::Held,
        End::Missed(missed) => {
            out.refused(Some(missed.line), &Refusal::new("expectation", missed.words(seed)));
            Ended::Missed
        }
        End::Wrong(error) => {
            out.wrong(&error);
            Ended::WrongInput
        }
    };
    out.check()?;
    Ok(ended)
}

/// Why no more lines are read.
enum End {
    OfInput,
    Missed(Missed),
    Wrong(LineError),
}

/// An expectation that did not hold.
struct Missed {
    line: usize,
    wanted: String,
    seen: Vec<Line>,
}

impl Missed {
    fn words(&self, seed: u64) -> String {
        let seen: Vec<String> = self.seen.iter().map(json_text).collect();
        let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(" ") };
        format!("line {}: {}; seen instead: {seen}; seed {seed}", self.line, self.wanted)
    }
}

struct Driver {
    stage: Stage,
    out: Arc<Out>,
    cursor: Cursor,
    seed: u64,
}

impl Driver {
    async fn play<R: AsyncRead + Unpin>(&mut self, mut input: LineReader<R>) -> io::Result<End> {
        for line in 1.. {
            let verb = match input.next().await {
                Ok(Some(text)) => parse(line, &text),
                Ok(None) => return Ok(End::OfInput),
                Err(error) => {
                    let reason = format!("the line cannot be read: {error}");
                    Err(LineError { line, field: None, reason })
                }
            };
            match verb {
                Ok(Some(verb)) => {
                    if let Some((field, reason)) = self.stage.unfit(&verb) {
                        let (field, reason) = (Some(field.to_owned()), reason.to_owned());
                        return Ok(End::Wrong(LineError { line, field, reason }));
                    }
                    if let Some(missed) = Box::pin(self.perform(line, verb)).await {
                        return Ok(End::Missed(missed));
                    }
                }
                Ok(None) => {}
                Err(error) => return Ok(End::Wrong(error)),
            }
            self.out.check()?;
        }
        Ok(End::OfInput)
    }

    async fn perform(&mut self, line: usize, verb: Verb) -> Option<Missed> {
        match verb {
            Verb::Expect(expect) => return self.expect(line, expect).await,
            Verb::ExpectAbsent(expect) => return self.expect_absent(line, expect).await,
            Verb::Sleep(fields) => {
                self.start(line).await;
                sleep(Duration::from_millis(fields.ms)).await;
            }
            Verb::Crash => self.stage.crash().unwrap_or_else(|_real| crash()),
            verb => {
                let out = self.out.clone();
                match out.hold(Box::pin(answer(&mut self.stage, line, verb))).await {
                    Ok(Some(fields)) => out.reply(line, fields),
                    // The reply comes when it is there.
                    Ok(None) => {}
                    Err(refusal) => out.refused(Some(line), &refusal),
                }
                out.release();
            }
        }
        None
    }

    /// Starts the runtime for a line that only waits.
    async fn start(&mut self, line: usize) {
        if let Err(refusal) = self.stage.runtime().await {
            self.out.refused(Some(line), &refusal);
        }
    }

    async fn expect(&mut self, line: usize, expect: Expect) -> Option<Missed> {
        let deadline = Instant::now() + Duration::from_millis(expect.within_ms);
        self.start(line).await;
        let mut written = self.out.written();
        let mut search = self.cursor.search(expect.pattern, expect.since);
        loop {
            if self.out.read(|lines| self.cursor.advance(&mut search, lines)).is_some() {
                self.out.held(line);
                return None;
            }
            // The sender lives as long as the driver, so this ends with a line or with the time.
            if !matches!(timeout_at(deadline, written.changed()).await, Ok(Ok(()))) {
                return Some(self.missed(line, &search, None, &format!("within {} ms", expect.within_ms)));
            }
        }
    }

    async fn expect_absent(&mut self, line: usize, expect: ExpectAbsent) -> Option<Missed> {
        let deadline = Instant::now() + Duration::from_millis(expect.for_ms);
        self.start(line).await;
        let mut written = self.out.written();
        let mut search = self.cursor.search(expect.pattern, expect.since);
        loop {
            if let Some(found) = self.out.read(|lines| search.advance(lines)) {
                return Some(self.missed(line, &search, Some(found), "not to come"));
            }
            // The sender lives as long as the driver, so this ends with a line or with the time.
            if !matches!(timeout_at(deadline, written.changed()).await, Ok(Ok(()))) {
                self.out.held(line);
                return None;
            }
        }
    }

    fn missed(&self, line: usize, search: &Search, broken_by: Option<usize>, how: &str) -> Missed {
        let seen = self.out.missed(line, search, broken_by, self.seed);
        let (kind, given) = match search.pattern() {
            Pattern::Event(given) => ("event", given),
            Pattern::Reply(given) => ("reply", given),
        };
        Missed { line, wanted: format!("expected the {kind} {given} {how}"), seen }
    }
}

/// Does one line; `None` if its reply comes later.
async fn answer(stage: &mut Stage, line: usize, verb: Verb) -> Result<Option<Fields>, Refusal> {
    match verb {
        Verb::Server(fields) => stage.define(*fields).await,
        Verb::ServerRestart(fields) => stage.restart_server(fields).await,
        Verb::ServerRemove(fields) => stage.remove_server(fields).await,
        Verb::ServerEnable(fields) => stage.enable_server(fields).await,
        Verb::Refresh(fields) => stage.refresh(fields).await,
        Verb::Topic(fields) => stage.open_topic(*fields).await,
        Verb::Send(fields) => stage.send(fields).await,
        Verb::Stop(fields) => stage.stop(fields).await,
        Verb::Decide(fields) => stage.decide(fields).await,
        Verb::Configure(fields) => stage.configure(fields).await,
        Verb::Attach(fields) => stage.attach(fields).await,
        Verb::Detach(fields) => stage.detach(fields).await,
        Verb::Call(fields) => return stage.call(line, fields).await,
        Verb::List(fields) => stage.list(fields).await,
        Verb::Surface(fields) => stage.surface(fields).await,
        Verb::View(fields) => stage.view(fields).await,
        Verb::Tree => stage.tree().await,
        Verb::Approvals => stage.approvals().await,
        Verb::Grants => stage.grants().await,
        Verb::Revoke(fields) => stage.revoke(fields).await,
        Verb::Questions => stage.questions().await,
        Verb::Answer(fields) => stage.answer(fields).await,
        Verb::Restart => stage.restart().await,
        Verb::Continue(fields) => stage.continue_turn(fields).await,
        Verb::Edit(fields) => stage.edit(fields).await,
        Verb::Drop(fields) => stage.drop_message(fields).await,
        Verb::Reorder(fields) => stage.reorder(fields).await,
        Verb::Resend(fields) => stage.resend(fields).await,
        Verb::Relevel(fields) => stage.relevel(fields).await,
        Verb::History(fields) => stage.history(fields).await,
        Verb::Export(fields) => stage.export(fields).await,
        Verb::DeleteTopic(fields) => stage.delete_topic(fields).await,
        // These wait or end, and have no reply.
        Verb::Expect(_) | Verb::ExpectAbsent(_) | Verb::Sleep(_) | Verb::Crash => return Ok(None),
    }
    .map(Some)
}

/// Ends the process at once: nothing is flushed, nothing is told.
fn crash() -> ! {
    #[cfg(unix)]
    {
        use nix::sys::signal::{Signal, kill};
        // The signal ends the process before the call returns, if it is delivered.
        let _undelivered = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
    }
    std::process::abort();
}

fn json_text(line: &Line) -> String {
    // Lines were written as JSON before they were kept.
    serde_json::to_string(line).unwrap_or_default()
}
