//! Models.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use pilothouse_messages::model::{Dialect, ModelEvent, ModelLimits, ModelRequest};

#[cfg(feature = "models")]
pub mod hosted;
pub mod scripted;

/// What a model sends while it runs. Dropping it cancels the run.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A language model.
///
/// For implementers: `run` returns at once and the stream does the work; dropping the stream frees everything
/// within a bound. A stream ends after [`ModelEvent::Finish`] or an error. A stream that ends without either is
/// taken for an interrupted one. The session bounds every silence and the whole, so a stream may simply be slow; it
/// also tries again where an error [says so](ModelError::is_retryable) before the model has said anything, so a stream
/// need not.
pub trait Model: Send + Sync + 'static {
    /// Runs one step.
    fn run(&self, request: ModelRequest) -> ModelStream;

    /// What it can hold and write. A topic whose configuration names no window takes this one.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// Whose rules its tool block is to keep. Under [`Dialect::OpenAiStrict`] a request marks as strict what
    /// [`SurfaceView::is_strict`](pilothouse_messages::tool::SurfaceView::is_strict) says; nulls that stand for
    /// left-out arguments are taken out of its calls.
    fn dialect(&self) -> Dialect {
        Dialect::default()
    }
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
    /// The provider cannot answer now, but may take the same request another time: it is overloaded or limits its rate.
    #[error("the model's provider cannot answer now, with status {status}: {message}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
        /// How long it wants to be left alone, if it says.
        retry_after: Option<Duration>,
    },
    /// There is no connection to the provider, or it broke.
    #[error("the connection to the model's provider failed: {0}")]
    Connection(String),
}

impl ModelError {
    /// Whether the same request may be answered another time. It is sent again only if the model has said nothing yet.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Connection(_) => true,
            Self::Provider { .. } | Self::Broken(_) => false,
        }
    }

    /// How long the provider wants to be left alone, if it says.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            Self::Connection(_) | Self::Provider { .. } | Self::Broken(_) => None,
        }
    }
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
