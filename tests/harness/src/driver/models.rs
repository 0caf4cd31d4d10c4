//! The models of a run: a script for each topic, under a name of its own.
//!
//! A topic that was stored may owe a step before its `topic` line has brought a script. Its model waits for that line
//! instead of failing the turn; the session bounds the wait as it bounds any silence.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pilothouse::id::TopicId;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::model::{Model, ModelError, ModelEvent, ModelRequest, ModelResolver, ModelStream};
use tokio::sync::watch;

const PREFIX: &str = "script:";

type Scripts = BTreeMap<String, Arc<ScriptedModel>>;

/// The scripts of all topics. A clone is the same.
#[derive(Clone)]
pub(super) struct Models(Arc<watch::Sender<Scripts>>);

impl Models {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Scripts::new())))
    }

    /// The name that a topic's configuration stores.
    pub(super) fn name(topic: &TopicId) -> String {
        format!("{PREFIX}{topic}")
    }

    /// Gives a topic this script, which begins at its first step.
    pub(super) fn play(&self, topic: &TopicId, script: Vec<Step>) {
        let model = Arc::new(ScriptedModel::new(script));
        self.0.send_modify(|scripts| {
            scripts.insert(Self::name(topic), model);
        });
    }
}

impl ModelResolver for Models {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Model>> {
        let ours = name.starts_with(PREFIX);
        ours.then(|| Arc::new(Scripted { name: name.to_owned(), scripts: self.0.clone() }) as Arc<dyn Model>)
    }
}

/// Whatever script the topic has when it is asked.
struct Scripted {
    name: String,
    scripts: Arc<watch::Sender<Scripts>>,
}

impl Model for Scripted {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let (name, mut scripts) = (self.name.clone(), self.scripts.subscribe());
        let begin = async move {
            let brought = scripts.wait_for(|scripts| scripts.contains_key(&name)).await.ok()?;
            let script = brought.get(&name)?.clone();
            Some(script.run(request))
        };
        Box::pin(Awaited::Script(Box::pin(begin)))
    }
}

/// A stream that may have to wait for its script first.
enum Awaited {
    Script(Pin<Box<dyn Future<Output = Option<ModelStream>> + Send>>),
    Playing(ModelStream),
}

impl Stream for Awaited {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut *self {
                Self::Playing(stream) => return stream.as_mut().poll_next(cx),
                Self::Script(begin) => match ready!(begin.as_mut().poll(cx)) {
                    Some(stream) => *self = Self::Playing(stream),
                    // The run is over, and its scripts with it.
                    None => return Poll::Ready(None),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
