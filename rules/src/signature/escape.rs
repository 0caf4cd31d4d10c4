//! Decides how a server's text is kept within its field.

use serde_json::Value;

use crate::schema::text::is_unseen;

/// A text in the rest of a line.
pub(super) fn in_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '/' if before == '*' => out.push_str("\\/"),
            c if c == '`' || is_unseen(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A value as JSON that stays on its line.
pub(super) fn in_json(value: &Value) -> String {
    // Such characters stand within strings only, where JSON has escapes for them.
    let json = value.to_string();
    let mut out = String::with_capacity(json.len());
    let mut before = ' ';
    for c in json.chars() {
        match c {
            '/' if before == '*' => out.push_str("\\/"),
            c if c == '`' || is_unseen(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A property's name within a path.
pub(super) fn segment(name: &str) -> String {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'-'));
    if is_plain && !name.is_empty() {
        format!(".{name}")
    } else {
        format!("[{}]", in_json(&Value::from(name)))
    }
}
