//! The contract of a connection, kept over Streamable HTTP and HTTP+SSE, against servers that misbehave.
#![cfg(feature = "mcp-http")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_adapters::mcp::{HttpConnector, SseConnector};
use pilothouse_adapters::policy::{AllowAll, PublicOnly, ServerPolicy};
use pilothouse_adapters::server::{CacheScope, Connection, Connector, Notice, Page};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::endpoint::Endpoint;
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

#[path = "http_contract/faults.rs"]
mod faults;
#[cfg(feature = "mcp-oauth")]
#[path = "http_contract/login.rs"]
mod login;
#[path = "mcp_contract/modern.rs"]
mod modern;
#[allow(dead_code, reason = "processes are for the other transports")]
#[path = "mcp_contract/script.rs"]
mod script;
#[path = "http_contract/site.rs"]
mod site;
#[allow(dead_code, reason = "what a server spoke before is for the other transports")]
#[path = "mcp_contract/terms.rs"]
mod terms;
use script::{first_page, second_page};
use site::{Fault, Kind, SESSION, Sessions, Site};
use terms::{done, request, terms};

/// A key that is sent to every server.
const CANARY: &str = "sk-canary-0123456789";

/// Every way in which a server behind HTTP may answer.
const KINDS: [(Kind, Sessions); 5] = [
    (Kind::Json, Sessions::Yes),
    (Kind::Json, Sessions::No),
    (Kind::Events, Sessions::Yes),
    (Kind::Events, Sessions::No),
    (Kind::Legacy, Sessions::No),
];

fn sound() -> Fault {
    Arc::new(|_| None)
}

fn connector_at(url: &str, kind: Kind, policy: impl ServerPolicy) -> Box<dyn Connector> {
    let endpoint = Endpoint::parse(url).unwrap();
    let headers = BTreeMap::from([("authorization".to_owned(), Secret::new(format!("Bearer {CANARY}")))]);
    let transport = match kind {
        Kind::Legacy => Transport::Sse { endpoint, headers },
        Kind::Json | Kind::Events => Transport::Http { endpoint, headers },
    };
    let definition = ServerDefinition::new(ServerId::new("scripted").unwrap(), transport);
    match kind {
        Kind::Legacy => Box::new(SseConnector::new(&definition, Arc::new(policy)).unwrap()),
        Kind::Json | Kind::Events => Box::new(HttpConnector::new(&definition, Arc::new(policy)).unwrap()),
    }
}

async fn open_at(url: &str, kind: Kind) -> (Arc<dyn Connection>, mpsc::Receiver<Notice>) {
    let (notices, noticed) = mpsc::channel(1);
    let connector = connector_at(url, kind, AllowAll);
    let connected = timeout(Duration::from_secs(20), connector.connect(terms(notices))).await;
    (connected.expect("in time").expect("connected"), noticed)
}

async fn open(site: &Site, kind: Kind) -> Arc<dyn Connection> {
    open_at(&site.url(), kind).await.0
}

async fn refused(url: &str, kind: Kind, policy: impl ServerPolicy) -> ConnectError {
    let (notices, _noticed) = mpsc::channel(1);
    let connector = connector_at(url, kind, policy);
    let connected = timeout(Duration::from_secs(20), connector.connect(terms(notices))).await;
    connected.expect("in time").err().expect("refused")
}

async fn call(link: &dyn Connection, tool: &str, given: Value) -> Result<CallResult, RequestError> {
    let arguments = given.as_object().cloned().unwrap_or_default();
    let calling = done(link.call(request(tool, arguments)));
    timeout(Duration::from_secs(20), calling).await.expect("in time")
}

async fn text(link: &dyn Connection, tool: &str) -> String {
    call(link, tool, json!({})).await.expect("an answer").text()
}

fn said(outcome: CallOutcome, text: &str) -> Result<CallResult, RequestError> {
    Ok(CallResult::said(outcome, text))
}

