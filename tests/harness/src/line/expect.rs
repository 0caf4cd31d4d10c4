//! What a run waits for in the lines out.

use serde::Deserialize;
use serde_json::Value;

/// `expect`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "ExpectFields")]
pub struct Expect {
    /// What to wait for.
    pub pattern: Pattern,
    /// How long, in milliseconds.
    pub within_ms: u64,
    /// Where the search begins.
    pub since: Since,
}

/// `expect_absent`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "AbsentFields")]
pub struct ExpectAbsent {
    /// What must not come.
    pub pattern: Pattern,
    /// For how long from now, in milliseconds.
    pub for_ms: u64,
    /// Where the search begins.
    pub since: Since,
}

/// A partial line out.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// An event of which these fields are given.
    Event(Value),
    /// A reply of which these fields are given.
    Reply(Value),
}

impl Pattern {
    fn one_of(event: Option<Value>, reply: Option<Value>) -> Result<Self, String> {
        let pattern = match (event, reply) {
            (Some(event), None) => Self::Event(event),
            (None, Some(reply)) => Self::Reply(reply),
            (Some(_), Some(_)) => return Err("give `event` or `reply`, not both".to_owned()),
            (None, None) => return Err("missing field `event` or `reply`".to_owned()),
        };
        let (Self::Event(fields) | Self::Reply(fields)) = &pattern;
        if fields.is_object() { Ok(pattern) } else { Err("`event` or `reply` is an object".to_owned()) }
    }
}

/// Where a search begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// After the last match, which a match then moves.
    #[default]
    #[serde(skip)]
    LastMatch,
    /// At the first line; moves nothing.
    Start,
}

/// How long an expectation waits unless it says so.
const WITHIN_MS: u64 = 5_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectFields {
    event: Option<Value>,
    reply: Option<Value>,
    within_ms: Option<u64>,
    #[serde(default)]
    from: Since,
}

impl TryFrom<ExpectFields> for Expect {
    type Error = String;

    fn try_from(fields: ExpectFields) -> Result<Self, String> {
        let pattern = Pattern::one_of(fields.event, fields.reply)?;
        Ok(Self { pattern, within_ms: fields.within_ms.unwrap_or(WITHIN_MS), since: fields.from })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AbsentFields {
    event: Option<Value>,
    reply: Option<Value>,
    for_ms: u64,
    #[serde(default)]
    from: Since,
}

impl TryFrom<AbsentFields> for ExpectAbsent {
    type Error = String;

    fn try_from(fields: AbsentFields) -> Result<Self, String> {
        let pattern = Pattern::one_of(fields.event, fields.reply)?;
        Ok(Self { pattern, for_ms: fields.for_ms, since: fields.from })
    }
}
