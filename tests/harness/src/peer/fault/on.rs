//! Decides which requests a fault is about.

use serde::Deserialize;
use serde_json::Value;

/// Which requests: a text, or `{"method", "tool", "nth", "after"}`. The text is a method, `all`, or one of the short
/// names `connect` (`initialize` and `server/discover`), `list` and `call`; over HTTP also `GET`, `DELETE` and
/// `response` (an answer of the client), which `all` leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct On {
    /// These methods; empty for every one.
    methods: Vec<String>,
    /// Calls of this tool only.
    tool: Option<String>,
    /// Only the one with this number, counted from 1 over all connections.
    nth: Option<u64>,
    /// Not the first ones, so many of them.
    after: u64,
}

/// Words that stand alone; every other method has a slash.
const WORDS: [&str; 5] = ["initialize", "ping", "GET", "DELETE", "response"];
/// What is no request of the protocol.
const BELOW: [&str; 3] = ["GET", "DELETE", "response"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    method: Option<String>,
    tool: Option<String>,
    nth: Option<u64>,
    #[serde(default)]
    after: u64,
}

impl On {
    /// Every `tools/call`.
    pub fn calls() -> Self {
        Self { methods: vec!["tools/call".into()], ..Self::default() }
    }

    /// Whether it is about requests of this kind, whatever their number.
    pub(in crate::peer) fn concerns(&self, method: &str, tool: Option<&str>) -> bool {
        let is_named = match self.methods.as_slice() {
            [] => !BELOW.contains(&method),
            methods => methods.iter().any(|one| one == method),
        };
        is_named && self.tool.as_deref().is_none_or(|name| tool == Some(name))
    }

    /// Whether it is about the request with this number among those that it concerns.
    pub(in crate::peer) fn counts(&self, number: u64) -> bool {
        number > self.after && self.nth.is_none_or(|nth| number == nth)
    }
}

fn methods(text: &str) -> Result<Vec<String>, String> {
    Ok(match text {
        "all" => Vec::new(),
        "connect" => vec!["initialize".into(), "server/discover".into()],
        "list" => vec!["tools/list".into()],
        "call" => vec!["tools/call".into()],
        method if method.contains('/') || WORDS.contains(&method) => vec![method.into()],
        other => {
            return Err(format!(
                "there is no request \"{other}\": write a method, or one of `connect`, `list`, `call`, `all`, {}",
                WORDS.map(|word| format!("`{word}`")).join(", ")
            ));
        }
    })
}

impl TryFrom<Value> for On {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if let Value::String(text) = &value {
            return Ok(Self { methods: methods(text)?, ..Self::default() });
        }
        if !value.is_object() {
            return Err(
                "requests are named by a text, or by an object of `method`, `tool`, `nth`, `after`".into()
            );
        }
        let Fields { method, tool, nth, after } =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        let methods = match (method, &tool) {
            (Some(method), _) => methods(&method)?,
            (None, Some(_)) => vec!["tools/call".into()],
            (None, None) => Vec::new(),
        };
        if nth == Some(0) {
            return Err("`nth` counts from 1".into());
        }
        Ok(Self { methods, tool, nth, after })
    }
}
