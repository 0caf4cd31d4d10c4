//! What goes wrong below the protocol, between two ends of HTTP.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::On;

/// What happens to requests over HTTP. With a `status`, a `body`, `body_mib`, a `hang` or a `reset` before the answer
/// the request is not run, unless `runs` says so; anything else changes how the right answer travels.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpFault {
    /// Which requests (default: all).
    pub on: On,
    /// The status.
    pub status: Option<u16>,
    /// Headers, in the place of those of the same name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Option<String>,
    /// The body is so many MiB of blanks.
    pub body_mib: Option<u64>,
    /// The connection is reset.
    pub reset: Option<Reset>,
    /// Nothing more comes, and the connection stays open.
    pub hang: Option<Hang>,
    /// The event stream does not end with the answer.
    pub stream: Option<StreamEnd>,
    /// Nothing comes for so long.
    pub delay_ms: u64,
    /// Whether the request is run although its answer is not told.
    pub runs: bool,
}

/// Where a connection is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// Before the first byte.
    BeforeAnswer,
    /// Within the head.
    InHead,
    /// After half of the body.
    InBody,
}

/// Where nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hang {
    /// Before the first byte.
    Head,
    /// After the head.
    Body,
}

/// How an event stream goes without its answer, after one event that has only an id. The answer can be had with
/// `Last-Event-ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// It ends in order.
    Ends,
    /// It is reset.
    Resets,
    /// It stays open.
    Hangs,
}
