//! The embedder's functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::deferral::Defer;
use pilothouse_messages::id::{CallId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::registry::FUNCTIONS;
use pilothouse_messages::scope::{Applies, Scope};
use pilothouse_messages::tool::{Effect, ToolDefinition};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

mod output;
#[cfg(feature = "schemars")]
mod typed;

pub use output::{Json, Output};
#[cfg(feature = "schemars")]
pub use typed::Caller;

/// What a function is told about its call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Invocation {
    /// The topic that calls; `None` outside a turn.
    pub topic: Option<TopicId>,
    /// The call; `None` outside a turn.
    pub call: Option<CallId>,
    /// The arguments, a JSON object.
    pub arguments: Value,
    /// Fires when the call is cancelled or past its deadline; the future is dropped then, too.
    pub cancel: CancellationToken,
}

impl Invocation {
    /// A call with these arguments.
    pub fn new(arguments: Value, cancel: CancellationToken) -> Self {
        Self { topic: None, call: None, arguments, cancel }
    }
}

/// A function of the embedder that a model may call.
///
/// For implementers: the future runs in a task of its own under a deadline; a panic ends that call as failed and
/// nothing else. It is dropped when the call is cancelled.
pub trait Tool: Send + Sync + 'static {
    /// Runs it. `Err` is the tool's own "no", told to the model.
    fn call(&self, invocation: Invocation) -> BoxFuture<'static, Result<String, String>>;
}

impl<F, R> Tool for F
where
    F: Fn(Invocation) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    fn call(&self, invocation: Invocation) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(self(invocation))
    }
}

/// A function with what the registry has to know about it.
#[derive(Clone)]
pub struct Function {
    /// Its definition; the name is its wire name.
    pub definition: ToolDefinition,
    /// What it may do.
    pub effect: Effect,
    /// Always asks.
    pub force_prompt: bool,
    /// Whether a message that cannot wait may cancel it while it runs; one that reads may always be.
    pub interruptible: bool,
    /// Where it belongs, shown to a model that searches.
    pub namespace: String,
    /// Whether it may be left out of what a model is shown.
    pub defer: Defer,
    /// In which topics it is active; `None` for all.
    pub applies: Option<Applies>,
    /// How long a call may take; `None` for the runtime's limit.
    pub call_timeout: Option<Duration>,
    /// What runs.
    pub tool: Arc<dyn Tool>,
}

impl Function {
    /// A function under this name. Until [`effect`](Self::effect) says otherwise it asks before it runs. Its arguments
    /// are checked against the schema before it runs; with a schema that is none they are a JSON object and no more.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: &Value,
        tool: impl Tool,
    ) -> Self {
        Self {
            definition: ToolDefinition {
                name: name.into(),
                title: None,
                description: Some(description.into()),
                input_schema: JsonText::from(schema),
                output_schema: None,
                annotations: None,
            },
            effect: Effect::Unknown,
            force_prompt: false,
            interruptible: false,
            namespace: FUNCTIONS.to_owned(),
            defer: Defer::Never,
            applies: None,
            call_timeout: None,
            tool: Arc::new(tool),
        }
    }

    /// Names the namespace in which a model that searches finds it.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Says whether a model finds it by search instead of seeing it. Without this it is always shown.
    #[must_use]
    pub fn defer(mut self, defer: Defer) -> Self {
        self.defer = defer;
        self
    }

    /// Makes it active only in topics for which this holds. The predicate is asked whenever tools are read, so it has
    /// to be quick and may not wait; where it panics the function is not active, and a warning says so.
    #[must_use]
    pub fn applies(mut self, predicate: impl Fn(&Scope) -> bool + Send + Sync + 'static) -> Self {
        self.applies = Some(caught_predicate(self.definition.name.clone(), predicate));
        self
    }

    /// Gives each call this long instead of the runtime's limit for calls.
    #[must_use]
    pub fn call_timeout(mut self, within: Duration) -> Self {
        self.call_timeout = Some(within);
        self
    }

    /// Sets a title for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// States what it may do.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Lets a message of level [`Now`](pilothouse_messages::topic::Level::Now) cancel it while it runs. One that reads
    /// may always be cancelled so.
    #[must_use]
    pub fn interruptible(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// Makes it ask always.
    #[must_use]
    pub fn force_prompt(mut self) -> Self {
        self.force_prompt = true;
        self
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.definition.name).field("effect", &self.effect).finish()
    }
}

/// The predicate as registries ask it: where it panics the function is not active, and a warning says so.
pub(crate) fn caught_predicate(
    name: String,
    predicate: impl Fn(&Scope) -> bool + Send + Sync + 'static,
) -> Applies {
    Applies::new(move |scope| {
        catch_unwind(AssertUnwindSafe(|| predicate(scope))).unwrap_or_else(|_panicked| {
            tracing::warn!(target: "pilothouse", function = %name, "its predicate panicked, so it is not active");
            false
        })
    })
}

/// A function's answer as a call's result.
pub fn result_of(answer: Result<String, String>) -> CallResult {
    let (outcome, text) = match answer {
        Ok(text) => (CallOutcome::Succeeded, text),
        Err(text) => (CallOutcome::Failed, text),
    };
    CallResult { outcome, content: vec![Content::Text(text)], retry_after_ms: None }
}
