//! Text that never reaches a log, a view or an export.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret. It has no `Serialize`, and its `Debug` shows no part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that hands it to the outside.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What a server gave us to hand back as it came: stored with its call, and shown to nobody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opaque(String);

impl Opaque {
    /// Keeps a server's own text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that hands it back.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<opaque>")
    }
}
