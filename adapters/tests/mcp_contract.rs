//! The contract of a connection, kept over pipes and over child processes, against servers that misbehave.
#![cfg(all(feature = "mcp", target_os = "linux"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilothouse_adapters::mcp::{PipeConnector, StdioConnector};
use pilothouse_adapters::server::{Connection, Connector, Notice, Page};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

#[path = "mcp_contract/process.rs"]
mod process;
#[path = "mcp_contract/script.rs"]
mod script;
use script::{Inside, KEY, SCRIPT, first_page, second_page, serve_process};

/// Not a test: the body of the processes that the others start.
#[test]
fn a_process_that_runs_a_script() {
    if let Ok(name) = std::env::var(SCRIPT) {
        serve_process(&name);
    }
}

/// A key that is given to every process.
const CANARY: &str = "sk-canary-0123456789";

fn definition(command: &str, args: &[&str], script: &str, cwd: Option<PathBuf>) -> ServerDefinition {
    let env = [(SCRIPT, script), (KEY, CANARY)].map(|(name, value)| (name.to_owned(), Secret::new(value)));
    let env = BTreeMap::from(env);
    let args = args.iter().map(ToString::to_string).collect();
    let transport = Transport::Stdio { command: command.to_owned(), args, env, cwd };
    ServerDefinition::new(ServerId::new("scripted").unwrap(), transport)
}

fn child(command: &str, args: &[&str], script: &str) -> StdioConnector {
    StdioConnector::new(&definition(command, args, script, None), &Limits::default())
}

const RUN_SCRIPT: [&str; 3] = ["a_process_that_runs_a_script", "--exact", "--nocapture"];

fn this_binary() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// The script as a child process.
fn outside(script: &str) -> StdioConnector {
    child(&this_binary(), &RUN_SCRIPT, script)
}

/// The script as a child process that a shell prepares first.
fn prepared(script: &str, preparation: &str) -> StdioConnector {
    let line = format!("{preparation} exec \"$0\" \"$@\"");
    let binary = this_binary();
    child("sh", &["-c", &line, &binary, RUN_SCRIPT[0], RUN_SCRIPT[1], RUN_SCRIPT[2]], script)
}

fn inside(name: &'static str) -> PipeConnector {
    PipeConnector::new(Arc::new(Inside { name, left: Arc::default() }))
}

/// The same script over both transports.
fn both(script: &'static str) -> [(&'static str, Box<dyn Connector>); 2] {
    [("pipe", Box::new(inside(script))), ("process", Box::new(outside(script)))]
}

async fn open(connector: &dyn Connector) -> (Arc<dyn Connection>, mpsc::Receiver<Notice>) {
    let (notices, noticed) = mpsc::channel(1);
    let connected = timeout(Duration::from_secs(10), connector.connect(notices)).await;
    (connected.expect("in time").expect("connected"), noticed)
}

