//! Models: what a request holds and what a stream brings back.

use serde::{Deserialize, Serialize};

use crate::call::CallResult;
use crate::id::CallId;
use crate::json::JsonText;
use crate::tool::SurfaceView;

/// Everything that one model step is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The conversation so far, oldest first; every call has exactly one result.
    pub history: Vec<HistoryItem>,
    /// The tools that the topic shows.
    pub surface: std::sync::Arc<SurfaceView>,
    /// What a system prompt says about tools that are found by search; the same bytes as long as the surface is pinned.
    pub tool_notes: Option<String>,
    /// Tools that came after the surface was pinned. It belongs behind the history, so that whatever comes before it
    /// keeps its bytes; the next request brings it again.
    pub late_tools: Option<String>,
}

impl ModelRequest {
    /// A request over this history and surface.
    pub fn new(history: Vec<HistoryItem>, surface: std::sync::Arc<SurfaceView>) -> Self {
        let tool_notes = surface.section.clone();
        Self { history, surface, tool_notes, late_tools: None }
    }
}

/// One item of a conversation, in an order that every provider accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryItem {
    /// What a person wrote.
    User {
        /// The text.
        text: String,
    },
    /// What the model said, and the calls that it asked for.
    Assistant {
        /// The text; may be empty when there are calls.
        text: String,
        /// The calls, in order.
        calls: Vec<HistoryCall>,
    },
    /// The result of one call.
    Tool {
        /// The call.
        call: CallId,
        /// Its result.
        result: CallResult,
    },
}

/// One call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCall {
    /// Our id.
    pub call: CallId,
    /// The wire name.
    pub name: String,
    /// The arguments as they were sent.
    pub arguments: JsonText,
}

/// One piece of a model's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// More of the answer.
    Text(String),
    /// More of the reasoning; shown, never stored as history.
    Reasoning(String),
    /// A tool call begins.
    CallStart {
        /// Its place among the calls of this reply.
        index: u32,
        /// The provider's own id; data only.
        provider_id: Option<String>,
        /// The wire name.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    CallDelta {
        /// The call's place.
        index: u32,
        /// The text to append.
        arguments: String,
    },
    /// Tokens used by this reply so far; each replaces the one before it.
    Usage(Usage),
    /// The reply is complete.
    Finish(FinishReason),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had nothing more to say, or asks for tools.
    Stop,
    /// It ran into its output limit.
    Length,
    /// It, or its provider, refused.
    Refused,
}

/// Whose rules the schemas of a tool block keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Accepted by OpenAI (not strict), Anthropic and Gemini alike: what a surface shows by default.
    ///
    /// `null` is said as OpenAPI says it, `"nullable": true`.
    #[default]
    Common,
    /// OpenAI's functions with `"strict": false`.
    OpenAi,
    /// OpenAI's functions with `"strict": true`: every object is closed, every property required, and what was optional
    /// may be null. The nulls are taken out of a call's arguments before anybody judges them.
    OpenAiStrict,
    /// Anthropic's `input_schema`.
    Anthropic,
    /// Gemini's `parameters`, a part of OpenAPI 3.0. `null` is said by `"nullable": true`.
    Gemini,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 5] =
        [Self::Common, Self::OpenAi, Self::OpenAiStrict, Self::Anthropic, Self::Gemini];
}

/// What a model can hold and write, in tokens; `None` where nobody knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Tokens of a request and its reply together.
    pub context_window: Option<u64>,
    /// Tokens of one reply.
    pub max_output: Option<u64>,
}

impl ModelLimits {
    /// These limits.
    pub fn new(context_window: Option<u64>, max_output: Option<u64>) -> Self {
        Self { context_window, max_output }
    }
}

/// Tokens of one reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

impl Usage {
    /// Both together; a sum that is too large stays at its largest.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}
