//! What windows see while a model writes, and what of it is kept.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pilothouse::model::{FinishReason, Model, ModelError, ModelEvent, ModelRequest, ModelStream};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::{Keyspace, Store};
use pilothouse::tool::Invocation;
use pilothouse::topic::{LiveInput, LiveStep, TopicView};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::stage::{Stage, memory, plays, thinks, words};

/// A model that says what the test dictates.
struct Dictated(Mutex<Option<mpsc::UnboundedReceiver<ModelEvent>>>);

/// Where the test dictates; dropping it breaks the stream.
struct Dictation(mpsc::UnboundedSender<ModelEvent>);

fn dictated() -> (Arc<Dictated>, Dictation) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Arc::new(Dictated(Mutex::new(Some(receiver)))), Dictation(sender))
}

impl Model for Dictated {
    fn run(&self, _request: ModelRequest) -> ModelStream {
        let words = self.0.lock().expect("nobody panics").take();
        Box::pin(Heard(words.expect("it is asked once")))
    }
}

struct Heard(mpsc::UnboundedReceiver<ModelEvent>);

impl Stream for Heard {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

impl Dictation {
    fn says(&self, event: ModelEvent) {
        self.0.send(event).expect("the model runs");
    }

    fn text(&self, text: &str) {
        self.says(ModelEvent::Text(text.to_owned()));
    }

    fn thinks(&self, words: &str) {
        self.says(ModelEvent::Reasoning(words.to_owned()));
    }

    fn begins(&self, index: u32, name: &str) {
        self.says(ModelEvent::CallStart { index, provider_id: None, name: name.to_owned() });
    }

    fn writes(&self, index: u32, arguments: &str) {
        self.says(ModelEvent::CallDelta { index, arguments: arguments.to_owned() });
    }

