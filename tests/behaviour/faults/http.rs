//! HTTP servers that are not quite what the protocol says: each is used as far as it can be.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::id::ServerId;
use pilothouse::mcp::{Approach, PublicOnly, ServerPolicy};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::{Runtime as Whole, ServerHandle};
use pilothouse_harness::peer::{HttpKind, HttpPeer, Peer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{holds, memory, peer};

/// Enough for a loaded machine; every bound that is tested is smaller or larger by far.
const PATIENCE: Duration = Duration::from_secs(20);

fn look(http: Value, faults: Value) -> Arc<Peer> {
    let tools = json!([{"name": "look", "reply": "seen"}, {"name": "other", "reply": "other"}]);
    peer(json!({"tools": tools, "http": http, "faults": faults}))
}

struct Site {
    peer: Arc<Peer>,
    http: HttpPeer,
    runtime: Whole,
    a: ServerHandle,
}

async fn site_at(address: &str, url: impl Fn(&HttpPeer) -> String, peer: Arc<Peer>) -> Site {
    let http = peer.listen(address, HttpKind::Streamable).await.expect("it listens");
    let server = Server::http("a", url(&http)).effect("look", Effect::Reads).effect("other", Effect::Reads);
    let runtime = Runtime::builder().server(server).start().await.expect("it starts");
    let a = runtime.servers().pop().expect("a server");
    Site { peer, http, runtime, a }
}

async fn site(http: Value, faults: Value) -> Site {
    site_at("127.0.0.1:0", HttpPeer::url, look(http, faults)).await
}

impl Site {
    async fn says(&self, tool: &str) -> (CallOutcome, String) {
        let result = self.a.call(tool, &json!({})).await;
        (result.outcome, result.text())
    }

    /// Lists two tools and answers a call, all on the first connection.
    async fn is_sound(&self, what: &str) {
        assert_eq!(self.a.warm(PATIENCE).await.tools().len(), 2, "{what}: {:?}", self.a.view());
        assert_eq!(self.says("look").await, (CallOutcome::Succeeded, "seen".to_owned()), "{what}");
        let view = self.a.view();
        assert_eq!((view.state, view.restarts), (ServerState::Ready, 0), "{what}: {view:?}");
    }
}

#[tokio::test]
async fn whatever_answers_a_notice_is_no_message_unless_it_is_one() {
    let rows = [
        (200, None, ""),
        (202, None, ""),
        (204, None, ""),
        (202, Some("application/json"), ""),
        (200, Some("application/json; charset=utf-8"), ""),
        (200, Some("application/json"), "null"),
        (200, Some("application/json"), "{}"),
        (200, Some("text/plain"), "OK"),
        (200, Some("text/plain; charset=UTF-8"), "accepted"),
    ];
    for (status, kind, body) in rows {
        let mut fault =
            json!({"on": "notifications/initialized", "status": status, "body": body, "runs": true});
        if let Some(kind) = kind {
            fault["headers"] = json!({"content-type": kind});
        }
        site(json!({}), json!([{"http": fault}]))
            .await
            .is_sound(&format!("{status} {kind:?} {body:?}"))
            .await;
    }
}

#[tokio::test]
async fn a_content_type_is_read_as_one_whatever_its_letters_and_parameters() {
    let rows = [
        ("json", "Application/JSON;charset=UTF-8"),
        ("json", "application/json; charset=utf-8"),
        ("sse", "text/event-stream; charset=utf-8"),
        ("sse", "Text/Event-Stream"),
    ];
    for (answers, kind) in rows {
        let fault = json!([{"http": {"headers": {"content-type": kind}}}]);
        site(json!({"answers": answers, "get": false}), fault).await.is_sound(kind).await;
    }
}

#[tokio::test]
async fn events_are_read_whatever_ends_their_lines() {
    for newline in ["lf", "crlf", "cr"] {
        for drip in [json!([]), json!([{"drip_ms": 1}])] {
            let mut faults = json!([{"newline": newline}]);
            faults.as_array_mut().expect("rows").extend(drip.as_array().cloned().unwrap_or_default());
            site(json!({"answers": "sse"}), faults).await.is_sound(newline).await;
        }
    }
}

#[tokio::test]
async fn a_server_without_a_stream_of_its_own_is_used_by_its_answers() {
    site(json!({"get": false, "answers": "json"}), json!([])).await.is_sound("405").await;
    site(json!({}), json!([{"http": {"on": "GET", "hang": "head"}}]))
        .await
        .is_sound("a stream that hangs")
        .await;
}

#[tokio::test]
async fn an_answer_that_was_lost_is_fetched_or_told_at_once_and_never_run_again() {
    for end in ["ends", "resets"] {
        let fault = json!([{"http": {"on": "call", "stream": end}}]);
        let resumed = site(json!({"event_ids": true, "retry_ms": 10}), fault.clone()).await;
        resumed.a.warm(PATIENCE).await;
        assert_eq!(resumed.says("look").await, (CallOutcome::Succeeded, "seen".to_owned()), "{end}");
        assert_eq!(resumed.peer.executions("look"), 1, "{end}");
    }
    let body = json!({"status": 200, "headers": {"content-type": "text/event-stream"}, "body": ": ping\n\n"});
    let rows = [
        ("ends", body),
        ("reset", json!({"reset": "in_body"})),
        ("hang-up", json!({"reset": "before_answer"})),
    ];
    for (what, mut fault) in rows {
        fault["on"] = json!("call");
        fault["runs"] = json!(true);
        let lost = site(json!({"event_ids": false}), json!([{"http": fault}])).await;
        lost.a.warm(PATIENCE).await;
        let begun = Instant::now();
        let (outcome, words) = lost.says("look").await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {:?}", begun.elapsed());
        assert_eq!(outcome, CallOutcome::Unknown, "{what}: {words}");
        sleep(Duration::from_millis(200)).await;
        assert_eq!(lost.peer.executions("look"), 1, "{what}");
    }
}

#[tokio::test]
async fn an_empty_answer_fails_its_own_call_and_no_other() {
    let headers = json!({"content-type": "application/json"});
    let fault = json!({"on": {"tool": "other"}, "status": 200, "headers": headers, "body": ""});
    let site = site(json!({}), json!([{"http": fault}])).await;
    site.a.warm(PATIENCE).await;
    let (outcome, words) = site.says("other").await;
    assert!(outcome != CallOutcome::Succeeded && words.contains("empty"), "{outcome:?} {words}");
    assert_eq!(site.says("look").await, (CallOutcome::Succeeded, "seen".to_owned()));
}

#[tokio::test]
async fn localhost_is_whichever_address_answers() {
    let resolved: Vec<_> = tokio::net::lookup_host("localhost:0").await.expect("it is a name").collect();
    for address in resolved {
        let url = |http: &HttpPeer| format!("http://localhost:{}/mcp", http.address().port());
        site_at(&address.to_string(), url, look(json!({}), json!([]))).await.is_sound("localhost").await;
    }
}

#[tokio::test]
async fn a_session_that_was_forgotten_is_begun_anew_whatever_the_server_says_of_it() {
    for status in [400, 404, 503] {
        let site = site(json!({"unknown_session": status}), json!([])).await;
        site.a.warm(PATIENCE).await;
        site.http.forget_sessions();
        let begun = Instant::now();
        let mut connects = 0;
        while site.says("look").await.0 != CallOutcome::Succeeded {
            assert!(begun.elapsed() < PATIENCE, "{status}: {:?}", site.a.view());
            connects += 1;
            sleep(Duration::from_millis(50)).await;
        }
        let greeted = site.http.requests().iter().filter(|seen| seen.method == "POST").count();
        assert!(greeted < 60 + connects, "{status}: {greeted} requests");
    }
}

#[tokio::test]
async fn a_stored_listing_brings_no_session_back() {
    let offering = look(json!({}), json!([]));
    let http = offering.listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    let store = memory();
    let start = async |store: pilothouse::store::memory::MemoryStore| {
        let server = Server::http("a", http.url()).effect("look", Effect::Reads);
        let builder = Runtime::builder().server(server).store(Arc::new(store));
        let runtime = builder.start().await.expect("it starts");
        runtime.warm(PATIENCE).await;
        runtime
    };
    let first = start(store.clone()).await;
    drop(first);
    http.forget_sessions();
    let before = http.requests().len();
    let second = start(store.crash()).await;
    let requests = http.requests();
    let post = requests[before.min(requests.len())..].iter().find(|seen| seen.method == "POST");
    assert!(post.is_some_and(|seen| !seen.headers.contains_key("mcp-session-id")), "{post:?}");
    let a = second.servers().pop().expect("a server");
    assert_eq!(a.call("look", &json!({})).await.outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn a_call_that_hangs_before_its_head_holds_up_no_other_and_its_end_is_prompt() {
    let hang = json!([{"http": {"on": {"tool": "other"}, "hang": "head", "runs": true}}]);
    let site = site(json!({}), hang).await;
    site.a.warm(PATIENCE).await;
    let hanging = tokio::spawn({
        let a = site.a.clone();
        async move { a.call("other", &json!({})).await }
    });
    holds("it is under way", || site.peer.executions("other") == 1).await;
    let begun = Instant::now();
    assert_eq!(site.says("look").await.0, CallOutcome::Succeeded);
    hanging.abort();
    let _aborted = hanging.await;
    assert_eq!(site.says("look").await.0, CallOutcome::Succeeded);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_a_server_asks_on_a_stream_that_opens_late_is_answered() {
    let late =
        json!([{"http": {"on": "GET", "delay_ms": 1_000}}, {"ask": {"what": "elicitation", "on": "call"}}]);
    let site = site(json!({"answers": "json"}), late).await;
    site.a.warm(PATIENCE).await;
    let begun = Instant::now();
    let words = "seen\n{\"action\":\"decline\"}".to_owned();
    assert_eq!(site.says("look").await, (CallOutcome::Succeeded, words));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(site.peer.answers().len(), 1);
}

#[tokio::test]
async fn the_list_changed_of_a_stream_is_followed_while_nothing_runs() {
    let offering = look(json!({"answers": "json"}), json!([{"add_tool_after_list": {"name": "late"}}]));
    let site = site_at("127.0.0.1:0", HttpPeer::url, offering).await;
    site.a.warm(PATIENCE).await;
    let opened = || site.http.requests().iter().any(|seen| seen.method == "GET");
    let begun = Instant::now();
    while !opened() {
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(50)).await;
    site.peer.announce_tools();
    let begun = Instant::now();
    while site.a.list().tools().len() != 3 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", site.a.view());
        sleep(Duration::from_millis(5)).await;
    }
    assert!(site.runtime.shutdown().await.is_clean());
    assert_eq!(site.http.sessions(), 0, "the session is ended");
}

/// Allows one host by its very name.
struct Only(&'static str);

impl ServerPolicy for Only {
    fn allows<'a>(
        &'a self,
        _server: &'a ServerId,
        approach: &'a Approach,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        let allowed = matches!(approach, Approach::Connect { host, .. } if host == self.0);
        Box::pin(async move { if allowed { Ok(()) } else { Err("it is not the one".to_owned()) } })
    }
}

/// The server at this URL is given up for good, whatever it would answer.
async fn is_refused(url: &str, policy: impl ServerPolicy) {
    let builder = Runtime::builder().server(Server::http("a", url)).server_policy(policy);
    let runtime = builder.start().await.expect("it starts");
    let a = runtime.servers().pop().expect("a server");
    let begun = Instant::now();
    while a.view().state != ServerState::Failed {
        assert!(begun.elapsed() < PATIENCE, "{url}: {:?}", a.view());
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_inside_is_never_reached_against_the_policy() {
    let inside =
        look(json!({}), json!([])).listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    for url in [&inside.url(), "http://169.254.169.254/mcp", "http://[::ffff:127.0.0.1]:9/mcp"] {
        is_refused(url, PublicOnly).await;
    }
    let location = inside.url().replace("127.0.0.1", "localhost");
    let away = json!([{"http": {"status": 307, "headers": {"location": location}}}]);
    let first = look(json!({}), away).listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    is_refused(&first.url(), Only("127.0.0.1")).await;
    assert!(!first.requests().is_empty(), "the first hop is allowed");
    assert_eq!(inside.requests(), []);
}

/// B254: what one request meets is no other's.
#[tokio::test]
async fn of_two_hundred_calls_each_tenth_of_which_fails_no_other_does() {
    let each_tenth = |n: u64| json!({"http": {"on": {"method": "tools/call", "nth": 10 * n}, "status": 500}});
    let site = site(json!({}), (1..=20).map(each_tenth).collect()).await;
    site.a.warm(PATIENCE).await;
    let mut told = std::collections::BTreeMap::new();
    for _ in 0..8 {
        let mut wave = tokio::task::JoinSet::new();
        for _ in 0..25 {
            let server = site.a.clone();
            wave.spawn(async move { server.call("look", &json!({})).await.outcome });
        }
        for outcome in wave.join_all().await {
            *told.entry(format!("{outcome:?}")).or_insert(0) += 1;
        }
    }
    assert_eq!(told.remove("Succeeded"), Some(180), "{told:?}");
    assert_eq!(told.values().sum::<i32>(), 20, "{told:?}");
    let view = site.a.view();
    assert_eq!((view.state, view.restarts), (ServerState::Ready, 0), "{view:?}");
}
