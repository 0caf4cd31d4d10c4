//! What Pilothouse *decides*: pure state machines and functions over its messages.
//!
//! Nothing here knows a clock, a store, a server or a task. The shells of `pilothouse-actors` ask
//! ([`Decider::decide`]), record, and do; this crate only says what follows from what.

mod decider;

pub use decider::{Decider, Decision};
