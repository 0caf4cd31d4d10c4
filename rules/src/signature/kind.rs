//! Decides how a shape's type and bounds are written in a signature.

use std::fmt::Display;

use serde_json::{Number, Value};

use super::escape::in_json;
use crate::schema::shape::{Form, Forms, NumberKind, Shape};

/// How many values are listed.
const VALUES_MAX: usize = 40;
/// How deep arrays in arrays are written.
const LEVELS_MAX: usize = 4;

pub(super) fn kind(shape: &Shape) -> String {
    within(shape, LEVELS_MAX)
}

fn within(shape: &Shape, levels: usize) -> String {
    let Forms::Of(branches) = &shape.forms else { return "any".to_owned() };
    let mut words: Vec<String> = Vec::new();
    for branch in branches {
        let word = form(&branch.form, levels);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if shape.null {
        words.push("null".to_owned());
    }
    words.join("|")
}

fn form(form: &Form, levels: usize) -> String {
    match form {
        Form::Flag(None) => "boolean".to_owned(),
        Form::Flag(Some(only)) => only.to_string(),
        Form::Text(text) => match &text.values {
            Some(values) => listed(values.iter().map(|value| in_json(&Value::from(value.as_str())))),
            None => "string".to_owned(),
        },
        Form::Numeral(numeral) => match (&numeral.values, numeral.kind) {
            (Some(values), _) => listed(values.iter().map(ToString::to_string)),
            (None, NumberKind::Integer) => "integer".to_owned(),
            (None, NumberKind::Real) => "number".to_owned(),
        },
        Form::List(list) => match (&list.items, levels.checked_sub(1)) {
            (Some(items), Some(levels)) => format!("Array<{}>", within(items, levels)),
            (_, _) => "Array".to_owned(),
        },
        Form::Object(_) => "Object".to_owned(),
    }
}

fn listed(values: impl ExactSizeIterator<Item = String>) -> String {
    let more = values.len().saturating_sub(VALUES_MAX);
    let mut words: Vec<String> = values.take(VALUES_MAX).collect();
    if more > 0 {
        words.push(format!("…{more} more"));
    }
    words.join("|")
}

/// What a value has to keep to, beside its type.
pub(super) fn bounds(shape: &Shape) -> Vec<String> {
    let Forms::Of(branches) = &shape.forms else { return Vec::new() };
    let [only] = branches.as_slice() else { return Vec::new() };
    let mut words = Vec::new();
    match &only.form {
        Form::Text(text) => {
            words.extend(text.format.as_ref().map(|format| format!("format: {format}")));
            words.extend(text.pattern.as_ref().map(|pattern| format!("pattern: {pattern}")));
            words.extend(range(text.min.as_ref(), text.max.as_ref(), " characters"));
        }
        Form::Numeral(numeral) => {
            words.extend(range(numeral.min.as_ref(), numeral.max.as_ref(), ""));
            words.extend(numeral.above.as_ref().map(|above| format!("more than {above}")));
            words.extend(numeral.below.as_ref().map(|below| format!("less than {below}")));
            words.extend(numeral.multiple_of.as_ref().map(|step| format!("a multiple of {step}")));
        }
        Form::List(list) => {
            words.extend(range(list.min.as_ref(), list.max.as_ref(), " items"));
            words.extend(list.unique.then(|| "no item twice".to_owned()));
        }
        Form::Object(object) => words.extend(range(object.min.as_ref(), object.max.as_ref(), " properties")),
        Form::Flag(_) => {}
    }
    words
}

fn range(min: Option<&Number>, max: Option<&Number>, of: &str) -> Option<String> {
    let said = |words: &dyn Display| Some(format!("{words}{of}"));
    match (min, max) {
        (Some(min), Some(max)) => said(&format_args!("{min} to {max}")),
        (Some(min), None) => said(&format_args!("at least {min}")),
        (None, Some(max)) => said(&format_args!("at most {max}")),
        (None, None) => None,
    }
}
