//! How much of a text from outside a record keeps: no text of anybody makes a batch that the store refuses.

/// The longest name of a person that a record keeps, in bytes.
pub(crate) const NAME_BYTES: usize = 256;
/// The longest title of a tool that a record keeps, in bytes.
pub(crate) const TITLE_BYTES: usize = 1 << 10;

/// The longest start of the text that has at most this many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}
