//! One row for each way in which an HTTP server may fail a request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pilothouse_adapters::policy::AllowAll;

use super::site::{Act, json_body, response, stream};
use super::*;

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"whole"}]}}"#;

fn on_call(acts: Vec<Act>) -> Fault {
    Arc::new(move |seen| (seen.tool() == "x").then(|| acts.clone()))
}

fn malformed(reason: &str) -> Result<CallResult, RequestError> {
    Err(RequestError::Malformed { reason: reason.to_owned() })
}

fn broken(reason: &str) -> Result<CallResult, RequestError> {
    Err(RequestError::Interrupted { reason: reason.to_owned() })
}

fn server(code: i64, message: &str) -> Result<CallResult, RequestError> {
    Err(RequestError::Server { code, message: message.to_owned() })
}

fn http(status: u16, reason: &str) -> Result<CallResult, RequestError> {
    Err(RequestError::Http { status, reason: reason.to_owned() })
}

fn error(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32000,"message":"no"}}}}"#)
}

async fn check(what: &str, acts: Vec<Act>, expected: Result<CallResult, RequestError>) {
    let site = Site::start("plain", Kind::Json, Sessions::Yes, on_call(acts)).await;
    let link = open(&site, Kind::Json).await;
    let start = Instant::now();
    assert_eq!(call(&*link, "x", json!({})).await, expected, "{what}");
    assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
    // The server is there, so the connection is, too.
    assert_eq!(
        call(&*link, "echo", json!({"text": "on"})).await,
        said(CallOutcome::Succeeded, "on"),
        "{what}"
    );
}

