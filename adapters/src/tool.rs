//! The embedder's functions.

use std::sync::Arc;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::id::{CallId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::{Effect, ToolDefinition};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

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
    /// What runs.
    pub tool: Arc<dyn Tool>,
}

impl Function {
    /// A function under this name. Until [`effect`](Self::effect) says otherwise it asks before it runs. Its arguments are
    /// a JSON object; nothing else of the schema is checked before it runs.
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
            tool: Arc::new(tool),
        }
    }

    /// States what it may do.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
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

/// A function's answer as a call's result.
pub fn result_of(answer: Result<String, String>) -> CallResult {
    let (outcome, text) = match answer {
        Ok(text) => (CallOutcome::Succeeded, text),
        Err(text) => (CallOutcome::Failed, text),
    };
    CallResult { outcome, content: vec![Content::Text(text)], retry_after_ms: None }
}
