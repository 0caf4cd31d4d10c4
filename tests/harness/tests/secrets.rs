//! No secret that a server is given, or gives, comes out anywhere: each is a canary, each is told back by its server.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse::mcp::{AskKind, Asks, InMemoryServer, Question, Reply};
use pilothouse::model::scripted::{ScriptedModel, Step, ToolRef};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::topic::{PermissionMode, TopicStatus};
use pilothouse::{Runtime as Whole, ServerHandle};
use pilothouse_harness::peer::{HttpKind, Peer, Script};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::{Instant, sleep};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that nobody may see again: the secrets, and what they become on their way.
const CANARIES: [&str; 15] = [
    "canary-env-1",
    "Y2FuYXJ5LWVudi0x",
    "canary-argument-1",
    "canary-header-1",
    "Y2FuYXJ5LWhlYWRlci0x",
    "canary%2Dpassword",
    "canary-password",
    // `ann:canary-password` as a request writes it.
    "YW5uOmNhbmFyeS1wYXNzd29yZA",
    "canary%2Dquery",
    "canary-query",
    "canary-state-1",
    "Y2FuYXJ5LXN0YXRlLTE",
    "canary-answer-1",
    "canary-session",
    "canary-harness-1",
];

/// What was written to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn install() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_env_filter(pilothouse::log_filter("trace"))
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    }
}

/// A modern server that asks, and then tells back its state and what it was answered.
struct Telling;

impl InMemoryServer for Telling {
    fn open(&self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (output, input) = tokio::io::split(ours);
        tokio::spawn(async move {
            let (input, mut out) = tokio::io::split(theirs);
            let mut lines = BufReader::new(input).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).expect("JSON");
                let Some(answer) = told(&message) else { continue };
                // A client that has gone hears nothing.
                let _ = out.write_all(format!("{answer}\n").as_bytes()).await;
            }
        });
        (Box::new(output), Box::new(input))
    }
}

fn told(message: &Value) -> Option<Value> {
    let (id, params) = (message.get("id")?, &message["params"]);
    let result = |result: Value| Some(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    match message["method"].as_str()? {
        "server/discover" => result(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}})),
        "tools/list" => result(json!({"resultType": "complete", "tools": [
            {"name": "ask", "inputSchema": {"type": "object"}}]})),
        "tools/call" if params["inputResponses"].is_null() => {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let form = json!({"message": "who?", "requestedSchema": schema});
            result(json!({"resultType": "input_required", "requestState": "canary-state-1",
                "inputRequests": {"who": {"method": "elicitation/create", "params": form}}}))
        }
        "tools/call" => {
            let words =
                format!("{} {} Y2FuYXJ5LXN0YXRlLTE=", params["requestState"], params["inputResponses"]);
            Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": words}}))
        }
        _ => {
            Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}))
        }
    }
}

struct Person;

impl Asks for Person {
    fn kinds(&self) -> BTreeSet<AskKind> {
        [AskKind::Form].into()
    }

    fn answer(&self, _question: Question) -> std::pin::Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        let answer = Map::from_iter([("name".to_owned(), json!("canary-answer-1"))]);
        Box::pin(std::future::ready(Reply::Accepted(answer)))
    }
}

/// A process that tells its variable on stderr, and its variable and argument in errors.
fn process() -> Server {
    let words = "canary-argument-1 canary-env-1 Y2FuYXJ5LWVudi0x";
    let script = json!({"tools": [{"name": "one"}, {"name": "two"}], "faults": [
        {"echo_secret": {"env": "CANARY", "in": "stderr"}},
        {"error": {"on": {"tool": "two"}, "code": -32000, "message": words}},
    ]});
    Server::stdio("process", PROGRAM)
        .args(["peer".to_owned(), script.to_string()])
        .env("CANARY", "canary-env-1")
        .secret("canary-argument-1")
}

/// What a server behind HTTP tells in its errors.
fn behind_http() -> Value {
    let words = "canary%2Dpassword canary-password canary%2Dquery canary-query Y2FuYXJ5LWhlYWRlci0x";
    json!({"tools": [{"name": "one"}, {"name": "two"}, {"name": "three"}, {"name": "four"}], "faults": [
        {"echo_secret": {"on": {"tool": "one"}, "header": "authorization", "in": "error"}},
        {"echo_secret": {"on": {"tool": "two"}, "header": "x-api-key", "in": "error"}},
        {"echo_secret": {"on": {"tool": "three"}, "header": "mcp-session-id", "in": "error"}},
        {"error": {"on": {"tool": "four"}, "code": -32000, "message": words}},
    ]})
}

