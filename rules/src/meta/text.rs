//! How text of servers and models stands in an answer: on one line, bounded, unable to look like ours.

use crate::cut::cut;

/// How much of a name that a model wrote is said back to it, in bytes.
const NAME_BYTES: usize = 128;

/// The text on one line: blanks for line breaks, nothing that is invisible or turns the direction of text around, angle
/// brackets written as entities.
pub(super) fn line(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    let mut was_blank = true;
    for c in text.chars().filter(|c| !is_hidden(*c)) {
        if out.len() >= bytes {
            break;
        }
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ if c.is_whitespace() && was_blank => {}
            _ if c.is_whitespace() => out.push(' '),
            _ => out.push(c),
        }
        was_blank = c.is_whitespace();
    }
    bounded(out.trim_end(), bytes)
}

/// The text cut to `bytes`, and marked as cut.
pub(super) fn bounded(text: &str, bytes: usize) -> String {
    let kept = cut(text, bytes);
    if kept.len() < text.len() { format!("{kept}…") } else { kept.to_owned() }
}

/// A name that a model wrote, quoted.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", line(name, NAME_BYTES))
}

/// Control characters but line breaks and tabs, zero-width characters, and marks that reorder text.
fn is_hidden(c: char) -> bool {
    let is_mark = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}');
    is_mark || (c.is_control() && !c.is_whitespace())
}
