//! Decides whether structured content is what its tool's output schema says.
//!
//! The schema comes from a server, so it is bounded in size, refers to nothing outside itself (this crate is built
//! without resolvers), and its patterns run in linear time. A schema may still be slow by nesting: run this where it
//! may take its time, and bound that.

use pilothouse_messages::json::JsonText;
use serde_json::Value;

/// A larger schema is not checked (256 KiB).
const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// Larger content is not checked (1 MiB).
const CONTENT_BYTES_MAX: usize = 1 << 20;
/// What is kept of the words about a mismatch: they repeat the content.
const WORDS_MAX: usize = 500;

/// What is wrong with the content, in plain words; `None` if it fits, or cannot be checked.
///
/// A schema that is none is the server's fault in its listing, not a fault of this content.
pub fn mismatch(schema: &JsonText, content: &JsonText) -> Option<String> {
    if schema.as_str().len() > SCHEMA_BYTES_MAX || content.as_str().len() > CONTENT_BYTES_MAX {
        return None;
    }
    let options = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex());
    let validator = options.build(&schema.value()).ok()?;
    let content: Value = content.value();
    let error = validator.iter_errors(&content).next()?;
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "the whole".to_owned() } else { place };
    let words: String = format!("{place}: {error}").chars().take(WORDS_MAX).collect();
    Some(words)
}

#[cfg(test)]
mod tests;