async fn refused(connector: &dyn Connector) -> ConnectError {
    let (notices, _noticed) = mpsc::channel(1);
    let connected = timeout(Duration::from_secs(10), connector.connect(notices)).await;
    connected.expect("in time").err().expect("refused")
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

async fn call(link: &dyn Connection, tool: &str, given: Value) -> Result<CallResult, RequestError> {
    let calling = link.call(tool.to_owned(), arguments(given), Map::new());
    timeout(Duration::from_secs(5), calling).await.expect("in time")
}

async fn text(link: &dyn Connection, tool: &str) -> String {
    call(link, tool, json!({})).await.expect("an answer").text()
}

async fn pid(link: &dyn Connection) -> u32 {
    text(link, "pid").await.parse().unwrap()
}

fn said(outcome: CallOutcome, text: &str) -> Result<CallResult, RequestError> {
    Ok(CallResult::said(outcome, text))
}

fn ended<T>(reason: &str) -> Result<T, RequestError> {
    Err(RequestError::Ended { reason: reason.to_owned() })
}

/// Reaped, not only dead: a zombie still has its entry.
fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Dead, whoever has to reap it.
fn runs_no_more(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

async fn becomes(what: &str, state: impl Fn() -> bool) {
    let start = Instant::now();
    while !state() {
        assert!(start.elapsed() < Duration::from_secs(2), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_connection_greets_lists_and_calls() {
    use CallOutcome::{Failed, Succeeded};
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        assert_eq!(link.protocol(), "2025-06-18", "{over}");

        let first = link.list_page(None).await;
        let tools = first_page().as_array().cloned().unwrap();
        assert_eq!(
            first,
            Ok(Page { tools, next_cursor: Some("second".to_owned()), ..Page::default() }),
            "{over}"
        );
        let second = link.list_page(Some("second".to_owned())).await;
        let tools = second_page().as_array().cloned().unwrap();
        assert_eq!(
            second,
            Ok(Page { tools, ttl: Some(Duration::from_secs(60)), ..Page::default() }),
            "{over}"
        );

        assert_eq!(call(&*link, "echo", json!({"text": "hé"})).await, said(Succeeded, "hé"), "{over}");
        assert_eq!(call(&*link, "fails", json!({})).await, said(Failed, "no"), "{over}");
        let unknown = RequestError::Server { code: -32602, message: "unknown tool nothing".to_owned() };
        assert_eq!(call(&*link, "nothing", json!({})).await, Err(unknown), "{over}");

        let meta = arguments(json!({"pilothouse/idempotency-key": "k"}));
        let answer = link.call("meta".to_owned(), Map::new(), meta).await;
        assert_eq!(answer, said(Succeeded, r#"{"pilothouse/idempotency-key":"k"}"#), "{over}");
    }
}

#[tokio::test]
async fn a_server_without_tools_is_not_asked_for_them() {
    for (over, connector) in both("toolless") {
        let (link, _noticed) = open(&*connector).await;
        assert_eq!(link.list_page(None).await, Ok(Page::default()), "{over}");
    }
}

#[tokio::test]
async fn changed_tools_are_noticed_and_a_full_queue_drops_the_second_notice() {
    for (over, connector) in both("plain") {
        let (link, mut noticed) = open(&*connector).await;
        assert_eq!(text(&*link, "changes").await, "changed", "{over}");
        assert_eq!(noticed.try_recv(), Ok(Notice::ToolsChanged), "{over}");
        assert!(noticed.try_recv().is_err(), "{over}");
    }
}

#[tokio::test]
async fn lines_that_are_no_messages_are_counted_and_skipped() {
    let (pipe, process) = (inside("plain"), outside("plain"));
    let (link, _noticed) = open(&pipe).await;
    assert_eq!((text(&*link, "mumbles").await, pipe.junk_lines()), ("clear".to_owned(), 5));
    let (link, _noticed) = open(&process).await;
    let before = process.junk_lines();
    assert_eq!((text(&*link, "mumbles").await, process.junk_lines() - before), ("clear".to_owned(), 5));
}

#[tokio::test]
async fn whatever_a_server_asks_is_answered() {
    let expected = r#"elicitation: {"action":"decline"}
misshapen: -32600
ping: {}
roots: {"roots":[]}
sampling: -32601
unknown: -32601"#;
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        assert_eq!(text(&*link, "asks").await, expected, "{over}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let dropped =
            timeout(Duration::from_millis(20), link.call("hangs".to_owned(), Map::new(), Map::new())).await;
        assert!(dropped.is_err(), "{over}");
        let start = Instant::now();
        // `initialize` was request 0, the dropped call request 1.
        while text(&*link, "cancelled").await != "[1]" {
            assert!(start.elapsed() < Duration::from_secs(2), "{over}: no cancel notice");
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_ends_every_pending_call_with_its_last_words() {
    let reasons = ["closed its output", "exited with status 3; its last words: about to die"];
    for ((over, connector), reason) in both("plain").into_iter().zip(reasons) {
        let (link, _noticed) = open(&*connector).await;
        let start = Instant::now();
        let (pending, killer) =
            tokio::join!(call(&*link, "hangs", json!({})), call(&*link, "dies", json!({})));
        assert_eq!((pending, killer), (ended(reason), ended(reason)), "{over}");
        assert_eq!(link.ended().await, reason, "{over}");
        assert_eq!(call(&*link, "echo", json!({})).await, ended(reason), "{over}");
        assert_eq!(link.list_page(None).await, ended(reason), "{over}");
        assert!(start.elapsed() < Duration::from_secs(1), "{over}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn an_answer_that_came_before_the_end_arrives() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        assert_eq!(text(&*link, "answers and dies").await, "last answer", "{over}");
        timeout(Duration::from_secs(1), link.ended()).await.expect(over);
    }
}

#[tokio::test]
async fn a_handshake_that_fails_says_why() {
    let rows = [
        (
            "version 2099-01-01",
            "it speaks MCP \"2099-01-01\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
        ),
        (
            "version 2026-07-28",
            "it speaks MCP \"2026-07-28\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
        ),
        ("refusing", "the server answered error -32000: not today"),
        ("misshapen", "its answer to `initialize` is malformed: missing field `capabilities`"),
        ("rambling", "closed its output; lines of its output that were no MCP messages: 2"),
    ];
    for (script, reason) in rows {
        let error = refused(&inside(script)).await;
        assert_eq!(error, ConnectError::Handshake { reason: reason.to_owned() });
        assert!(!error.is_permanent());
    }
    let ConnectError::Handshake { reason } = refused(&outside("rambling")).await else {
        panic!("a server that exits may be tried again");
    };
    assert!(reason.starts_with("exited with status 2; its last words: bad flag; lines"), "{reason}");
}

#[tokio::test]
async fn a_connect_that_is_dropped_closes_the_pipe() {
    let left = Arc::new(AtomicBool::new(false));
    let connector = PipeConnector::new(Arc::new(Inside { name: "silent", left: left.clone() }));
    let (notices, _noticed) = mpsc::channel(1);
    assert!(timeout(Duration::from_millis(20), connector.connect(notices)).await.is_err());
    becomes("the server sees the end of its input", || left.load(Ordering::Acquire)).await;
}

#[tokio::test]
async fn a_polite_server_is_closed_at_once_and_pending_calls_end() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let pid = pid(&*link).await;
        let start = Instant::now();
        let (pending, ()) =
            tokio::join!(call(&*link, "hangs", json!({})), link.close(Duration::from_secs(30)));
        assert!(start.elapsed() < Duration::from_secs(1), "{over}: {:?}", start.elapsed());
        assert_eq!(pending, ended("closed"), "{over}");
        assert_eq!(link.ended().await, "closed", "{over}");
        assert!(over == "pipe" || is_gone(pid), "{over}");
        link.close(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn a_server_that_ignores_its_end_is_killed_within_the_grace() {
    let deaf = prepared("deaf", "trap '' TERM;");
    let connectors: [(&str, Box<dyn Connector>); 2] =
        [("pipe", Box::new(inside("deaf"))), ("process", Box::new(deaf))];
    for (over, connector) in connectors {
        let (link, _noticed) = open(&*connector).await;
        let pid = pid(&*link).await;
        let start = Instant::now();
        link.close(Duration::from_millis(300)).await;
        let took = start.elapsed();
        assert!((200..450).contains(&took.as_millis()), "{over}: {took:?}");
        assert_eq!(link.ended().await, "closed", "{over}");
        assert!(over == "pipe" || is_gone(pid), "{over}");
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_stops_nobody() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let pid = pid(&*link).await;
        assert_eq!(text(&*link, "stops reading").await, "not another line", "{over}");
        let start = Instant::now();
        let large = json!({"text": "x".repeat(1 << 20)});
        for _ in 0..3 {
            let calling = link.call("echo".to_owned(), arguments(large.clone()), Map::new());
            assert!(timeout(Duration::from_millis(20), calling).await.is_err(), "{over}");
        }
        let (pending, ()) = tokio::join!(call(&*link, "echo", large), async { link.kill() });
        assert_eq!(pending, ended("killed"), "{over}");
        assert!(start.elapsed() < Duration::from_secs(1), "{over}: {:?}", start.elapsed());
        link.close(Duration::ZERO).await;
        assert!(over == "pipe" || is_gone(pid), "{over}");
    }
}

#[tokio::test]
async fn a_server_that_leaves_the_whole_queue_unread_is_given_up() {
    let (link, _noticed) = open(&inside("plain")).await;
    assert_eq!(text(&*link, "stops reading").await, "not another line");
    let large = arguments(json!({"text": "x".repeat(30 << 20)}));
    let call = || link.call("echo".to_owned(), large.clone(), Map::new());
    let unread = || ended("stopped reading its input");
    let calls = timeout(Duration::from_secs(5), async { tokio::join!(call(), call(), call()) }).await;
    assert_eq!(calls, Ok((unread(), unread(), unread())));
}

#[tokio::test]
async fn a_server_that_reads_slowly_gets_every_byte() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let size = call(&*link, "size", json!({"text": "x".repeat(1 << 20)})).await;
        assert_eq!(size, said(CallOutcome::Succeeded, &((1 << 20) + 11).to_string()), "{over}");
    }
}

#[tokio::test]
async fn a_line_without_end_ends_the_connection() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let flooded = call(&*link, "floods", json!({})).await;
        assert_eq!(flooded, ended("sent a line of more than 16 MiB"), "{over}");
    }
}

#[tokio::test]
async fn a_line_that_costs_too_much_to_read_ends_the_connection() {
    let rows = [
        ("hostile", "sent a line that takes more than 128 MiB to read"),
        ("batches", "sent a batch of more than 1000 messages"),
    ];
    for (tool, reason) in rows {
        for (over, connector) in both("plain") {
            let (link, _noticed) = open(&*connector).await;
            assert_eq!(call(&*link, tool, json!({})).await, ended(reason), "{over}");
        }
    }
}

#[tokio::test]
async fn a_result_of_many_pieces_is_cut_and_says_so() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let result = call(&*link, "many pieces", json!({})).await.expect(over);
        assert_eq!(result.text(), "[cut: the result has 100001 pieces, 1000 are shown]", "{over}");
        assert_eq!(result.content.len(), 1_001, "{over}");
    }
}

/// What is sent meanwhile interrupts the reading of a line.
#[tokio::test]
async fn a_long_answer_arrives_while_more_is_asked() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let many = {
            let link = link.clone();
            tokio::spawn(async move { call(&*link, "many pieces", json!({})).await })
        };
        let mut asked = Vec::new();
        while !many.is_finished() {
            let (link, text) = (link.clone(), asked.len().to_string());
            asked.push(tokio::spawn(async move { call(&*link, "echo", json!({"text": text})).await }));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(many.await.unwrap().expect(over).content.len(), 1_001, "{over}");
        for (n, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap(), said(CallOutcome::Succeeded, &n.to_string()), "{over}");
        }
    }
}

#[tokio::test]
async fn what_a_server_says_of_an_error_is_bounded() {
    let message = "no, ".repeat(1_024);
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let refused = Err(RequestError::Server { code: -32000, message: message.clone() });
        assert_eq!(call(&*link, "refuses at length", json!({})).await, refused, "{over}");
    }
}

#[tokio::test]
async fn what_a_server_says_in_a_failed_handshake_is_bounded() {
    for (over, connector) in both("misshapen at length") {
        let ConnectError::Handshake { reason } = refused(&*connector).await else {
            panic!("{over}: it was a handshake");
        };
        assert!(reason.starts_with("its answer to `initialize` is malformed: invalid type"), "{reason}");
        assert!(reason.len() < 5_000 && !reason.contains(CANARY), "{over}: {reason}");
    }
}
