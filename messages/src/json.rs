//! JSON kept as its text, so that a record's format does not depend on a JSON library's.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A JSON value, stored as text and shown as JSON.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

impl JsonText {
    /// The text, which always parses.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value that the text stands for.
    pub fn value(&self) -> Value {
        // The text was written by `From<&Value>` or checked by `parse`; a value nested deeper than
        // serde_json reads back is shown as null instead of panicking.
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Keeps the text as it is if it is JSON.
    ///
    /// # Errors
    /// The parser's own words if it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            Ok(_) => Ok(Self(text)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string())
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.value().serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Value::deserialize(deserializer).map(Self::from)
        } else {
            String::deserialize(deserializer).map(Self)
        }
    }
}