async fn becomes(what: &str, state: impl Fn() -> bool) {
    let start = Instant::now();
    while !state() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_connection_greets_lists_and_calls() {
    use CallOutcome::{Failed, Succeeded};
    for (kind, sessions) in KINDS {
        let over = format!("{kind:?} {sessions:?}");
        let site = Site::start("plain", kind, sessions, sound()).await;
        let link = open(&site, kind).await;
        assert_eq!(link.protocol(), "2025-06-18", "{over}");
        let tools = first_page().as_array().cloned().unwrap();
        let first = link.list_page(None).await;
        assert_eq!(
            first,
            Ok(Page { tools, next_cursor: Some("second".to_owned()), ..Page::default() }),
            "{over}"
        );
        let tools = second_page().as_array().cloned().unwrap();
        let second = link.list_page(Some("second".to_owned())).await;
        assert_eq!(
            second,
            Ok(Page {
                tools,
                ttl: Some(Duration::from_secs(60)),
                cache: CacheScope::Private,
                ..Page::default()
            }),
            "{over}"
        );
        assert_eq!(call(&*link, "echo", json!({"text": "hé"})).await, said(Succeeded, "hé"), "{over}");
        assert_eq!(call(&*link, "fails", json!({})).await, said(Failed, "no"), "{over}");
        let unknown = RequestError::Server { code: -32602, message: "unknown tool nothing".to_owned() };
        assert_eq!(call(&*link, "nothing", json!({})).await, Err(unknown), "{over}");
        for seen in site.seen().into_iter().filter(|seen| seen.rpc() != "server/discover") {
            let session = seen.headers.get("mcp-session-id").map(String::as_str);
            let expects = sessions == Sessions::Yes && seen.rpc() != "initialize";
            assert_eq!(session, Some(SESSION).filter(|_| expects), "{over}: {seen:?}");
            let bearer = format!("Bearer {CANARY}");
            assert_eq!(seen.headers.get("authorization"), Some(&bearer), "{over}: {seen:?}");
            let version = seen.headers.get("mcp-protocol-version").map(String::as_str);
            let greeted = seen.rpc() != "initialize" && kind != Kind::Legacy;
            assert_eq!(version, Some("2025-06-18").filter(|_| greeted), "{over}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tools_is_not_asked_for_them() {
    for (kind, sessions) in KINDS {
        let site = Site::start("toolless", kind, sessions, sound()).await;
        assert_eq!(open(&site, kind).await.list_page(None).await, Ok(Page::default()), "{kind:?}");
    }
}

#[tokio::test]
async fn changed_tools_are_noticed_on_every_stream() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        let (link, mut noticed) = open_at(&site.url(), kind).await;
        let listens = || site.seen().iter().any(|seen| seen.method == "GET");
        becomes("the stream is open", listens).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(text(&*link, "changes").await, "changed", "{kind:?}");
        let notice = timeout(Duration::from_secs(2), noticed.recv()).await;
        assert_eq!(notice, Ok(Some(Notice::ToolsChanged)), "{kind:?} {sessions:?}");
    }
}

#[tokio::test]
async fn whatever_a_server_asks_is_answered() {
    let expected = r#"elicitation: {"action":"decline"}
misshapen: -32600
ping: {}
roots: {"roots":[]}
sampling: -32601
unknown: -32601"#;
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        // At once: a server asks on a stream that is there, or loses its question.
        let link = open(&site, kind).await;
        assert_eq!(text(&*link, "asks").await, expected, "{kind:?} {sessions:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        let link = open(&site, kind).await;
        let hanging = timeout(Duration::from_millis(500), link.call(request("hangs", Map::new())));
        assert!(hanging.await.is_err(), "{kind:?}");
        let cancelled = || site.seen().iter().any(|seen| seen.rpc() == "notifications/cancelled");
        becomes("the server hears of it", cancelled).await;
        assert_eq!(text(&*link, "cancelled").await, "[2]", "{kind:?}");
    }
}

#[tokio::test]
async fn a_polite_end_ends_calls_and_session_within_the_grace() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        let link = open(&site, kind).await;
        let start = Instant::now();
        let (pending, ()) =
            tokio::join!(call(&*link, "hangs", json!({})), link.close(Duration::from_secs(30)));
        assert_eq!(pending, Err(RequestError::Ended { reason: "closed".to_owned() }), "{kind:?}");
        assert_eq!(link.ended().await, "closed", "{kind:?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{kind:?}: {:?}", start.elapsed());
        let deleted = site.seen().iter().any(|seen| seen.method == "DELETE");
        assert_eq!(deleted, sessions == Sessions::Yes, "{kind:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_take_the_end_is_left_within_the_grace() {
    let fault: Fault = Arc::new(|seen| (seen.method == "DELETE").then(|| vec![site::Act::Hang]));
    let site = Site::start("plain", Kind::Json, Sessions::Yes, fault).await;
    let link = open(&site, Kind::Json).await;
    let start = Instant::now();
    link.close(Duration::from_millis(600)).await;
    assert!((300..2_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(link.ended().await, "closed");
}

#[tokio::test]
async fn a_server_that_dies_ends_the_connection() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        let link = open(&site, kind).await;
        let dying = call(&*link, "dies", json!({})).await.expect_err("no answer");
        assert!(dying.is_retryable(), "{kind:?} {sessions:?}: {dying}");
        let reason = timeout(Duration::from_secs(5), link.ended()).await.expect("it ends");
        assert!(
            reason.contains("cannot be reached") || reason.starts_with("its event stream"),
            "{kind:?} {sessions:?}: {reason}"
        );
        assert_eq!(call(&*link, "echo", json!({})).await, Err(RequestError::Ended { reason }), "{kind:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_fails_says_why() {
    let rows = [
        ("refusing", "the server answered error -32000: not today"),
        ("misshapen", "its answer to `initialize` is malformed: missing field `capabilities`"),
    ];
    for (kind, sessions) in KINDS {
        for (script, reason) in rows {
            let site = Site::start(script, kind, sessions, sound()).await;
            let error = refused(&site.url(), kind, AllowAll).await;
            assert_eq!(error, ConnectError::Handshake { reason: reason.to_owned() }, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_large_answer_is_bounded_by_what_it_costs_to_read() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        let link = open(&site, kind).await;
        let many = call(&*link, "many pieces", json!({})).await.expect("an answer");
        assert_eq!(many.content.len(), 1_001, "{kind:?} {sessions:?}");
    }
}

#[tokio::test]
async fn a_server_is_not_reached_against_the_policy() {
    for (kind, sessions) in KINDS {
        let site = Site::start("plain", kind, sessions, sound()).await;
        for host in ["127.0.0.1", "localhost"] {
            let url = site.url().replace("127.0.0.1", host);
            let error = refused(&url, kind, PublicOnly).await;
            assert!(error.is_permanent(), "{error}");
            let ConnectError::Refused { what, reason } = error else { panic!("{error}") };
            assert!(what.starts_with(&format!("the host \"{host}\" (")), "{what}");
            assert!(reason.ends_with("is a loopback address, and only public ones are allowed"), "{reason}");
        }
        assert_eq!(site.seen().len(), 0, "{kind:?}");
    }
}
