use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{HttpKind, HttpPeer};
use crate::peer::{Peer, Script};

/// No answer for so long is none. Real time: real sockets are under test.
const QUIET: Duration = Duration::from_millis(400);

/// How an exchange came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The connection is open, and nothing comes.
    Quiet,
    Closed,
    Reset,
}

use Rest::{Closed, Quiet, Reset};

async fn listening(script: Value, kind: HttpKind) -> (Arc<Peer>, HttpPeer) {
    let peer = Peer::new(Script::try_from(script).expect("the script of a row is good"));
    let http = peer.listen("127.0.0.1:0", kind).await.expect("there is a free port");
    (peer, http)
}

async fn heard(stream: &mut TcpStream) -> (String, Rest) {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    let rest = loop {
        match timeout(QUIET, stream.read(&mut piece)).await {
            Ok(Ok(0)) => break Closed,
            Ok(Ok(count)) => bytes.extend_from_slice(&piece[..count]),
            Ok(Err(_)) => break Reset,
            Err(_) => break Quiet,
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), rest)
}

fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: peer\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn exchange(http: &HttpPeer, text: &str) -> (String, Rest) {
    let mut stream = TcpStream::connect(http.address()).await.expect("the peer listens");
    stream.write_all(text.as_bytes()).await.expect("the peer reads");
    heard(&mut stream).await
}

fn rpc(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

async fn post(http: &HttpPeer, headers: &[(&str, &str)], body: &str) -> (String, Rest) {
    exchange(http, &request("POST", "/mcp", headers, body)).await
}

/// A header's value.
fn header(reply: &str, name: &str) -> Option<String> {
    let head = reply.split("\r\n\r\n").next().unwrap_or_default();
    let line = head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name));
    line.map(|(_, value)| value.to_owned())
}

