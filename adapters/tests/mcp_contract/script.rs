//! A scripted server: plain JSON-RPC, the same over pipes and over standard streams.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::modern::Modern;
use pilothouse_adapters::mcp::InMemoryServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// Names the script for a re-executed test binary.
pub(crate) const SCRIPT: &str = "PILOTHOUSE_TEST_SCRIPT";

/// Holds a key that the server was given.
pub(crate) const KEY: &str = "PILOTHOUSE_TEST_KEY";

fn key() -> String {
    std::env::var(KEY).unwrap_or_default()
}

/// What a server does in answer to a line.
pub(crate) enum Step {
    Say(String),
    Cry(String),
    StopReading,
    Die(i32),
}

/// A server's memory.
pub(crate) struct Script {
    name: String,
    cancelled: Vec<Value>,
    asked_by: Value,
    answers: Vec<String>,
    modern: Option<Modern>,
}

pub(crate) fn say(message: &Value) -> Step {
    Step::Say(format!("{message}\n"))
}

pub(crate) fn result(id: &Value, result: Value) -> Step {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub(crate) fn error(id: &Value, message: &str) -> Step {
    say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}}))
}

pub(crate) fn text(id: &Value, text: impl Into<String>) -> Step {
    result(id, json!({"content": [{"type": "text", "text": text.into()}]}))
}

impl Script {
    pub(crate) fn new(name: &str) -> Self {
        let modern = name.starts_with("modern").then(|| Modern::new(name));
        let name = name.to_owned();
        Self { name, cancelled: Vec::new(), asked_by: Value::Null, answers: Vec::new(), modern }
    }

