//! The lines that drive a runtime, the lines that it answers with, and how one is looked for in the other.
//!
//! One JSON object a line, with one key, the verb. Blank lines and lines that begin with `#` say nothing.

use serde_json::Value;

mod expect;
mod fields;
mod find;
mod queue;
mod unavailable;
mod verb;
mod write;

pub use expect::{Expect, ExpectAbsent, Pattern, Since};
pub use fields::{
    Action, AnswerFields, AttachFields, CallFields, Cards, ConfigFields, ConfigureFields, DecideFields,
    DetachFields, EnableFields, ExportFields, HistoryFields, ListFields, ModelFields, Reach, RefreshFields,
    RestartFields, RevokeFields, Scope, SendFields, ServerFields, SleepFields, StdioFields, StopFields,
    TopicFields, TransportFields, ViewFields,
};
pub use find::{Cursor, Search, matches};
pub use queue::{DropFields, EditFields, RelevelFields, ReorderFields, ResendFields};
pub use verb::Verb;
pub use write::{Body, Line, Outcome, Writer};

/// Why a line says nothing that can be done. The run ends at it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{reason}", field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
pub struct LineError {
    /// The line's number, counted from 1.
    pub line: usize,
    /// Where in the line, as a path that begins with the verb; `None` for the whole line.
    pub field: Option<String>,
    /// What is wrong there and what would be right.
    pub reason: String,
}

/// Reads one line; `None` for one that says nothing.
///
/// # Errors
/// A [`LineError`] that names the field and the reason: no JSON, not one verb, an unknown field, a value of the
/// wrong kind, or something that this version does not do.
pub fn parse(line: usize, text: &str) -> Result<Option<Verb>, LineError> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let error =
        |field: Option<&str>, reason: String| LineError { line, field: field.map(str::to_owned), reason };
    let value: Value = serde_json::from_str(text)
        .map_err(|cause| error(None, format!("this is not JSON ({cause}): write one object a line")))?;
    let Value::Object(fields) = value else {
        return Err(error(None, "a line is an object with one key, the verb".to_owned()));
    };
    let mut verbs = fields.iter();
    let (Some((name, body)), None) = (verbs.next(), verbs.next()) else {
        let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
        let found = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        return Err(error(None, format!("a line has exactly one key, the verb; this one has: {found}")));
    };
    unavailable::check(name, body).map_err(|(field, reason)| error(Some(&field), reason))?;
    verb::read(name, body).map(Some).map_err(|(field, reason)| error(field.as_deref(), reason))
}

#[cfg(test)]
mod tests;
