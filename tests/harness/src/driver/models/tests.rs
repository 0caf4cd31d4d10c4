use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use pilothouse::id::TopicId;
use pilothouse::model::scripted::Step;
use pilothouse::model::{ModelEvent, ModelRequest, ModelResolver, ModelStream};
use pilothouse::tool::SurfaceView;

use super::Models;

fn run(models: &Models, topic: &TopicId) -> ModelStream {
    let model = models.resolve(&Models::name(topic)).expect("every topic has a model");
    model.run(ModelRequest::new(Vec::new(), Arc::new(SurfaceView::new(Vec::new()))))
}

/// The text that a step says.
async fn said(mut stream: ModelStream) -> String {
    let mut said = String::new();
    while let Some(event) = poll_fn(|cx| Pin::as_mut(&mut stream).poll_next(cx)).await {
        if let ModelEvent::Text(text) = event.expect("the script has no errors") {
            said.push_str(&text);
        }
    }
    said
}

#[tokio::test]
async fn a_step_that_comes_before_its_script_waits_for_it() {
    let (models, topic) = (Models::new(), TopicId::new("t").expect("it is an id"));
    let early = tokio::spawn(said(run(&models, &topic)));
    tokio::task::yield_now().await;
    assert!(!early.is_finished(), "there is no script yet");
    models.play(&topic, vec![Step::text("one"), Step::text("two")]);
    assert_eq!(early.await.expect("it does not panic"), "one");
    assert_eq!(said(run(&models, &topic)).await, "two");
    models.play(&topic, vec![Step::text("again")]);
    assert_eq!(said(run(&models, &topic)).await, "again");
    assert!(models.resolve("gpt").is_none(), "other models are none of ours");
}
