//! Decides what of a server's JSON Schema a provider is shown.
//!
//! ```text
//! JSON Schema ──read──▶ shape (what values are admitted, at least) ──show──▶ the dialect's JSON
//! ```
//!
//! Whatever a server sends becomes something that the provider takes. What cannot be said in a dialect is left out and
//! reported, so the shown schema admits everything that the server's admits, and sometimes more; arguments are judged
//! by the server's own schema. The one exception is [`Dialect::OpenAiStrict`], which closes every object.
//!
//! Showing is deterministic, leaves alone what it made itself, and is bounded: a schema that is too large or too deep
//! is read again less deeply, down to `{"type":"object"}`. Nothing is ever fetched.

use pilothouse_messages::tool::ToolDefinition;
use serde_json::{Value, json};

mod brief;
mod limit;
mod loss;
mod meet;
mod read;
pub(crate) mod shape;
mod show;
pub mod strict;
pub(crate) mod text;

use limit::LADDER;
pub use loss::Loosened;
use loss::Losses;
pub(crate) use meet::unite_objects as one_object;
pub use pilothouse_messages::model::Dialect;
use shape::Object;

/// The largest schema that is shown, as compact JSON.
pub const SHOWN_BYTES_MAX: usize = 64 << 10;

/// A schema that the provider takes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSchema {
    /// The schema; always `"type": "object"` with `properties`.
    pub schema: Value,
    /// What it keeps to: the dialect asked for, or [`Dialect::OpenAi`] where strict mode cannot say what the tool takes
    /// (free keys, untyped values). A request marks such a tool `"strict": false`.
    pub dialect: Dialect,
    /// What was lost, in the order found; at most 33, the last one counts the rest.
    pub loosened: Vec<Loosened>,
}

/// Makes any JSON Schema into one that the provider takes.
///
/// ```
/// use pilothouse_rules::schema::{Dialect, provider_ready};
/// use serde_json::json;
///
/// let server = json!({"anyOf": [{"properties": {"id": {"const": 7}}, "additionalProperties": false}]});
/// let ready = provider_ready(&server, Dialect::Common);
/// assert_eq!(
///     ready.schema,
///     json!({"type": "object", "properties": {"id": {"type": "number", "description": "(one of 7)"}}}),
/// );
/// assert_eq!(ready.loosened[0].at, "/properties/id");
/// ```
pub fn provider_ready(schema: &Value, dialect: Dialect) -> ProviderSchema {
    settle(schema, dialect).1
}

/// What a surface of this dialect shows of a tool's arguments.
pub fn shown_schema(tool: &ToolDefinition, dialect: Dialect) -> ProviderSchema {
    provider_ready(&tool.input_schema.value(), dialect)
}

/// The root as it was read, and the schema made of it.
fn settle(schema: &Value, dialect: Dialect) -> (Object, ProviderSchema) {
    for caps in LADDER {
        let mut losses = Losses::default();
        let Some(root) = read::root(schema, caps, &mut losses) else { continue };
        if let Some(ready) = ready(&root, dialect, losses) {
            return (root, ready);
        }
    }
    let mut losses = Losses::default();
    losses.add("", "the schema is too large to show, so any object is taken");
    let any = Object::default();
    // Strict mode would take an empty object only, also of what is shown here.
    let (dialect, schema) = match dialect {
        Dialect::OpenAiStrict => {
            (Dialect::OpenAi, json!({"type": "object", "properties": {}, "additionalProperties": true}))
        }
        Dialect::Common | Dialect::OpenAi | Dialect::Anthropic | Dialect::Gemini => {
            (dialect, json!({"type": "object", "properties": {}}))
        }
    };
    (any, ProviderSchema { schema, dialect, loosened: losses.into_list() })
}

/// The schema's root as far as it can be read; any object if it is too large.
pub(crate) fn outline(schema: &Value) -> Object {
    let read = |caps| read::root(schema, caps, &mut Losses::default());
    LADDER.into_iter().find_map(read).unwrap_or_default()
}

fn ready(root: &Object, dialect: Dialect, mut losses: Losses) -> Option<ProviderSchema> {
    let mut dialect = dialect;
    if dialect == Dialect::OpenAiStrict
        && let Err(obstacle) = strict::expressible(root)
    {
        losses.add(&obstacle.at, &format!("strict mode cannot say this, so it is off: {}", obstacle.why));
        dialect = Dialect::OpenAi;
    }
    let schema = show::root(root, dialect, &mut losses);
    let bytes = schema.to_string().len();
    (bytes <= SHOWN_BYTES_MAX).then(|| ProviderSchema { schema, dialect, loosened: losses.into_list() })
}

#[cfg(test)]
mod tests;
