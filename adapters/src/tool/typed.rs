//! Functions whose arguments are a Rust type: the schema follows from it.

use std::fmt::Display;
use std::sync::Arc;

use pilothouse_messages::id::{CallId, TopicId};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Function, Invocation, Output};

/// Who calls a function, and how it learns that it is to stop.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Caller {
    /// The topic that calls; `None` outside a topic.
    pub topic: Option<TopicId>,
    /// The call; `None` outside a turn.
    pub call: Option<CallId>,
    /// Fires when the call is cancelled or past its deadline.
    pub cancel: CancellationToken,
}

impl Function {
    /// An asynchronous function of a Rust type: its schema is that of `A`, and it is called only with an `A`.
    ///
    /// It answers with text, [`Json`](super::Json) or `()`; its error is its own "no", told to the model. A panic ends
    /// the call as failed and nothing else. The future is dropped at the call's end, deadline or cancellation.
    ///
    /// ```
    /// use pilothouse_adapters::tool::{Caller, Function, Json};
    /// use pilothouse_messages::tool::Effect;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     /// The numbers to be added.
    ///     numbers: Vec<i64>,
    /// }
    ///
    /// let sum = Function::typed("sum", "Adds numbers", async |sum: Sum, _: Caller| {
    ///     let total = sum.numbers.iter().try_fold(0_i64, |total, n| total.checked_add(*n));
    ///     total.map(Json).ok_or("the sum is too large")
    /// });
    /// assert_eq!(sum.effect(Effect::Reads).definition.name, "sum");
    /// ```
    pub fn typed<A, O, E, R, F>(name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Into<Output>,
        E: Display,
        R: Future<Output = Result<O, E>> + Send + 'static,
        F: Fn(A, Caller) -> R + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        Self::new(name, description, &schema_of::<A>(), move |invocation: Invocation| {
            let run = run.clone();
            async move {
                let (arguments, caller) = taken(invocation)?;
                answer(run(arguments, caller).await)
            }
        })
    }

    /// A function of a Rust type that blocks: as [`typed`](Self::typed), on a thread for blocking work.
    ///
    /// A blocked thread cannot be interrupted: past its deadline the call is answered all the same, and the thread goes
    /// on until the function returns. One that may take long looks at [`Caller::cancel`].
    pub fn typed_blocking<A, O, E, F>(name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Into<Output>,
        E: Display,
        F: Fn(A, Caller) -> Result<O, E> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        Self::new(name, description, &schema_of::<A>(), move |invocation: Invocation| {
            let run = run.clone();
            async move {
                let (arguments, caller) = taken(invocation)?;
                let joined = tokio::task::spawn_blocking(move || answer(run(arguments, caller))).await;
                joined.unwrap_or_else(|_panicked| Err("the function panicked".to_owned()))
            }
        })
    }
}

fn answer<O: Into<Output>, E: Display>(answer: Result<O, E>) -> Result<String, String> {
    match answer {
        Ok(yes) => yes.into().into_answer(),
        Err(no) => Err(no.to_string()),
    }
}

/// The arguments as their type. Checked against its schema before, they can still break a rule of the type's own.
fn taken<A: DeserializeOwned>(invocation: Invocation) -> Result<(A, Caller), String> {
    let Invocation { topic, call, arguments, cancel } = invocation;
    let arguments = serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))?;
    Ok((arguments, Caller { topic, call, cancel }))
}

/// The schema in draft 2020-12, without what a model has no use for.
fn schema_of<A: JsonSchema>() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<A>();
    let mut schema = schema.to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.remove("title");
        // A type without fields has no properties, and is an object all the same.
        if fields.get("type").and_then(Value::as_str) == Some("object") {
            fields.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        }
    }
    schema
}

#[cfg(test)]
mod tests;
