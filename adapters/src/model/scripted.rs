//! A model that plays a script: the same words and calls every time, without a network.
//!
//! Each [`run`](Model::run) takes the next [`Step`]. Within a step the order is: the delay, the text, the calls,
//! and then the end: an error, a hang, or a finish. A script that is used up says so and stops, so a topic
//! with a short script ends instead of waiting.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pilothouse_messages::model::{FinishReason, ModelEvent, ModelRequest};
use pilothouse_messages::tool::{SurfaceView, identity_digits};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Sleep;

use super::{Model, ModelError, ModelStream};

/// Requests that [`ScriptedModel::requests`] keeps, the newest ones.
pub const REQUESTS_KEPT: usize = 64;

/// Characters of one piece of text, about; words stay whole if they fit.
const CHUNK_CHARS: usize = 24;

/// What the model does in one step. Everything may be left out: an empty step finishes without a word.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// What it says, streamed in pieces.
    pub text: Option<String>,
    /// What it calls, in order.
    pub calls: Vec<ScriptedCall>,
    /// Why it stops (default: [`FinishReason::Stop`]).
    pub finish: Option<FinishReason>,
    /// Milliseconds before its first event.
    pub delay_ms: Option<u64>,
    /// Milliseconds between two words; without it the text comes in larger pieces and without waits.
    pub chunk_ms: Option<u64>,
    /// The provider's error that ends the stream in place of a finish.
    pub error: Option<ScriptedError>,
    /// Falls silent in place of the end: the stream never yields again.
    pub hang: bool,
}

impl Step {
    /// A step that says this and stops.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A step that makes one call.
    pub fn call(tool: ToolRef, arguments: Value) -> Self {
        Self { calls: vec![ScriptedCall { tool, arguments }], ..Self::default() }
    }
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Which tool.
    pub tool: ToolRef,
    /// The arguments as they are sent, also wrong ones (default: an empty object).
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

/// A tool, by the name that models call it or by who offers it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a tool is a wire name, or an object with `server` and `tool` only")]
pub enum ToolRef {
    /// The wire name.
    Name(String),
    /// A server's tool.
    Of(ServerTool),
}

impl ToolRef {
    /// A server's tool, found by its identity among the tools that the model is shown.
    pub fn of_server(server: impl Into<String>, tool: impl Into<String>) -> Self {
        Self::Of(ServerTool { server: server.into(), tool: tool.into() })
    }
}

/// A tool of one server, by its identity.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTool {
    /// The server's id.
    pub server: String,
    /// The raw name that the server gave the tool.
    pub tool: String,
}

/// A provider's error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    /// HTTP status.
    pub status: u16,
    /// The provider's words.
    pub message: String,
    /// Milliseconds that the provider wants to be left alone. With it the request may be answered another time, and
    /// is sent again if the step said nothing before; the next try plays the next step.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

impl From<ScriptedError> for ModelError {
    fn from(error: ScriptedError) -> Self {
        let ScriptedError { status, message, retry_after_ms } = error;
        match retry_after_ms.map(Duration::from_millis) {
            None => Self::Provider { status, message },
            Some(wait) => Self::Busy { status, message, retry_after: Some(wait) },
        }
    }
}

/// A model that plays its steps in order, one for each run, whoever asks.
pub struct ScriptedModel {
    steps: Vec<Step>,
    next: AtomicUsize,
    requests: Mutex<VecDeque<ModelRequest>>,
}

