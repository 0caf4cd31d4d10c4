//! Results: of any size and kind, they spoil neither the turn nor what is kept, and hide nothing that a tool said.

use std::sync::Arc;

use pilothouse::call::{CallOutcome, CallResult, Content, KeptResult};
use pilothouse::id::{CallId, StepId, TurnId};
use pilothouse::model::HistoryItem;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use serde_json::{Value, json};

use crate::stage::{call, memory, peer, plays, said, server, thinks};

/// What a turn that calls a tool with this answer is given, and what the next request to its model holds.
async fn answered(script: Value) -> CallResult {
    let offering = peer(script);
    let model = Arc::new(ScriptedModel::new(vec![call("a", "look", json!({})), Step::text("Seen.")]));
    let mut stage = thinks(model.clone()).peer("a", &offering).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let result = stage.results().remove(0);
    let told = model.requests()[1].history.iter().find_map(|item| match item {
        HistoryItem::Tool { result, .. } => Some(result.clone()),
        HistoryItem::User { .. } | HistoryItem::Assistant { .. } => None,
    });
    assert_eq!(told.as_ref(), Some(&result), "a view and a model are given the same");
    result
}

fn replies(blocks: Value) -> Value {
    json!({"tools": [{"name": "look", "reply": blocks}]})
}

#[tokio::test(start_paused = true)]
async fn a_text_beyond_the_bound_is_cut_between_characters_and_says_how_long_it_was() {
    let text = "é".repeat(1 << 20);
    let result = answered(replies(json!([{"type": "text", "text": text}]))).await;
    let words = result.text();
    let (kept, notice) = words.rsplit_once('\n').expect("a notice");
    assert!(kept.chars().all(|c| c == 'é'), "{}", kept.len());
    assert_eq!((kept.len(), notice), (65_484, "[cut: the result has 2097152 bytes, 65484 are shown]"));
}

#[tokio::test(start_paused = true)]
async fn a_piece_of_any_kind_is_handed_on_as_it_came() {
    let rows = [
        json!({"type": "image", "data": "AAAA", "mimeType": "image/tiff"}),
        json!({"type": "hologram", "waves": [1, 2]}),
        json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
        json!({"type": "resource_link", "uri": "file:///x", "name": "x"}),
        json!({"type": "resource", "resource": {"uri": "file:///x", "blob": "AAAA"}}),
    ];
    for block in rows {
        let result = answered(replies(json!([{"type": "text", "text": "seen"}, block]))).await;
        let expected = vec![Content::Text("seen".to_owned()), Content::Other((&block).into())];
        assert_eq!((result.outcome, result.content), (CallOutcome::Succeeded, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_beyond_the_bound_is_left_out_whole_and_never_cut() {
    let data = "QUJD".repeat(1 << 20);
    let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
    let result = answered(replies(json!([image, {"type": "text", "text": "the caption"}]))).await;
    let words = result.text();
    assert!(words.starts_with("the caption\n[cut: the result has ") && !words.contains("QUJD"), "{words}");
    assert!(result.content.iter().all(|piece| matches!(piece, Content::Text(_))), "{words}");
}

/// A tool that always wants `data`, and what it says instead.
fn typed(structured: &Value, fails: bool) -> Value {
    json!({"tools": [{
        "name": "look", "reply": "needs admin", "fails": fails, "structured": structured,
        "output_schema": {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]},
    }]})
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_tool_is_told_and_not_measured_by_the_schema_of_its_results() {
    let result = answered(typed(&json!({"error": {"code": "X"}}), true)).await;
    assert_eq!(said(&result), "failed: needs admin");
}

#[tokio::test(start_paused = true)]
async fn structured_content_is_judged_alike_whether_the_listing_is_stored_or_live() {
    let store = memory();
    let wrong = peer(typed(&json!({"data": 5}), false));
    let live = plays([]).peer("a", &wrong).store(store.clone()).start().await;
    let first = server(&live, "a").call("look", &json!({})).await;
    drop(live);
    let stored = plays([]).peer("a", &wrong).store(store.crash()).cold().start().await;
    let second = server(&stored, "a").call("look", &json!({})).await;
    assert!(first.text().contains("/data: 5 is not of type \"string\""), "{first:?}");
    assert_eq!(first, second);
}

/// What is kept of the calls of a turn that makes five, of 4 000 bytes each.
async fn kept(stage: &crate::stage::Stage) -> Vec<String> {
    let mut found = Vec::new();
    for step in 1..=5 {
        let call = CallId { turn: TurnId(1), step: StepId(step), index: 0 };
        let kept = stage.topic.result(call).await.expect("the store answers");
        found.push(match kept {
            KeptResult::Whole(result) => format!("{:?} {}", result.outcome, result.text().len()),
            KeptResult::Gone => "gone".to_owned(),
            KeptResult::NotKept => "not kept".to_owned(),
        });
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_cut_is_kept_whole_within_bounds_and_over_restarts() {
    let store = memory();
    let offering = peer(json!({"tools": [
        {"name": "look", "reply": "x".repeat(4_000)},
        {"name": "small", "reply": "seen"},
    ]}));
    let look = || call("a", "look", json!({}));
    let steps = [look(), look(), call("a", "small", json!({})), look(), look(), Step::text("Done.")];
    let bounded = |setup: crate::stage::Setup| {
        let server = Server::in_memory("a", offering.clone())
            .effect("look", Effect::Reads)
            .effect("small", Effect::Reads);
        setup.server(server).limits(|limits| {
            // Records say a little more than their results.
            (limits.result_bytes, limits.kept_results_topic) = (1_000, 12_600);
        })
    };
    let mut stage = bounded(plays(steps)).store(store.clone()).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(stage.results()[0].text().ends_with("[cut: the result has 4000 bytes, 952 are shown]"));
    let expected = ["gone", "Succeeded 4000", "not kept", "Succeeded 4000", "Succeeded 4000"];
    assert_eq!(kept(&stage).await, expected);

    // The next process goes on counting what it finds.
    let steps = [look(), Step::text("Done.")];
    let mut next = bounded(plays(steps)).store(store.crash()).raise().await;
    assert_eq!(kept(&next).await, expected);
    next.say("Again.").await;
    assert_eq!(next.until_end().await, StopReason::Completed);
    assert_eq!(kept(&next).await, ["gone", "gone", "not kept", "Succeeded 4000", "Succeeded 4000"]);
}
