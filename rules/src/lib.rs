//! What Pilothouse *decides*: pure state machines and functions over its messages.
//!
//! Nothing here knows a clock, a store, a server or a task. The shells of `pilothouse-actors` ask
//! ([`Decider::decide`]), record, and do; this crate only says what follows from what.

pub mod approval;
pub mod arguments;
pub mod audit;
pub mod catalog;
pub mod connection;
mod cut;
mod decider;
pub mod deferral;
pub mod gate;
pub mod grant;
pub mod history;
pub mod listing;
pub mod meta;
pub mod name;
pub mod output;
pub mod protocol;
pub mod provider;
pub mod registry;
pub mod restart;
pub mod retry;
pub mod schema;
pub mod search;
pub mod signature;
pub mod surface;
pub mod tokens;
pub mod topic;

pub use decider::{Decider, Decision};
