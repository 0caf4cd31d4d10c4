//! Decides how much of a schema is read.

/// How deeply a schema is read, and how long its texts may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caps {
    /// Objects and arrays within each other.
    pub(crate) depth: usize,
    /// The longest description, in bytes.
    pub(crate) text: usize,
}

/// The first rung whose result is small enough is shown.
///
/// Ten levels are what OpenAI's strict mode takes.
pub(crate) const LADDER: [Caps; 6] = [
    Caps { depth: 10, text: 8 << 10 },
    Caps { depth: 10, text: 512 },
    Caps { depth: 5, text: 512 },
    Caps { depth: 3, text: 256 },
    Caps { depth: 2, text: 128 },
    Caps { depth: 1, text: 64 },
];

/// How many schemas one reading may visit; references may multiply them without a bound.
pub(crate) const STEPS_MAX: usize = 8_192;
/// How many schemas may be open within each other, so that a reading fits on any stack.
pub(crate) const LEVELS_MAX: usize = 64;
/// Alternatives that two unions may make when they are met.
pub(crate) const PAIRS_MAX: usize = 64;
/// Alternatives that a union may have.
pub(crate) const BRANCHES_MAX: usize = 64;
/// Values that an enumeration may have: above 250 OpenAI bounds their text, too.
pub(crate) const VALUES_MAX: usize = 250;
/// Bytes that an enumeration's texts may have.
pub(crate) const VALUES_BYTES_MAX: usize = 8 << 10;
/// Bytes of a default value, as JSON.
pub(crate) const DEFAULT_BYTES_MAX: usize = 256;
/// Bytes of a property's name; a longer one is not shown.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Bytes of a pattern; a longer one is not shown.
pub(crate) const PATTERN_BYTES_MAX: usize = 256;
/// Bytes of what a description says about something that the dialect cannot.
pub(crate) const HINT_BYTES_MAX: usize = 512;
