//! Drives one call to its last word: rounds of questions, a task that is asked for again, and the time that all of it
//! may take.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::asks::{AskPort, Origin};
use pilothouse_adapters::clock::Clock;
use pilothouse_adapters::server::{
    Answers, CallAnswer, CallRequest, Connection, InputRequired, TaskState, TaskTicket,
};
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::error::RequestError;
use pilothouse_messages::secret::Opaque;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::CallClock;
use super::words::{cancelled, refused_by, timed_out, unknown};
use super::{CallWatch, Keeping};
use crate::tasks::caught;
use crate::traffic::Passage;
use crate::wiring::Ready;

/// Questions in one round; a server that has more is not answered.
const QUESTIONS_MAX: usize = 64;
/// How often a task is asked for, if its server does not say.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two questions about a task, whatever its server says.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How long telling the server may take that nobody wants its task any more.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// One call that has been let through.
pub(super) struct Drive<'a> {
    pub(super) ready: &'a Ready,
    /// What the server says is noted here.
    pub(super) passage: &'a Passage,
    pub(super) asks: AskPort,
    pub(super) rounds: u32,
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) meta: Map<String, Value>,
    pub(super) origin: Origin,
    pub(super) cancel: &'a CancellationToken,
    /// Says when a task ends to be kept.
    pub(super) time: &'a dyn Clock,
    pub(super) clock: CallClock,
}

