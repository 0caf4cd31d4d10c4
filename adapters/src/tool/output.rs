//! What a function's yes may be.

use serde::Serialize;

/// The text of a function's answer.
///
/// Made from text as it is, and from [`Json`] for anything that serialises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output(Result<String, String>);

impl Output {
    /// The text, or why there is none.
    #[cfg(feature = "schemars")]
    pub(crate) fn into_answer(self) -> Result<String, String> {
        self.0
    }
}

/// A value that a model is told as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> From<Json<T>> for Output {
    fn from(value: Json<T>) -> Self {
        let text = serde_json::to_string(&value.0);
        Self(text.map_err(|error| format!("the function's answer cannot be written as JSON: {error}")))
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self(Ok(text))
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self(Ok(text.to_owned()))
    }
}

/// Nothing to be told but that it is done.
impl From<()> for Output {
    fn from((): ()) -> Self {
        Self(Ok("done".to_owned()))
    }
}