    fn ends(&self) {
        self.says(ModelEvent::Finish(FinishReason::Stop));
    }
}

/// Longer than what has come in stays untold, shorter than text stays unsaved.
const TOLD: Duration = Duration::from_millis(20);

/// Text is on the disk after this.
const SAVED: Duration = Duration::from_millis(500);

/// Every update up to the first that fits, the passing ones as well.
async fn all_until(stage: &mut Stage, fits: impl Fn(&TopicUpdate) -> bool) -> Vec<String> {
    let mut shown = Vec::new();
    loop {
        let update = stage.next().await;
        shown.push(words(&update));
        if fits(&update) {
            return shown;
        }
    }
}

fn ends(update: &TopicUpdate) -> bool {
    matches!(update, TopicUpdate::TurnFinished { .. })
}

#[tokio::test(start_paused = true)]
async fn windows_see_text_reasoning_and_the_input_of_tools_as_they_are_written() {
    let (model, dictation) = dictated();
    let look = Function::new("look", "Looks.", &json!({"type": "object"}), async |_: Invocation| {
        Ok("seen".to_owned())
    });
    let mut stage = thinks(model).function(look.effect(Effect::Reads)).raise().await;
    stage.say("go").await;
    dictation.thinks("Let me ");
    dictation.thinks("look.");
    dictation.text("On ");
    sleep(TOLD).await;
    dictation.text("it.");
    dictation.begins(0, "look");
    dictation.writes(0, "{\"at\":");
    sleep(TOLD).await;

    let mut live = LiveStep::new(stage.view().turns[0].turn, stage.view().turns[0].steps[0].step);
    live.reasoning = "Let me look.".to_owned();
    let arguments = "{\"at\":".to_owned();
    live.inputs = vec![LiveInput { index: 0, tool: "look".to_owned(), arguments }];
    let late = stage.topic.attach().expect("it is open");
    assert_eq!((late.view.turns[0].steps[0].text.as_str(), &late.view.live), ("On it.", &Some(live)));

    dictation.writes(0, "\"sea\"}");
    dictation.ends();
    let shown = all_until(&mut stage, |update| matches!(update, TopicUpdate::ToolStarted { .. })).await;
    let mut passing: Vec<_> = shown.iter().filter(|words| words.starts_with(['"', 't', 'w'])).collect();
    passing.retain(|words| !words.starts_with("turn"));
    let expected =
        ["thinks \"Let me look.\"", "\"On \"", "\"it.\"", "writes 0 look {\"at\":", "writes 0 look \"sea\"}"];
    assert_eq!(passing, expected);
    assert_eq!(stage.view().live, None, "the call has taken the place of its input");
}

/// What a crash now leaves of the text of the first turn.
async fn left_of_text(store: &MemoryStore) -> String {
    let stage = plays([]).store(store.crash()).raise().await;
    stage.view().turns[0].steps[0].text.clone()
}

#[tokio::test(start_paused = true)]
async fn text_is_saved_twice_a_second_and_at_the_end_of_a_step() {
    let (store, (model, dictation)) = (memory(), dictated());
    let mut stage = thinks(model).store(store.clone()).raise().await;
    stage.say("go").await;
    dictation.text("One. ");
    sleep(SAVED).await;
    dictation.text("Two. ");
    sleep(TOLD).await;
    assert_eq!(stage.view().turns[0].steps[0].text, "One. Two. ", "told at once");
    assert_eq!(left_of_text(&store).await, "One. ");
    sleep(SAVED).await;
    dictation.text("Three.");
    sleep(TOLD).await;
    assert_eq!(left_of_text(&store).await, "One. Two. ");
    stage.topic.stop("ann").await.expect("it is there");
    assert_eq!(left_of_text(&store).await, "One. Two. Three.", "the end of a turn keeps what it came to");
    assert_eq!(stage.until_end().await, StopReason::Aborted);
}

async fn records(store: &MemoryStore) -> usize {
    store.scan(Keyspace::Journal, Vec::new(), None, usize::MAX).await.expect("it reads").len()
}

#[tokio::test(start_paused = true)]
async fn a_reply_in_many_pieces_is_stored_as_few_records() {
    let (store, (model, dictation)) = (memory(), dictated());
    let mut stage = thinks(model).store(store.clone()).raise().await;
    stage.say("go").await;
    sleep(TOLD).await;
    let before = records(&store).await;
    for _ in 0..1_000 {
        dictation.text("a ");
        dictation.thinks("b ");
        sleep(Duration::from_millis(1)).await;
    }
    let written = records(&store).await - before;
    assert!((1..=3).contains(&written), "{written} records in a second");
    dictation.ends();
    let shown = all_until(&mut stage, ends).await;
    assert!(shown.len() < 200, "{} updates in a second", shown.len());
    assert_eq!(stage.view().turns[0].steps[0].text, "a ".repeat(1_000));
}

/// A view but for its place.
fn content(view: &TopicView) -> TopicView {
    let mut view = view.clone();
    view.sequence = pilothouse::id::Sequence::default();
    view
}

#[tokio::test(start_paused = true)]
async fn a_view_and_the_events_after_it_have_no_gap_and_a_slow_window_harms_only_itself() {
    let (model, dictation) = dictated();
    let mut stage = thinks(model).raise().await;
    let mut slow = stage.topic.attach_with(2).expect("it is open");
    stage.say("go").await;
    for piece in ["a", "b", "c", "d"] {
        dictation.text(piece);
        sleep(TOLD).await;
    }
    let mut late = stage.topic.attach().expect("it is open");
    dictation.text("e");
    dictation.ends();
    all_until(&mut stage, ends).await;

    let (mut last, mut text) = (late.view.sequence, late.view.turns[0].steps[0].text.clone());
    assert_eq!(text, "abcd");
    while let Some(TopicEventOut::Update { sequence, update }) = late.try_next() {
        assert_eq!((sequence.epoch, sequence.n), (last.epoch, last.n + 1));
        last = sequence;
        if let TopicUpdate::Text { delta, .. } = update {
            text.push_str(&delta);
        }
    }
    assert_eq!(text, "abcde");
    let mut seen = Vec::new();
    while let Some(event) = slow.next().await {
        seen.push(event);
    }
    let [
        TopicEventOut::Update { .. },
        TopicEventOut::Update { .. },
        TopicEventOut::Lagged { missed, resume_from },
    ] = seen.as_slice()
    else {
        panic!("{seen:?}");
    };
    assert!(*missed > 4 && resume_from.n == missed + 2, "{missed} {resume_from:?}");
    let again = stage.topic.attach().expect("it is open");
    assert_eq!(again.view.sequence, *resume_from);
    assert_eq!(content(&again.view), content(&stage.view()));
}
