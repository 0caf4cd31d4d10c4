//! Decides what a model calls a server's tool.
//!
//! ```text
//! mcp__{server}__{tool}   cut to 42 characters, trailing "_" removed
//!        + "_" + 20 hex digits of SHA-256(server id ‖ 0x00 ‖ raw tool name)
//! ```
//!
//! The readable part helps a model; the digest is what tells two tools apart. A name is computed once, stored,
//! and never parsed back: identity is (server id, raw tool name).

use any_ascii::any_ascii_char;
use pilothouse_messages::tool::identity_digits;

mod legacy;

pub use legacy::{legacy_name, legacy_parts};

/// The longest wire name that this module makes, in characters; one below what every provider accepts.
pub const WIRE_NAME_MAX: usize = 63;

/// Hex digits of the digest in a wire name.
const DIGEST_DIGITS: usize = 20;

/// What stays for the readable part.
const READABLE_MAX: usize = WIRE_NAME_MAX - DIGEST_DIGITS - 1;

/// The ASCII letters and digits of a text in camel case; empty if it has none.
///
/// Trims and changes case as ECMAScript does, so that names agree with those that other hosts computed: the text is
/// lower-cased first, each run of other characters makes the next letter upper case (also a leading run), and a
/// leading digit gets `_` in front.
///
/// ```
/// use pilothouse_rules::name::camel;
/// assert_eq!(camel("my-server_name"), "myServerName");
/// assert_eq!(camel("9lives"), "_9lives");
/// ```
pub fn camel(text: &str) -> String {
    let lowered = text.trim_matches(is_ecma_blank).to_lowercase();
    let mut out = String::with_capacity(lowered.len() + 1);
    let mut run = Run::default();
    for c in lowered.chars() {
        if !c.is_ascii_alphanumeric() {
            run.push(c);
        } else if std::mem::take(&mut run).length > 0 {
            out.push(c.to_ascii_uppercase());
        } else {
            out.push(c);
        }
    }
    out.extend(run.leaked());
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Characters in a row that are neither ASCII letters nor digits.
#[derive(Default)]
struct Run {
    length: usize,
    last: Option<char>,
}

impl Run {
    fn push(&mut self, c: char) {
        self.length += 1;
        self.last = Some(c);
    }

    /// What a run at the end of a text leaves. With nothing behind it, the last character of a longer run is the one
    /// that is upper-cased, and a special mapping may give ASCII letters (`ß` becomes `SS`).
    fn leaked(self) -> impl Iterator<Item = char> {
        let last = self.last.filter(|_| self.length > 1);
        last.into_iter().flat_map(char::to_uppercase).filter(char::is_ascii_alphanumeric)
    }
}

/// ECMAScript's white space and line terminators: Unicode's without U+0085, with U+FEFF.
fn is_ecma_blank(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// [`camel`] of a text whose Han characters are replaced by their readings, one word each.
///
/// One reading for each character, whatever stands around it; characters without one count as separators.
///
/// ```
/// use pilothouse_rules::name::slug;
/// assert_eq!(slug("票据 OCR"), "piaoJuOcr");
/// ```
pub fn slug(text: &str) -> String {
    let mut romanised = String::with_capacity(text.len());
    for c in text.chars() {
        match reading(c) {
            Some(word) => romanised.extend([" ", word, " "]),
            None => romanised.push(c),
        }
    }
    camel(&romanised)
}

fn reading(c: char) -> Option<&'static str> {
    let is_han = matches!(c,
        '\u{2e80}'..='\u{2fdf}' | '\u{3007}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}');
    is_han.then(|| any_ascii_char(c)).filter(|word| !word.is_empty())
}

/// The wire name of one server's tool: `[A-Za-z0-9_-]`, at most [`WIRE_NAME_MAX`] characters, begins with `mcp__`.
///
/// `server_name` is the display name; it shapes the readable part only. All three may be any text.
///
/// ```
/// use pilothouse_rules::name::wire_name;
/// assert_eq!(wire_name("server-a", "mysql", "query"), "mcp__mysql__query_306d76332fabbe783838");
/// ```
pub fn wire_name(server_id: &str, server_name: &str, tool: &str) -> String {
    named(server_id, server_name, tool, "")
}

/// The wire name for a tool whose own name belongs to another one already: the same with `_{number}` at its end,
/// within the same length.
pub fn numbered_wire_name(server_id: &str, server_name: &str, tool: &str, number: usize) -> String {
    named(server_id, server_name, tool, &format!("_{number}"))
}

fn named(server_id: &str, server_name: &str, tool: &str, tail: &str) -> String {
    let or = |text: String, instead: &str| if text.is_empty() { instead.to_owned() } else { text };
    let mut name = format!("mcp__{}__{}", or(slug(server_name), "server"), or(slug(tool), "tool"));
    // All of it is ASCII, so every length is a character boundary.
    name.truncate(READABLE_MAX.saturating_sub(tail.len()));
    name.truncate(name.trim_end_matches('_').len());
    name.push('_');
    name.push_str(&identity_digits(server_id, tool));
    name.push_str(tail);
    name
}

/// Whether every provider accepts this as a tool's name: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub fn is_wire_name_for_provider(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
