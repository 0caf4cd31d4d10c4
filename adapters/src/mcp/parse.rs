//! Decides what a line of a server may cost, and reads its messages within that.
//!
//! A line is bounded, but what it becomes is not: eight bytes of `{"a":0},` take seven hundred once they are read. So
//! the cost is counted before anything is built, and a line that would cost too much is refused whole.

use std::collections::VecDeque;

use serde_json::{Map, Value};

/// A longer line (64 KiB) is read off the runtime's threads, and is no request of a server.
pub(super) const LIGHT_BYTES_MAX: usize = 64 << 10;
/// What the values of one line may take in memory, besides its own bytes (128 MiB).
const TREE_BYTES_MAX: usize = 128 << 20;
/// Messages in one batch.
const BATCH_ITEMS_MAX: usize = 1_000;

/// What an object takes at least: its first node has room for eleven members.
const OBJECT_BYTES: usize = 700;
/// What a list takes by itself.
const LIST_BYTES: usize = 64;
/// What one more member or item takes.
const ITEM_BYTES: usize = 128;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One message of a server.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    /// Its members.
    pub(super) fields: Map<String, Value>,
    /// Whether its line was long.
    pub(super) size: Size,
}

/// How long the line of a message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// At most [`LIGHT_BYTES_MAX`].
    Light,
    /// Longer.
    Heavy,
}

/// What a line holds.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    /// Messages, and how many things that are none.
    Messages(VecDeque<Message>, u64),
    /// More than a server may send in one line; why, as the end of a connection says it.
    Refused(String),
}

/// Takes the messages out of a line: one, or the items of a batch.
pub(super) fn parse(mut line: Vec<u8>) -> Parsed {
    let size = if line.len() > LIGHT_BYTES_MAX { Size::Heavy } else { Size::Light };
    if cost(&line) > TREE_BYTES_MAX {
        let most = TREE_BYTES_MAX >> 20;
        return Parsed::Refused(format!("sent a line that takes more than {most} MiB to read"));
    }
    replace_broken(&mut line);
    let line = line.strip_prefix(BOM).unwrap_or(&line).trim_ascii();
    if line.is_empty() {
        return Parsed::Messages(VecDeque::new(), 0);
    }
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) if batch.len() > BATCH_ITEMS_MAX => {
            Parsed::Refused(format!("sent a batch of more than {BATCH_ITEMS_MAX} messages"))
        }
        Ok(Value::Array(batch)) => sorted(batch, size),
        Ok(single) => sorted([single], size),
        Err(_) => Parsed::Messages(VecDeque::new(), 1),
    }
}

fn sorted(items: impl IntoIterator<Item = Value>, size: Size) -> Parsed {
    let (mut messages, mut junk) = (VecDeque::new(), 0);
    for item in items {
        match item {
            Value::Object(fields) => messages.push_back(Message { fields, size }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => junk += 1,
        }
    }
    Parsed::Messages(messages, junk)
}

/// What the values of a line would take. Counts as the parser reads: up to the first error, which ends both, they
/// agree on what is inside a string.
fn cost(line: &[u8]) -> usize {
    let (mut bytes, mut inside, mut escaped) = (0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' if !inside => bytes += OBJECT_BYTES,
            b'[' if !inside => bytes += LIST_BYTES,
            b',' if !inside => bytes += ITEM_BYTES,
            _ => {}
        }
    }
    bytes
}

/// Replaces bytes that are no UTF-8, in place, so that an answer with a broken character still is one.
fn replace_broken(line: &mut [u8]) {
    let mut at = 0;
    while let Some(rest) = line.get_mut(at..) {
        let Err(error) = std::str::from_utf8(rest) else {
            return;
        };
        let broken = error.valid_up_to()..rest.len();
        let length = error.error_len().unwrap_or(broken.len());
        rest.iter_mut().skip(broken.start).take(length).for_each(|byte| *byte = b'?');
        at += broken.start + length;
    }
}

#[cfg(test)]
mod tests;
