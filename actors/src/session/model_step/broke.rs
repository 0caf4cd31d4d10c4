//! Why one try of a model step came to nothing.

use std::fmt;
use std::time::Duration;

use pilothouse_adapters::model::ModelError;
use pilothouse_rules::retry::Fault;

pub(super) enum Broke {
    /// The model said so.
    Model(ModelError),
    /// What it sent is no reply.
    Senseless(String),
    /// Nothing of it came for so long.
    Silent(Duration),
    /// It went on for so long.
    TooLong(Duration),
}

impl Broke {
    /// Whether it may pass. A silence was waited for long enough.
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::Model(error) if error.is_retryable() => Fault::Passing(error.retry_after()),
            Self::Model(_) | Self::Senseless(_) | Self::Silent(_) | Self::TooLong(_) => Fault::Lasting,
        }
    }
}

impl fmt::Display for Broke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::Senseless(words) => f.write_str(words),
            Self::Silent(idle) => write!(f, "the model was silent for {} s", idle.as_secs()),
            Self::TooLong(within) => write!(f, "the model went on for {} s", within.as_secs()),
        }
    }
}