async fn becomes(what: &str, fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Everything that a runtime shows of itself.
fn shown(runtime: &Whole, servers: &[ServerHandle], topic: &Topic) -> Vec<(String, String)> {
    let mut shown = vec![
        ("the runtime".to_owned(), format!("{runtime:?}")),
        ("the tree".to_owned(), format!("{:?} {}", runtime.tree(), json!(runtime.tree()))),
        ("the topic's view".to_owned(), format!("{:?}", topic.view())),
        ("the topic".to_owned(), format!("{topic:?}")),
    ];
    for server in servers {
        let view = server.view();
        shown.push((format!("the view of {}", view.server), format!("{view:?} {}", json!(view))));
        shown.push((format!("the handle of {}", view.server), format!("{server:?} {:?}", server.list())));
    }
    shown
}

fn is_clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{what} shows {canary}: {text}");
    }
}

#[tokio::test]
async fn no_secret_of_a_server_comes_out_anywhere() {
    let log = Log::install();
    let offering = Peer::new(Script::try_from(behind_http()).expect("the script is one"));
    let http = offering.listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    let url = http.url().replace("http://", "http://ann:canary%2Dpassword@") + "?key=canary%2Dquery";
    let definitions = [
        process(),
        Server::http("http", &url).header("x-api-key", "canary-header-1"),
        Server::in_memory("asking", Arc::new(Telling)),
    ];
    definitions.iter().for_each(|server| is_clean("a definition", &format!("{server:?}")));
    let tool = |server: &str, tool: &str| Step::call(ToolRef::of_server(server, tool), json!({}));
    let called = [
        ("process", "one"),
        ("process", "two"),
        ("http", "one"),
        ("http", "two"),
        ("http", "three"),
        ("http", "four"),
        ("asking", "ask"),
    ];
    let steps = called.map(|(server, name)| tool(server, name)).into_iter().chain([Step::text("Done.")]);
    let mut builder = Runtime::builder().model("main", ScriptedModel::new(steps.collect())).asks(Person);
    for mut server in definitions {
        for name in ["one", "two", "three", "four", "ask"] {
            server = server.effect(name, Effect::Edits);
        }
        builder = builder.server(server);
    }
    let runtime = builder.start().await.expect("it starts");
    let mut events = runtime.events();
    runtime.warm(PATIENCE).await;
    let servers = runtime.servers();
    assert!(servers.iter().all(|server| server.view().state == ServerState::Ready));
    let mut config = TopicConfig::new("main");
    config.mode = PermissionMode::AcceptEdits;
    let topic = runtime.open_topic("t", config).await.expect("the topic opens");
    let mut window = topic.attach().expect("it is open");
    topic.send("Go.").await.expect("the message is taken");
    becomes("the turn is over", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;

    let text = format!("{:?}", topic.view());
    let masked = text.matches("<secret>").count();
    assert!(masked >= 9, "each server told its secrets, and {masked} were masked: {text}");
    let process = runtime.servers().into_iter().find(|server| server.view().name == "process");
    becomes("its words on stderr", || {
        process
            .as_ref()
            .is_some_and(|process| process.view().stderr.iter().any(|line| line.contains("<secret>")))
    })
    .await;
    for (what, text) in shown(&runtime, &servers, &topic) {
        is_clean(&what, &text);
    }
    while let Some(event) = window.try_next() {
        is_clean("an event of the topic", &format!("{event:?}"));
    }
    assert!(runtime.shutdown().await.is_clean());
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(50), events.next()).await {
        is_clean("an event of the runtime", &format!("{event:?}"));
    }
    let log = String::from_utf8_lossy(&log.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    assert!(log.contains("pilothouse"), "the log says something");
    is_clean("the log", &log);
    is_clean("a line of the harness", &harness_lines());
}

/// What a run of the harness writes about a server with a secret.
fn harness_lines() -> String {
    use std::process::{Command, Stdio};
    let script = json!({"tools": [{"name": "look"}], "faults": [
        {"echo_secret": {"env": "CANARY", "in": "stderr"}},
        {"error": {"on": {"tool": "look"}, "code": -32000, "message": "not with canary-harness-1"}},
    ]});
    let stdio = json!({"command": PROGRAM, "args": ["peer", script.to_string()], "env": {"CANARY": "canary-harness-1"}});
    let lines = [
        json!({"server": {"id": "a", "transport": {"stdio": stdio}, "effects": {"look": "reads"}}}),
        json!({"refresh": {"server": "a"}}),
        json!({"call": {"tool": {"server": "a", "tool": "look"}}}),
        json!({"tree": {}}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut child = Command::new(PROGRAM)
        .arg("run")
        .env("RUST_LOG", "pilothouse=trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("not with <secret>"), "{said}");
    said
}
