//! Arguments as models really write them: cut off, empty, stale, or of the wrong shape.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::model::{
    FinishReason, HistoryItem, Model, ModelError, ModelEvent, ModelRequest, ModelStream,
};
use pilothouse::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::stage::{Stage, assert_acceptable, peer, plays, server, thinks};

/// One reply: the texts of arguments to call `open` with, and how the reply ends.
type Reply = (Vec<&'static str>, FinishReason);

/// A model that writes the text of its arguments as it is, in pieces of three bytes.
struct Writes {
    replies: Mutex<Vec<Reply>>,
    histories: Mutex<Vec<Vec<HistoryItem>>>,
}

impl Writes {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Arc::new(Self { replies: Mutex::new(replies), histories: Mutex::default() })
    }
}

struct Events(std::vec::IntoIter<ModelEvent>);

impl futures_core::Stream for Events {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.next().map(Ok))
    }
}

impl Model for Writes {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let name = request.surface.tools.first().map(|tool| tool.name.clone()).unwrap_or_default();
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).push(request.history);
        let reply = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (calls, finish) = reply.unwrap_or((Vec::new(), FinishReason::Stop));
        let mut events = Vec::new();
        for (text, index) in calls.into_iter().zip(0..) {
            events.push(ModelEvent::CallStart { index, provider_id: None, name: name.clone() });
            let pieces = text.as_bytes().chunks(3).map(|piece| String::from_utf8_lossy(piece).into_owned());
            events.extend(pieces.map(|arguments| ModelEvent::CallDelta { index, arguments }));
        }
        events.push(ModelEvent::Finish(finish));
        Box::pin(Events(events.into_iter()))
    }
}

async fn raise(model: &Arc<Writes>, schema: Value) -> (Stage, Arc<pilothouse_harness::peer::Peer>) {
    let offering = peer(json!({"tools": [{"name": "open", "echo": true, "schema": schema}]}));
    let definition = Server::in_memory("a", offering.clone()).effect("open", Effect::Reads);
    (thinks(model.clone()).server(definition).raise().await, offering)
}

/// Whatever a model wrote before, what it is given is what a provider takes: objects as arguments, one result a call.
fn assert_histories(model: &Writes) {
    for history in model.histories.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        assert_acceptable(history);
        for item in history {
            if let HistoryItem::Assistant { calls, .. } = item {
                assert!(calls.iter().all(|call| call.arguments.value().is_object()), "{calls:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_off_is_not_sent_and_history_stays_acceptable() {
    let cut = r#"{"slider_id": "#;
    let model = Writes::new([(vec![cut], FinishReason::Length), (vec![cut], FinishReason::Stop)]);
    let (mut stage, offering) = raise(&model, json!({"type": "object"})).await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::OutputTruncated);
    stage.say("Again.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let results = stage.results();
    assert!(results.iter().all(|result| result.outcome == CallOutcome::Rejected), "{results:?}");
    assert!(results[0].text().contains("cut off") && results[1].text().contains("JSON"), "{results:?}");
    assert_eq!((results.len(), offering.executions("open")), (2, 0));
    assert_histories(&model);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_were_not_written_are_an_empty_object() {
    let model = Writes::new([(vec!["", "   ", "{}"], FinishReason::Stop)]);
    let (mut stage, offering) = raise(&model, json!({"type": "object"})).await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let sent: Vec<_> = offering.calls().iter().map(|call| call["arguments"].clone()).collect();
    assert_eq!(sent, [json!({}), json!({}), json!({})]);
    assert_histories(&model);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_json_spoil_no_later_request() {
    let model = Writes::new([(vec!["abc"], FinishReason::Stop)]);
    let (mut stage, offering) = raise(&model, json!({"type": "object"})).await;
    for text in ["Go.", "And now?"] {
        stage.say(text).await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
    }
    let histories = model.histories.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert_eq!((histories, offering.executions("open")), (3, 0));
    assert_histories(&model);
}

#[tokio::test(start_paused = true)]
async fn a_function_never_sees_a_value_of_the_wrong_type_and_keeps_no_server_waiting() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let schema = json!({"type": "object", "properties": {"submit": {"type": "boolean"}}});
    let press = Function::new("press", "Presses.", &schema, move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok("pressed".to_owned()) }
    });
    let script = json!({"tools": [{"name": "look"}], "faults": [{"ask": {"what": "ping", "on": "call"}}]});
    let asking = peer(script);
    let steps = [
        crate::stage::call_function("press", json!({"submit": "false"})),
        pilothouse::model::scripted::Step::text("No."),
    ];
    let setup = plays(steps).function(press.effect(Effect::Reads)).peer("a", &asking);
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!((stage.results()[0].outcome, runs.load(Ordering::Relaxed)), (CallOutcome::Rejected, 0));
    let begun = tokio::time::Instant::now();
    let result = server(&stage.runtime, "a").call("look", &json!({})).await;
    assert_eq!(result.outcome, CallOutcome::Succeeded, "{result:?}");
    assert!(begun.elapsed() <= Duration::from_millis(50), "a ping while a tool waits is answered");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(asking.answers().len(), 1);
}