    pub(crate) fn steps(&mut self, line: &str) -> Vec<Step> {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return vec![Step::Die(99)];
        };
        if let Some(modern) = &mut self.modern {
            return modern.steps(&message);
        }
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => self.greet(id),
            Some("server/discover") => self.discover(id),
            Some("tasks/get") => vec![result(id, json!({"taskId": "t1", "status": "completed"}))],
            Some("tasks/result") => vec![text(id, format!("result of {}", message["params"]["taskId"]))],
            Some("tools/list") => self.list(id, &message["params"]["cursor"]),
            Some("tools/call") => self.call(id, &message["params"]),
            Some("notifications/cancelled") => {
                self.cancelled.push(message["params"]["requestId"].clone());
                vec![]
            }
            Some(_) => vec![],
            None => self.collect(&message),
        }
    }

    /// As legacy servers answer what they do not know.
    fn discover(&self, id: &Value) -> Vec<Step> {
        match self.name.as_str() {
            "silent" | "mute when discovered" => vec![],
            "rambling" => self.greet(id),
            "ends when discovered" => vec![Step::Die(5)],
            "answers nonsense" => vec![result(id, json!({}))],
            _ => vec![say(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}}),
            )],
        }
    }

    fn greet(&self, id: &Value) -> Vec<Step> {
        let version = self.name.strip_prefix("version ").unwrap_or("2025-06-18");
        let capabilities = match self.name.as_str() {
            "toolless" => json!({}),
            "tasking" => json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}),
            _ => json!({"tools": {"listChanged": true}}),
        };
        let greeting = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
        });
        match self.name.as_str() {
            "silent" => vec![],
            "misshapen" => vec![result(id, json!({"protocolVersion": version}))],
            "refusing" => vec![error(id, "not today")],
            "misshapen at length" => {
                let version = format!("{}{}", key(), "x".repeat(1 << 20));
                vec![result(id, json!({"protocolVersion": version, "capabilities": {}}))]
            }
            "telling" => vec![error(id, &format!("no account for {}", key()))],
            "rambling" => vec![
                Step::Say("Usage: scripted\n\n[1,\n".to_owned()),
                Step::Cry("bad flag".to_owned()),
                Step::Die(2),
            ],
            _ => vec![result(id, greeting)],
        }
    }

    fn list(&self, id: &Value, cursor: &Value) -> Vec<Step> {
        if self.name == "toolless" {
            return vec![Step::Die(98)];
        }
        match cursor.as_str() {
            None if self.name.starts_with("task") => {
                let slow = json!({"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}});
                vec![result(id, json!({"tools": [slow]}))]
            }
            None => vec![result(id, json!({"tools": first_page(), "nextCursor": "second"}))],
            Some("second") => {
                vec![result(id, json!({"tools": second_page(), "ttlMs": 60_000, "cacheScope": "private"}))]
            }
            Some(_) => vec![Step::Die(97)],
        }
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Step> {
        let arguments = &params["arguments"];
        match params["name"].as_str().unwrap_or_default() {
            "echo" => vec![text(id, arguments["text"].as_str().unwrap_or_default())],
            "size" => vec![text(id, arguments.to_string().len().to_string())],
            "meta" => {
                let mut meta = params["_meta"].clone();
                meta.as_object_mut().map(|meta| meta.remove("progressToken"));
                vec![text(id, meta.to_string())]
            }
            "fails" => {
                vec![result(id, json!({"content": [{"type": "text", "text": "no"}], "isError": true}))]
            }
            "changes" => {
                let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                vec![say(&notice), say(&notice), text(id, "changed")]
            }
            "mumbles" => mumble(id),
            // Much is still in the pipes when the process is gone.
            "dies" => vec![Step::Cry(format!("{}about to die", "why\n".repeat(10_000))), Step::Die(3)],
            "answers and dies" => {
                let noise =
                    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hello"}});
                vec![Step::Say(format!("{noise}\n").repeat(700)), text(id, "last answer"), Step::Die(0)]
            }
            "hangs" => vec![],
            "slow" if params["task"].is_object() => {
                let task = json!({"taskId": "t1", "status": "working", "ttl": 60_000, "pollInterval": 50});
                vec![result(id, json!({"task": task}))]
            }
            "slow" => vec![Step::Die(95)],
            "progresses" => {
                let token = &params["_meta"]["progressToken"];
                let told = |progress: f64| {
                    let params = json!({"progressToken": token, "progress": progress});
                    say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                };
                // The first one may overtake the caller's own bookkeeping.
                vec![told(0.5), told(1.0), told(3.0), told(2.0)]
            }
            "answers what was cancelled" => {
                let late = self.cancelled.iter().map(|id| text(id, "late"));
                late.chain([text(id, "done")]).collect()
            }
            "cancelled" => vec![text(id, json!(self.cancelled).to_string())],
            "asks" => self.ask(id),
            "stops reading" => vec![text(id, "not another line"), Step::StopReading],
            "floods" => vec![Step::Say("x".repeat(17 << 20))],
            "tells its secret" => {
                let key = key();
                vec![Step::Cry(format!("invalid API key {key}")), error(id, &format!("{key} is no key"))]
            }
            "dies of its secret" => vec![Step::Cry(format!("cannot use {}", key())), Step::Die(4)],
            "refuses at length" => vec![error(id, &"no, ".repeat(1 << 20))],
            "hostile" => vec![many_pieces(id, 2_000_000)],
            "many pieces" => vec![many_pieces(id, 100_000)],
            "batches" => vec![say(&json!(vec![json!({"jsonrpc": "2.0", "method": "x"}); 1_001]))],
            "pid" => vec![text(id, std::process::id().to_string())],
            "environment" => {
                let names: Vec<_> =
                    std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                vec![text(id, json!(names).to_string())]
            }
            other => vec![say(&json!({
                "jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": format!("unknown tool {other}")},
            }))],
        }
    }

    /// Asks the client everything that a server may ask, and some things that it may not.
    fn ask(&mut self, id: &Value) -> Vec<Step> {
        self.asked_by = id.clone();
        let ask = |id: &str, method: &str, params: Value| {
            say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        vec![
            ask("ping", "ping", json!({})),
            ask("roots", "roots/list", json!({})),
            ask("sampling", "sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
            ask(
                "elicitation",
                "elicitation/create",
                json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
            ),
            ask("unknown", "no/such/method", json!({})),
            ask("misshapen", "sampling/createMessage", json!(7)),
        ]
    }

    fn collect(&mut self, answer: &Value) -> Vec<Step> {
        let who = answer["id"].as_str().unwrap_or("?");
        let what = match &answer["error"]["code"] {
            Value::Null => answer["result"].to_string(),
            code => code.to_string(),
        };
        self.answers.push(format!("{who}: {what}"));
        if self.answers.len() < 6 {
            return vec![];
        }
        self.answers.sort();
        vec![text(&self.asked_by, self.answers.join("\n"))]
    }
}

pub(crate) fn first_page() -> Value {
    json!([
        {"name": "echo", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}, "x-new": 1},
        {"name": 7, "inputSchema": "broken"},
    ])
}

pub(crate) fn second_page() -> Value {
    json!([{"name": "fails", "inputSchema": {"type": "object"}}])
}

/// Small pieces, each of which takes a hundred times its size once it is read.
fn many_pieces(id: &Value, count: usize) -> Step {
    let pieces = r#"{"a":0},"#.repeat(count);
    Step::Say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{pieces}0]}}}}\n"))
}

