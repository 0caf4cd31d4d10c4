//! Results: of any size and kind, they spoil neither the turn nor what is kept, and hide nothing that a tool said.

use std::sync::Arc;

use pilothouse::call::{CallOutcome, CallResult, Content};
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
