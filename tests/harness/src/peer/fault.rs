//! Every way in which a scripted server can misbehave, as it is written in a script.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::script::ScriptTool;

mod http;
mod on;

pub use http::{Hang, HttpFault, Reset, StreamEnd};
pub use on::On;

/// One way to misbehave, written as an object with one key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `{"silence": ON}`: never answers these requests. A call is run and counted all the same.
    Silence(On),
    /// `{"delay_ms": 200}`: every answer comes this much later; answers do not wait for each other.
    DelayMs(u64),
    /// `{"delay": {"on": ON, "ms": 200}}`: these answers come this much later.
    Delay(DelayFault),
    /// `{"error": {"on": ON, "code": -32603, "message": "no"}}`: these requests are refused and not run.
    Error(ErrorFault),
    /// `{"result": {"on": ON, "result": VALUE}}`: these requests get this result, whatever it is; a call is run first.
    Result(ResultFault),
    /// `{"answer_id": {"on": ON, "as": "null"}}`: these answers carry another id.
    AnswerId(IdFault),
    /// `{"huge": {"on": ON, "mib": 20}}`: the result of these calls is one text of so many MiB.
    Huge(SizeFault),
    /// `{"say": {"on": ON, "text": "hello\n"}}` or `{"message": VALUE}`: written before these answers.
    Say(SayFault),
    /// `{"no_newline": {"on": ON, "mib": 200}}`: one line of so many MiB comes before these answers.
    NoNewline(SizeFault),
    /// `{"exit_after": 3}`: the connection ends once it has answered this many requests of any kind.
    ExitAfter(u64),
    /// `{"exit_on_call": "add"}`: the connection ends when this tool is called; the call is counted, not answered.
    ExitOnCall(String),
    /// `{"exit": {"on": ON, "status": 3}}`: the connection ends at these requests; the program with this status.
    Exit(ExitFault),
    /// `{"late_reply": {"on": ON, "ms": 100}}`: these requests are answered also after they were cancelled, so much
    /// later.
    LateReply(DelayFault),
    /// `{"progress": {"on": ON, "every_ms": 100, "times": 5}}`: says progress while these requests run.
    Progress(ProgressFault),
    /// `{"ask": {"what": "sampling", "on": ON}}`: asks the client, and waits for its answer; without `on` it asks once
    /// it was told `initialized`, and waits for nothing.
    Ask(AskFault),
    /// `{"echo_secret": {"env": NAME, "in": "result"}}`: tells what it was given for its own eyes.
    EchoSecret(EchoFault),
    /// `{"bad_tool": true}`: the listing ends with a tool that has neither a text for its name nor a schema.
    BadTool(bool),
    /// `{"repeat_cursor": true}`: every page of the listing is the first one, and names the same next page.
    RepeatCursor(bool),
    /// `{"cursor": "endless"}`: what the listing's pages say of their successors.
    Cursor(CursorFault),
    /// `{"many_tools": 1000000}`: so many tools more, named `tool_0` and so on.
    ManyTools(u64),
    /// `{"schema_bomb": {"kind": "deep", "size": 10000}}`: one more tool, `bomb`, with a schema that costs its reader.
    SchemaBomb(BombFault),
    /// `{"list_changed_after_ms": 50}`: says once that its tools changed, so long after it was told `initialized`.
    ListChangedAfterMs(u64),
    /// `{"list_changed_storm": {"count": 200}}`: says so many times that its tools changed.
    ListChangedStorm(StormFault),
    /// `{"list_changed_on_list": true}`: says that its tools changed each time that it is asked for them.
    ListChangedOnList(bool),
    /// `{"add_tool_after_list": {"name": "late"}}`: this tool is there once a listing was read to its end, over
    /// all connections.
    AddToolAfterList(Box<ScriptTool>),
    /// `{"swap_tools": {"on": ON, "tools": [TOOL…]}}`: once such a request came, these are its tools.
    SwapTools(SwapFault),
    /// `{"version": "2099-01-01"}`: the version that `initialize` answers whatever was asked; `null` for none.
    Version(Option<String>),
    /// `{"junk_line": "hello"}`: this text is a line of its own before every answer.
    JunkLine(String),
    /// `{"bom": "first"}`: a byte order mark stands before the first line, or before every one.
    Bom(Bom),
    /// `{"crlf": true}`: lines, also those of an event stream, end with CR LF.
    Crlf(bool),
    /// `{"newline": "cr"}`: how lines, also those of an event stream, end.
    Newline(Newline),
    /// `{"drip_ms": 1}`: one byte at a time, and so long between two.
    DripMs(u64),
    /// `{"stderr": {"kib": 200}}`: so much on standard error, at the start or at these requests (program only).
    Stderr(StderrFault),
    /// `{"grandchild": {"seconds": 600, "pid_file": PATH}}`: starts a child of its own that holds its pipes (program
    /// only).
    Grandchild(GrandchildFault),
    /// `{"ignore_eof": true}`: goes on when its input has ended (program only).
    IgnoreEof(bool),
    /// `{"ignore_sigterm": true}`: goes on when it is told to end (program only).
    IgnoreSigterm(bool),
    /// `{"count_file": "/tmp/runs"}`: each execution appends its tool's name to this file, as one line.
    CountFile(PathBuf),
    /// `{"http": {"on": ON, "status": 503}}`: what happens to these requests below the protocol (HTTP only).
    Http(Box<HttpFault>),
    /// `{"call_log": "/tmp/calls"}`: each execution appends its tool's name and arguments to this file, as one line of
    /// JSON.
    CallLog(PathBuf),
}

