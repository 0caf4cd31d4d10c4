//! Tool calls: what goes out, what comes back, and the last word on each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::json::JsonText;
use crate::secret::Opaque;
use crate::time::Timestamp;

/// The last word on a tool call. Every call has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The tool ran and said yes.
    Succeeded,
    /// The tool ran and said no.
    Failed,
    /// It was not run: bad arguments, unknown tool, a refused gate.
    Rejected,
    /// A person, or a rule, said no.
    Denied,
    /// The server cannot be reached now.
    Unavailable,
    /// No answer within the deadline.
    TimedOut,
    /// Stopped before it answered.
    Cancelled,
    /// It was sent, and nobody knows whether it ran.
    Unknown,
}

/// One piece of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text(String),
    /// Anything else (image, audio, resource), as the JSON that the server sent.
    Other(JsonText),
    /// The result as data (`structuredContent`), beside the pieces that say the same to a reader.
    Structured(JsonText),
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Other(json) | Self::Structured(json) => json.as_str().len(),
        }
    }
}

/// Outcome and content of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The last word.
    pub outcome: CallOutcome,
    /// What the model is told; text of our own where the tool did not answer.
    pub content: Vec<Content>,
    /// For [`CallOutcome::Unavailable`]: when the server is tried next, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
}

impl CallResult {
    /// A result of our own words.
    pub fn said(outcome: CallOutcome, text: impl Into<String>) -> Self {
        Self { outcome, content: vec![Content::Text(text.into())], retry_after_ms: None }
    }

    /// The server cannot be reached; `retry_after` if it is known when it is tried next.
    pub fn unavailable(text: impl Into<String>, retry_after: Option<Duration>) -> Self {
        let retry_after_ms = retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        Self { retry_after_ms, ..Self::said(CallOutcome::Unavailable, text) }
    }

    /// All text pieces, joined by line breaks.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|piece| match piece {
            Content::Text(text) => Some(text.as_str()),
            Content::Other(_) | Content::Structured(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The result as data, where the tool gave it.
    pub fn structured(&self) -> Option<&JsonText> {
        self.content.iter().find_map(|piece| match piece {
            Content::Structured(json) => Some(json),
            Content::Text(_) | Content::Other(_) => None,
        })
    }

    /// Bytes of all its pieces.
    pub fn bytes(&self) -> usize {
        self.content.iter().map(Content::bytes).sum()
    }

    /// Cuts the content to `bytes` in all, at character boundaries, and says so in its last piece, for which there is
    /// room unless `bytes` are too few for it. What was cut is not cut again.
    #[must_use]
    pub fn capped(mut self, bytes: usize) -> Self {
        let total = self.bytes();
        if total <= bytes {
            return self;
        }
        let notice = |shown: usize| format!("[cut: the result has {total} bytes, {shown} are shown]");
        let shown = bytes.checked_sub(notice(bytes).len()).unwrap_or(bytes);
        let mut left = shown;
        let mut kept = Vec::new();
        for piece in self.content {
            let length = piece.bytes();
            match piece {
                Content::Text(text) if length > left => {
                    let cut = text.floor_char_boundary_at(left);
                    kept.push(Content::Text(text[..cut].to_owned()));
                    left = 0;
                }
                Content::Other(_) | Content::Structured(_) if length > left => {}
                Content::Text(_) | Content::Other(_) | Content::Structured(_) => {
                    kept.push(piece);
                    left -= length;
                }
            }
        }
        kept.push(Content::Text(notice(shown)));
        self.content = kept;
        self
    }
}

/// What is kept of a call's whole result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptResult {
    /// It was cut for the model: this is all of it.
    Whole(CallResult),
    /// It was cut, and what was kept of it had to go.
    Gone,
    /// It was not cut: its turn has all of it. Or there is no such call.
    NotKept,
}

/// What a server hands out while a call is under way, and how far the call is by it: with this a call goes on after a
/// restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallReceipt {
    /// It works on the call as a task, which is asked for again.
    Task {
        /// The server's name for it.
        id: Opaque,
        /// How long to wait between two questions, if the server says so.
        poll_after_ms: Option<u64>,
        /// Until when the server keeps it, if it says so.
        expires_at: Option<Timestamp>,
    },
    /// It asked something, and has done nothing yet: the same call goes out again with the answers.
    Asked {
        /// How often it has asked, this time included.
        round: u32,
        /// What it asked (`inputRequests`), as it came.
        requests: JsonText,
        /// What goes back with the answers (`requestState`).
        state: Option<Opaque>,
    },
    /// The answers to that round go out: from here on it may act.
    Answered {
        /// Which round.
        round: u32,
    },
}

impl CallReceipt {
    /// Bytes of what came from the server.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Task { id, .. } => id.expose().len(),
            Self::Asked { requests, state, .. } => {
                requests.as_str().len() + state.as_ref().map_or(0, |state| state.expose().len())
            }
            Self::Answered { .. } => 0,
        }
    }

    /// `true` if the call goes on by it and nothing is run a second time.
    pub fn goes_on(&self) -> bool {
        match self {
            Self::Task { .. } | Self::Asked { .. } => true,
            Self::Answered { .. } => false,
        }
    }
}

/// What a server answered to a call when nobody waited for it any more. It changes nothing and is kept for the audit
/// only; stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateAnswer {
    /// What it said.
    pub word: LateWord,
    /// Digest of the whole answer, as canonical JSON.
    pub digest: Digest,
}

/// What a late answer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateWord {
    /// The tool had done it.
    Succeeded,
    /// The tool said no.
    Failed,
    /// The server refused the request.
    Refused,
    /// It was no last word: a question, or a task.
    Unfinished,
}

/// `str::floor_char_boundary` is newer than our oldest compiler.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        let mut cut = index.min(self.len());
        while !self.is_char_boundary(cut) {
            cut -= 1;
        }
        cut
    }
}
