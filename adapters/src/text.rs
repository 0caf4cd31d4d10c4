//! How much of a text from outside is told on.

/// The longest start of the text that has at most this many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// The text on one line, without control characters, cut to `bytes`.
pub(crate) fn one_line(text: &str, bytes: usize) -> String {
    // Blanks may shrink, so a little more than the bound is looked at, and never all of a long text.
    let words = cut(text, bytes.saturating_mul(2)).split_whitespace();
    let line = words.collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().filter(|c| !c.is_control()).collect();
    cut(&plain, bytes).to_owned()
}
