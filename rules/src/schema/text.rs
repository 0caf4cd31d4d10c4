//! Decides how a server's text stands in a schema: cleaned and bounded.

use crate::cut::cut;

/// Whether a reader does not see the character, or sees others in another order because of it: control characters,
/// bidi marks, zero-width and other format characters, line and paragraph separators, tags.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text without unseen characters (line breaks and tabs stay), trimmed, at most so many bytes; none if nothing is
/// left.
pub(crate) fn clean(text: &str, bytes: usize) -> Option<String> {
    // Unseen characters are few in any honest text; those beyond twice the bound are not looked for.
    let head = cut(text, bytes.saturating_mul(2));
    let seen: String = head.chars().filter(|c| !is_unseen(*c) || matches!(c, '\n' | '\t')).collect();
    let kept = cut(seen.trim(), bytes).trim_end();
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// Both texts, one of them if it says what the other says.
pub(crate) fn join(first: Option<String>, second: Option<String>, bytes: usize) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) if first.contains(&second) => Some(first),
        (Some(first), Some(second)) if second.contains(&first) => Some(second),
        (Some(first), Some(second)) => clean(&format!("{first} — {second}"), bytes),
        (first, second) => first.or(second),
    }
}

/// The text with remarks behind it, in brackets; the text is cut, not the remarks.
pub(crate) fn with_hints(text: Option<String>, hints: &[String], bytes: usize) -> Option<String> {
    if hints.is_empty() {
        return text;
    }
    let hint = clean(&format!("({})", hints.join("; ")), bytes)?;
    match text {
        Some(text) if text.ends_with(&hint) => Some(text),
        Some(text) => {
            let room = bytes.saturating_sub(hint.len() + 1);
            clean(&format!("{} {hint}", cut(&text, room).trim_end()), bytes)
        }
        None => Some(hint),
    }
}
