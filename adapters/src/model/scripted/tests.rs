use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{FinishReason, HistoryItem, ModelEvent, ModelRequest};
use pilothouse_messages::tool::{ShownTool, SurfaceView, identity_digits};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{Model, ModelError, ModelStream, REQUESTS_KEPT, ScriptedModel, Step};

fn request(text: &str) -> ModelRequest {
    let history = vec![HistoryItem::User { text: text.to_owned() }];
    let read = ShownTool {
        name: format!("mcp__files__read_{}", identity_digits("files", "read")),
        description: String::new(),
        input_schema: JsonText::from(json!({"type": "object"})),
    };
    ModelRequest::new(history, Arc::new(SurfaceView::new(vec![read])))
}

fn steps(script: &serde_json::Value) -> Vec<Step> {
    serde_json::from_value(script.clone()).expect("the script of a row is good")
}

async fn next(stream: &mut ModelStream) -> Option<Result<ModelEvent, ModelError>> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

/// Every event with its milliseconds from the start, and how the stream went on for a minute of silence.
async fn played(model: &ScriptedModel) -> (Vec<(u128, Result<ModelEvent, ModelError>)>, &'static str) {
    let start = Instant::now();
    let mut stream = model.run(request("hello"));
    let mut events = Vec::new();
    loop {
        match timeout(Duration::from_secs(60), next(&mut stream)).await {
            Ok(Some(event)) => events.push((start.elapsed().as_millis(), event)),
            Ok(None) => return (events, "ended"),
            Err(_) => return (events, "silent"),
        }
    }
}

fn text(text: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Text(text.to_owned()))
}

fn start(index: u32, name: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::CallStart { index, provider_id: None, name: name.to_owned() })
}

fn delta(index: u32, arguments: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::CallDelta { index, arguments: arguments.to_owned() })
}

const STOP: Result<ModelEvent, ModelError> = Ok(ModelEvent::Finish(FinishReason::Stop));

async fn check(
    script: serde_json::Value,
    expected: Vec<(u128, Result<ModelEvent, ModelError>)>,
    end: &'static str,
) {
    let model = ScriptedModel::new(steps(&script));
    assert_eq!(played(&model).await, (expected, end), "{script}");
}

#[tokio::test(start_paused = true)]
async fn a_step_plays_as_it_is_written() {
    check(json!([{}]), vec![(0, STOP)], "ended").await;
    check(json!([]), vec![(0, text("The script has no more steps.")), (0, STOP)], "ended").await;
    check(
        json!([{"text": "It is a long way to the harbour."}]),
        vec![(0, text("It is a long way to the ")), (0, text("harbour.")), (0, STOP)],
        "ended",
    )
    .await;
    check(
        json!([{"text": "one two three", "chunk_ms": 10, "delay_ms": 100}]),
        vec![(100, text("one ")), (110, text("two ")), (120, text("three")), (120, STOP)],
        "ended",
    )
    .await;
    let cut = ModelEvent::Finish(FinishReason::Length);
    check(json!([{"text": "a", "finish": "length"}]), vec![(0, text("a")), (0, Ok(cut))], "ended").await;
    check(json!([{"finish": "refused"}]), vec![(0, Ok(ModelEvent::Finish(FinishReason::Refused)))], "ended")
        .await;
}

#[tokio::test(start_paused = true)]
async fn calls_come_after_the_text_with_arguments_in_two_parts() {
    check(
        json!([{"text": "see", "calls": [
            {"tool": "kb_list"},
            {"tool": {"server": "files", "tool": "read"}, "arguments": {"é": 1}},
            {"tool": {"server": "gone", "tool": "write"}, "arguments": 7},
        ]}]),
        vec![
            (0, text("see")),
            (0, start(0, "kb_list")),
            (0, delta(0, "{")),
            (0, delta(0, "}")),
            (0, start(1, "mcp__files__read_93d6774156eda46559a8")),
            (0, delta(1, "{\"é")),
            (0, delta(1, "\":1}")),
            (0, start(2, "write")),
            (0, delta(2, "7")),
            (0, STOP),
        ],
        "ended",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_error_or_a_hang_takes_the_place_of_the_finish() {
    let busy = Err(ModelError::Provider { status: 529, message: "busy".into() });
    let error = json!({"status": 529, "message": "busy"});
    check(json!([{"error": error, "delay_ms": 5}]), vec![(5, busy.clone())], "ended").await;
    check(json!([{"text": "a", "error": error}]), vec![(0, text("a")), (0, busy)], "ended").await;
    check(json!([{"hang": true, "delay_ms": 5}]), vec![], "silent").await;
    check(json!([{"text": "a", "hang": true}]), vec![(0, text("a"))], "silent").await;
}

#[tokio::test]
async fn a_long_text_loses_nothing_in_its_pieces() {
    let whole = "words and words ".repeat(40) + &"灯".repeat(100);
    let model = ScriptedModel::new(vec![Step::text(&whole)]);
    let mut stream = model.run(request("hello"));
    let mut pieces = Vec::new();
    while let Some(Ok(ModelEvent::Text(piece))) = next(&mut stream).await {
        pieces.push(piece);
    }
    assert_eq!(pieces.concat(), whole);
    assert!(pieces.len() > 20, "{} pieces", pieces.len());
}

#[tokio::test]
async fn each_run_takes_the_next_step_and_the_newest_requests_are_kept() {
    let model = ScriptedModel::new(vec![Step::text("first"), Step::text("second")]);
    let mut said = Vec::new();
    for run in 0..=REQUESTS_KEPT {
        said.push(next(&mut model.run(request(&run.to_string()))).await);
    }
    let over = Some(text("The script has no more steps."));
    assert_eq!(said[..3], [Some(text("first")), Some(text("second")), over]);
    let kept = model.requests();
    assert_eq!(kept.len(), REQUESTS_KEPT);
    assert_eq!((kept.first(), kept.last()), (Some(&request("1")), Some(&request("64"))));
}

#[test]
fn a_bad_step_is_refused_with_the_reason() {
    let refused = |step: serde_json::Value| {
        serde_json::from_value::<Step>(step).expect_err("the row is a bad step").to_string()
    };
    let rows = [
        (json!({"txt": "a"}), "unknown field `txt`"),
        (json!({"finish": "tired"}), "expected one of `stop`, `length`, `refused`"),
        (json!({"error": {"status": 500}}), "missing field `message`"),
        (json!({"calls": [{"arguments": {}}]}), "missing field `tool`"),
        (json!({"calls": [{"tool": {"server": "a"}}]}), "a tool is a wire name, or an object with"),
        (json!({"calls": [{"tool": {"server": "a", "tool": "b", "c": 1}}]}), "a tool is a wire name"),
    ];
    for (step, reason) in rows {
        let said = refused(step.clone());
        assert!(said.contains(reason), "{step}: {said}");
    }
}
