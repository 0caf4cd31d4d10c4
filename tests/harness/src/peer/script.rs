//! What a scripted server offers and how it misbehaves, as it is written in a script.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

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
    /// How it misbehaves. Of faults of one kind that exclude each other, the last one holds.
    pub faults: Vec<Fault>,
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
        })
    }
}

/// One way to misbehave, written as an object with one key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `{"silence": "connect"}`: never answers these requests. A call is run and counted all the same.
    Silence(Silence),
    /// `{"delay_ms": 200}`: every answer comes this much later; answers do not wait for each other.
    DelayMs(u64),
    /// `{"exit_after": 3}`: the connection ends once it has answered this many requests of any kind.
    ExitAfter(u64),
    /// `{"exit_on_call": "add"}`: the connection ends when this tool is called; the call is counted, not answered.
    ExitOnCall(String),
    /// `{"junk_line": "hello"}`: this text is a line of its own before every answer.
    JunkLine(String),
    /// `{"bad_tool": true}`: the listing ends with a tool that has neither a text for its name nor a schema.
    BadTool(bool),
    /// `{"repeat_cursor": true}`: every page of the listing is the first one, and names the same next page.
    RepeatCursor(bool),
    /// `{"list_changed_after_ms": 50}`: says once that its tools changed, so long after it was told `initialized`.
    ListChangedAfterMs(u64),
    /// `{"add_tool_after_list": {"name": "late"}}`: this tool is there once a listing was read to its end, over
    /// all connections.
    AddToolAfterList(Box<ScriptTool>),
    /// `{"count_file": "/tmp/runs"}`: each execution appends its tool's name to this file, as one line.
    CountFile(PathBuf),
}

/// Which requests are never answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// The handshake: `initialize` and `server/discover`.
    Connect,
    /// `tools/list`.
    List,
    /// `tools/call`.
    Call,
    /// Every request, `ping` included.
    All,
}

/// All faults of a script together.
#[derive(Debug, Default)]
pub(super) struct Behaviour {
    pub(super) silence: Vec<Silence>,
    pub(super) delay: Duration,
    pub(super) exit_after: Option<u64>,
    pub(super) exit_on_call: Vec<String>,
    pub(super) junk: String,
    pub(super) bad_tool: bool,
    pub(super) repeat_cursor: bool,
    pub(super) list_changed_after: Option<Duration>,
    pub(super) late_tools: Vec<ScriptTool>,
    pub(super) count_file: Option<PathBuf>,
}

impl Behaviour {
    pub(super) fn of(faults: &[Fault]) -> Self {
        let mut all = Self::default();
        for fault in faults {
            match fault {
                Fault::Silence(which) => all.silence.push(*which),
                Fault::DelayMs(ms) => all.delay = Duration::from_millis(*ms),
                Fault::ExitAfter(answers) => all.exit_after = Some(*answers),
                Fault::ExitOnCall(tool) => all.exit_on_call.push(tool.clone()),
                Fault::JunkLine(text) => all.junk = format!("{}{text}\n", all.junk),
                Fault::BadTool(on) => all.bad_tool = *on,
                Fault::RepeatCursor(on) => all.repeat_cursor = *on,
                Fault::ListChangedAfterMs(ms) => all.list_changed_after = Some(Duration::from_millis(*ms)),
                Fault::AddToolAfterList(tool) => all.late_tools.push((**tool).clone()),
                Fault::CountFile(path) => all.count_file = Some(path.clone()),
            }
        }
        all
    }

    /// Whether requests of this method are never answered.
    pub(super) fn is_silent(&self, method: &str) -> bool {
        self.silence.iter().any(|silence| match silence {
            Silence::Connect => matches!(method, "initialize" | "server/discover"),
            Silence::List => method == "tools/list",
            Silence::Call => method == "tools/call",
            Silence::All => true,
        })
    }
}
