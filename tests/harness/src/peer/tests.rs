use std::sync::Arc;
use std::time::Duration;

use pilothouse::id::ServerId;
use pilothouse::protocol::{Era, Heard, ProtocolStep};
use pilothouse_adapters::asks::AskPort;
use pilothouse_adapters::mcp::{InMemoryServer, PipeConnector};
use pilothouse_adapters::server::{CallAnswer, CallRequest, Connector, Negotiate, Terms};
use pilothouse_adapters::tool::result_of;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use super::{CALLS_KEPT, Input, Output, Peer, Script};
use crate::input::LineReader;

/// The client's side of one connection, as bare as the peer's.
struct Client {
    lines: LineReader<Output>,
    input: Input,
}

impl Client {
    fn of(peer: &Peer) -> Self {
        let (output, input) = peer.open();
        Self { lines: LineReader::new(output), input }
    }

    async fn send(&mut self, message: &Value) {
        // A peer that is gone does not read; what it said shows that.
        let _gone = self.input.write_all(format!("{message}\n").as_bytes()).await;
    }

    /// The next line, `"end"` at the end, `"silence"` after a minute without either.
    async fn next(&mut self) -> Value {
        match timeout(Duration::from_secs(60), self.lines.next()).await {
            Ok(Ok(Some(line))) => serde_json::from_str(&line).unwrap_or_else(|_| json!({"junk": line})),
            Ok(Ok(None)) => json!("end"),
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => json!("silence"),
        }
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn call(&mut self, id: u64, tool: &str) {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": {"id": id}})).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }
}

fn peer(script: Value) -> Arc<Peer> {
    Peer::new(Script::try_from(script).expect("the script of a row is good"))
}

fn answer(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn said(id: u64, text: &str) -> Value {
    answer(id, json!({"content": [{"type": "text", "text": text}], "isError": false}))
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn listed(id: u64, names: &[&str]) -> Value {
    let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
    answer(id, json!({"tools": tools}))
}

fn hello(id: u64, version: &str) -> Value {
    let server = json!({"name": "pilothouse-peer", "version": env!("CARGO_PKG_VERSION")});
    let capabilities = json!({"tools": {"listChanged": true}});
    answer(id, json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}))
}

const CHANGED: &str = "notifications/tools/list_changed";

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": CHANGED})
}

/// Sends the requests, numbered from 1, on one connection, then reads as many lines as are expected.
async fn check(script: Value, requests: &[(&str, Value)], expected: &[Value]) {
    let mut client = Client::of(&peer(script.clone()));
    for (id, (method, params)) in (1..).zip(requests) {
        client.ask(id, method, params.clone()).await;
    }
    let mut lines = Vec::new();
    for _ in expected {
        lines.push(client.next().await);
    }
    assert_eq!(lines, expected, "{script}");
}

#[tokio::test(start_paused = true)]
async fn the_handshake_takes_the_versions_that_it_knows() {
    let ask = |version: &str| ("initialize", json!({"protocolVersion": version}));
    check(
        json!({}),
        &[ask("2025-06-18"), ask("2025-11-25"), ask("2031-01-01"), ("server/discover", json!({}))],
        &[
            hello(1, "2025-06-18"),
            hello(2, "2025-11-25"),
            hello(3, "2025-11-25"),
            error(json!(4), -32601, "there is no method \"server/discover\""),
        ],
    )
    .await;
    check(json!({}), &[("ping", json!({}))], &[answer(1, json!({}))]).await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_comes_in_pages_with_all_that_the_script_says() {
    let described = json!({"name": "read", "description": "Reads.", "schema": {"type": "object", "required": ["path"]},
        "annotations": {"readOnlyHint": true}, "reply": "x"});
    let shown = json!({"name": "read", "description": "Reads.", "annotations": {"readOnlyHint": true},
        "inputSchema": {"type": "object", "required": ["path"]}});
    let list = ("tools/list", json!({}));
    check(
        json!({"tools": [described]}),
        std::slice::from_ref(&list),
        &[answer(1, json!({"tools": [shown]}))],
    )
    .await;
    check(
        json!({"tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "page_size": 2}),
        &[list.clone(), ("tools/list", json!({"cursor": "2"})), ("tools/list", json!({"cursor": "x"}))],
        &[
            answer(1, json!({"tools": [tool("a"), tool("b")], "nextCursor": "2"})),
            listed(2, &["c"]),
            error(json!(3), -32602, "there is no such cursor"),
        ],
    )
    .await;
    check(json!({"tools": [], "page_size": 2}), &[list], &[listed(1, &[])]).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_answers_what_the_script_says() {
    let blocks = json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]);
    let call = |name: &str| ("tools/call", json!({"name": name, "arguments": {"a": [1, 2]}}));
    check(
        json!({"tools": [{"name": "echo", "echo": true}, {"name": "text", "reply": "hi"},
            {"name": "blocks", "reply": blocks}, {"name": "plain"}, {"name": "no", "reply": "no", "fails": true}]}),
        &[
            call("echo"),
            call("text"),
            call("blocks"),
            call("plain"),
            call("no"),
            call("gone"),
            ("tools/call", json!({})),
        ],
        &[
            said(1, r#"{"a":[1,2]}"#),
            said(2, "hi"),
            answer(3, json!({"content": blocks, "isError": false})),
            said(4, "done"),
            answer(5, json!({"content": [{"type": "text", "text": "no"}], "isError": true})),
            answer(
                6,
                json!({"content": [{"type": "text", "text": "there is no tool \"gone\""}], "isError": true}),
            ),
            error(json!(7), -32602, "a call names its tool"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_does_what_it_says() {
    let ping = || ("ping", json!({}));
    let list = || ("tools/list", json!({}));
    let call = || ("tools/call", json!({"name": "a"}));
    let hello_first = || ("initialize", json!({"protocolVersion": "2025-11-25"}));
    let pong = |id| answer(id, json!({}));
    let bad = json!({"name": 17, "inputSchema": "none"});
    let rows = [
        (json!({"silence": "connect"}), vec![hello_first(), ping()], vec![pong(2), json!("silence")]),
        (json!({"silence": "list"}), vec![list(), ping()], vec![pong(2), json!("silence")]),
        (json!({"silence": "call"}), vec![call(), ping()], vec![pong(2), json!("silence")]),
        (json!({"silence": "all"}), vec![ping(), call()], vec![json!("silence")]),
        (json!({"exit_after": 0}), vec![ping()], vec![json!("end")]),
        (
            json!({"exit_after": 2}),
            vec![ping(), call(), ping()],
            vec![pong(1), said(2, "done"), json!("end")],
        ),
        (json!({"exit_on_call": "a"}), vec![ping(), call(), ping()], vec![pong(1), json!("end")]),
        (json!({"junk_line": "{oops"}), vec![ping()], vec![json!({"junk": "{oops"}), pong(1)]),
        (json!({"bad_tool": true}), vec![list()], vec![answer(1, json!({"tools": [tool("a"), bad]}))]),
        (
            json!({"repeat_cursor": true}),
            vec![list(), ("tools/list", json!({"cursor": "0"}))],
            vec![
                answer(1, json!({"tools": [tool("a")], "nextCursor": "0"})),
                answer(2, json!({"tools": [tool("a")], "nextCursor": "0"})),
            ],
        ),
        (
            json!({"add_tool_after_list": {"name": "late"}}),
            vec![
                ("tools/call", json!({"name": "late"})),
                list(),
                list(),
                ("tools/call", json!({"name": "late"})),
            ],
            vec![
                answer(
                    1,
                    json!({"content": [{"type": "text", "text": "there is no tool \"late\""}], "isError": true}),
                ),
                listed(2, &["a"]),
                listed(3, &["a", "late"]),
                said(4, "done"),
            ],
        ),
    ];
    for (fault, requests, expected) in rows {
        check(json!({"tools": [{"name": "a"}], "faults": [fault]}), &requests, &expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_holds_nobody_up_and_a_cancelled_one_is_never_answered() {
    let peer = peer(json!({"tools": [{"name": "slow", "delay_ms": 500}, {"name": "quick"}]}));
    let mut client = Client::of(&peer);
    let start = Instant::now();
    client.call(1, "slow").await;
    client.call(2, "slow").await;
    client.call(3, "quick").await;
    assert_eq!(client.next().await, said(3, "done"));
    client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    assert_eq!(client.next().await, said(2, "done"));
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    assert_eq!(client.next().await, json!("silence"));
    assert_eq!((peer.executions("slow"), peer.executions("quick"), peer.cancellations()), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn every_answer_comes_later_when_the_script_says_so() {
    let mut client = Client::of(&peer(json!({"faults": [{"delay_ms": 200}]})));
    let start = Instant::now();
    client.ask(1, "ping", json!({})).await;
    client.ask(2, "ping", json!({})).await;
    client.next().await;
    client.next().await;
    assert_eq!(start.elapsed(), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn held_calls_have_begun_and_wait_for_their_release() {
    let peer = peer(json!({"tools": [{"name": "a"}]}));
    let mut client = Client::of(&peer);
    peer.hold_calls();
    client.call(1, "a").await;
    peer.executed().reach("a", 1).await;
    client.ask(2, "ping", json!({})).await;
    assert_eq!(client.next().await, answer(2, json!({})));
    peer.release_calls();
    assert_eq!(client.next().await, said(1, "done"));
}

#[tokio::test(start_paused = true)]
async fn killed_connections_end_at_once_and_new_ones_are_served() {
    let peer = peer(json!({"tools": [{"name": "a"}]}));
    let (mut first, mut second) = (Client::of(&peer), Client::of(&peer));
    peer.hold_calls();
    first.call(1, "a").await;
    second.call(1, "a").await;
    peer.executed().reach("a", 2).await;
    assert_eq!((peer.connections(), peer.connections_ever()), (2, 2));
    peer.kill();
    assert_eq!((first.next().await, second.next().await), (json!("end"), json!("end")));
    assert_eq!((peer.connections(), peer.connections_ever()), (0, 2));
    let mut third = Client::of(&peer);
    third.ask(1, "ping", json!({})).await;
    assert_eq!(third.next().await, answer(1, json!({})));
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_its_pipes() {
    let peer = peer(json!({"tools": [{"name": "a", "delay_ms": 500}]}));
    let Client { mut lines, mut input } = Client::of(&peer);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}});
    input.write_all(format!("{call}\n").as_bytes()).await.expect("the peer reads");
    drop(input);
    assert_eq!(lines.next().await.expect("the output can be read"), None);
    assert_eq!((peer.connections(), peer.executions("a")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn changed_tools_are_announced_and_another_script_is_followed() {
    let peer = peer(json!({"tools": [{"name": "a"}], "faults": [{"list_changed_after_ms": 50}]}));
    let mut client = Client::of(&peer);
    let start = Instant::now();
    client.notify("notifications/initialized", json!({})).await;
    assert_eq!(client.next().await, changed());
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    peer.set_script(Script::try_from(json!({"tools": [{"name": "b"}]})).expect("the script is good"));
    peer.announce_tools();
    assert_eq!(client.next().await, changed());
    client.ask(1, "tools/list", json!({})).await;
    assert_eq!(client.next().await, listed(1, &["b"]));
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_requests_are_answered_or_skipped() {
    let mut client = Client::of(&peer(json!({})));
    client
        .input
        .write_all(b"oops\n\n[]\n{\"id\": 1}\n{\"id\": 2, \"method\": 3}\n")
        .await
        .expect("the peer reads");
    assert_eq!(client.next().await, error(Value::Null, -32700, "this is not JSON"));
    assert_eq!(client.next().await, error(Value::Null, -32600, "a message is one object"));
    assert_eq!(client.next().await, error(Value::Null, -32600, "a message has a method"));
    assert_eq!(client.next().await, json!("silence"));
}

#[tokio::test(start_paused = true)]
async fn executions_are_written_to_the_count_file_and_the_newest_calls_are_kept() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let path = directory.path().join("runs");
    let peer = peer(json!({"tools": [{"name": "a"}], "faults": [{"count_file": path}, {"silence": "call"}]}));
    let mut client = Client::of(&peer);
    let calls = CALLS_KEPT as u64 + 1;
    for id in 1..=calls {
        client.call(id, "a").await;
    }
    peer.executed().reach("a", calls).await;
    let written = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(written, "a\n".repeat(CALLS_KEPT + 1));
    let kept = peer.calls();
    let call = |id: u64| json!({"name": "a", "arguments": {"id": id}});
    assert_eq!((kept.len(), kept.first(), kept.last()), (CALLS_KEPT, Some(&call(2)), Some(&call(calls))));
}

#[tokio::test(start_paused = true)]
async fn a_count_file_that_cannot_be_written_is_the_tools_own_no() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let fault = json!({"count_file": directory.path()});
    let mut client = Client::of(&peer(json!({"tools": [{"name": "a"}], "faults": [fault]})));
    client.call(1, "a").await;
    let said = client.next().await.to_string();
    assert!(said.contains("\"isError\":true") && said.contains("the count file cannot be written"), "{said}");
}

#[test]
fn a_bad_script_is_refused_with_the_place_and_the_reason() {
    let rows = [
        (json!({"tool": []}), "wrong at `tool`: unknown field `tool`, expected one of `tools`"),
        (json!({"page_size": 0}), "`page_size`: invalid value: integer `0`"),
        (json!({"tools": [{"echo": true}]}), "`tools[0]`: missing field `name`"),
        (
            json!({"tools": [{"name": "a", "echo": true, "reply": "b"}]}),
            "`tools[0]`: a tool has `reply` or `echo`",
        ),
        (json!({"tools": [{"name": "a", "reply": 7}]}), "`tools[0].reply`: a reply is a text, or an array"),
        (
            json!({"faults": [{"bomb": true}]}),
            "unknown variant `bomb`, expected one of `silence`, `delay_ms`, `delay`",
        ),
        (
            json!({"faults": [{"silence": "tool"}]}),
            "`faults[0].silence`: there is no request \"tool\": write a method",
        ),
        (json!({"faults": [{"silence": {"nth": 0}}]}), "`nth` counts from 1"),
        (json!({"faults": [{"silence": {"mehtod": "ping"}}]}), "unknown field `mehtod`"),
        (json!({"faults": [{"delay": {"on": "list"}}]}), "`faults[0].delay"),
        (
            json!({"protocol": "new"}),
            "`protocol`: unknown variant `new`, expected one of `legacy`, `modern`, `both`",
        ),
        (json!({"http": {"answers": "xml"}}), "`http.answers`: unknown variant `xml`"),
        (json!({"faults": [{"delay_ms": 1, "exit_after": 2}]}), "`faults[0]"),
        (json!({"faults": [{"add_tool_after_list": {}}]}), "missing field `name`"),
    ];
    for (script, reason) in rows {
        let refused = Script::try_from(script.clone()).expect_err("the row is a bad script").to_string();
        assert!(refused.contains(reason), "{script}: {refused}");
    }
    assert!("{".parse::<Script>().is_err());
}

/// Speaks whatever is answered to `initialize`.
struct Initializes;

impl Negotiate for Initializes {
    fn first(&mut self) -> ProtocolStep {
        ProtocolStep::Initialize { version: "2025-11-25".to_owned() }
    }

    fn heard(&mut self, heard: Heard) -> ProtocolStep {
        match heard {
            Heard::Answered(version) => ProtocolStep::Speak { era: Era::Legacy, version },
            other => ProtocolStep::GiveUp(format!("{other:?}")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_runtimes_own_client_connects_lists_and_calls() {
    let peer = peer(json!({"tools": [{"name": "a", "echo": true}, {"name": "b"}], "page_size": 1}));
    let (notices, _told) = tokio::sync::mpsc::channel(1);
    let asks = AskPort::refusing(ServerId::new("peer").unwrap());
    let terms = Terms::new(notices, Box::new(Initializes), Duration::ZERO, asks);
    let connection = PipeConnector::new(peer.clone()).connect(terms).await.expect("the peer answers");
    assert_eq!(connection.protocol(), "2025-11-25");
    let first = connection.list_page(None).await.expect("the peer lists");
    let second = connection.list_page(first.next_cursor.clone()).await.expect("the peer lists");
    let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let names: Vec<_> = first.tools.iter().chain(&second.tools).filter_map(name).collect();
    assert_eq!((names, second.next_cursor), (vec!["a".to_owned(), "b".to_owned()], None));
    let arguments = Map::from_iter([("x".to_owned(), json!(1))]);
    let meta = Map::from_iter([("k".to_owned(), json!("v"))]);
    let mut request = CallRequest::new("a", arguments);
    request.meta = meta;
    let answer = connection.call(request).await.expect("the peer runs it");
    assert_eq!(answer, CallAnswer::Done(result_of(Ok("{\"x\":1}".to_owned()))));
    let sent = peer.calls().first().and_then(|call| call.pointer("/_meta/k").cloned());
    assert_eq!(sent, Some(json!("v")));
    peer.kill();
    timeout(Duration::from_secs(60), connection.ended()).await.expect("the connection ends");
}
