//! Decides whether a provider takes a tool as it is shown.
//!
//! Providers validate a whole request at once, so one tool that breaks a rule costs every tool of the request. The rules
//! here are those that providers document or were seen to enforce; `docs/providers.md` gives the source of each.

use std::fmt;

use pilothouse_messages::tool::ShownTool;
use serde_json::Value;

use crate::cut::cut;

mod anthropic;
mod gemini;
mod openai;
mod walk;

pub(crate) use gemini::TEXT_FORMATS as GEMINI_TEXT_FORMATS;
pub(crate) use openai::STRICT_FORMATS as OPENAI_STRICT_FORMATS;

/// How many violations of one tool are told.
const VIOLATIONS_MAX: usize = 64;

/// Whose rules are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// OpenAI's functions with `"strict": false`.
    OpenAi,
    /// OpenAI's functions with `"strict": true`.
    OpenAiStrict,
    /// Anthropic's `tools` with `input_schema`.
    Anthropic,
    /// Gemini's function declarations with `parameters`.
    Gemini,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::OpenAiStrict, Self::Anthropic, Self::Gemini];
}

/// One rule of one provider; displayed as its id in `docs/providers.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is a row of `docs/providers.md`")]
pub enum Rule {
    OpenAiName,
    OpenAiRoot,
    OpenAiRootProperties,
    OpenAiType,
    OpenAiItems,
    OpenAiReference,
    StrictClosed,
    StrictRequired,
    StrictKeyword,
    StrictTyped,
    StrictFormat,
    StrictReferenceAlone,
    StrictDepth,
    StrictSize,
    AnthropicName,
    AnthropicRoot,
    AnthropicDraft,
    AnthropicPropertyName,
    AnthropicReference,
    GeminiName,
    GeminiRoot,
    GeminiKeyword,
    GeminiType,
    GeminiItems,
    GeminiEnum,
    GeminiFormat,
    GeminiRequired,
    GeminiAnyOfAlone,
    GeminiDepth,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 29] = [
        Self::OpenAiName,
        Self::OpenAiRoot,
        Self::OpenAiRootProperties,
        Self::OpenAiType,
        Self::OpenAiItems,
        Self::OpenAiReference,
        Self::StrictClosed,
        Self::StrictRequired,
        Self::StrictKeyword,
        Self::StrictTyped,
        Self::StrictFormat,
        Self::StrictReferenceAlone,
        Self::StrictDepth,
        Self::StrictSize,
        Self::AnthropicName,
        Self::AnthropicRoot,
        Self::AnthropicDraft,
        Self::AnthropicPropertyName,
        Self::AnthropicReference,
        Self::GeminiName,
        Self::GeminiRoot,
        Self::GeminiKeyword,
        Self::GeminiType,
        Self::GeminiItems,
        Self::GeminiEnum,
        Self::GeminiFormat,
        Self::GeminiRequired,
        Self::GeminiAnyOfAlone,
        Self::GeminiDepth,
    ];

    /// The rule's name in `docs/providers.md`.
    pub fn id(self) -> &'static str {
        match self {
            Self::OpenAiName => "openai-name",
            Self::OpenAiRoot => "openai-root",
            Self::OpenAiRootProperties => "openai-root-properties",
            Self::OpenAiType => "openai-type",
            Self::OpenAiItems => "openai-items",
            Self::OpenAiReference => "openai-reference",
            Self::StrictClosed => "strict-closed",
            Self::StrictRequired => "strict-required",
            Self::StrictKeyword => "strict-keyword",
            Self::StrictTyped => "strict-typed",
            Self::StrictFormat => "strict-format",
            Self::StrictReferenceAlone => "strict-reference-alone",
            Self::StrictDepth => "strict-depth",
            Self::StrictSize => "strict-size",
            Self::AnthropicName => "anthropic-name",
            Self::AnthropicRoot => "anthropic-root",
            Self::AnthropicDraft => "anthropic-draft",
            Self::AnthropicPropertyName => "anthropic-property-name",
            Self::AnthropicReference => "anthropic-reference",
            Self::GeminiName => "gemini-name",
            Self::GeminiRoot => "gemini-root",
            Self::GeminiKeyword => "gemini-keyword",
            Self::GeminiType => "gemini-type",
            Self::GeminiItems => "gemini-items",
            Self::GeminiEnum => "gemini-enum",
            Self::GeminiFormat => "gemini-format",
            Self::GeminiRequired => "gemini-required",
            Self::GeminiAnyOfAlone => "gemini-any-of-alone",
            Self::GeminiDepth => "gemini-depth",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A rule that a tool breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} at `{at}`: {why}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where: a JSON Pointer into the shown schema, cut at 256 bytes; empty for the name.
    pub at: String,
    /// What is wrong there.
    pub why: String,
}

/// The rules of the provider that the tool breaks, in no promised order; none if the provider takes it. At most 64.
///
/// ```
/// use pilothouse_messages::{json::JsonText, tool::ShownTool};
/// use pilothouse_rules::provider::{Provider, Rule, check};
///
/// let input_schema = JsonText::parse(r#"{"type": "string"}"#)?;
/// let tool = ShownTool { name: "lookup".into(), description: "Looks up.".into(), input_schema };
/// let broken: Vec<Rule> = check(&tool, Provider::Anthropic).into_iter().map(|violation| violation.rule).collect();
/// assert_eq!(broken, [Rule::AnthropicRoot]);
/// # Ok::<(), String>(())
/// ```
pub fn check(tool: &ShownTool, provider: Provider) -> Vec<Violation> {
    let mut found = Found::default();
    let schema = tool.input_schema.value();
    match provider {
        Provider::OpenAi => openai::check(&tool.name, &schema, &mut found),
        Provider::OpenAiStrict => {
            openai::check(&tool.name, &schema, &mut found);
            openai::check_strict(&schema, &mut found);
        }
        Provider::Anthropic => anthropic::check(&tool.name, &schema, &mut found),
        Provider::Gemini => gemini::check(&tool.name, &schema, &mut found),
    }
    found.list
}

/// Whether Anthropic takes it as a property's name: 1 to 64 of `A-Z a-z 0-9 _ . -`.
pub(crate) fn is_property_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[derive(Default)]
struct Found {
    list: Vec<Violation>,
}

impl Found {
    fn add(&mut self, rule: Rule, at: &str, why: &str) {
        if self.list.len() < VIOLATIONS_MAX {
            self.list.push(Violation { rule, at: cut(at, 256).to_owned(), why: cut(why, 256).to_owned() });
        }
    }
}

/// The words of composition that stand in a schema.
fn composed<'a>(schema: &Value, words: &'a [&'a str]) -> Option<&'a str> {
    words.iter().copied().find(|word| schema.get(*word).is_some())
}

#[cfg(test)]
mod tests;