/// Opens a session; its id.
async fn session(http: &HttpPeer) -> String {
    let hello = rpc(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    let (reply, _) = post(http, &[], &hello).await;
    header(&reply, "Mcp-Session-Id").unwrap_or_else(|| panic!("a session is opened: {reply}"))
}

/// Without sessions, so that a row is one request.
fn stateless(faults: Value) -> Value {
    json!({"tools": [{"name": "a"}], "http": {"sessions": false, "answers": "json"}, "faults": faults})
}

async fn check(script: Value, body: String, expected: (&[&str], Rest), executions: u64) {
    let (peer, http) = listening(script.clone(), HttpKind::Streamable).await;
    let (reply, rest) = post(&http, &[], &body).await;
    let missing: Vec<_> = expected.0.iter().filter(|part| !reply.contains(**part)).collect();
    assert!(missing.is_empty(), "{script} lacks {missing:?}: {reply}");
    let nothing = expected.0.is_empty() && !reply.is_empty();
    assert!(!nothing, "{script} says nothing, not {reply}");
    assert_eq!((rest, peer.executions("a")), (expected.1, executions), "{script}: {reply}");
}

/// A script; what the reply holds and how it ends; how often the tool ran.
type Row = (Value, (Vec<&'static str>, Rest), u64);

#[tokio::test]
async fn each_fault_below_the_protocol_is_played_as_it_is_written() {
    let call = || rpc(7, "tools/call", json!({"name": "a"}));
    let whole =
        r#"{"id":7,"jsonrpc":"2.0","result":{"content":[{"text":"done","type":"text"}],"isError":false}}"#;
    let http = |fault: Value| stateless(json!([{"http": fault}]));
    let sse = |fault: Value| json!({"tools": [{"name": "a"}], "http": {"sessions": false}, "faults": [{"http": fault}]});
    let rows: Vec<Row> = vec![
        (
            stateless(json!([])),
            (vec!["HTTP/1.1 200 OK\r\n", "Content-Type: application/json\r\n", whole], Quiet),
            1,
        ),
        (
            http(json!({"status": 202})),
            (vec!["HTTP/1.1 202 Accepted\r\n", "Content-Length: 0\r\n\r\n"], Quiet),
            0,
        ),
        (
            http(json!({"status": 503, "body": "busy", "runs": true})),
            (vec!["HTTP/1.1 503 ", "\r\n\r\nbusy"], Quiet),
            1,
        ),
        (
            http(json!({"status": 401, "headers": {"WWW-Authenticate": "Bearer realm=\"x\""}})),
            (vec!["HTTP/1.1 401 ", "WWW-Authenticate: Bearer realm=\"x\"\r\n"], Quiet),
            0,
        ),
        (
            http(json!({"status": 307, "headers": {"Location": "http://other.test/mcp"}})),
            (vec!["HTTP/1.1 307 ", "Location: http://other.test/mcp\r\n"], Quiet),
            0,
        ),
        (
            http(json!({"headers": {"content-type": "text/html"}})),
            (vec!["content-type: text/html\r\n", whole], Quiet),
            1,
        ),
        (http(json!({"on": "tools/list", "status": 500})), (vec![whole], Quiet), 1),
        (http(json!({"on": {"nth": 2}, "status": 500})), (vec![whole], Quiet), 1),
        (http(json!({"body": ""})), (vec!["HTTP/1.1 200 OK\r\n", "Content-Length: 0"], Quiet), 0),
        (http(json!({"body_mib": 2})), (vec!["Content-Length: 2097152"], Quiet), 0),
        (http(json!({"headers": {"Content-Length": "5"}})), (vec!["Content-Length: 5\r\n", whole], Quiet), 1),
        (http(json!({"reset": "before_answer"})), (vec![], Reset), 0),
        (http(json!({"reset": "in_head"})), (vec!["HTTP/1.1"], Reset), 0),
        (http(json!({"reset": "in_body"})), (vec!["\r\n\r\n{\"id\":7"], Reset), 1),
        (http(json!({"delay_ms": 50})), (vec![whole], Quiet), 1),
        (http(json!({"hang": "head"})), (vec![], Quiet), 0),
        (http(json!({"hang": "body"})), (vec!["HTTP/1.1 200 OK\r\n", "\r\n\r\n"], Quiet), 0),
        (stateless(json!([{"silence": "call"}])), (vec![], Quiet), 1),
        (stateless(json!([{"answer_id": {"as": "null"}}])), (vec!["{\"id\":null,\"jsonrpc\""], Quiet), 1),
        (stateless(json!([{"bom": "first"}])), (vec!["\r\n\r\n\u{feff}{\"id\":7"], Quiet), 1),
        (stateless(json!([{"exit_on_call": "a"}])), (vec![], Closed), 1),
        (
            sse(json!({"on": "list"})),
            (vec!["Content-Type: text/event-stream\r\n", "id: 1.1\ndata: {\"id\":7", "\r\n0\r\n\r\n"], Quiet),
            1,
        ),
        (sse(json!({"stream": "ends"})), (vec!["id: 1.0\ndata:\n\n", "\r\n0\r\n\r\n"], Quiet), 1),
        (sse(json!({"stream": "resets"})), (vec!["id: 1.0\ndata:\n\n"], Reset), 1),
        (sse(json!({"stream": "hangs"})), (vec!["id: 1.0\ndata:\n\n"], Quiet), 1),
        (sse(json!({"reset": "in_body"})), (vec!["id: 1.1\ndata: {"], Reset), 1),
    ];
    for (script, (parts, rest), executions) in rows {
        check(script, call(), (&parts, rest), executions).await;
    }
}

#[tokio::test]
async fn bytes_of_an_event_stream_come_as_the_script_says() {
    let call = rpc(1, "tools/call", json!({"name": "a"}));
    let flood = "x".repeat(1 << 16);
    let rows = [
        (json!({"crlf": true}), "id: 1.2\r\ndata: {"),
        (json!({"newline": "cr"}), "id: 1.2\rdata: {"),
        (json!({"junk_line": "oops"}), "data: oops\n\nid: 1.2\n"),
        (json!({"say": {"on": "call", "text": ": ping\n\n"}}), ": ping\n\n"),
        (json!({"drip_ms": 0}), "\nid: 1.2\n"),
        (json!({"no_newline": {"mib": 1}}), flood.as_str()),
    ];
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/message"});
    for (fault, part) in rows {
        let script = json!({"tools": [{"name": "a"}], "http": {"sessions": false},
            "faults": [{"say": {"on": "call", "message": notice}}, fault]});
        let (_peer, http) = listening(script, HttpKind::Streamable).await;
        let (reply, _) = post(&http, &[], &call).await;
        let is_there = reply.contains(part) && reply.contains("\"result\"");
        assert!(is_there, "{fault}: {part:.100} is not in {reply:.2000}");
    }
}

#[tokio::test]
async fn a_session_lives_from_its_handshake_to_its_end_on_one_kept_connection() {
    let (peer, http) = listening(json!({"tools": [{"name": "a"}]}), HttpKind::Streamable).await;
    let id = session(&http).await;
    let mut stream = TcpStream::connect(http.address()).await.expect("the peer listens");
    let named = [("Mcp-Session-Id", id.as_str())];
    for number in 2..4 {
        let text = request("POST", "/mcp", &named, &rpc(number, "tools/list", json!({})));
        stream.write_all(text.as_bytes()).await.expect("the peer reads");
        let (reply, rest) = heard(&mut stream).await;
        assert!(reply.contains(&format!("\"id\":{number}")) && rest == Quiet, "{reply}");
    }
    assert_eq!((http.sessions(), peer.connections()), (1, 1));
    let list = rpc(9, "tools/list", json!({}));
    let rows = [
        (request("POST", "/mcp", &[], &list), "HTTP/1.1 400 "),
        (request("POST", "/mcp", &[("Mcp-Session-Id", "x")], &list), "HTTP/1.1 404 "),
        (
            request("POST", "/mcp", &[named[0], ("MCP-Protocol-Version", "1999-01-01")], &list),
            "HTTP/1.1 400 ",
        ),
        (
            request(
                "POST",
                "/mcp",
                &named,
                &json!({"jsonrpc": "2.0", "method": "notifications/x"}).to_string(),
            ),
            "HTTP/1.1 202 ",
        ),
        (request("POST", "/mcp", &named, "oops"), "HTTP/1.1 400 "),
        (request("PUT", "/mcp", &named, ""), "HTTP/1.1 405 "),
        (request("GET", "/nowhere", &named, ""), "HTTP/1.1 404 "),
        ("GET /mcp\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (request("DELETE", "/mcp", &named, ""), "HTTP/1.1 204 "),
        (request("POST", "/mcp", &named, &list), "HTTP/1.1 404 "),
    ];
    for (text, start) in rows {
        let (reply, _) = exchange(&http, &text).await;
        assert!(reply.starts_with(start), "{text} gets {start}, not {reply}");
    }
    assert_eq!(http.sessions(), 0);
}

#[tokio::test]
async fn a_script_says_how_unknown_sessions_and_missing_secrets_fare() {
    let list = rpc(1, "tools/list", json!({}));
    let rows = [
        (json!({"unknown_session": 400}), vec![("Mcp-Session-Id", "x")], "HTTP/1.1 400 "),
        (json!({"unknown_session": null}), vec![("Mcp-Session-Id", "x")], ""),
        (json!({"no_session": 404}), vec![], "HTTP/1.1 404 "),
        (
            json!({"require": {"Authorization": "Bearer k"}}),
            vec![],
            "HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\nWWW-Authenticate: Bearer\r\n",
        ),
        (
            json!({"require": {"Authorization": "Bearer k"}, "sessions": false}),
            vec![("Authorization", "Bearer k")],
            "HTTP/1.1 200 ",
        ),
    ];
    for (settings, headers, start) in rows {
        let (_peer, http) = listening(json!({"http": settings}), HttpKind::Streamable).await;
        let (reply, rest) = post(&http, &headers, &list).await;
        let fits = if start.is_empty() { reply.is_empty() } else { reply.starts_with(start) };
        assert!(fits && rest == Quiet, "{settings} gets {start:?}, not {reply:?}");
    }
}

#[tokio::test]
async fn a_stream_that_was_lost_is_taken_up_where_it_ended() {
    let script = json!({"tools": [{"name": "a", "delay_ms": 50}], "http": {"retry_ms": 500},
        "faults": [{"http": {"on": "call", "stream": "ends"}}]});
    let (_peer, http) = listening(script, HttpKind::Streamable).await;
    let id = session(&http).await;
    let call = rpc(2, "tools/call", json!({"name": "a"}));
    let (lost, _) = post(&http, &[("Mcp-Session-Id", &id)], &call).await;
    assert!(lost.contains("retry: 500\n\n") && !lost.contains("result"), "{lost}");
    let event = lost.lines().find_map(|line| line.strip_prefix("id: ")).expect("an event has an id");
    let resume = request("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Last-Event-ID", event)], "");
    let (found, _) = exchange(&http, &resume).await;
    assert!(found.contains("data: {\"id\":2") && found.ends_with("0\r\n\r\n"), "{found}");
}

#[tokio::test]
async fn what_a_server_says_by_itself_comes_on_the_stream_of_get() {
    let script = json!({"faults": [{"list_changed_storm": {"count": 3}}, {"ask": {"what": "roots"}}]});
    let (peer, http) = listening(script, HttpKind::Streamable).await;
    let id = session(&http).await;
    let named = [("Mcp-Session-Id", id.as_str())];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    post(&http, &named, &ready).await;
    let (told, rest) = exchange(&http, &request("GET", "/mcp", &named, "")).await;
    let changed = told.matches("notifications/tools/list_changed").count();
    assert!(told.contains("roots/list") && (changed, rest) == (3, Quiet), "{told}");
    let answer = json!({"jsonrpc": "2.0", "id": "peer-ask-1", "result": {"roots": []}});
    let (reply, _) = post(&http, &named, &answer.to_string()).await;
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    assert_eq!(peer.answers(), vec![answer]);
}

#[tokio::test]
async fn a_modern_request_stands_alone_and_its_headers_say_what_it_says() {
    let script =
        json!({"protocol": "both", "tools": [{"name": "a"}], "ttl_ms": 60000, "http": {"answers": "json"}});
    let (_peer, http) = listening(script, HttpKind::Streamable).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let list = rpc(1, "tools/list", json!({"_meta": meta}));
    let good = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    let (reply, _) = post(&http, &good, &list).await;
    assert!(
        reply.contains("\"resultType\":\"complete\",\"ttlMs\":60000,\"cacheScope\":\"private\""),
        "{reply}"
    );
    let (reply, _) = post(&http, &good[..1], &list).await;
    assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("-32020"), "{reply}");
    assert_eq!(http.sessions(), 0);
    let listen =
        rpc(2, "subscriptions/listen", json!({"_meta": meta, "notifications": {"toolsListChanged": true}}));
    let headers = [good[0], ("Mcp-Method", "subscriptions/listen")];
    let (script, headers) =
        (json!({"protocol": "modern", "faults": [{"list_changed_storm": {"count": 2}}]}), headers);
    let (peer, http) = listening(script, HttpKind::Streamable).await;
    let (told, rest) = post(&http, &headers, &listen).await;
    let tagged = told.matches("{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":2}").count();
    assert!(told.contains("subscriptions/acknowledged") && (tagged, rest) == (3, Quiet), "{told}");
    timeout(Duration::from_secs(5), async {
        while peer.cancellations() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a client that left its subscription has ended it");
}

#[tokio::test]
async fn the_older_transport_answers_on_its_one_stream() {
    let (peer, http) = listening(json!({"tools": [{"name": "a"}]}), HttpKind::Sse).await;
    let mut stream = TcpStream::connect(http.address()).await.expect("the peer listens");
    stream.write_all(request("GET", "/sse", &[], "").as_bytes()).await.expect("the peer reads");
    let (start, _) = heard(&mut stream).await;
    let path = start.lines().find_map(|line| line.strip_prefix("data: ")).expect("the endpoint is named");
    let call = request("POST", path, &[], &rpc(5, "tools/call", json!({"name": "a"})));
    let (reply, _) = exchange(&http, &call).await;
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    let (told, rest) = heard(&mut stream).await;
    assert!(told.contains("data: {\"id\":5") && rest == Quiet, "{told}");
    let (reply, _) = exchange(&http, &request("POST", "/message?sessionId=x", &[], "{}")).await;
    assert!(reply.starts_with("HTTP/1.1 404 "), "{reply}");
    let (counted, _) = exchange(&http, &request("GET", "/_peer", &[], "")).await;
    assert!(counted.contains("\"executions\":{\"a\":1}"), "{counted}");
    assert_eq!(peer.executions("a"), 1);
    drop(stream);
    timeout(Duration::from_secs(5), async {
        while http.sessions() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the session ends with its stream");
}

#[tokio::test]
async fn a_secret_header_is_told_where_the_script_says() {
    for place in ["result", "error"] {
        let fault = json!([{"echo_secret": {"header": "Authorization", "in": place}}]);
        let (_peer, http) = listening(stateless(fault), HttpKind::Streamable).await;
        let call = rpc(1, "tools/call", json!({"name": "a"}));
        let (reply, _) = post(&http, &[("Authorization", "Bearer hush")], &call).await;
        assert!(reply.contains("Bearer hush") && reply.contains(&format!("\"{place}\":")), "{reply}");
    }
}
