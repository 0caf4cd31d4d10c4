//! What a storm holds a runtime to: the promises of `docs/guarantees.md`, under their names there.

/// Every promise that a storm can find broken.
pub const PROMISES: [&str; 17] = [
    ONE_PLACE,
    CRASH,
    HELD,
    KEY,
    STOP_AT_ONCE,
    WINDOW,
    HISTORY,
    ASKS,
    DURABLE,
    FIRST,
    SURFACE,
    LAST_GOOD,
    SHUTDOWN,
    HEALS,
    ANSWERED,
    NOTHING_LEFT,
    OWN,
];

pub(super) const ONE_PLACE: &str = "A message is in exactly one place; every call has exactly one result and only goes \
                                    on; news of an attempt that is over change nothing; a replay equals the live state \
                                    (random commands, against a small model of a topic)";
pub(super) const CRASH: &str = "Whatever a crash leaves, nothing is lost and nothing runs twice";
pub(super) const HELD: &str = "After any other end the queue is held and never runs by itself";
pub(super) const KEY: &str = "The same key is the same message";
pub(super) const STOP_AT_ONCE: &str = "A stop returns at once with a model or a tool hanging";
pub(super) const WINDOW: &str = "A window gets the view and everything after it; a slow one is told what it missed, and \
                                 nobody else notices";
pub(super) const HISTORY: &str =
    "History is always what a provider takes: results behind the reply that asked, in its order";
pub(super) const ASKS: &str = "Reads run; everything else asks, and what always asks asks even if it reads";
pub(super) const DURABLE: &str = "A card is shown, and a decision answered, only once it is durable";
pub(super) const FIRST: &str = "The first decision is the last word";
pub(super) const SURFACE: &str =
    "What a model is shown does not change within a turn; what was cold is shown in the next";
pub(super) const LAST_GOOD: &str = "A failed refresh keeps the last known good listing, marked stale";
pub(super) const SHUTDOWN: &str =
    "A shutdown records the end of every turn, keeps its bound whatever hangs, and says what it forced";
pub(super) const HEALS: &str = "Within 20 minutes after the last fault every server answers, every topic rests, and no \
                                actor is missing";
pub(super) const ANSWERED: &str = "Whoever asks a runtime is answered within a bound, whatever happens in it";
pub(super) const NOTHING_LEFT: &str =
    "Nothing is left of a runtime that has shut down: no task and no connection";
/// Not of the runtime: whatever an embedder's own checks say.
pub(super) const OWN: &str = "The embedder's own checks hold";
