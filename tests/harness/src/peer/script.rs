//! What a scripted server offers, as it is written in a script.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::{Fault, HttpScript};

/// Everything that a scripted server does.
///
/// ```
/// use pilothouse_harness::peer::Script;
/// let script: Script = r#"{"tools": [{"name": "add", "echo": true}], "page_size": 10}"#.parse()?;
/// assert_eq!(script.tools.len(), 1);
/// # Ok::<(), pilothouse_harness::peer::ScriptError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The tools, in the order in which they are listed; names may repeat.
    pub tools: Vec<ScriptTool>,
    /// Tools on one page of the listing (default: all).
    pub page_size: Option<NonZeroUsize>,
    /// Which generations of the protocol it speaks.
    pub protocol: Protocol,
    /// The versions that it speaks, instead of all that its `protocol` has.
    pub versions: Option<Vec<String>>,
    /// Its capabilities, instead of tools that say when they change.
    pub capabilities: Option<Value>,
    /// What it tells a model about itself.
    pub instructions: Option<String>,
    /// How long its listing is good, in milliseconds (2026-07-28 only).
    pub ttl_ms: u64,
    /// Whether its listing may be shared: `public` or `private` (2026-07-28 only).
    pub cache_scope: CacheScope,
    /// How it is there over HTTP.
    pub http: HttpScript,
    /// How it misbehaves. Of faults of one kind that exclude each other, the last one holds.
    pub faults: Vec<Fault>,
}

/// Which generations of the protocol a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Those with `initialize`, up to 2025-11-25.
    #[default]
    Legacy,
    /// Those with metadata in every request, from 2026-07-28.
    Modern,
    /// All.
    Both,
}

/// Who may share what was cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// Nobody.
    #[default]
    Private,
    /// Everybody.
    Public,
}

impl CacheScope {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// Why something is not a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer's script is wrong at `{field}`: {reason}")]
pub struct ScriptError {
    /// Where, as a path: `tools[0].name`; `.` for the whole.
    pub field: String,
    /// What is wrong there.
    pub reason: String,
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let error = |error: serde_json::Error| ScriptError { field: ".".into(), reason: error.to_string() };
        Self::try_from(serde_json::from_str::<Value>(text).map_err(error)?)
    }
}

impl TryFrom<Value> for Script {
    type Error = ScriptError;

    fn try_from(value: Value) -> Result<Self, ScriptError> {
        serde_path_to_error::deserialize(value).map_err(|error| ScriptError {
            field: error.path().to_string(),
            reason: error.into_inner().to_string(),
        })
    }
}

/// One tool of the server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "ToolFields")]
pub struct ScriptTool {
    /// Its raw name.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// The schema of its arguments, also a wrong one (default: any object).
    pub schema: Value,
    /// Its hints.
    pub annotations: Option<Value>,
    /// What a call answers.
    pub answer: ToolAnswer,
    /// Whether the answer is the tool's own "no" (`isError`).
    pub fails: bool,
    /// How long a call takes.
    pub delay: Duration,
    /// The schema of its structured content.
    pub output_schema: Option<Value>,
    /// Its structured content, also a wrong one.
    pub structured: Option<Value>,
    /// Whether a call is a task: it is answered at once, and its result is fetched. Before 2026-07-28 only for a client
    /// that asks for one.
    pub task: bool,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolAnswer {
    /// Its arguments, as JSON text.
    Echo,
    /// These content blocks, as they are.
    Content(Vec<Value>),
}

impl ToolAnswer {
    /// One block of text.
    pub fn text(text: &str) -> Self {
        Self::Content(vec![json!({"type": "text", "text": text})])
    }
}

/// A tool's fields as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFields {
    name: String,
    description: Option<String>,
    schema: Option<Value>,
    annotations: Option<Value>,
    reply: Option<Reply>,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    fails: bool,
    delay_ms: Option<u64>,
    output_schema: Option<Value>,
    structured: Option<Value>,
    #[serde(default)]
    task: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a reply is a text, or an array of content blocks")]
enum Reply {
    Text(String),
    Content(Vec<Value>),
}

impl TryFrom<ToolFields> for ScriptTool {
    type Error = String;

    fn try_from(fields: ToolFields) -> Result<Self, String> {
        let answer = match (fields.reply, fields.echo) {
            (Some(_), true) => return Err("a tool has `reply` or `echo`, not both".to_owned()),
            (None, true) => ToolAnswer::Echo,
            (Some(Reply::Content(blocks)), false) => ToolAnswer::Content(blocks),
            (Some(Reply::Text(text)), false) => ToolAnswer::text(&text),
            (None, false) => ToolAnswer::text("done"),
        };
        Ok(Self {
            name: fields.name,
            description: fields.description,
            schema: fields.schema.unwrap_or_else(|| json!({"type": "object"})),
            annotations: fields.annotations,
            answer,
            fails: fields.fails,
            delay: Duration::from_millis(fields.delay_ms.unwrap_or(0)),
            output_schema: fields.output_schema,
            structured: fields.structured,
            task: fields.task,
        })
    }
}
