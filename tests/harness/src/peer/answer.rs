//! What a scripted server says to one request.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::{Hold, Live, ScriptTool, State, ToolAnswer};

/// The versions that the peer speaks; the last one is what it offers to a client that asks for another.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// One request as it came.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
}

/// What follows from a request.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// This response.
    Say(Value),
    /// No response, ever.
    Silence,
    /// The end of the connection.
    Exit,
}

/// What a method says: its result, or a JSON-RPC error.
enum Said {
    Result(Value),
    Error(i64, String),
    Silence,
    Exit,
}

/// Answers one request, with the delays and silences of the script at this time.
pub(super) async fn answer(state: &State, request: Request) -> Answer {
    let live = state.live();
    let said = said(state, &live, &request).await;
    if !live.behaviour.delay.is_zero() {
        tokio::time::sleep(live.behaviour.delay).await;
    }
    let Request { id, .. } = request;
    match said {
        Said::Result(result) => Answer::Say(json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Said::Error(code, message) => Answer::Say(error(id, code, &message)),
        Said::Silence => Answer::Silence,
        Said::Exit => Answer::Exit,
    }
}

/// A JSON-RPC error response.
pub(super) fn error(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

async fn said(state: &State, live: &Live, request: &Request) -> Said {
    let Request { method, params, .. } = request;
    if method == "tools/call" {
        return call(state, live, params).await;
    }
    if live.behaviour.is_silent(method) {
        return Said::Silence;
    }
    match method.as_str() {
        "initialize" => Said::Result(initialize(params)),
        "ping" => Said::Result(json!({})),
        "tools/list" => list(state, live, params),
        other => Said::Error(METHOD_NOT_FOUND, format!("there is no method \"{other}\"")),
    }
}

fn initialize(params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let [.., newest] = VERSIONS;
    let version = asked.filter(|asked| VERSIONS.contains(asked)).unwrap_or(newest);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "pilothouse-peer", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// One page. A cursor is the place of the page's first tool.
fn list(state: &State, live: &Live, params: &Value) -> Said {
    let mut tools: Vec<Value> = offered(state, live).map(shown).collect();
    if live.behaviour.bad_tool {
        tools.push(json!({"name": 17, "inputSchema": "none"}));
    }
    let size = live.script.page_size.map_or(usize::MAX, std::num::NonZeroUsize::get);
    if live.behaviour.repeat_cursor {
        tools.truncate(size);
        return Said::Result(json!({"tools": tools, "nextCursor": "0"}));
    }
    let first = match params.get("cursor") {
        None | Some(Value::Null) => Some(0),
        Some(cursor) => cursor.as_str().and_then(|text| text.parse::<usize>().ok()),
    };
    let Some(first) = first.filter(|first| *first <= tools.len()) else {
        return Said::Error(INVALID_PARAMS, "there is no such cursor".to_owned());
    };
    let mut rest = tools.split_off(first);
    if rest.len() > size {
        rest.truncate(size);
        return Said::Result(json!({"tools": rest, "nextCursor": (first + size).to_string()}));
    }
    state.listed.store(true, Ordering::Release);
    Said::Result(json!({"tools": rest}))
}

/// The tools that are there now: the script's, and the late ones once a listing was read to its end.
fn offered<'a>(state: &State, live: &'a Live) -> impl Iterator<Item = &'a ScriptTool> {
    let late: &[ScriptTool] =
        if state.listed.load(Ordering::Acquire) { &live.behaviour.late_tools } else { &[] };
    live.script.tools.iter().chain(late)
}

fn shown(tool: &ScriptTool) -> Value {
    let mut shown = Map::new();
    shown.insert("name".into(), json!(tool.name));
    shown.insert("inputSchema".into(), tool.schema.clone());
    if let Some(description) = &tool.description {
        shown.insert("description".into(), json!(description));
    }
    if let Some(annotations) = &tool.annotations {
        shown.insert("annotations".into(), annotations.clone());
    }
    Value::Object(shown)
}

async fn call(state: &State, live: &Live, params: &Value) -> Said {
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Said::Error(INVALID_PARAMS, "a call names its tool".to_owned());
    };
    let Some(tool) = offered(state, live).find(|tool| tool.name == name) else {
        return Said::Result(result(&ToolAnswer::text(&format!("there is no tool \"{name}\"")), true));
    };
    state.remember(params);
    state.executions.count(name);
    if let Some(Err(error)) = live.behaviour.count_file.as_deref().map(|path| count_in(path, name)) {
        let words = format!("the count file cannot be written: {error}");
        return Said::Result(result(&ToolAnswer::text(&words), true));
    }
    if live.behaviour.exit_on_call.iter().any(|tool| tool == name) {
        return Said::Exit;
    }
    // An error would mean that the sender is gone, and `state` holds it.
    let mut held = state.held.subscribe();
    let _held_by_state = held.wait_for(|hold| *hold == Hold::Open).await.is_ok();
    if !tool.delay.is_zero() {
        tokio::time::sleep(tool.delay).await;
    }
    if live.behaviour.is_silent("tools/call") {
        return Said::Silence;
    }
    let answer = match &tool.answer {
        ToolAnswer::Echo => {
            let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            ToolAnswer::text(&arguments.to_string())
        }
        ToolAnswer::Content(blocks) => ToolAnswer::Content(blocks.clone()),
    };
    Said::Result(result(&answer, tool.fails))
}

fn result(answer: &ToolAnswer, is_error: bool) -> Value {
    let content = match answer {
        ToolAnswer::Content(blocks) => blocks.as_slice(),
        ToolAnswer::Echo => &[],
    };
    json!({"content": content, "isError": is_error})
}

/// One short line, in one write, so that several processes may share the file.
fn count_in(path: &Path, tool: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    file.write_all(format!("{tool}\n").as_bytes())
}