/// Everything that a server may write by mistake before its answer; the answer has a BOM, a broken character and CRLF.
fn mumble(id: &Value) -> Vec<Step> {
    let junk = ["starting up", "{\"half\":", "42", "{}", "[1]"].map(|line| Step::Say(format!("{line}\n")));
    let quiet = Step::Say("\r\n\n".to_owned());
    let notice =
        say(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hello"}}));
    let unasked = result(&json!("nobody"), json!({}));
    let answer = json!({"jsonrpc": "2.0", "id": id.to_string(), "result": {"content": [{"type": "text", "text": "clear"}]}});
    junk.into_iter().chain([quiet, notice, unasked, Step::Say(format!("\u{feff}[{answer}]\r\n"))]).collect()
}

/// The script as a server inside this process.
pub(crate) struct Inside {
    pub(crate) name: &'static str,
    /// Set when the server has seen the end of its input.
    pub(crate) left: Arc<AtomicBool>,
}

impl InMemoryServer for Inside {
    fn open(&self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (output, input) = tokio::io::split(ours);
        tokio::spawn(serve_inside(Script::new(self.name), theirs, self.left.clone()));
        (Box::new(output), Box::new(input))
    }
}

async fn serve_inside(mut script: Script, pipe: tokio::io::DuplexStream, left: Arc<AtomicBool>) {
    let (input, mut output) = tokio::io::split(pipe);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        for step in script.steps(&line) {
            match step {
                Step::Say(text) => {
                    if output.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Step::Cry(_) => {}
                Step::StopReading => std::future::pending::<()>().await,
                Step::Die(_) => return,
            }
        }
    }
    left.store(true, Ordering::Release);
    if script.name == "deaf" {
        std::future::pending::<()>().await;
    }
}

/// The script as the process that runs it. Never returns.
pub(crate) fn serve_process(name: &str) -> ! {
    let mut script = Script::new(name);
    // The test runner has written half a line already.
    println!();
    if let Some(path) = name.strip_prefix("silent ") {
        std::fs::write(path, std::process::id().to_string()).unwrap();
        script = Script::new("silent");
    }
    for line in std::io::stdin().lock().lines() {
        for step in script.steps(&line.unwrap()) {
            match step {
                Step::Say(text) => {
                    let mut output = std::io::stdout().lock();
                    output.write_all(text.as_bytes()).unwrap();
                    output.flush().unwrap();
                }
                Step::Cry(text) => eprintln!("{text}"),
                Step::StopReading => std::thread::sleep(std::time::Duration::from_secs(1_000)),
                Step::Die(code) => std::process::exit(code),
            }
        }
    }
    if name == "deaf" {
        std::thread::sleep(std::time::Duration::from_secs(1_000));
    }
    std::process::exit(0)
}