/// Answers that come later.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayFault {
    /// Which requests (default: all).
    #[serde(default)]
    pub on: On,
    /// How much, in milliseconds.
    pub ms: u64,
}

/// Requests that are refused.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorFault {
    /// Which requests.
    pub on: On,
    /// The JSON-RPC code.
    pub code: i64,
    /// What it says.
    #[serde(default)]
    pub message: String,
    /// What it says to programs.
    pub data: Option<Value>,
}

/// Results that are given as they are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultFault {
    /// Which requests.
    pub on: On,
    /// The result, also one of a wrong shape.
    pub result: Value,
}

/// Answers under another id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdFault {
    /// Which requests (default: all).
    #[serde(default)]
    pub on: On,
    /// Which id.
    #[serde(rename = "as")]
    pub id: AnswerId,
}

/// Which id an answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerId {
    /// One that nobody used.
    Wrong,
    /// That of the request before it.
    Previous,
    /// Its own, and the answer comes twice.
    Repeated,
    /// `null`.
    Null,
    /// None.
    Missing,
    /// Its own as a text.
    Text,
}

/// A size in MiB.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFault {
    /// Which requests (default: all).
    #[serde(default)]
    pub on: On,
    /// How much.
    pub mib: u64,
}

/// Something that is written before an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SayFault {
    /// Which requests.
    pub on: On,
    /// This text, as it is: it has no end of a line but its own.
    pub text: Option<String>,
    /// This message, as a line or an event.
    pub message: Option<Value>,
}

/// Requests at which the connection ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitFault {
    /// Which requests.
    pub on: On,
    /// The program's exit status.
    #[serde(default)]
    pub status: u8,
}

/// Progress while a request runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressFault {
    /// Which requests (default: all); those without a progress token get none.
    #[serde(default)]
    pub on: On,
    /// The time between two.
    pub every_ms: u64,
    /// How many (default: until the answer).
    pub times: Option<u64>,
}

/// What a server asks its client.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskFault {
    /// What it asks.
    pub what: AskKind,
    /// While which requests run; `None` for once, after `initialized`.
    pub on: Option<On>,
    /// The question's parameters, instead of good ones.
    pub params: Option<Value>,
}

/// What a server may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// `ping`.
    Ping,
    /// `roots/list`.
    Roots,
    /// `sampling/createMessage`.
    Sampling,
    /// `elicitation/create` with a form.
    Elicitation,
    /// `elicitation/create` with a URL.
    ElicitationUrl,
    /// A method that nobody knows.
    Unknown,
}

