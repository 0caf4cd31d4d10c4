//! One request and its answer as a stream. Dropping it closes the connection, which ends the provider's work.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pilothouse_messages::model::ModelEvent;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::site::Site;
use super::{anthropic, failure, openai};
use crate::BoxFuture;
use crate::model::ModelError;
use crate::response::sse::{Event, Parser};
use crate::response::start;
use crate::words::Words;

/// The largest event of a stream (1 MiB).
const EVENT_BYTES_MAX: usize = 1 << 20;

/// How the events of one answer are read.
pub(super) enum Reply {
    OpenAi(openai::Reply),
    Anthropic(anthropic::Reply),
}

impl Reply {
    fn take(
        &mut self,
        event: &Event,
        words: &Words,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        match self {
            Self::OpenAi(reply) => reply.take(event, words, out),
            Self::Anthropic(reply) => reply.take(event, words, out),
        }
    }

    /// The stream is over.
    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        match self {
            Self::OpenAi(reply) => reply.end(out),
            Self::Anthropic(_) => Err(cut_off()),
        }
    }
}

pub(super) fn cut_off() -> ModelError {
    ModelError::Connection("it ended before the reply was complete".to_owned())
}

/// What has come and was not handed on yet, and where the rest comes from.
struct Course {
    site: Arc<Site>,
    reply: Reply,
    ready: VecDeque<ModelEvent>,
    stage: Stage,
}

enum Stage {
    Ask(String),
    Read(Box<Reading>),
    Over,
}

/// An answer that is being read.
struct Reading {
    response: Response,
    parser: Parser,
    chunk: bytes::Bytes,
}

type Item = Result<ModelEvent, ModelError>;

/// The stream of one run.
pub(super) struct Talk(Turn);

/// A course waits to be asked, or is on its way to its next event.
enum Turn {
    Waits(Course),
    Runs(BoxFuture<'static, (Option<Item>, Course)>),
    /// Only while one becomes the other.
    Gone,
}

impl Talk {
    pub(super) fn new(site: Arc<Site>, body: String, reply: Reply) -> Self {
        Self(Turn::Waits(Course { site, reply, ready: VecDeque::new(), stage: Stage::Ask(body) }))
    }
}

impl Stream for Talk {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut running = match std::mem::replace(&mut self.0, Turn::Gone) {
            Turn::Waits(mut course) => match course.ready.pop_front() {
                Some(event) => {
                    self.0 = Turn::Waits(course);
                    return Poll::Ready(Some(Ok(event)));
                }
                None => Box::pin(async move {
                    let item = course.next().await;
                    (item, course)
                }),
            },
            Turn::Runs(running) => running,
            Turn::Gone => return Poll::Ready(None),
        };
        let polled = running.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Turn::Runs(running);
        }
        let (item, course) = ready!(polled);
        self.0 = Turn::Waits(course);
        Poll::Ready(item)
    }
}

impl Course {
    async fn next(&mut self) -> Option<Item> {
        while self.ready.is_empty() && !matches!(self.stage, Stage::Over) {
            if let Err(error) = self.advance().await {
                self.stage = Stage::Over;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }

    /// Sends the request, or reads the next event.
    async fn advance(&mut self) -> Result<(), ModelError> {
        match &mut self.stage {
            Stage::Ask(body) => {
                let response = self.site.post(std::mem::take(body)).await?;
                let reading = Reading::of(response, &self.site.words).await?;
                self.stage = Stage::Read(Box::new(reading));
            }
            Stage::Read(reading) => match reading.next(&self.site).await? {
                Some(event) => {
                    self.reply.take(&event, &self.site.words, &mut self.ready)?;
                    if matches!(self.ready.back(), Some(ModelEvent::Finish(_))) {
                        self.stage = Stage::Over;
                    }
                }
                None => {
                    self.stage = Stage::Over;
                    self.reply.end(&mut self.ready)?;
                }
            },
            Stage::Over => {}
        }
        Ok(())
    }
}

impl Reading {
    /// An answer that is a stream of events.
    async fn of(mut response: Response, words: &Words) -> Result<Self, ModelError> {
        let status = response.status();
        if !status.is_success() {
            let body = start(&mut response).await;
            return Err(failure::of_answer(status.as_u16(), response.headers(), &body, words));
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("text/event-stream") {
            let words = words.reason(format!("it answered with {essence:?} instead of a stream of events"));
            return Err(ModelError::Broken(words));
        }
        Ok(Self { response, parser: Parser::default(), chunk: bytes::Bytes::new() })
    }

    async fn next(&mut self, site: &Site) -> Result<Option<Event>, ModelError> {
        loop {
            while !self.chunk.is_empty() {
                let (used, event) = self.parser.take(&self.chunk);
                self.chunk = self.chunk.split_off(used);
                if event.is_some() {
                    return Ok(event);
                }
                if self.parser.held() > EVENT_BYTES_MAX {
                    let most = EVENT_BYTES_MAX >> 20;
                    return Err(ModelError::Broken(format!("an event of it is larger than {most} MiB")));
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => return Ok(None),
                Err(error) => return Err(site.broken(&error)),
            }
        }
    }
}
