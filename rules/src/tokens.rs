//! Decides what a shown tool is reckoned to cost, in tokens.
//!
//! The default, [`Bytes4`], is fixed: the same tools always cost the same, on every machine and for every model, so
//! that a decision about deferral can be repeated from its report. It counts the UTF-8 bytes of a tool's compact JSON,
//! four to a token, rounded up once over the sum. Whoever wants a model's own figures gives a [`TokenCounter`].

use pilothouse_messages::tool::ShownTool;

/// Counts what tools, and texts of a conversation, cost when a model is shown them.
///
/// An answer depends on the tools alone: it decides what a pinned surface holds.
pub trait TokenCounter: Send + Sync {
    /// Name and version, for reports.
    fn name(&self) -> &str;

    /// What these tools cost together.
    fn tokens(&self, tools: &mut dyn Iterator<Item = &ShownTool>) -> u64;

    /// What a text of a conversation costs; it decides how much of a history a model is given.
    fn text(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}

/// The default: UTF-8 bytes of compact JSON / 4, rounded up over the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes4;

impl TokenCounter for Bytes4 {
    fn name(&self) -> &str {
        "utf8-bytes/4@1"
    }

    fn tokens(&self, tools: &mut dyn Iterator<Item = &ShownTool>) -> u64 {
        tools.map(json_bytes).fold(0u64, u64::saturating_add).div_ceil(4)
    }
}

/// A counter that gives each tool's compact JSON to a function and adds up.
#[derive(Debug, Clone)]
pub struct PerTool<F> {
    name: String,
    count: F,
}

impl<F: Fn(&str) -> u64 + Send + Sync> PerTool<F> {
    /// `name` says which function, with its version; `count` gives the tokens of a text.
    pub fn new(name: impl Into<String>, count: F) -> Self {
        Self { name: name.into(), count }
    }
}

impl<F: Fn(&str) -> u64 + Send + Sync> TokenCounter for PerTool<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn tokens(&self, tools: &mut dyn Iterator<Item = &ShownTool>) -> u64 {
        tools.map(|tool| (self.count)(&compact_json(tool))).fold(0u64, u64::saturating_add)
    }

    fn text(&self, text: &str) -> u64 {
        (self.count)(text)
    }
}

/// `{"name":…,"description":…,"input_schema":…}` without blanks.
pub fn compact_json(tool: &ShownTool) -> String {
    // Strings and JSON always serialise.
    serde_json::to_string(tool).unwrap_or_default()
}

/// The length of [`compact_json`], without making it.
fn json_bytes(tool: &ShownTool) -> u64 {
    const KEYS: u64 = r#"{"name":"","description":"","input_schema":}"#.len() as u64;
    KEYS + escaped_bytes(&tool.name)
        + escaped_bytes(&tool.description)
        + compact_bytes(tool.input_schema.as_str())
}

/// A text's length inside a JSON string.
fn escaped_bytes(text: &str) -> u64 {
    let cost = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..0x20 => 6,
        0x20.. => 1,
    };
    text.bytes().map(cost).sum()
}

/// The length of a JSON text without the blanks between its values.
fn compact_bytes(json: &str) -> u64 {
    let (mut bytes, mut quoted, mut escaped) = (0, false, false);
    for byte in json.bytes() {
        let is_blank = !quoted && matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        bytes += u64::from(!is_blank);
        if byte == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && byte == b'\\' && !escaped;
    }
    bytes
}

#[cfg(test)]
mod tests;
