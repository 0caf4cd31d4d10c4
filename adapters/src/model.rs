//! Models.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use pilothouse_messages::model::{ModelEvent, ModelRequest};

pub mod scripted;

/// What a model sends while it runs. Dropping it cancels the run.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A language model.
///
/// For implementers: `run` returns at once and the stream does the work; dropping the stream frees everything
/// within a bound. A stream ends after [`ModelEvent::Finish`] or an error. A stream that ends without either is
/// taken for an interrupted one. The session bounds every silence, so a stream may simply be slow.
pub trait Model: Send + Sync + 'static {
    /// Runs one step.
    fn run(&self, request: ModelRequest) -> ModelStream;
}

/// Why a model failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider refused or failed; its status and words.
    #[error("the model's provider answered {status}: {message}")]
    Provider {
        /// HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The stream broke or made no sense.
    #[error("the model's stream broke: {0}")]
    Broken(String),
}

/// Finds a model by the name that a topic's configuration stores.
pub trait ModelResolver: Send + Sync + 'static {
    /// The model of this name, if there is one.
    fn resolve(&self, name: &str) -> Option<Arc<dyn Model>>;
}

impl<F> ModelResolver for F
where
    F: Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync + 'static,
{
    fn resolve(&self, name: &str) -> Option<Arc<dyn Model>> {
        self(name)
    }
}
