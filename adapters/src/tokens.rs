//! Reaches a model's own way to count tokens; offline, nothing is fetched.
//!
//! For those to whom the default estimate is not near enough: give [`ExactTokens::count`] to the rules' `PerTool`.

use std::fmt;

use tiktoken_rs::CoreBPE;

/// How much of one text is counted exactly, in bytes; of the rest, four bytes are reckoned as a token. Byte pair encoding
/// is slow on long texts without blanks, and such a text comes from a server.
pub const EXACT_BYTES: usize = 64 << 10;

/// Counts tokens by the ranks of OpenAI's `o200k_base`. Cheap to share, costly to make: its ranks take a moment to read.
pub struct ExactTokens {
    ranks: CoreBPE,
}

/// Why there is no exact counter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the token ranks of {name} cannot be read: {reason}; use the default estimate")]
pub struct TokenRanksError {
    /// Which.
    pub name: &'static str,
    /// The reader's own words.
    pub reason: String,
}

impl ExactTokens {
    /// Name and version, for reports.
    pub const NAME: &'static str = "o200k_base@1";

    /// Reads the ranks that are part of the program.
    ///
    /// # Errors
    /// If they are broken.
    pub fn o200k() -> Result<Self, TokenRanksError> {
        let error = |error| TokenRanksError { name: Self::NAME, reason: format!("{error}") };
        tiktoken_rs::o200k_base().map(|ranks| Self { ranks }).map_err(error)
    }

    /// The tokens of a text; words that stand for commands of a model are counted as plain text.
    pub fn count(&self, text: &str) -> u64 {
        let end = (0..=EXACT_BYTES.min(text.len()))
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or_default();
        let (exact, rest) = text.split_at(end);
        let exact = self.ranks.encode_ordinary(exact).len() as u64;
        exact.saturating_add((rest.len() as u64).div_ceil(4))
    }
}

impl fmt::Debug for ExactTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }
}

#[cfg(test)]
mod tests;
