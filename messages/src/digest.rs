//! SHA-256 digests and the canonical JSON that they are taken over.
//!
//! Canonical form: object keys sorted by their UTF-8 bytes, no blanks, numbers as they were received,
//! strings as `serde_json` writes them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Digest of `tag ‖ canonical(value)`; the tag keeps digests of different things apart.
    pub fn of_json(tag: &str, value: &Value) -> Self {
        let mut hash = Sha256::new();
        hash.update(tag.as_bytes());
        hash.update(canonical(value).as_bytes());
        Self(hash.finalize().into())
    }

    /// Digest of the tag and each part, each preceded by its length, so that no two lists look alike.
    pub fn of_parts(tag: &str, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        hash.update(tag.as_bytes());
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Plain SHA-256 of the pieces, one after the other; for formats that others fix.
    pub fn of_bytes(pieces: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        Self(hash.finalize().into())
    }

    /// Reads 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return None;
        }
        let mut out = [0u8; 32];
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            *slot = u8::try_from(high * 16 + low).ok()?;
        }
        Some(Self(out))
    }

    /// The first `digits` hex digits.
    pub fn prefix(&self, digits: usize) -> String {
        let mut hex = self.to_string();
        hex.truncate(digits);
        hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// Hex where people read it, bytes where the store does.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| D::Error::custom("a digest has 64 hex digits"))
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// The canonical text of a JSON value, whatever order a host's `serde_json` keeps its maps in.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

#[cfg(test)]
mod tests;
