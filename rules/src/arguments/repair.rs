//! Decides what a model meant by the text of its arguments, as far as that can be known.
//!
//! Only slips of the form are mended, one after the other, and only where the result is what the schema asks for while
//! the text as it came is not. Nothing is guessed about values.

use std::fmt;

use pilothouse_messages::json::JsonText;
use serde_json::{Map, Value};

use super::{Faults, Validator, Verdict};

/// How many slips one text may have.
const FIXES_MAX: usize = 4;
/// Names under which models wrap the arguments of a call.
const WRAPPERS: [&str; 4] = ["arguments", "params", "input", "parameters"];

/// One slip that was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fix {
    /// Nothing was written, or `null`: no arguments.
    Empty,
    /// The object was written as a string that holds JSON.
    Decoded,
    /// The object was wrapped in one of its own, under a name that means arguments.
    Unwrapped,
    /// The object stood in a code fence.
    Unfenced,
    /// There was more text after the object.
    Trimmed,
    /// A comma stood before a closing bracket.
    CommaRemoved,
    /// Members that may be left out were `null`, which their schema does not take.
    NullsLeftOut,
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no arguments were taken as {}",
            Self::Decoded => "a string was read as the JSON that it holds",
            Self::Unwrapped => "the object inside was taken",
            Self::Unfenced => "a code fence was removed",
            Self::Trimmed => "text after the object was left out",
            Self::CommaRemoved => "a comma before a closing bracket was removed",
            Self::NullsLeftOut => "members that were null were left out",
        })
    }
}

/// What the text of a call's arguments comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The arguments, a JSON object.
    Arguments {
        /// The object: the very text that came, unless something was mended.
        arguments: JsonText,
        /// What was mended, in order; empty if nothing.
        fixes: Vec<Fix>,
        /// Why the arguments were not checked, if they were not.
        unchecked: Option<String>,
    },
    /// The call cannot be made.
    Refused {
        /// Why, to be told to the model; the tool's signature belongs after it.
        reason: String,
    },
}

/// Reads a call's arguments and mends what is only a slip of the form. `raw` is the text that the model wrote.
///
/// Takes a bounded time and says a bounded number of words, whatever the text is.
pub fn settle(raw: &str, validator: &Validator) -> Settled {
    let mut fixes = Vec::new();
    let mut first_faults: Option<Faults> = None;
    let mut value = match read(raw, &mut fixes) {
        Ok(value) => value,
        Err(reason) => return Settled::Refused { reason },
    };
    loop {
        if value.is_object() {
            match validator.check(&value) {
                Verdict::Valid => return settled(raw, &value, fixes, None),
                Verdict::Unchecked(why) => return settled(raw, &value, fixes, Some(why)),
                Verdict::Invalid(faults) => first_faults.get_or_insert(faults),
            };
            // Models that have to name every member write null for what they leave out.
            if let Some(bare) = without_nulls(&value).filter(|bare| validator.check(bare) == Verdict::Valid) {
                fixes.push(Fix::NullsLeftOut);
                return settled(raw, &bare, fixes, None);
            }
        }
        if fixes.len() >= FIXES_MAX {
            break;
        }
        value = match reshaped(value, &mut fixes) {
            Ok(value) => value,
            Err(value) => return refused(first_faults, &value),
        };
    }
    refused(first_faults, &value)
}

fn settled(raw: &str, value: &Value, fixes: Vec<Fix>, unchecked: Option<String>) -> Settled {
    let as_it_came = if fixes.is_empty() { JsonText::parse(raw.trim()).ok() } else { None };
    let arguments = as_it_came.unwrap_or_else(|| JsonText::from(value));
    Settled::Arguments { arguments, fixes, unchecked }
}

fn refused(faults: Option<Faults>, value: &Value) -> Settled {
    let reason = match faults {
        Some(faults) => format!("the arguments do not match its schema:\n{faults}"),
        None => format!("the arguments must be a JSON object, this is {}", kind(value)),
    };
    Settled::Refused { reason }
}

/// The object without its members that are null; `None` if it has none.
fn without_nulls(value: &Value) -> Option<Value> {
    let members = value.as_object().filter(|members| members.values().any(Value::is_null))?;
    let kept = members.iter().filter(|(_, member)| !member.is_null());
    Some(Value::Object(kept.map(|(name, member)| (name.clone(), member.clone())).collect()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The value that a text stands for; the error says what is wrong with the text.
fn read(text: &str, fixes: &mut Vec<Fix>) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        fixes.push(Fix::Empty);
        return Ok(Value::Object(Map::new()));
    }
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let fault = || match error.is_eof() {
        true => format!("the arguments are not valid JSON: they end too early ({error}); send all of them"),
        false => format!("the arguments are not valid JSON ({error})"),
    };
    let (inner, mut found) = match unfenced(text) {
        Some(inner) => (inner, vec![Fix::Unfenced]),
        None => (text, Vec::new()),
    };
    let value = lenient(inner, &mut found).ok_or_else(fault)?;
    fixes.extend(found);
    Ok(value)
}

/// What stands in a code fence that the text begins with.
fn unfenced(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("```")?;
    let (_language, body) = inside.split_once('\n')?;
    let (body, after) = body.split_once("```")?;
    after.trim().is_empty().then_some(body.trim())
}

fn lenient(text: &str, found: &mut Vec<Fix>) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    if let Some(value) = object_before_text(text) {
        found.push(Fix::Trimmed);
        return Some(value);
    }
    let value = serde_json::from_str(&without_comma(text)?).ok()?;
    found.push(Fix::CommaRemoved);
    Some(value)
}

/// An object with words after it. More brackets after it may be more of the call, so they are no mere words.
fn object_before_text(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok().filter(Value::is_object)?;
    let after = text.get(values.byte_offset()..)?;
    (!after.contains(['{', '[', '}', ']', '"'])).then_some(value)
}

/// The text without its one comma before a closing bracket; `None` if there are none or several.
fn without_comma(text: &str) -> Option<String> {
    let mut commas = Vec::new();
    let (mut in_string, mut escaped, mut comma) = (false, false, None);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => {
                in_string = !in_string;
                comma = None;
            }
            _ if in_string || c.is_ascii_whitespace() => {}
            ',' => comma = Some(at),
            '}' | ']' => commas.extend(comma.take()),
            _ => comma = None,
        }
    }
    let [only] = commas.as_slice() else { return None };
    let mut mended = text.to_owned();
    mended.remove(*only);
    Some(mended)
}

/// The value after one more fix; the value back if none fits.
fn reshaped(value: Value, fixes: &mut Vec<Fix>) -> Result<Value, Value> {
    match value {
        Value::Null => {
            fixes.push(Fix::Empty);
            Ok(Value::Object(Map::new()))
        }
        Value::String(text) => {
            let mut found = vec![Fix::Decoded];
            match read(&text, &mut found) {
                Ok(inner) => {
                    fixes.append(&mut found);
                    Ok(inner)
                }
                Err(_no_json) => Err(Value::String(text)),
            }
        }
        Value::Object(mut fields) => {
            let only = fields.keys().next().filter(|name| WRAPPERS.contains(&name.as_str())).cloned();
            let inner = only.filter(|_| fields.len() == 1).and_then(|name| fields.remove(&name));
            match inner {
                Some(inner @ (Value::Object(_) | Value::String(_))) => {
                    fixes.push(Fix::Unwrapped);
                    Ok(inner)
                }
                Some(_) | None => Err(Value::Object(fields)),
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(value),
    }
}

#[cfg(test)]
mod tests;
