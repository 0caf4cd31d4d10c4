//! Calls that take more than one answer: questions, tasks and progress, over both generations of the protocol.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::mcp::{Ask, AskKind, Asks, InMemoryServer, Question, Reply};
use pilothouse::tool::Effect;
use pilothouse::{Runtime, Server, ServerHandle};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, WriteHalf};
use tokio::time::{Instant, sleep};

use crate::stage::PATIENCE;

/// Which protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Legacy,
    Modern,
}

/// A server whose tools take their time.
#[derive(Clone)]
struct Slow {
    speaks: Speaks,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Slow {
    fn new(speaks: Speaks) -> Self {
        Self { speaks, heard: Arc::default() }
    }

    /// Everything that it was told about, methods only.
    fn heard(&self, method: &str) -> usize {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|heard| *heard == method).count()
    }
}

impl InMemoryServer for Slow {
    fn open(&self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (output, input) = tokio::io::split(ours);
        tokio::spawn(serve(self.clone(), theirs));
        (Box::new(output), Box::new(input))
    }
}

type Out = Arc<tokio::sync::Mutex<WriteHalf<DuplexStream>>>;

async fn say(out: &Out, message: Value) {
    let line = format!("{message}\n");
    // A client that has gone hears nothing.
    let _ = out.lock().await.write_all(line.as_bytes()).await;
}

async fn serve(slow: Slow, pipe: DuplexStream) {
    let (input, output) = tokio::io::split(pipe);
    let out: Out = Arc::new(tokio::sync::Mutex::new(output));
    let mut lines = BufReader::new(input).lines();
    let (mut asked_by, mut polls) = (Value::Null, 0);
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        let (id, params) = (message["id"].clone(), message["params"].clone());
        let Some(method) = message["method"].as_str() else {
            say(&out, text(&asked_by, &message["result"].to_string())).await;
            continue;
        };
        slow.heard.lock().unwrap_or_else(PoisonError::into_inner).push(method.to_owned());
        let answer = match (method, slow.speaks) {
            ("server/discover", Speaks::Modern) => result(
                &id,
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            ),
            ("initialize", Speaks::Legacy) => result(
                &id,
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
            ),
            ("tools/list", _) => result(&id, json!({"tools": tools()})),
            ("tasks/get", _) => {
                polls += 1;
                let status = if polls < 4 || params["taskId"] == "endless" { "working" } else { "completed" };
                let done = json!({"content": [{"type": "text", "text": format!("after {polls}")}]});
                result(
                    &id,
                    json!({"taskId": params["taskId"], "status": status, "pollIntervalMs": 20_000, "result": done}),
                )
            }
            ("tools/call", speaks) => {
                if params["name"] == "asks" && speaks == Speaks::Legacy {
                    asked_by = id;
                    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form()})
                } else {
                    tokio::spawn(called(out.clone(), id, params));
                    continue;
                }
            }
            _ if id.is_null() => continue,
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}})
            }
        };
        say(&out, answer).await;
    }
}

fn tools() -> Value {
    let plain = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let typed = json!({"name": "typed", "inputSchema": {"type": "object"}, "outputSchema": schema});
    json!([
        plain("asks"),
        plain("asks for ever"),
        plain("works"),
        plain("stutters"),
        plain("task"),
        plain("endless"),
        typed
    ])
}

fn form() -> Value {
    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})
}

fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn text(id: &Value, text: &str) -> Value {
    result(id, json!({"content": [{"type": "text", "text": text}]}))
}

async fn called(out: Out, id: Value, params: Value) {
    let name = params["name"].as_str().unwrap_or_default();
    let ask = || {
        let asked = json!({"who": {"method": "elicitation/create", "params": form()}});
        result(&id, json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
    };
    let answer = match name {
        "asks" if params["inputResponses"].is_null() => ask(),
        "asks" => text(&id, &format!("{} {}", params["inputResponses"]["who"], params["requestState"])),
        "asks for ever" => ask(),
        "task" | "endless" => result(
            &id,
            json!({"resultType": "task", "taskId": name, "status": "working", "pollIntervalMs": 20_000}),
        ),
        "typed" => {
            result(&id, json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": "1"}}))
        }
        _ => {
            let token = &params["_meta"]["progressToken"];
            for step in 1..=8 {
                sleep(Duration::from_secs(30)).await;
                let progress = if name == "works" { step } else { 1 };
                let told = json!({"progressToken": token, "progress": progress});
                say(&out, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))
                    .await;
            }
            text(&id, "worked")
        }
    };
    say(&out, answer).await;
}

/// A person who takes five minutes.
struct Person(Arc<Mutex<Vec<Question>>>);

impl Asks for Person {
    fn kinds(&self) -> BTreeSet<AskKind> {
        [AskKind::Form].into()
    }

    fn answer(&self, question: Question) -> std::pin::Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        Box::pin(async {
            sleep(Duration::from_secs(300)).await;
            Reply::Accepted(Map::from_iter([("name".to_owned(), json!("Ada"))]))
        })
    }
}