impl Drive<'_> {
    /// Sends the call, and again with its answers as often as it asks; `asked` is what it asked before a restart.
    pub(super) async fn run(
        mut self,
        asked: Option<(u32, InputRequired)>,
        watch: &mut dyn CallWatch,
    ) -> CallResult {
        self.rounds(asked, watch).await.unwrap_or_else(|last_word| last_word)
    }

    async fn rounds(
        &mut self,
        mut asked: Option<(u32, InputRequired)>,
        watch: &mut dyn CallWatch,
    ) -> Result<CallResult, CallResult> {
        loop {
            let (round, answers) = match asked {
                None => (0, None),
                Some((round, _)) if round > self.rounds => {
                    let words =
                        format!("the server asked more than {} times before it did anything", self.rounds);
                    return Err(failed(words));
                }
                Some((round, asked)) => (round, Some(self.answered(round, asked, watch).await?)),
            };
            match self.round(answers).await? {
                CallAnswer::Done(result) => return Ok(result),
                CallAnswer::Task(ticket) => return self.task(ticket, watch).await,
                CallAnswer::InputRequired(next) => asked = Some((round.saturating_add(1), next)),
            }
        }
    }

    /// What the server asked, answered. The question is kept before anybody sees it; that it was answered is kept before
    /// the answers go out, since the server may act from then on.
    async fn answered(
        &mut self,
        round: u32,
        asked: InputRequired,
        watch: &mut dyn CallWatch,
    ) -> Result<Answers, CallResult> {
        let requests = Value::Object(asked.requests.clone()).into();
        let state = asked.state.clone().map(Opaque::new);
        self.kept(watch, CallReceipt::Asked { round, requests, state }).await?;
        let responses = self.responses(asked.requests).await?;
        self.kept(watch, CallReceipt::Answered { round }).await?;
        Ok(Answers { responses, state: asked.state })
    }

    async fn kept(&self, watch: &mut dyn CallWatch, receipt: CallReceipt) -> Result<Keeping, CallResult> {
        match self.until(watch.received(receipt)).await? {
            Keeping::Over => Err(cancelled()),
            keeping @ (Keeping::Kept | Keeping::Unkept) => Ok(keeping),
        }
    }

    /// One request and its answer.
    async fn round(&mut self, answers: Option<Answers>) -> Result<CallAnswer, CallResult> {
        let mut request = CallRequest::new(self.tool.clone(), self.arguments.clone());
        request.meta = self.meta.clone();
        request.origin = self.origin.clone();
        request.answers = answers;
        let mut pulse = request.pulse.subscribe();
        let (mut beats, mut furthest) = (true, None);
        let asked = Instant::now();
        let mut calling = pin!(caught(async { self.ready.connection.call(request).await }));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut calling => break answer,
                () = self.ready.ended.cancelled() => return Err(ended()),
                () = self.cancel.cancelled() => return Err(cancelled()),
                changed = pulse.changed(), if beats => match changed {
                    Ok(()) => {
                        let (now, told) = (Instant::now(), *pulse.borrow_and_update());
                        self.passage.answered();
                        self.clock.questions(now, told.questions);
                        if told.progress > furthest {
                            furthest = told.progress;
                            self.clock.alive(now);
                        }
                    }
                    Err(_over) => beats = false,
                },
                () = sleep_until(self.clock.ends_at()) => {
                    self.passage.timed_out(asked);
                    return Err(timed_out(self.clock.whole()));
                }
            }
        };
        // A question may have been open to the last.
        self.clock.questions(Instant::now(), 0);
        self.settled(answer)
    }

    /// Asks for a task until it is done.
    async fn task(
        &mut self,
        ticket: TaskTicket,
        watch: &mut dyn CallWatch,
    ) -> Result<CallResult, CallResult> {
        let mut unwanted = Unwanted::new(self.ready.connection.clone(), ticket.id.clone());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let receipt = CallReceipt::Task {
            id: Opaque::new(ticket.id.clone()),
            poll_after_ms: ticket.poll_after.map(millis),
            expires_at: ticket.ttl.map(|ttl| self.time.now().after(ttl)),
        };
        if self.kept(watch, receipt).await? == Keeping::Kept {
            unwanted.kept();
        }
        self.settle(ticket, unwanted, First::Later).await
    }

    /// Asks for a task that was begun, and noted, before a restart.
    pub(super) async fn go_on_with_task(mut self, ticket: TaskTicket) -> CallResult {
        let mut unwanted = Unwanted::new(self.ready.connection.clone(), ticket.id.clone());
        unwanted.kept();
        self.settle(ticket, unwanted, First::Now).await.unwrap_or_else(|last_word| last_word)
    }

    async fn settle(
        &mut self,
        ticket: TaskTicket,
        unwanted: Unwanted,
        first: First,
    ) -> Result<CallResult, CallResult> {
        let last_word = self.follow(ticket, first).await;
        match &last_word {
            Ok(_) => unwanted.settled(),
            Err(_) => unwanted.tell(),
        }
        last_word
    }

    async fn follow(&mut self, mut ticket: TaskTicket, first: First) -> Result<CallResult, CallResult> {
        let connection = self.ready.connection.clone();
        let id = ticket.id.clone();
        let begun = Instant::now();
        let (shortest, longest) = POLL_BOUNDS;
        let mut wait = match first {
            First::Now => Duration::ZERO,
            First::Later => ticket.poll_after.unwrap_or(POLL_AFTER).clamp(shortest, longest),
        };
        loop {
            // A last question just before the server may forget it.
            let kept = ticket.ttl.map(|ttl| ttl.saturating_sub(begun.elapsed()));
            self.until(sleep(kept.map_or(wait, |kept| wait.min(kept)))).await?;
            let told = self.until(caught(async { connection.task(id.clone()).await })).await?;
            let state = match told {
                Ok(Ok(state)) => {
                    self.passage.answered();
                    // It answers, so it works on.
                    self.clock.alive(Instant::now());
                    Some(state)
                }
                Ok(Err(error)) => self.still_asked(&error)?,
                Err(_panicked) => {
                    return Err(unknown("the connection panicked while its task was asked for"));
                }
            };
            let forgotten = ticket.ttl.is_some_and(|ttl| begun.elapsed() >= ttl);
            // What a server says counts from when the task was made.
            let last = |next: TaskTicket| match first {
                First::Now => TaskTicket { ttl: ticket.ttl, ..next },
                First::Later => TaskTicket { ttl: next.ttl.or(ticket.ttl), ..next },
            };
            match state {
                Some(TaskState::Done(result)) => return Ok(result),
                Some(TaskState::Working(_)) | None if forgotten => {
                    let words = "the server worked on it as a task for longer than it keeps one: what became of it is not known";
                    return Err(unknown(words));
                }
                None => {}
                Some(TaskState::Working(next)) => ticket = last(next),
                Some(TaskState::InputRequired(next, asked)) => {
                    ticket = last(next);
                    let responses = self.responses(asked.requests).await?;
                    let telling = caught(async { connection.answer_task(id.clone(), responses).await });
                    self.settled(self.until(telling).await?)?;
                }
            }
            wait = ticket.poll_after.unwrap_or(POLL_AFTER).clamp(shortest, longest);
        }
    }

    /// Whether a task is asked for again after this: an outage says nothing about the task.
    fn still_asked(&self, error: &RequestError) -> Result<Option<TaskState>, CallResult> {
        if error.is_answer() {
            self.passage.answered();
        }
        match error {
            RequestError::Unsent { .. }
            | RequestError::Interrupted { .. }
            | RequestError::Http { status: 408 | 429 | 500..=599, .. } => Ok(None),
            RequestError::Server { .. } => Err(unknown(&format!(
                "the server worked on it as a task, and does not say what became of it: {error}"
            ))),
            error => Err(refused_by(error)),
        }
    }

    /// Puts what the server asks to the embedder; the clock stands still meanwhile.
    async fn responses(&mut self, requests: Map<String, Value>) -> Result<Map<String, Value>, CallResult> {
        if requests.len() > QUESTIONS_MAX {
            return Err(failed(format!("the server asked more than {QUESTIONS_MAX} questions at once")));
        }
        // Dropping the set drops the questions.
        let mut asking = JoinSet::new();
        for (key, request) in requests {
            let (asks, origin) = (self.asks.clone(), self.origin.clone());
            asking.spawn(async move {
                let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
                let params = request.get("params").cloned().unwrap_or_default();
                let answer = asks.put(origin, method, &params).await;
                answer.map(|answer| (key, answer)).map_err(|refusal| (method.to_owned(), refusal))
            });
        }
        self.clock.questions(Instant::now(), asking.len());
        let mut responses = Map::new();
        while let Some(answer) = self.until(asking.join_next()).await? {
            match answer {
                Ok(Ok((key, answer))) => drop(responses.insert(key, answer)),
                Ok(Err((method, refusal))) => {
                    return Err(failed(format!(
                        "the server asked for {method:?}, which was refused: {refusal}"
                    )));
                }
                Err(_aborted) => return Err(failed("what the server asked could not be answered")),
            }
        }
        self.clock.questions(Instant::now(), 0);
        Ok(responses)
    }

    /// Takes note that the server answered, and reads what.
    fn settled<T>(&self, answer: Result<Result<T, RequestError>, String>) -> Result<T, CallResult> {
        match answer {
            Ok(Ok(answer)) => {
                self.passage.answered();
                Ok(answer)
            }
            Ok(Err(error)) => {
                if error.is_answer() {
                    self.passage.answered();
                }
                Err(refused_by(&error))
            }
            Err(_panicked) => Err(unknown("it was sent, and the connection panicked before it answered")),
        }
    }

    /// Waits for something, as long as the call may last.
    async fn until<T>(&self, doing: impl Future<Output = T>) -> Result<T, CallResult> {
        tokio::select! {
            biased;
            done = doing => Ok(done),
            () = self.ready.ended.cancelled() => Err(ended()),
            () = self.cancel.cancelled() => Err(cancelled()),
            () = sleep_until(self.clock.ends_at()) => Err(timed_out(self.clock.whole())),
        }
    }
}