impl ScriptedModel {
    /// A model that plays these steps. A call by server is found among the tools that the request shows; one that is
    /// not shown goes out under its raw name, so that the runtime answers that there is no such tool.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps, next: AtomicUsize::new(0), requests: Mutex::default() }
    }

    /// What the model was sent, oldest first: the last [`REQUESTS_KEPT`] requests.
    pub fn requests(&self) -> Vec<ModelRequest> {
        // A poisoned lock still holds whole requests: nothing is written in halves.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn remember(&self, request: ModelRequest) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == REQUESTS_KEPT {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    fn wire_name(&self, tool: &ToolRef, surface: &SurfaceView) -> String {
        match tool {
            ToolRef::Name(name) => name.clone(),
            ToolRef::Of(ServerTool { server, tool }) => {
                let identity = identity_digits(server, tool);
                let shown = surface.tools.iter().find(|shown| shown.name.ends_with(&identity));
                shown.map_or_else(|| tool.clone(), |shown| shown.name.clone())
            }
        }
    }

    fn playback(&self, step: &Step, surface: &SurfaceView) -> Playback {
        let mut beats = VecDeque::new();
        let mut play = |event| beats.push_back(Beat { after: Duration::ZERO, event });
        for (index, call) in (0..).zip(&step.calls) {
            let name = self.wire_name(&call.tool, surface);
            play(Ok(ModelEvent::CallStart { index, provider_id: None, name }));
            for arguments in halves(&call.arguments.to_string()) {
                play(Ok(ModelEvent::CallDelta { index, arguments }));
            }
        }
        if let Some(error) = step.error.clone() {
            play(Err(error.into()));
        } else if !step.hang {
            play(Ok(ModelEvent::Finish(step.finish.unwrap_or(FinishReason::Stop))));
        }
        for beat in spoken(step).into_iter().rev() {
            beats.push_front(beat);
        }
        if let (Some(first), Some(delay)) = (beats.front_mut(), step.delay_ms) {
            first.after = Duration::from_millis(delay);
        }
        let after = if step.hang && step.error.is_none() { AfterLast::Silence } else { AfterLast::End };
        Playback { beats, waiting: None, after }
    }
}

impl std::fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedModel").field("steps", &self.steps).field("next", &self.next).finish()
    }
}

impl Model for ScriptedModel {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let surface = request.surface.clone();
        self.remember(request);
        let used_up = Step::text("The script has no more steps.");
        let step = self.steps.get(self.next.fetch_add(1, Ordering::Relaxed)).unwrap_or(&used_up);
        Box::pin(self.playback(step, &surface))
    }
}

/// The text of a step: one word at a time if the step sets a pace, else in larger pieces.
fn spoken(step: &Step) -> Vec<Beat> {
    let pace = Duration::from_millis(step.chunk_ms.unwrap_or(0));
    let chunk = if step.chunk_ms.is_some() { 1 } else { CHUNK_CHARS };
    let pieces = pieces(step.text.as_deref().unwrap_or_default(), chunk);
    let beat = |(place, text): (usize, String)| {
        let after = if place == 0 { Duration::ZERO } else { pace };
        Beat { after, event: Ok(ModelEvent::Text(text)) }
    };
    pieces.into_iter().enumerate().map(beat).collect()
}

/// Cuts a text after blanks, into pieces that reach `chunk` characters; a word longer than a piece is cut as well.
fn pieces(text: &str, chunk: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let (mut piece, mut chars) = (String::new(), 0);
    for c in text.chars() {
        piece.push(c);
        chars += 1;
        if (c.is_whitespace() && chars >= chunk) || chars >= 2 * CHUNK_CHARS {
            pieces.push(std::mem::take(&mut piece));
            chars = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// A text in two parts, as a provider would send arguments; a single character stays whole.
fn halves(text: &str) -> Vec<String> {
    let middle = text.char_indices().map(|(at, _)| at).find(|at| *at >= text.len() / 2).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second].into_iter().filter(|half| !half.is_empty()).map(str::to_owned).collect()
}

/// One event, and how long after the one before it.
#[derive(Debug)]
struct Beat {
    after: Duration,
    event: Result<ModelEvent, ModelError>,
}

/// What follows the last beat.
#[derive(Debug, Clone, Copy)]
enum AfterLast {
    End,
    Silence,
}

/// The stream of one step. Waits on Tokio's clock, and holds nothing that outlives it.
#[derive(Debug)]
struct Playback {
    beats: VecDeque<Beat>,
    waiting: Option<Pin<Box<Sleep>>>,
    after: AfterLast,
}

impl Stream for Playback {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(beat) = self.beats.front_mut() {
            let after = std::mem::take(&mut beat.after);
            if !after.is_zero() {
                self.waiting = Some(Box::pin(tokio::time::sleep(after)));
            }
        }
        if let Some(sleep) = &mut self.waiting {
            ready!(sleep.as_mut().poll(cx));
            self.waiting = None;
        }
        match (self.beats.pop_front(), self.after) {
            (Some(beat), _) => Poll::Ready(Some(beat.event)),
            (None, AfterLast::End) => Poll::Ready(None),
            (None, AfterLast::Silence) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
