//! Models of providers over the wire: recorded shapes of each API, requests that a strict provider takes, and what
//! becomes of its errors.
#![cfg(feature = "models")]

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::model::hosted::{Account, AccountError, HostedModel, Models};
use pilothouse_adapters::model::{Model, ModelError, ModelResolver, ModelStream};
use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::id::{CallId, StepId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{
    FinishReason, HistoryCall, HistoryItem, ModelEvent, ModelLimits, ModelRequest, Usage,
};
use pilothouse_messages::secret::Secret;
use pilothouse_messages::tool::{ShownTool, SurfaceView};
use serde_json::{Value, json};
use tokio::time::timeout;

#[path = "models/provider.rs"]
mod provider;
#[path = "models/strict.rs"]
mod strict;
use provider::{Answer, Provider};

/// A key that is sent to every provider, and shown nowhere.
const CANARY: &str = "sk-canary-0123456789";
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Api {
    OpenAi,
    Compatible,
    Anthropic,
}

const APIS: [Api; 3] = [Api::OpenAi, Api::Compatible, Api::Anthropic];

fn account(api: Api, url: &str) -> Account {
    let key = Secret::new(CANARY);
    match api {
        Api::OpenAi => Account::openai(key).base_url(url),
        Api::Compatible => Account::compatible(url).key(key),
        Api::Anthropic => Account::anthropic(key).base_url(url),
    }
}

fn model(api: Api, url: &str) -> HostedModel {
    account(api, url).model("m-1").expect("the account can be used")
}

fn shape(name: &str) -> String {
    let path = format!("{}/tests/models/shapes/{name}.sse", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.to_owned() }
}

fn assistant(text: &str, calls: Vec<HistoryCall>) -> HistoryItem {
    HistoryItem::Assistant { text: text.to_owned(), calls }
}

fn id(turn: u64, index: u32) -> CallId {
    CallId { turn: TurnId(turn), step: StepId(1), index }
}

fn asked(turn: u64, index: u32, name: &str, arguments: &str) -> HistoryCall {
    let arguments = JsonText::parse(arguments).expect("it is JSON");
    HistoryCall { call: id(turn, index), name: name.to_owned(), arguments }
}

fn result(turn: u64, index: u32, outcome: CallOutcome, text: &str) -> HistoryItem {
    HistoryItem::Tool { call: id(turn, index), result: CallResult::said(outcome, text) }
}

fn request(history: Vec<HistoryItem>) -> ModelRequest {
    ModelRequest::new(history, Arc::new(SurfaceView::new(vec![])))
}

async fn next(stream: &mut ModelStream) -> Option<Result<ModelEvent, ModelError>> {
    let next = std::future::poll_fn(|cx| Pin::as_mut(stream).poll_next(cx));
    timeout(PATIENCE, next).await.expect("something comes")
}

/// Everything that a stream brings, and the error that ends it.
async fn all(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut events = Vec::new();
    while let Some(event) = next(&mut stream).await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert_eq!(next(&mut stream).await, None, "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

async fn check(api: Api, name: &str, expected: (Vec<ModelEvent>, Option<ModelError>)) {
    for answer in [Answer::Events(shape(name)), Answer::Bytes(shape(name))] {
        let provider = Provider::start([answer]).await;
        let came = all(model(api, &provider.url()).run(request(vec![user("Go.")]))).await;
        assert_eq!(came, expected, "{name} from {api:?}");
    }
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn reasoning(text: &str) -> ModelEvent {
    ModelEvent::Reasoning(text.to_owned())
}

fn start(index: u32, provider_id: &str, name: &str) -> ModelEvent {
    ModelEvent::CallStart { index, provider_id: Some(provider_id.to_owned()), name: name.to_owned() }
}

fn delta(index: u32, arguments: &str) -> ModelEvent {
    ModelEvent::CallDelta { index, arguments: arguments.to_owned() }
}

fn usage(input: u64, output: u64) -> ModelEvent {
    ModelEvent::Usage(Usage { input, output })
}

const STOP: ModelEvent = ModelEvent::Finish(FinishReason::Stop);
const LENGTH: ModelEvent = ModelEvent::Finish(FinishReason::Length);
const REFUSED: ModelEvent = ModelEvent::Finish(FinishReason::Refused);

#[tokio::test]
async fn openais_chunks_become_events_with_calls_by_index() {
    let api = Api::OpenAi;
    let calls = vec![
        start(0, "call_Qz81", "tide"),
        delta(0, "{\"harbour\":"),
        start(1, "call_Rb02", "wind"),
        delta(0, "\"Brest\"}"),
        delta(1, "{}"),
        usage(82, 37),
        STOP,
    ];
    check(api, "openai_calls", (calls, None)).await;
    let said = vec![text("High tide"), text(" is at noon. 🌊"), usage(120, 8), STOP];
    check(api, "openai_text", (said, None)).await;
    check(api, "openai_length", (vec![text("Once upon"), LENGTH], None)).await;
    check(api, "openai_refusal", (vec![text("I cannot help with that."), REFUSED], None)).await;
    check(api, "openai_filter", (vec![REFUSED], None)).await;
    let words = "The server had an error while processing your request.".to_owned();
    let broke = ModelError::Busy { status: 500, message: words, retry_after: None };
    check(api, "openai_error", (vec![text("We")], Some(broke))).await;
}

#[tokio::test]
async fn slips_of_those_who_speak_like_openai_are_read_as_they_are_meant() {
    let api = Api::Compatible;
    let thought = vec![reasoning("Tides follow"), reasoning(" the moon."), usage(9, 6), text("Noon."), STOP];
    check(api, "compatible_reasoning", (thought, None)).await;
    let one_index = vec![
        start(0, "function-call-1", "tide"),
        delta(0, "{\"harbour\":\"Brest\"}"),
        start(1, "function-call-2", "wind"),
        delta(1, "{}"),
        STOP,
    ];
    check(api, "compatible_one_index", (one_index, None)).await;
    let no_index = vec![
        start(0, "call_a", "tide"),
        delta(0, "{\"harbour\":\"Brest\"}"),
        start(1, "call_b", "wind"),
        delta(1, "{}"),
        STOP,
    ];
    check(api, "compatible_no_index", (no_index, None)).await;
    let late = vec![start(0, "call_a", "tide"), delta(0, "{\"a\""), delta(0, ":1}"), STOP];
    check(api, "compatible_late_name", (late, None)).await;
}

#[tokio::test]
async fn anthropics_events_become_events_with_calls_by_block() {
    let api = Api::Anthropic;
    let calls = vec![
        usage(412, 2),
        text("Let me look."),
        start(1, "toolu_01T", "tide"),
        delta(1, "{\"harbour\": "),
        delta(1, "\"Brest\"}"),
        start(2, "toolu_01U", "wind"),
        usage(412, 89),
        STOP,
    ];
    check(api, "anthropic_calls", (calls, None)).await;
    let thought = vec![usage(25, 1), reasoning("Tides follow the moon."), text("Noon."), usage(25, 15), STOP];
    check(api, "anthropic_thinking", (thought, None)).await;
    let ends = [
        ("max_tokens", LENGTH),
        ("model_context_window_exceeded", LENGTH),
        ("refusal", REFUSED),
        ("stop_sequence", STOP),
    ];
    for (reason, finish) in ends {
        let events = vec![usage(3, 1), usage(3, 4), finish];
        check(api, &format!("anthropic_{reason}"), (events, None)).await;
    }
    let busy = ModelError::Busy { status: 529, message: "Overloaded".to_owned(), retry_after: None };
    check(api, "anthropic_overloaded", (vec![usage(3, 1)], Some(busy))).await;
    let at_once = vec![
        usage(3, 1),
        start(0, "toolu_gw", "tide"),
        delta(0, "{\"harbour\":\"Brest\"}"),
        usage(3, 9),
        STOP,
    ];
    check(api, "anthropic_input_at_once", (at_once, None)).await;
}

/// Histories as turns leave them behind, some of them odd.
fn histories() -> Vec<Vec<HistoryItem>> {
    let ok = CallOutcome::Succeeded;
    let long = "x".repeat(100);
    vec![
        vec![user("Go.")],
        vec![user(""), user(" \n"), assistant(" \n", vec![]), user("Go.")],
        vec![user("a"), assistant("b", vec![]), assistant("c", vec![]), user("d"), user("e")],
        vec![assistant("It began earlier.", vec![]), user("Go.")],
        vec![user("Go."), assistant("Once upon", vec![])],
        vec![],
        vec![
            user("Go."),
            assistant(
                "",
                vec![asked(1, 0, "tide", "{\"harbour\":\"Brest\"}"), asked(1, 1, "no such tool!", "{}")],
            ),
            result(1, 0, ok, ""),
            result(1, 1, CallOutcome::Rejected, "there is no tool of this name"),
            user("And now?"),
            assistant("Let me see.", vec![asked(2, 0, "", "{}"), asked(2, 1, &long, "{}")]),
            result(2, 0, CallOutcome::Denied, "not today"),
            result(2, 1, CallOutcome::Unknown, "nobody knows"),
        ],
    ]
}

fn surface() -> Arc<SurfaceView> {
    let tool = |name: &str, schema: Value| ShownTool {
        name: name.to_owned(),
        description: format!("Tells the {name}."),
        input_schema: JsonText::from(schema),
    };
    let harbour =
        json!({"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]});
    let tools = vec![tool("tide", harbour), tool("wind", json!({"type": "object", "properties": {}}))];
    Arc::new(SurfaceView::with_section(tools, Some("More tools are found by search.".to_owned())))
}

fn answer(api: Api) -> Answer {
    Answer::Events(shape(if api == Api::Anthropic { "anthropic_thinking" } else { "openai_text" }))
}

#[tokio::test]
async fn whatever_the_history_a_strict_provider_takes_it() {
    let late = Some("A tool came late.".to_owned());
    for api in APIS {
        for history in histories() {
            for (surface, late) in [(SurfaceView::new(vec![]).into(), None), (surface(), late.clone())] {
                let provider = Provider::start([answer(api)]).await;
                let mut request = ModelRequest::new(history.clone(), surface);
                request.late_tools = late;
                let (_, error) = all(model(api, &provider.url()).run(request)).await;
                assert_eq!(error, None, "{api:?} refuses {history:?}");
            }
        }
    }
}

/// A conversation with everything that one can have.
fn whole() -> ModelRequest {
    let mut request = ModelRequest::new(
        vec![
            user("When is high tide?"),
            assistant("Let me look.", vec![asked(1, 0, "tide", "{\"harbour\":\"Brest\"}")]),
            result(1, 0, CallOutcome::Failed, "no such harbour"),
        ],
        surface(),
    );
    request.late_tools = Some("A tool came late.".to_owned());
    request
}

#[tokio::test]
async fn a_whole_request_stands_in_each_apis_words() {
    let tide =
        json!({"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]});
    let none = json!({"type": "object", "properties": {}});
    let openai = json!({
        "model": "m-1", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 500,
        "messages": [
            {"role": "system", "content": "You are a pilot.\n\nMore tools are found by search."},
            {"role": "user", "content": "When is high tide?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "call_1_1_0", "type": "function", "function": {"name": "tide", "arguments": "{\"harbour\":\"Brest\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1_1_0", "content": "[failed] no such harbour"},
            {"role": "user", "content": "A tool came late."},
        ],
        "tools": [
            {"type": "function", "function": {"name": "tide", "description": "Tells the tide.", "parameters": tide}},
            {"type": "function", "function": {"name": "wind", "description": "Tells the wind.", "parameters": none}},
        ],
    });
    let mut compatible = openai.clone();
    compatible["max_tokens"] = compatible["max_completion_tokens"].take();
    compatible.as_object_mut().expect("it is an object").remove("max_completion_tokens");
    let mark = json!({"type": "ephemeral"});
    let anthropic = json!({
        "model": "m-1", "stream": true, "max_tokens": 500,
        "system": [
            {"type": "text", "text": "You are a pilot."},
            {"type": "text", "text": "More tools are found by search.", "cache_control": mark},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "When is high tide?"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "call_1_1_0", "name": "tide", "input": {"harbour": "Brest"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1_1_0", "content": "[failed] no such harbour", "is_error": true, "cache_control": mark},
                {"type": "text", "text": "A tool came late."},
            ]},
        ],
        "tools": [
            {"name": "tide", "description": "Tells the tide.", "input_schema": tide},
            {"name": "wind", "description": "Tells the wind.", "input_schema": none},
        ],
    });
    for (api, expected) in [(Api::OpenAi, openai), (Api::Compatible, compatible), (Api::Anthropic, anthropic)]
    {
        let provider = Provider::start([answer(api)]).await;
        let account = account(api, &provider.url()).system("You are a pilot.").max_output(500);
        let (_, error) = all(account.model("m-1").expect("it can be used").run(whole())).await;
        assert_eq!(error, None, "{api:?}");
        assert_eq!(provider.seen()[0].body, expected, "{api:?}");
    }
}

#[tokio::test]
async fn a_key_is_sent_as_each_api_wants_it_and_with_the_headers_of_the_embedder() {
    for api in APIS {
        let provider = Provider::start([answer(api)]).await;
        let account = account(api, &provider.url()).header("x-team", Secret::new("harbour"));
        all(account.model("m-1").expect("it can be used").run(request(vec![user("Go.")]))).await;
        let seen = &provider.seen()[0];
        let header = |name: &str| seen.headers.get(name).map(String::as_str);
        let (path, name, value) = match api {
            Api::OpenAi | Api::Compatible => {
                ("/v1/chat/completions", "authorization", format!("Bearer {CANARY}"))
            }
            Api::Anthropic => ("/v1/messages", "x-api-key", CANARY.to_owned()),
        };
        assert_eq!((seen.path.as_str(), header(name)), (path, Some(value.as_str())));
        assert_eq!(header("x-team"), Some("harbour"));
    }
}

fn refuse(status: u16, headers: &'static str, body: impl Into<String>) -> Answer {
    Answer::Refuse { status, headers, body: body.into() }
}

#[tokio::test]
async fn an_error_says_whether_the_same_request_may_be_answered_another_time() {
    let said = |words: &str| json!({"error": {"message": words, "type": "some_error"}}).to_string();
    let spent =
        json!({"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}).to_string();
    let busy = |status, message: &str, ms: Option<u64>| ModelError::Busy {
        status,
        message: message.to_owned(),
        retry_after: ms.map(Duration::from_millis),
    };
    let gone = |status, message: &str| ModelError::Provider { status, message: message.to_owned() };
    let html = "<html>\n<h1>Bad   gateway</h1></html>";
    let rows = [
        (refuse(400, "", said("bad schema")), gone(400, "bad schema")),
        (refuse(401, "", said(&format!("wrong key {CANARY}"))), gone(401, "wrong key <secret>")),
        (refuse(404, "", said("no such model")), gone(404, "no such model")),
        (refuse(429, "retry-after: 7\r\n", said("slow down")), busy(429, "slow down", Some(7_000))),
        (
            refuse(429, "retry-after-ms: 1500\r\nretry-after: 2\r\n", said("slow")),
            busy(429, "slow", Some(1_500)),
        ),
        (refuse(429, "retry-after: 0.5\r\n", said("slow")), busy(429, "slow", Some(500))),
        (
            refuse(429, "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", said("slow")),
            busy(429, "slow", None),
        ),
        (refuse(429, "retry-after: -3\r\n", said("slow")), busy(429, "slow", None)),
        (refuse(429, "", spent), gone(429, "You exceeded your quota.")),
        (refuse(500, "x-should-retry: false\r\n", said("no")), gone(500, "no")),
        (refuse(400, "x-should-retry: true\r\n", said("again")), busy(400, "again", None)),
        (refuse(503, "", ""), busy(503, "it said nothing else", None)),
        (refuse(502, "", html), busy(502, "<html> <h1>Bad gateway</h1></html>", None)),
        (refuse(529, "", said("overloaded")), busy(529, "overloaded", None)),
        (refuse(307, "location: http://127.0.0.1:1/\r\n", ""), gone(307, "it said nothing else")),
    ];
    for (answer, expected) in rows {
        let shown = format!("{answer:?}");
        let provider = Provider::start([answer]).await;
        let (events, error) = all(model(Api::OpenAi, &provider.url()).run(request(vec![user("Go.")]))).await;
        assert_eq!((events, error), (vec![], Some(expected)), "{shown}");
        assert_eq!(provider.seen().len(), 1, "one request a run, and none elsewhere");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_in_words_of_ours() {
    let connection = |words: &str| Some(ModelError::Connection(words.to_owned()));
    let broken = |words: &str| Some(ModelError::Broken(words.to_owned()));
    let ended = "it ended before the reply was complete";
    let rows = [
        (Answer::Events(String::new()), connection(ended)),
        (Answer::Events("data: {\"choices\":[]}\n\n".to_owned()), connection(ended)),
        (Answer::Events(": ping\n\n\n\ndata:\n\ndata: [DONE]\n\n".to_owned()), connection(ended)),
        (
            Answer::Events("data: sk-canary\n\n".to_owned()),
            broken("a chunk is no JSON: expected value at line 1 column 1"),
        ),
        (
            Answer::Events(format!("data: {}\n\n", "x".repeat(2 << 20))),
            broken("an event of it is larger than 1 MiB"),
        ),
        (
            refuse(200, "", "{}"),
            broken("it answered with \"application/json\" instead of a stream of events"),
        ),
    ];
    for (answer, expected) in rows {
        let provider = Provider::start([answer]).await;
        let came = all(model(Api::Compatible, &provider.url()).run(request(vec![user("Go.")]))).await;
        assert_eq!(came, (vec![], expected));
    }
    let provider = Provider::start([Answer::Reset]).await;
    let came = all(model(Api::OpenAi, &provider.url()).run(request(vec![user("Go.")]))).await;
    assert!(matches!(came, (_, Some(ModelError::Connection(_)))), "{came:?}");
    let nobody = model(Api::Anthropic, "http://127.0.0.1:1/v1");
    let came = all(nobody.run(request(vec![user("Go.")]))).await;
    assert!(matches!(came, (_, Some(ModelError::Connection(_)))), "{came:?}");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_of_a_provider_that_hangs() {
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"We\"}}]}\n\n".to_owned();
    for (hang, first) in [(Answer::Hang(begun), true), (Answer::Hang(String::new()), false)] {
        let provider = Provider::start([hang]).await;
        let mut closed = provider.closed();
        let mut stream = model(Api::OpenAi, &provider.url()).run(request(vec![user("Go.")]));
        if first {
            assert_eq!(next(&mut stream).await, Some(Ok(text("We"))));
        }
        let hangs = std::future::poll_fn(|cx| Pin::as_mut(&mut stream).poll_next(cx));
        assert!(timeout(Duration::from_millis(200), hangs).await.is_err(), "nothing more comes");
        drop(stream);
        timeout(PATIENCE, closed.wait_for(|closed| *closed == 1))
            .await
            .expect("it is told")
            .expect("it runs");
    }
}

#[test]
fn an_account_that_cannot_be_used_says_why_and_shows_no_secret() {
    let bad = |account: Account| account.model("m").expect_err("it cannot be used");
    let url = |words: &str| AccountError::Url(words.to_owned());
    assert_eq!(bad(Account::compatible("nonsense")), url("relative URL without a base"));
    assert_eq!(bad(Account::compatible("ftp://host/v1")), url("it begins with neither http nor https"));
    let with_user = "http://ann:sk-canary@host/v1";
    assert_eq!(
        bad(Account::compatible(with_user)),
        url("it has a user in it; give a key or a header instead")
    );
    let header = bad(Account::compatible("http://host/v1").key(Secret::new("sk-canary\n")));
    assert_eq!(
        header.to_string(),
        "the header \"authorization\" cannot be sent: its value has a character that no header may have"
    );
    let account = Account::openai(Secret::new(CANARY)).base_url("http://host/v1?key=sk-canary");
    let model = account.model("m").expect("it can be used");
    let models = Models::new().account("work", &account).expect("it can be used");
    let shown = format!("{account:?} {model:?} {models:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn models_are_found_by_account_and_name() {
    let provider = Provider::start([answer(Api::OpenAi)]).await;
    let account = account(Api::Compatible, &provider.url()).context_window(64_000).max_output(100);
    let models = Models::new().account("local", &account).expect("it can be used");
    for unknown in ["", "local", "local/", "other/m", "/m"] {
        assert!(models.resolve(unknown).is_none(), "{unknown:?}");
    }
    let model = models.resolve("local/org/m-1").expect("it is known");
    assert_eq!(model.limits(), ModelLimits::new(Some(64_000), Some(100)));
    let (_, error) = all(model.run(request(vec![user("Go.")]))).await;
    assert_eq!((error, &provider.seen()[0].body["model"]), (None, &json!("org/m-1")));
}

#[tokio::test]
async fn a_result_that_is_no_text_is_told_in_words() {
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let file = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "of a file"}});
    let link = json!({"type": "resource_link", "uri": "file:///b", "name": "b"});
    let rows = [
        (vec![Content::Other(image.into())], "[image that is not shown: image/png]"),
        (vec![Content::Other(file.into()), Content::Text("and more".to_owned())], "of a file\nand more"),
        (vec![Content::Other(link.into())], "[resource_link that is not shown: file:///b, b]"),
        (vec![Content::Structured(json!({"at": 12}).into())], "{\"at\":12}"),
        (vec![Content::Text("noon".to_owned()), Content::Structured(json!({"at": 12}).into())], "noon"),
        (vec![], "(no output)"),
    ];
    for (content, expected) in rows {
        let provider = Provider::start([answer(Api::OpenAi)]).await;
        let result = CallResult { outcome: CallOutcome::Succeeded, content, retry_after_ms: None };
        let history = vec![
            user("Go."),
            assistant("", vec![asked(1, 0, "tide", "{}")]),
            HistoryItem::Tool { call: id(1, 0), result },
        ];
        all(model(Api::OpenAi, &provider.url()).run(request(history))).await;
        assert_eq!(provider.seen()[0].body["messages"][2]["content"], expected);
    }
}
