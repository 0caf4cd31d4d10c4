//! Lines that are not as they should be: what can be understood is, and the connection stays.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::server::ServerState;
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{PATIENCE, holds, peer, plays, server};

const WORDS: &str = "— 好 🎉 \u{feff}";

fn speaks(faults: Value) -> Arc<Peer> {
    peer(
        json!({"tools": [{"name": "look", "reply": WORDS}, {"name": "other", "reply": "other"}], "faults": faults}),
    )
}

/// The server is ready at once, lists its tools, and answers a call word for word on its first connection.
async fn check(what: &str, faults: Value) -> Arc<Peer> {
    let offering = speaks(faults);
    let begun = Instant::now();
    let runtime = plays([]).peer("a", &offering).start().await;
    let a = server(&runtime, "a");
    for _ in 0..2 {
        let result = a.call("look", &json!({})).await;
        assert_eq!((result.outcome, result.text().as_str()), (CallOutcome::Succeeded, WORDS), "{what}");
    }
    assert!(begun.elapsed() < Duration::from_secs(25), "{what}: no wait for any deadline");
    assert_eq!(
        (a.view().state, a.view().restarts, offering.connections_ever()),
        (ServerState::Ready, 0, 1),
        "{what}"
    );
    offering
}

#[tokio::test(start_paused = true)]
async fn marks_and_line_ends_are_no_part_of_a_message() {
    check("a mark first", json!([{"bom": "first"}])).await;
    check("marks", json!([{"bom": "every"}])).await;
    check("a mark and CR LF", json!([{"bom": "every"}, {"crlf": true}])).await;
    check("a mark, byte by byte", json!([{"bom": "every"}, {"drip_ms": 1}])).await;
    check("CR LF, byte by byte", json!([{"crlf": true}, {"drip_ms": 1}])).await;
    let mark = "\u{feff}";
    check("a mark before one answer", json!([{"say": {"on": "list", "text": mark}}])).await;
}

#[tokio::test(start_paused = true)]
async fn lines_that_only_look_like_messages_are_skipped() {
    let junk = ["2025-07-10 10:49 started", "[info] hello", "123", "\"str\"", "null", "{}", "not json", ""];
    for line in junk {
        check(line, json!([{"junk_line": line}])).await;
    }
    let all: String = junk.iter().map(|line| format!("{line}\n")).collect();
    check("all at once", json!([{"say": {"on": "all", "text": all}}])).await;
}

#[tokio::test(start_paused = true)]
async fn characters_that_arrive_in_pieces_are_whole() {
    check("byte by byte", json!([{"drip_ms": 1}])).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_id_became_a_text_is_the_answer() {
    check("every id as text", json!([{"answer_id": {"as": "text"}}])).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_without_id_or_a_foreign_answer_is_given_to_nobody_else() {
    let lost = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "lost"}});
    check("an error for nobody", json!([{"say": {"on": "call", "message": lost}}])).await;
    for id in ["null", "missing", "wrong", "previous"] {
        let offering = speaks(json!([{"answer_id": {"on": {"tool": "other"}, "as": id}}]));
        let runtime = plays([]).peer("a", &offering).start().await;
        let a = server(&runtime, "a");
        let none = json!({});
        let (stray, sound) = tokio::join!(a.call("other", &none), a.call("look", &none));
        assert_ne!(stray.outcome, CallOutcome::Succeeded, "{id}: {stray:?}");
        assert_eq!((sound.outcome, sound.text().as_str()), (CallOutcome::Succeeded, WORDS), "{id}");
        assert_eq!((a.view().state, offering.connections_ever()), (ServerState::Ready, 1), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_under_a_used_id_is_given_up_in_time_and_told_apart() {
    let offering = speaks(json!([{"answer_id": {"on": "list", "as": "previous"}}]));
    let runtime = plays([]).peer("a", &offering).cold().start().await;
    let a = server(&runtime, "a");
    let begun = Instant::now();
    let refused = a.refresh().await.expect_err("the listing is never answered");
    assert!(begun.elapsed() <= Duration::from_secs(61), "{:?}: {refused}", begun.elapsed());
    assert_eq!(a.list().tools().len(), 0);
    holds("it was not given to another request", || a.view().tools == 0).await;
    assert!(begun.elapsed() < PATIENCE);
}
