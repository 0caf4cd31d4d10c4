//! Models that misbehave in ways that no script can say.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pilothouse::model::{Model, ModelError, ModelEvent, ModelRequest, ModelStream};

/// A model that panics: when it is run, or when its stream is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Panicking {
    Run,
    Stream,
}

impl Panicking {
    pub(crate) fn model(self) -> Arc<dyn Model> {
        Arc::new(self)
    }
}

struct PanickingStream;

impl Model for Panicking {
    fn run(&self, _request: ModelRequest) -> ModelStream {
        match self {
            Self::Run => panic!("no thought at all"),
            Self::Stream => Box::pin(PanickingStream),
        }
    }
}

impl futures_core::Stream for PanickingStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        panic!("lost the thread")
    }
}
