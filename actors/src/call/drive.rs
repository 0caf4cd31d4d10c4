//! Drives one call to its last word: rounds of questions, a task that is asked for again, and the time that all of it
//! may take.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::asks::{AskPort, Origin};
use pilothouse_adapters::server::{
    Answers, CallAnswer, CallRequest, Connection, InputRequired, TaskState, TaskTicket,
};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::error::RequestError;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::CallClock;
use super::words::{cancelled, refused_by, timed_out, unknown};
use super::{CallWatch, Receipt};
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
    pub(super) clock: CallClock,
}

impl Drive<'_> {
    /// Sends the call, and again with its answers as often as it asks.
    pub(super) async fn run(mut self, watch: &mut dyn CallWatch) -> CallResult {
        let mut answers = None;
        for round in 1..=self.rounds.saturating_add(1) {
            let asked = match self.round(answers).await {
                Ok(CallAnswer::Done(result)) => return result,
                Ok(CallAnswer::Task(ticket)) => return self.task(ticket, watch).await,
                Ok(CallAnswer::InputRequired(asked)) => asked,
                Err(last_word) => return last_word,
            };
            if round > self.rounds {
                break;
            }
            answers = match self.answered(round, asked, watch).await {
                Ok(answers) => Some(answers),
                Err(last_word) => return last_word,
            };
        }
        failed(format!("the server asked more than {} times before it did anything", self.rounds))
    }

    async fn answered(
        &mut self,
        round: u32,
        asked: InputRequired,
        watch: &mut dyn CallWatch,
    ) -> Result<Answers, CallResult> {
        self.until(watch.received(Receipt::Asked { round, state: asked.state.clone() })).await?;
        let responses = self.responses(asked.requests).await?;
        Ok(Answers { responses, state: asked.state })
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
    async fn task(mut self, mut ticket: TaskTicket, watch: &mut dyn CallWatch) -> CallResult {
        let unwanted = Unwanted { connection: self.ready.connection.clone(), id: Some(ticket.id.clone()) };
        match self.follow(&mut ticket, watch).await {
            Ok(last_word) => {
                unwanted.settle();
                last_word
            }
            // Dropping `unwanted` tells the server.
            Err(last_word) => last_word,
        }
    }

    async fn follow(
        &mut self,
        ticket: &mut TaskTicket,
        watch: &mut dyn CallWatch,
    ) -> Result<CallResult, CallResult> {
        let connection = self.ready.connection.clone();
        let id = ticket.id.clone();
        self.until(watch.received(Receipt::Task(ticket.clone()))).await?;
        loop {
            let (shortest, longest) = POLL_BOUNDS;
            self.until(sleep(ticket.poll_after.unwrap_or(POLL_AFTER).clamp(shortest, longest))).await?;
            let state =
                self.settled(self.until(caught(async { connection.task(id.clone()).await })).await?)?;
            // It answers, so it works on.
            self.clock.alive(Instant::now());
            match state {
                TaskState::Done(result) => return Ok(result),
                TaskState::Working(next) => *ticket = TaskTicket { id: id.clone(), ..next },
                TaskState::InputRequired(next, asked) => {
                    *ticket = TaskTicket { id: id.clone(), ..next };
                    let responses = self.responses(asked.requests).await?;
                    let telling = caught(async { connection.answer_task(id.clone(), responses).await });
                    self.settled(self.until(telling).await?)?;
                }
            }
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

/// A task of the server; dropping this tells the server that nobody wants it any more.
struct Unwanted {
    connection: Arc<dyn Connection>,
    id: Option<String>,
}

impl Unwanted {
    fn settle(mut self) {
        self.id = None;
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let connection = self.connection.clone();
        runtime.spawn(async move {
            // Whatever the server says to it: nobody waits for the task.
            let _told = timeout(CANCEL_WITHIN, caught(async { connection.cancel_task(id).await })).await;
        });
    }
}
