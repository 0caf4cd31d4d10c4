//! Decides what is kept of the words of a server or a provider: a bounded piece, and no secret that it was given.
//!
//! A reason, an error and a line of stderr end in views, logs and prompts. Whatever of them the other side chose may be
//! megabytes long, and may repeat the key that it was given: both are cured here, before anything is kept.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};

#[cfg(feature = "mcp")]
mod server;

#[cfg(feature = "mcp-http")]
pub(crate) use server::decoded;

/// What is kept of a reason or an error (4 KiB).
pub(crate) const REASON_BYTES_MAX: usize = 4 << 10;
/// A shorter value is no secret, and would tear holes into every sentence.
const SECRET_BYTES_MIN: usize = 6;
/// What stands in the place of a secret.
const MASK: &str = "<secret>";

/// Bounds words and masks secrets.
#[derive(Clone, Default)]
pub(crate) struct Words {
    /// Every way in which a secret may be spelt, the longest first, so that no part of one is left over.
    secrets: Arc<[String]>,
    /// What the server itself gave us to keep, learnt later.
    learnt: Arc<OnceLock<String>>,
    /// What it was sent lately: tokens, its own states, what people answered; the newest last.
    passing: Arc<Mutex<Vec<String>>>,
}

impl Words {
    /// Knows these secrets.
    pub(crate) fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().flat_map(spellings).collect();
        secrets.retain(|secret| secret.trim().len() >= SECRET_BYTES_MIN);
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets: secrets.into(), ..Self::default() }
    }

    /// One more secret, such as a session's id. The first one stays.
    #[cfg(feature = "mcp-http")]
    pub(crate) fn learn(&self, secret: &str) {
        if secret.trim().len() >= SECRET_BYTES_MIN {
            // A connection has one session.
            let _ = self.learnt.set(secret.to_owned());
        }
    }

    fn all(&self) -> Vec<String> {
        let passing = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        let passing = self.learnt.get().into_iter().chain(passing.iter());
        self.secrets.iter().cloned().chain(passing.flat_map(|secret| spellings(secret))).collect()
    }

    /// How much more than `most` bytes has to be read, so that a secret across that border is seen whole.
    pub(crate) fn margin(&self) -> usize {
        self.all().iter().map(String::len).max().unwrap_or_default()
    }

    /// What is kept of a reason. Stops writing it out at the bound.
    pub(crate) fn reason(&self, said: impl fmt::Display) -> String {
        let mut start = Start { text: String::new(), most: REASON_BYTES_MAX + self.margin(), cut: Cut::No };
        // It fails at the bound, which is what it is for; a `Display` that fails by itself has said what it could.
        let _ = write!(start, "{said}");
        self.kept(&start.text, start.cut, REASON_BYTES_MAX)
    }

    /// At most `most` bytes of `text`, without secrets. After a cut, the end of `text` may hold half of one.
    pub(crate) fn kept(&self, text: &str, cut: Cut, most: usize) -> String {
        let whole = match cut {
            Cut::No => text.len(),
            Cut::Yes => text.len().saturating_sub(self.margin()),
        };
        let secrets = self.all();
        let mut kept = String::with_capacity(whole.min(most));
        let mut at = 0;
        while at < whole && kept.len() < most {
            let rest = text.get(at..).unwrap_or_default();
            let secret = secrets.iter().find(|secret| rest.starts_with(secret.as_str()));
            match (secret, rest.chars().next()) {
                (Some(secret), _) => {
                    kept.push_str(MASK);
                    at += secret.len();
                }
                (None, Some(next)) => {
                    kept.push(next);
                    at += next.len_utf8();
                }
                (None, None) => break,
            }
        }
        kept.truncate(boundary(&kept, most));
        kept
    }
}

/// No part of a secret is shown.
impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("secrets", &self.secrets.len()).finish()
    }
}

/// Whether a text goes on behind its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is whole.
    No,
    /// It was cut.
    Yes,
}

/// The greatest place up to `most` at which a text may be cut.
pub(crate) fn boundary(text: &str, most: usize) -> usize {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// A value as it is, line by line, as quotes write it, and in base 64.
fn spellings(value: &str) -> Vec<String> {
    let lines = value.lines().map(str::trim).chain([value, value.trim()]);
    let quoted = |plain: &str| {
        let debug = format!("{plain:?}");
        let json = serde_json::Value::from(plain).to_string();
        [debug, json].map(|text| text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned())
    };
    let mut all: Vec<_> =
        lines.flat_map(|plain| quoted(plain).into_iter().chain([plain.to_owned()])).collect();
    if value.len() >= SECRET_BYTES_MIN {
        all.extend([BASE64_STANDARD_NO_PAD.encode(value), BASE64_URL_SAFE_NO_PAD.encode(value)]);
    }
    all
}

/// Takes the start of what is written.
struct Start {
    text: String,
    most: usize,
    cut: Cut,
}

impl fmt::Write for Start {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let end = boundary(piece, self.most - self.text.len());
        self.text.push_str(piece.get(..end).unwrap_or_default());
        if end < piece.len() {
            self.cut = Cut::Yes;
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