/// A secret that is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoFault {
    /// In which requests (default: every call).
    #[serde(default = "On::calls")]
    pub on: On,
    /// The value of this variable of its environment.
    pub env: Option<String>,
    /// The value of this header of the request (HTTP only).
    pub header: Option<String>,
    /// Where it is told.
    #[serde(rename = "in")]
    pub place: EchoPlace,
}

/// Where a secret is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EchoPlace {
    /// In the text of a result.
    Result,
    /// In the words of an error.
    Error,
    /// On standard error (program only).
    Stderr,
}

/// What pages of a listing say of their successors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CursorFault {
    /// Each page has one tool of its own and a cursor that nobody saw before.
    Endless,
    /// Every page is the first one, and names the same next page.
    Repeat,
    /// The cursor is an empty text.
    Empty,
}

/// A schema that costs its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BombFault {
    /// In which way.
    pub kind: Bomb,
    /// How much of it.
    pub size: u32,
}

/// How a schema costs its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bomb {
    /// Properties in properties, `size` deep.
    Deep,
    /// `size` properties side by side.
    Wide,
    /// Definitions that each name the next one twice: 2 to the power of `size` when written out.
    Refs,
}

/// Many notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StormFault {
    /// How many.
    pub count: u64,
    /// The time between two (default: none).
    #[serde(default)]
    pub gap_ms: u64,
    /// How long after `initialized` they begin (default: at once).
    #[serde(default)]
    pub after_ms: u64,
}

/// Other tools from some request on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwapFault {
    /// After which request.
    pub on: On,
    /// The tools.
    pub tools: Vec<ScriptTool>,
    /// Whether it says that they changed (default: no).
    #[serde(default)]
    pub announce: bool,
}

/// Where a byte order mark stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bom {
    /// Before the first line of a connection.
    First,
    /// Before every line.
    Every,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Newline {
    /// LF.
    Lf,
    /// CR LF.
    Crlf,
    /// CR.
    Cr,
}

/// Words on standard error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StderrFault {
    /// How much.
    pub kib: u64,
    /// At which requests; `None` for the start, before anything is read.
    pub on: Option<On>,
    /// Whether it is one line without an end (default: lines of 64 bytes).
    #[serde(default)]
    pub no_newline: bool,
}

/// A child of the server's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrandchildFault {
    /// How long it lives by itself.
    pub seconds: u64,
    /// Where its process id is written.
    pub pid_file: Option<PathBuf>,
}

/// What a listener for HTTP does when nothing is wrong.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpScript {
    /// The path of Streamable HTTP.
    pub path: String,
    /// The path of the event stream of HTTP+SSE.
    pub sse_path: String,
    /// Whether there are sessions; without them every request stands alone.
    pub sessions: bool,
    /// How requests are answered.
    pub answers: HttpAnswers,
    /// Whether there is a stream for `GET`; else 405.
    pub get: bool,
    /// The status for a session that is not known; `null` for no answer at all.
    pub unknown_session: Option<u16>,
    /// The status for a request without a session.
    pub no_session: u16,
    /// Whether events carry ids, and `Last-Event-ID` resumes a stream.
    pub event_ids: bool,
    /// The time after which a client is asked to come back (`retry` of an event stream).
    pub retry_ms: Option<u64>,
    /// Headers that a request must carry; another value gets 401.
    pub require: BTreeMap<String, String>,
    /// What a 401 says in `WWW-Authenticate`.
    pub authenticate: String,
}

impl Default for HttpScript {
    fn default() -> Self {
        Self {
            path: "/mcp".into(),
            sse_path: "/sse".into(),
            sessions: true,
            answers: HttpAnswers::Sse,
            get: true,
            unknown_session: Some(404),
            no_session: 400,
            event_ids: true,
            retry_ms: None,
            require: BTreeMap::new(),
            authenticate: "Bearer".into(),
        }
    }
}

/// How a request over HTTP is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpAnswers {
    /// As one JSON body; what the server says meanwhile goes to the stream of `GET`.
    Json,
    /// As an event stream that ends with the answer.
    Sse,
}

#[cfg(test)]
mod tests;