#[tokio::test]
async fn a_request_that_fails_fails_at_once_and_alone() {
    let json_type = "content-type: application/json\r\n";
    let whole = || said(CallOutcome::Succeeded, "whole");
    let mut cut = json_body(ANSWER);
    if let Some(Act::Write(bytes)) = cut.first_mut() {
        bytes.truncate(bytes.len() - 10);
    }
    let one_by_one = |mut acts: Vec<Act>| match acts.pop() {
        Some(Act::Write(bytes)) => vec![Act::OneByOne(bytes)],
        _ => panic!("it is one piece"),
    };
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(17 << 20));
    let many_headers = format!("{json_type}{}", "x-a: b\r\n".repeat(1_000));
    let rows = [
        (
            "400 with an id",
            response("400 Bad Request", json_type, &error(r#""id":2,"#)),
            server(-32000, "no"),
        ),
        ("400 without id", response("400 Bad Request", json_type, &error("")), server(-32000, "no")),
        ("422 of text", response("422 Nope", "", "bad\n"), http(422, "it says \"bad\"")),
        ("405", response("405 No", "", ""), http(405, "it says nothing else")),
        ("500", response("500 Oh", "", "oops"), http(500, "it says \"oops\"")),
        (
            "503 with an error",
            response("503 Busy", json_type, &error(r#""id":2,"#)),
            http(503, "error -32000: no"),
        ),
        ("error without id", json_body(&error("")), server(-32000, "no")),
        ("error with null id", json_body(&error(r#""id":null,"#)), server(-32000, "no")),
        (
            "error with null id, event",
            stream(&format!("data: {}\n\n", error(r#""id":null,"#))),
            server(-32000, "no"),
        ),
        ("id as text", json_body(&ANSWER.replace(":2,", ":\"2\",")), whole()),
        ("another id", json_body(&ANSWER.replace(":2,", ":77,")), malformed("it answers another request")),
        (
            "202",
            response("202 Accepted", "", ""),
            malformed("HTTP 202 says that there is none, but a request needs one"),
        ),
        ("empty 200", json_body(""), malformed("it is empty")),
        ("no JSON", json_body("<html>"), malformed("it is no JSON-RPC message")),
        (
            "HTML",
            response("200 OK", "content-type: text/html\r\n", "<html>"),
            malformed("its content type is \"text/html\", not application/json or text/event-stream"),
        ),
        ("no type", response("200 OK", "", ANSWER), malformed("it has no content type")),
        ("hang-up", vec![], broken("connection closed before message completed")),
        ("cut", cut, broken("end of file before message length reached")),
        ("reset", vec![Act::Reset], broken("Connection reset by peer (os error 104)")),
        ("ended stream", stream(": nothing\n\n"), broken("its event stream ended without the answer")),
        ("too long", json_body(&large), malformed("it is longer than 16 MiB")),
        ("too long an event", stream(&format!("data: {large}\n\n")), malformed("it is longer than 16 MiB")),
        ("too many headers", response("200 OK", &many_headers, ANSWER), broken("message head is too large")),
        ("slow", one_by_one(json_body(ANSWER)), whole()),
        ("slow events", one_by_one(stream(&format!("data: {ANSWER}\r\n\r\n"))), whole()),
    ];
    for (what, acts, expected) in rows {
        check(what, acts, expected).await;
    }
}

#[tokio::test]
async fn a_call_waits_for_the_stream_of_questions_but_not_long() {
    let silent: Fault = Arc::new(|seen| (seen.method == "GET").then(|| vec![Act::Hang]));
    let site = Site::start("plain", Kind::Json, Sessions::Yes, silent).await;
    let link = open(&site, Kind::Json).await;
    let start = Instant::now();
    link.list_page(None).await.expect("it is listed");
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "a listing waits for nothing: {:?}",
        start.elapsed()
    );
    let echo = || async { call(&*link, "echo", json!({"text": "on"})).await };
    assert_eq!(echo().await, said(CallOutcome::Succeeded, "on"));
    assert!((700..3_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(echo().await, said(CallOutcome::Succeeded, "on"));
    assert!(start.elapsed() < Duration::from_millis(500), "only the first waits: {:?}", start.elapsed());
}

#[tokio::test]
async fn an_error_that_comes_with_http_400_is_what_the_greeting_goes_by() {
    let modern = Ok("2026-07-28".to_owned());
    let refused = |words: &str| Err(ConnectError::Handshake { reason: words.to_owned() });
    let rows = [
        (-32022, json!({"supported": ["2026-07-28"], "requested": "2026-07-28"}), modern),
        (
            -32022,
            json!({"supported": ["2030-01-01"]}),
            refused(
                "it speaks MCP \"2030-01-01\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
            ),
        ),
        (-32021, json!({}), refused("the server answered error -32021: no")),
    ];
    for (code, data, expected) in rows {
        let told = AtomicBool::new(false);
        let body = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": "no", "data": data}});
        let answer = response("400 Bad Request", "content-type: application/json\r\n", &body.to_string());
        let once: Fault = Arc::new(move |_| (!told.swap(true, Ordering::Relaxed)).then(|| answer.clone()));
        let site = Site::start("modern", Kind::Json, Sessions::No, once).await;
        let (notices, _noticed) = mpsc::channel(1);
        let connector = connector_at(&site.url(), Kind::Json, AllowAll);
        let connected = timeout(Duration::from_secs(20), connector.connect(terms(notices))).await;
        let agreed = connected.expect("in time").map(|link| link.protocol().to_owned());
        assert_eq!(agreed, expected, "{code}");
        // Whoever says so is modern, and is never talked down.
        let asked: Vec<_> = site.seen().iter().map(|seen| seen.rpc().to_owned()).collect();
        assert!(!asked.iter().any(|method| method == "initialize"), "{code}: {asked:?}");
    }
}

#[tokio::test]
async fn a_server_that_wants_other_credentials_says_so_and_is_not_tried_again() {
    for (status, words) in
        [(401, "give it a token or a header that it takes"), (403, "what it was given does not allow this")]
    {
        for kind in [Kind::Json, Kind::Legacy] {
            let body = format!("{CANARY} is no key");
            let answer = response(&format!("{status} No"), "www-authenticate: Bearer realm=\"x\"\r\n", &body);
            let site =
                Site::start("plain", kind, Sessions::No, Arc::new(move |_| Some(answer.clone()))).await;
            let error = refused(&site.url(), kind, AllowAll).await;
            let reason =
                format!("the server answered HTTP {status}, it says \"<secret> is no key\"; {words}");
            let challenge = Some("Bearer realm=\"x\"".to_owned());
            assert!(error.is_permanent());
            assert_eq!(error, ConnectError::Unauthorised { reason, challenge }, "{kind:?}");
            assert_eq!(site.seen().len(), 1, "{kind:?}");
        }
        let acts = response(&format!("{status} No"), "", "");
        let reason = format!("the server answered HTTP {status}, it says nothing else; {words}");
        check("of a call", acts, Err(RequestError::Unauthorised { reason, challenge: None })).await;
    }
}

#[tokio::test]
async fn a_session_that_the_server_has_forgotten_ends_the_connection() {
    for status in ["400 Bad Request", "404 Not Found"] {
        let forgotten = Arc::new(AtomicBool::new(false));
        let forgets = forgotten.clone();
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"},"id":null}"#;
        let forgetful: Fault = Arc::new(move |_| {
            forgets
                .load(Ordering::Relaxed)
                .then(|| response(status, "content-type: application/json\r\n", body))
        });
        let site = Site::start("plain", Kind::Json, Sessions::Yes, forgetful).await;
        let link = open(&site, Kind::Json).await;
        forgotten.store(true, Ordering::Relaxed);
        let gone = Err(RequestError::Ended { reason: "the session is gone".to_owned() });
        assert_eq!(call(&*link, "echo", json!({})).await, gone, "{status}");
        assert_eq!(link.ended().await, "the session is gone", "{status}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_resumed_after_its_last_event() {
    let resumed: Fault = Arc::new(|seen| match (seen.tool(), seen.headers.get("last-event-id")) {
        ("x", None) => Some(stream("id: 7\nretry: 100\ndata:\n\n")),
        (_, Some(id)) if id == "7" => Some(stream(&format!("id: 8\ndata: {ANSWER}\n\n"))),
        _ => None,
    });
    for sessions in [Sessions::Yes, Sessions::No] {
        let site = Site::start("plain", Kind::Events, sessions, resumed.clone()).await;
        let link = open(&site, Kind::Events).await;
        let start = Instant::now();
        assert_eq!(call(&*link, "x", json!({})).await, said(CallOutcome::Succeeded, "whole"));
        assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn an_answer_is_resumed_five_times_in_a_row_and_no_more() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let never: Fault = Arc::new(move |seen| match (seen.tool(), seen.headers.get("last-event-id")) {
        ("x", None) => Some(stream("id: 7\nretry: 1\ndata:\n\n")),
        (_, Some(_)) => {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(stream(": nothing\n\n"))
        }
        _ => None,
    });
    let site = Site::start("plain", Kind::Events, Sessions::Yes, never).await;
    let link = open(&site, Kind::Events).await;
    let failed = call(&*link, "x", json!({})).await;
    assert_eq!(
        (failed, asked.load(Ordering::Relaxed)),
        (broken("its event stream ended without the answer"), 5)
    );
}

#[tokio::test]
async fn a_redirect_is_followed_without_secrets_to_another_origin() {
    let target = Site::start("plain", Kind::Json, Sessions::No, sound()).await;
    let url = target.url();
    let away: Fault = Arc::new(move |_| Some(response("307 Away", &format!("location: {url}\r\n"), "")));
    let site = Site::start("plain", Kind::Json, Sessions::No, away).await;
    let link = open(&site, Kind::Json).await;
    assert_eq!(call(&*link, "echo", json!({"text": "on"})).await, said(CallOutcome::Succeeded, "on"));
    for seen in target.seen() {
        assert!(!format!("{seen:?}").contains(CANARY), "{seen:?}");
    }
    assert!(site.seen().iter().all(|seen| seen.headers.contains_key("authorization")));
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_secrets_and_a_loop_ends() {
    let slash: Fault =
        Arc::new(|seen| (seen.path == "/old").then(|| response("308 Moved", "location: /mcp\r\n", "")));
    let site = Site::start("plain", Kind::Json, Sessions::Yes, slash).await;
    let (link, _noticed) = open_at(&site.url().replace("/mcp", "/old"), Kind::Json).await;
    assert_eq!(call(&*link, "echo", json!({"text": "on"})).await, said(CallOutcome::Succeeded, "on"));
    assert!(site.seen().iter().all(|seen| seen.headers.contains_key("authorization")));

    let around: Fault = Arc::new(|_| Some(response("307 Again", "location: /mcp\r\n", "")));
    let site = Site::start("plain", Kind::Json, Sessions::Yes, around).await;
    let error = refused(&site.url(), Kind::Json, AllowAll).await;
    assert_eq!(error, ConnectError::Handshake { reason: "it redirects more than 5 times".to_owned() });
    // Asked in both generations, and each time until that bound.
    assert_eq!(site.seen().len(), 12);
}

#[tokio::test]
async fn messages_go_to_no_endpoint_on_another_origin() {
    let elsewhere: Fault =
        Arc::new(|_| Some(stream("event: endpoint\ndata: http://127.0.0.2:9/message\n\n")));
    let site = Site::start("plain", Kind::Legacy, Sessions::No, elsewhere).await;
    let error = refused(&site.url(), Kind::Legacy, AllowAll).await;
    let reason = "its endpoint for messages is on another origin; nothing is sent there".to_owned();
    assert_eq!(error, ConnectError::Handshake { reason });
}

#[tokio::test]
async fn no_secret_comes_back_in_the_words_of_a_server() {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":2,"error":{{"code":1,"message":"{CANARY} in {SESSION} is wrong"}}}}"#
    );
    check("echoed", json_body(&body), server(1, "<secret> in <secret> is wrong")).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_unreachable() {
    let site = Site::start("plain", Kind::Json, Sessions::No, sound()).await;
    let url = site.url();
    drop(site);
    tokio::time::sleep(Duration::from_millis(50)).await;
    for kind in [Kind::Json, Kind::Legacy] {
        let error = refused(&url, kind, AllowAll).await;
        assert!(!error.is_permanent());
        let reason = "it cannot be reached: Connection refused (os error 111)".to_owned();
        assert_eq!(error, ConnectError::Handshake { reason }, "{kind:?}");
    }
}
