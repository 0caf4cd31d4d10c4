use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::error::RequestError;
use pilothouse_messages::limits::WAIT_MAX;
use serde_json::{Value, json};

use super::{CONTENT_PIECES_MAX, TASK_ID_BYTES_MAX, TaskTold, call_answer, called, page, result, task_told};
use crate::server::{CacheScope, CallAnswer, InputRequired, Page, TaskState, TaskTicket};

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
    let structured = || Content::Structured(json!({"n": 1}).into());
    check_call(of(json!({"structuredContent": {"n": 1}})), ok(Succeeded, vec![structured()]));
    check_call(
        of(json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": 1}})),
        ok(Succeeded, vec![text("1"), structured()]),
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
    check_page(json!({"tools": tools, "nextCursor": ""}), of(Some("")));
    check_page(json!({"tools": tools}), of(None));
    check_page(json!({"tools": tools, "nextCursor": 2}), malformed("`nextCursor` is no string"));
    check_page(json!({"tools": {}}), malformed("`tools` is no list"));
}

#[test]
fn how_long_a_page_stays_fresh_and_whose_it_is_is_read() {
    let of =
        |ttl: Option<u64>, cache| Ok(Page { ttl: ttl.map(Duration::from_millis), cache, ..Page::default() });
    let page = |ttl: Value, scope: Value| json!({"tools": [], "ttlMs": ttl, "cacheScope": scope});
    check_page(page(json!(1_500), json!("private")), of(Some(1_500), CacheScope::Private));
    check_page(page(json!(0), json!("public")), of(Some(0), CacheScope::Public));
    check_page(page(json!(null), json!(null)), of(None, CacheScope::Public));
    check_page(page(json!(-1), json!("nobody's")), of(None, CacheScope::Private));
    let longest = u64::try_from(WAIT_MAX.as_millis()).unwrap();
    check_page(page(json!(1e300), json!(7)), of(Some(longest), CacheScope::Private));
}

fn check_answer(answer: Value, expected: Result<CallAnswer, RequestError>) {
    let answer = json!({"result": answer});
    assert_eq!(result(answer.clone()).and_then(call_answer), expected, "{answer}");
}

fn ticket(id: &str, poll_after: Option<u64>, ttl: Option<u64>) -> TaskTicket {
    let [poll_after, ttl] = [poll_after, ttl].map(|millis| millis.map(Duration::from_millis));
    TaskTicket { id: id.to_owned(), poll_after, ttl }
}

#[test]
fn a_call_is_answered_by_its_result_by_questions_or_by_a_task() {
    let done = |text: &str| Ok(CallAnswer::Done(CallResult::said(CallOutcome::Succeeded, text)));
    let content = json!([{"type": "text", "text": "a"}]);
    check_answer(json!({"content": content}), done("a"));
    check_answer(json!({"resultType": "complete", "content": content, "task": {}}), done("a"));
    check_answer(json!({"resultType": "new"}), malformed("its `resultType` is unknown"));

    let asked = |requests: Value, state: Option<&str>| {
        let requests = requests.as_object().cloned().unwrap_or_default();
        Ok(CallAnswer::InputRequired(InputRequired { requests, state: state.map(Into::into) }))
    };
    let request = json!({"k": {"method": "roots/list"}});
    let of = |requests: &Value, state: Value| json!({"resultType": "input_required", "inputRequests": requests, "requestState": state});
    check_answer(of(&request, json!("s")), asked(request.clone(), Some("s")));
    check_answer(of(&Value::Null, Value::Null), asked(json!({}), None));
    check_answer(of(&json!([]), Value::Null), malformed("`inputRequests` is no JSON object"));
    check_answer(of(&request, json!({})), malformed("`requestState` is no string"));

    let task = |id, poll, ttl| Ok(CallAnswer::Task(ticket(id, poll, ttl)));
    let modern =
        json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": null, "pollIntervalMs": 5});
    check_answer(modern, task("t", Some(5), None));
    let legacy = json!({"task": {"taskId": "t", "status": "working", "ttl": 9, "pollInterval": 5}});
    check_answer(legacy, task("t", Some(5), Some(9)));
    check_answer(json!({"task": {"status": "working"}}), malformed("its task has no id, or too long a one"));
    let long = "t".repeat(TASK_ID_BYTES_MAX + 1);
    check_answer(
        json!({"resultType": "task", "taskId": long}),
        malformed("its task has no id, or too long a one"),
    );
}

fn check_task(mut task: Value, expected: Result<TaskTold, RequestError>) {
    task["taskId"] = json!("t");
    let answer = json!({"result": task});
    assert_eq!(result(answer.clone()).and_then(task_told), expected, "{answer}");
}

#[test]
fn a_task_works_asks_or_is_over() {
    let is = |state| Ok(TaskTold::State(state));
    let done = |outcome, words: &str| is(TaskState::Done(CallResult::said(outcome, words)));
    check_task(json!({"status": "working"}), is(TaskState::Working(ticket("t", None, None))));
    let asked = InputRequired::default();
    let asks = is(TaskState::InputRequired(ticket("t", None, None), asked));
    check_task(json!({"status": "input_required"}), asks);
    check_task(json!({"status": "completed"}), Ok(TaskTold::Over));
    let content = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    check_task(json!({"status": "completed", "result": content}), done(CallOutcome::Failed, "no"));
    let error = json!({"code": -32603, "message": "boom"});
    let words = "the task failed with error -32603: boom";
    check_task(json!({"status": "failed", "error": error}), done(CallOutcome::Failed, words));
    let said = json!({"status": "failed", "statusMessage": "no disk"});
    check_task(said, done(CallOutcome::Failed, "the task failed: no disk"));
    let words = "the server cancelled the task";
    check_task(json!({"status": "cancelled"}), done(CallOutcome::Cancelled, words));
    check_task(json!({"status": "lost"}), malformed("its task has no known status"));
}
