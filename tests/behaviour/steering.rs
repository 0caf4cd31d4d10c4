//! Messages that arrive while a turn runs: queued, answered by the next turn, or held; never lost, never twice.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::error::TopicError;
use pilothouse::id::{MessageId, TurnId};
use pilothouse::model::scripted::{ScriptedError, ScriptedModel, Step};
use pilothouse::model::{HistoryItem, ModelRequest};
use pilothouse::prelude::*;
use pilothouse::topic::{Receipt, TopicRejection, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::json;

use crate::stage::{
    PATIENCE, Stage, assert_acceptable, call, holds, memory, peer, place, plays, step_back, thinks,
};

/// A server with a tool that runs until the test says otherwise, and one that needs a person.
fn slow() -> Arc<Peer> {
    let peer =
        peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}));
    peer.hold_calls();
    peer
}

async fn with_a_call_under_way(peer: &Arc<Peer>, then: impl IntoIterator<Item = Step>) -> Stage {
    let steps = std::iter::once(call("a", "look", json!({}))).chain(then);
    let mut stage = plays(steps).peer("a", peer).raise().await;
    stage.say("first").await;
    stage.until_running().await;
    stage
}

fn users(request: &ModelRequest) -> Vec<&str> {
    let users = request.history.iter().filter_map(|item| match item {
        HistoryItem::User { text } => Some(text.as_str()),
        HistoryItem::Assistant { .. } | HistoryItem::Tool { .. } => None,
    });
    users.collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_while_a_tool_runs_waits_and_the_turn_yields_to_it_after_the_result() {
    let peer = slow();
    let mut stage = with_a_call_under_way(&peer, [Step::text("Yes?")]).await;
    assert_eq!(place(&stage.say("second").await), "queued(1)");
    assert_eq!(stage.shown_already(), ["message 2 queued(1)"]);
    peer.release_calls();
    assert_eq!(
        stage.until_rest().await,
        [
            "call 1.1.0 succeeded: seen",
            "step 1.1 ends",
            "turn 1 yielded",
            "message 1 answered(1)",
            "turn 2 begins with 2",
            "message 2 accepted(2)",
            "pending",
            "\"Yes?\"",
            "streaming",
            "step 2.1 ends",
            "turn 2 completed",
            "message 2 answered(2)",
            "done",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn two_messages_that_wait_are_answered_by_two_turns_in_order() {
    let peer = slow();
    let mut stage = with_a_call_under_way(&peer, [Step::text("Two."), Step::text("Three.")]).await;
    assert_eq!(place(&stage.say("second").await), "queued(1)");
    assert_eq!(place(&stage.say("third").await), "queued(2)");
    peer.release_calls();
    stage.until_rest().await;
    assert_eq!(stage.messages(), ["first answered(1)", "second answered(2)", "third answered(3)"]);
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.view().turns.len(), 3, "one continuation for each finished turn");
}

/// Every moment from the start of a turn to after its end, one scheduling step at a time.
#[tokio::test(start_paused = true)]
async fn a_message_sent_as_the_turn_ends_is_in_exactly_one_place() {
    let (mut queued, mut accepted, mut yielded) = (0, 0, 0);
    let peer = peer(json!({"tools": [{"name": "look"}]}));
    for yields in 0.. {
        let steps = vec![call("a", "look", json!({})), Step::text("A."), Step::text("B."), Step::text("C.")];
        let model = Arc::new(ScriptedModel::new(steps));
        let stage = thinks(model.clone()).store(memory()).peer("a", &peer).raise().await;
        // A task of its own: the test's own future is polled too rarely to meet every moment.
        let topic = stage.topic.clone();
        let sending = tokio::spawn(async move {
            topic.send("first").await?;
            for _ in 0..yields {
                step_back().await;
            }
            topic.send("second").await
        });
        match sending.await.expect("the task ends").expect("both are taken").receipt {
            Receipt::Queued { position: 1 } => queued += 1,
            Receipt::Accepted { turn: TurnId(2) } => accepted += 1,
            other => panic!("after {yields} steps: {other:?}"),
        }
        holds("all is answered", || stage.status() == TopicStatus::Done && stage.view().turns.len() == 2)
            .await;
        assert_eq!(stage.messages(), ["first answered(1)", "second answered(2)"], "after {yields} steps");
        let last = model.requests().pop().expect("it was asked");
        assert_eq!(users(&last), ["first", "second"], "after {yields} steps");
        assert_acceptable(&last.history);
        yielded += usize::from(stage.view().turns[0].stop == Some(StopReason::Yielded));
        if accepted == 3 {
            break;
        }
    }
    assert!(yielded > 3 && queued > yielded, "{yielded} of {queued} came before the step boundary");
}

#[tokio::test(start_paused = true)]
async fn more_messages_than_may_wait_are_refused_and_those_that_wait_stay() {
    let peer = slow();
    let stage = with_a_call_under_way(&peer, []).await;
    for position in 1..=32 {
        assert_eq!(stage.say("more").await, Receipt::Queued { position });
    }
    let refused = stage.topic.send("too much").await;
    assert_eq!(refused, Err(TopicError::Rejected(TopicRejection::QueueFull { queued: 32, limit: 32 })));
    assert_eq!(stage.view().queue.len(), 32);
}

#[tokio::test(start_paused = true)]
async fn more_text_than_may_wait_is_refused() {
    let peer = slow();
    let stage = with_a_call_under_way(&peer, []).await;
    stage.say(&"x".repeat(60 << 10)).await;
    let refused = stage.topic.send("x".repeat(5 << 10)).await;
    let rejection = TopicRejection::QueueBytes { bytes: 65 << 10, limit: 64 << 10 };
    assert_eq!(refused, Err(TopicError::Rejected(rejection)));
    stage.say(&"x".repeat(4 << 10)).await;
    assert_eq!(stage.view().queue.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_larger_than_may_wait_is_refused_also_by_an_idle_topic() {
    let mut stage = plays([Step::text("Yes?")]).raise().await;
    for bytes in [(64 << 10) + 1, 3 << 20] {
        let refused = stage.topic.send("x".repeat(bytes)).await;
        let rejection = TopicRejection::QueueBytes { bytes, limit: 64 << 10 };
        assert_eq!(refused, Err(TopicError::Rejected(rejection)));
    }
    stage.say(&"x".repeat(64 << 10)).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_empty_message_is_refused() {
    let stage = plays([]).raise().await;
    assert_eq!(stage.topic.send(" \n").await, Err(TopicError::Rejected(TopicRejection::EmptyText)));
    assert_eq!(stage.view().turns, []);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_the_same_message_wherever_it_is() {
    let peer = slow();
    let mut stage = with_a_call_under_way(&peer, [Step::text("Yes?")]).await;
    let send = async |topic: &Topic, text: &str| topic.send_with_key(text, "k").await;
    let sent = send(&stage.topic, "second").await.expect("it is taken");
    assert_eq!(sent.receipt, Receipt::Queued { position: 1 });
    assert_eq!(send(&stage.topic, "second").await, Ok(sent.clone()));
    let reused = TopicRejection::KeyReused { message: MessageId(2) };
    assert_eq!(send(&stage.topic, "other").await, Err(TopicError::Rejected(reused)));
    peer.release_calls();
    stage.until_rest().await;
    let again = send(&stage.topic, "second").await.expect("it is known");
    assert_eq!((again.message, place(&again.receipt)), (sent.message, "answered(2)".to_owned()));
    assert_eq!(stage.messages(), ["first answered(1)", "second answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_holds_what_waits_and_the_next_message_does_not_wake_it() {
    let peer = slow();
    let mut stage = with_a_call_under_way(&peer, [Step::text("Yes?")]).await;
    stage.say("second").await;
    stage.topic.stop("ann").await.expect("the topic is there");
    stage.until_rest().await;
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(aborted)"]);
    stage.say("third").await;
    stage.until_rest().await;
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(aborted)", "third answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_holds_what_waits() {
    let error = Some(ScriptedError { status: 500, message: "broken".to_owned(), ..Default::default() });
    let failing = Step { error, delay_ms: Some(1_000), ..Step::default() };
    let mut stage = plays([failing]).raise().await;
    stage.say("first").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.say("second").await;
    stage.until_rest().await;
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(turn_ended)"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_awaits_approval_keeps_its_queue_and_goes_on_after_the_decision() {
    let peer = slow();
    peer.release_calls();
    let mut stage = plays([call("a", "drop", json!({})), Step::text("Yes?")]).peer("a", &peer).raise().await;
    stage.say("first").await;
    let card = stage.until_card().await;
    assert_eq!(place(&stage.say("second").await), "queued(1)");
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.status(), TopicStatus::AwaitingApproval);
    assert_eq!(stage.messages(), ["first accepted(1)", "second queued(1)"]);
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(stage.until_end().await, StopReason::Yielded);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(1)", "second answered(2)"]);
    assert_eq!(peer.executions("drop"), 1);
}
