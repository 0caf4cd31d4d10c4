//! What Pilothouse *does*: ractor shells around the rules.
//!
//! Every shell that keeps something runs one algorithm ([`durable`]): **decide → apply → append → (durable) →
//! perform**. No handler waits: long work is a tracked task that reports back as a message, and whoever waits for
//! an effect answers for it. Writes go through an owner's mailbox ([`slot`]); reads take snapshots ([`wiring`]).

pub mod approval;
pub mod aside;
pub mod asking;
pub mod bus;
pub mod call;
pub mod catalog;
pub mod connection;
mod demand;
pub mod durable;
pub mod gate;
pub mod heavy;
pub mod hub;
#[cfg(feature = "testing")]
pub mod mishap;
pub mod people;
pub mod phase;
pub mod processes;
pub mod protocol;
mod pulse;
pub mod registry;
pub mod servers;
pub mod session;
pub mod slot;
pub mod tasks;
pub mod topics;
pub mod traffic;
pub mod watched;
pub mod wiring;
