//! Decides how a shape is said in a few words, as a TypeScript type.

use serde_json::Value;

use super::shape::{Branch, Form, Forms, NumberKind, Object, Rest, Shape};
use crate::cut::cut;

/// How deep the words go.
const DEPTH_MAX: usize = 4;
/// How many values or properties are named.
const NAMED_MAX: usize = 12;

/// The type in at most so many bytes; what does not fit is `…`.
pub(crate) fn brief(shape: &Shape, bytes: usize) -> String {
    let words = said(shape, DEPTH_MAX);
    if words.len() <= bytes {
        return words;
    }
    // Each level less makes it much shorter.
    let shorter = (1..DEPTH_MAX).rev().map(|depth| said(shape, depth)).find(|words| words.len() <= bytes);
    shorter.unwrap_or_else(|| format!("{}…", cut(&words, bytes.saturating_sub('…'.len_utf8()))))
}

fn said(shape: &Shape, depth: usize) -> String {
    let Forms::Of(branches) = &shape.forms else { return "any".to_owned() };
    let mut words: Vec<String> = branches.iter().map(|branch| form(branch, depth)).collect();
    if shape.null {
        words.push("null".to_owned());
    }
    words.dedup();
    if words.is_empty() { "never".to_owned() } else { words.join(" | ") }
}

fn form(branch: &Branch, depth: usize) -> String {
    match &branch.form {
        Form::Flag(None) => "boolean".to_owned(),
        Form::Flag(Some(only)) => only.to_string(),
        Form::Text(text) => match &text.values {
            Some(values) => listed(values.iter().map(|value| Value::from(value.as_str()).to_string())),
            None => "string".to_owned(),
        },
        Form::Numeral(numeral) => match (&numeral.values, numeral.kind) {
            (Some(values), _) => listed(values.iter().map(ToString::to_string)),
            (None, NumberKind::Integer) => "integer".to_owned(),
            (None, NumberKind::Real) => "number".to_owned(),
        },
        Form::List(list) => match (&list.items, depth) {
            (None, _) | (_, 0) => "any[]".to_owned(),
            (Some(items), _) => format!("Array<{}>", said(items, depth - 1)),
        },
        Form::Object(object) => fields(object, depth),
    }
}

fn fields(object: &Object, depth: usize) -> String {
    let Some(deeper) = depth.checked_sub(1) else { return "object".to_owned() };
    let mut words: Vec<String> = Vec::new();
    for (name, shape) in object.properties.iter().take(NAMED_MAX) {
        let mark = if object.required.contains(name) { "" } else { "?" };
        words.push(format!("{}{mark}: {}", named(name), said(shape, deeper)));
    }
    if object.properties.len() > NAMED_MAX {
        words.push("…".to_owned());
    }
    if let Rest::Of(shape) = &object.rest {
        words.push(format!("[name: string]: {}", said(shape, deeper)));
    }
    let required = object.required.iter().filter(|name| !object.properties.contains_key(*name));
    words.extend(required.take(NAMED_MAX).map(|name| format!("{}: any", named(name))));
    if words.is_empty() { "object".to_owned() } else { format!("{{{}}}", words.join(", ")) }
}

/// A name that is no identifier is quoted.
fn named(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain && !name.is_empty() { name.to_owned() } else { Value::from(name).to_string() }
}

pub(super) fn listed(values: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = values.collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut words = all.get(..NAMED_MAX).unwrap_or(&all).join(" | ");
    if more > 0 {
        words.push_str(&format!(" | … {more} more"));
    }
    words
}
