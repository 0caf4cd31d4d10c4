use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::error::RequestError;
use pilothouse_messages::limits::WAIT_MAX;
use serde_json::{Value, json};

use super::{CONTENT_PIECES_MAX, called, page, result};
use crate::server::{CacheScope, Page};

fn ok(outcome: CallOutcome, content: Vec<Content>) -> Result<CallResult, RequestError> {
    Ok(CallResult { outcome, content, retry_after_ms: None })
}

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn malformed<T>(reason: &str) -> Result<T, RequestError> {
    Err(RequestError::Malformed { reason: reason.to_owned() })
}

fn check_call(answer: Value, expected: Result<CallResult, RequestError>) {
    assert_eq!(result(answer.clone()).and_then(called), expected, "{answer}");
}

#[test]
fn an_answer_to_a_call_becomes_an_outcome_and_its_content() {
    use CallOutcome::{Failed, Succeeded};
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let hidden = json!({"type": "text", "text": "no", "annotations": {"audience": ["user"]}});
    let both = json!({"type": "text", "text": "yes", "annotations": {"audience": ["user", "assistant"]}});
    let of = |result: Value| json!({"result": result});

    check_call(of(json!({"content": [{"type": "text", "text": "a"}]})), ok(Succeeded, vec![text("a")]));
    check_call(
        of(json!({"content": [{"type": "text", "text": "no"}], "isError": true})),
        ok(Failed, vec![text("no")]),
    );
    check_call(of(json!({"content": [], "isError": "yes"})), ok(Failed, vec![]));
    check_call(
        of(json!({"content": [image], "isError": false})),
        ok(Succeeded, vec![Content::Other(image.into())]),
    );
    check_call(
        of(json!({"content": [{"type": "text"}]})),
        ok(Succeeded, vec![Content::Other(json!({"type": "text"}).into())]),
    );
    check_call(of(json!({"content": [hidden, both]})), ok(Succeeded, vec![text("yes")]));
    check_call(
        of(json!({"structuredContent": {"n": 1}})),
        ok(Succeeded, vec![Content::Other(json!({"n": 1}).into())]),
    );
    check_call(
        of(json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": 1}})),
        ok(Succeeded, vec![text("1")]),
    );
    check_call(of(json!({})), ok(Succeeded, vec![]));
    check_call(of(json!({"content": "a"})), malformed("`content` is no list"));
    check_call(of(json!([])), malformed("its result is no JSON object"));
    check_call(json!({}), malformed("its result is no JSON object"));
    check_call(json!(1), malformed("it is no JSON object"));
    check_call(
        json!({"error": {"code": -32602, "message": "no such tool"}, "result": {}}),
        Err(RequestError::Server { code: -32602, message: "no such tool".to_owned() }),
    );
    check_call(
        json!({"error": "?"}),
        Err(RequestError::Server { code: 0, message: "(no message)".to_owned() }),
    );
}

#[test]
fn pieces_beyond_the_bound_are_cut_and_the_result_says_so() {
    let answer =
        |pieces: usize| json!({"result": {"content": vec![json!({"type": "text", "text": "a"}); pieces]}});
    let kept = vec![text("a"); CONTENT_PIECES_MAX];
    check_call(answer(CONTENT_PIECES_MAX), ok(CallOutcome::Succeeded, kept.clone()));
    let cut = text("[cut: the result has 1500 pieces, 1000 are shown]");
    check_call(answer(1_500), ok(CallOutcome::Succeeded, [kept, vec![cut]].concat()));
}

fn check_page(answer: Value, expected: Result<Page, RequestError>) {
    let answer = json!({"result": answer});
    assert_eq!(result(answer.clone()).and_then(page), expected, "{answer}");
}

#[test]
fn an_answer_to_a_listing_becomes_a_page_with_its_tools_untouched() {
    let tools = vec![json!({"name": "a", "execution": {"taskSupport": "optional"}}), json!(7)];
    let of = |next_cursor: Option<&str>| {
        Ok(Page { tools: tools.clone(), next_cursor: next_cursor.map(Into::into), ..Page::default() })
    };
    check_page(json!({"tools": tools, "nextCursor": "2"}), of(Some("2")));
    check_page(json!({"tools": tools, "nextCursor": null}), of(None));
    check_page(json!({"tools": tools, "nextCursor": ""}), of(None));
    check_page(json!({"tools": tools}), of(None));
    check_page(json!({"tools": tools, "nextCursor": 2}), malformed("`nextCursor` is no string"));
    check_page(json!({"tools": {}}), malformed("`tools` is no list"));
}

#[test]
fn a_page_says_how_long_and_for_whom_it_holds() {
    let read = |rest: Value| {
        let Value::Object(mut result) = rest else { panic!("an object") };
        result.insert("tools".to_owned(), json!([]));
        let page = page(result).unwrap();
        (page.ttl, page.cache)
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    for (said, expected) in [
        (json!({}), (None, CacheScope::Public)),
        (json!({"ttlMs": 1_500, "cacheScope": "public"}), (ms(1_500), CacheScope::Public)),
        (json!({"ttlMs": 0, "cacheScope": "private"}), (ms(0), CacheScope::Private)),
        (json!({"ttlMs": -1, "cacheScope": "secret"}), (None, CacheScope::Private)),
        (json!({"ttlMs": u64::MAX}), (Some(WAIT_MAX), CacheScope::Public)),
    ] {
        assert_eq!(read(said.clone()), expected, "{said}");
    }
}
