//! Decides whether a model's step is tried again, and when.
//!
//! ```text
//! a try failed ─▶ a fault that may pass, nothing said yet, tries left,
//!                 and the provider asks for no longer wait than we have ──▶ again, after a wait
//!                 anything else ───────────────────────────────────────▶ the step has failed
//! ```
//!
//! What was said is on a screen and in the journal, so it is never said again in other words.

use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{StepRef, TopicId};
use pilothouse_messages::limits::Limits;

/// One try that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedTry {
    /// Which one, from 1.
    pub number: u32,
    /// Whether the model had said anything.
    pub said: Said,
    /// What kind of fault it was.
    pub fault: Fault,
}

/// How much of a reply had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Not one word, thought or call.
    Nothing,
    /// Something.
    Something,
}

/// Whether a fault may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It may, the provider wanting to be left alone for so long if it says that.
    Passing(Option<Duration>),
    /// It will not.
    Lasting,
}

/// How long to wait before the next try of this step; `None` if there is none.
///
/// Half of the wait is drawn from the step's ids, so that topics that failed together do not come back together.
pub fn next_try(topic: &TopicId, at: StepRef, failed: FailedTry, limits: &Limits) -> Option<Duration> {
    let Fault::Passing(asked) = failed.fault else { return None };
    if failed.said == Said::Something || failed.number >= limits.model_tries {
        return None;
    }
    let doublings = 1u32.checked_shl(failed.number.saturating_sub(1)).unwrap_or(u32::MAX);
    let backoff = limits.model_backoff.saturating_mul(doublings).min(limits.model_retry_after);
    let drawn = (backoff / 2).mul_f64(share(topic, at, failed.number));
    match asked {
        None => Some(backoff / 2 + drawn),
        Some(asked) if asked <= limits.model_retry_after => Some(asked.saturating_add(drawn)),
        Some(_) => None,
    }
}

/// A number in 0..1, the same for the same try.
fn share(topic: &TopicId, at: StepRef, number: u32) -> f64 {
    let of = format!("{}.{}.{}.{number}", at.turn, at.step, at.attempt.0);
    let digest = Digest::of_parts("pilothouse/model-retry/1", &[topic.as_str().as_bytes(), of.as_bytes()]);
    f64::from(u16::from_be_bytes([digest.0[0], digest.0[1]])) / 65_536.0
}

#[cfg(test)]
mod tests;