fn failed(words: impl Into<String>) -> CallResult {
    CallResult::said(CallOutcome::Failed, words)
}

fn ended() -> CallResult {
    unknown("it was sent, and the connection ended before it answered")
}

/// When a task is asked for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// At once.
    Now,
    /// After the time that its server says.
    Later,
}

/// A task of the server; dropping this tells the server that nobody wants it any more, unless somebody keeps its receipt.
struct Unwanted {
    connection: Arc<dyn Connection>,
    id: Option<String>,
    keeping: Keeping,
}

impl Unwanted {
    fn new(connection: Arc<dyn Connection>, id: String) -> Self {
        Self { connection, id: Some(id), keeping: Keeping::Unkept }
    }

    /// Whoever drops the call may go on with it later.
    fn kept(&mut self) {
        self.keeping = Keeping::Kept;
    }

    /// It has had its last word.
    fn settled(mut self) {
        self.id = None;
    }

    /// Nobody goes on with it.
    fn tell(mut self) {
        self.keeping = Keeping::Unkept;
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        let (Some(id), Keeping::Unkept | Keeping::Over, Ok(runtime)) =
            (self.id.take(), self.keeping, tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let connection = self.connection.clone();
        runtime.spawn(async move {
            // Whatever the server says to it: nobody waits for the task.
            let _told = timeout(CANCEL_WITHIN, caught(async { connection.cancel_task(id).await })).await;
        });
    }
}