async fn start(slow: &Slow, asks: Option<Person>) -> (Runtime, ServerHandle) {
    let mut server = Server::in_memory("slow", Arc::new(slow.clone()));
    for tool in ["asks", "asks for ever", "works", "stutters", "task", "endless", "typed"] {
        server = server.effect(tool, Effect::Reads);
    }
    let mut builder = Runtime::builder().server(server);
    if let Some(person) = asks {
        builder = builder.asks(person);
    }
    let runtime = builder.start().await.expect("it starts");
    runtime.warm(PATIENCE).await;
    let handle = runtime.servers().pop().expect("a server");
    (runtime, handle)
}

/// Calls the tool; compares outcome, words and how many seconds it took.
async fn check(server: &ServerHandle, tool: &str, expected: (CallOutcome, &str, u64)) {
    let begun = Instant::now();
    let result = server.call(tool, &json!({})).await;
    let seconds = begun.elapsed().as_secs();
    assert_eq!((result.outcome, result.text().as_str(), seconds), expected, "{tool}");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_the_embedder_however_long_a_person_takes() {
    let answer = r#"{"action":"accept","content":{"name":"Ada"}}"#;
    let rows = [(Speaks::Modern, format!("{answer} \"s\"")), (Speaks::Legacy, answer.to_owned())];
    for (speaks, words) in rows {
        let questions = Arc::new(Mutex::new(Vec::new()));
        let (runtime, server) = start(&Slow::new(speaks), Some(Person(questions.clone()))).await;
        check(&server, "asks", (CallOutcome::Succeeded, &words, 300)).await;
        let asked = questions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [Question { server, ask: Ask::Form { message, .. }, .. }] = asked.as_slice() else {
            panic!("{speaks:?}: {asked:?}");
        };
        assert_eq!((server.as_str(), message.as_str()), ("slow", "who?"), "{speaks:?}");
        let _ended = runtime.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_here_answers_is_declined_at_once() {
    for speaks in [Speaks::Modern, Speaks::Legacy] {
        let (runtime, server) = start(&Slow::new(speaks), None).await;
        let state = if speaks == Speaks::Modern { " \"s\"" } else { "" };
        let words = format!(r#"{{"action":"decline"}}{state}"#);
        check(&server, "asks", (CallOutcome::Succeeded, &words, 0)).await;
        let _ended = runtime.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_asks_is_given_up_and_a_task_is_followed_within_its_time() {
    let slow = Slow::new(Speaks::Modern);
    let (_runtime, server) = start(&slow, None).await;
    let words = "the server asked more than 10 times before it did anything";
    check(&server, "asks for ever", (CallOutcome::Failed, words, 0)).await;
    check(&server, "task", (CallOutcome::Succeeded, "after 4", 80)).await;
    assert_eq!(slow.heard("tasks/cancel"), 0);
    check(&server, "endless", (CallOutcome::TimedOut, "no answer within 600000 ms", 600)).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(slow.heard("tasks/cancel"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_makes_progress_may_take_longer_and_one_that_repeats_itself_may_not() {
    let (_runtime, server) = start(&Slow::new(Speaks::Legacy), None).await;
    check(&server, "works", (CallOutcome::Succeeded, "worked", 240)).await;
    check(&server, "stutters", (CallOutcome::TimedOut, "no answer within 90000 ms", 90)).await;
}

#[tokio::test(start_paused = true)]
async fn structured_content_that_breaks_its_schema_is_reported_beside_it() {
    let (_runtime, server) = start(&Slow::new(Speaks::Legacy), None).await;
    let result = server.call("typed", &json!({})).await;
    let words = "1\n[its structured content is not what its output schema says: /n: \"1\" is not of type \"integer\"]";
    assert_eq!((result.outcome, result.text().as_str()), (CallOutcome::Succeeded, words));
    assert_eq!(result.structured().map(|data| data.value()), Some(json!({"n": "1"})));
}
