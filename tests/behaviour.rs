//! What a runtime promises, seen through the facade alone: in-memory servers, a store in memory, and Tokio's paused
//! clock, so that an hour of patience costs nothing.
#![cfg(feature = "mcp")]

#[path = "behaviour/stage.rs"]
mod stage;

#[path = "behaviour/fake.rs"]
mod fake;
#[path = "behaviour/puppet.rs"]
mod puppet;
#[path = "behaviour/stores.rs"]
mod stores;

#[path = "behaviour/approvals.rs"]
mod approvals;
#[path = "behaviour/audit.rs"]
mod audit;
#[path = "behaviour/catalog.rs"]
mod catalog;
#[path = "behaviour/changes.rs"]
mod changes;
#[path = "behaviour/damage.rs"]
mod damage;
#[cfg(feature = "exec")]
#[path = "behaviour/exec.rs"]
mod exec;
#[path = "behaviour/faults.rs"]
mod faults;
#[path = "behaviour/functions.rs"]
mod functions;
#[path = "behaviour/grants.rs"]
mod grants;
#[path = "behaviour/history.rs"]
mod history;
#[path = "behaviour/meta.rs"]
mod meta;
#[path = "behaviour/mishaps.rs"]
mod mishaps;
#[path = "behaviour/models.rs"]
mod models;
#[path = "behaviour/past.rs"]
mod past;
#[path = "behaviour/protocol.rs"]
mod protocol;
#[path = "behaviour/questions.rs"]
mod questions;
#[path = "behaviour/queue.rs"]
mod queue;
#[path = "behaviour/races.rs"]
mod races;
#[path = "behaviour/receipts.rs"]
mod receipts;
#[path = "behaviour/recovery.rs"]
mod recovery;
#[path = "behaviour/removal.rs"]
mod removal;
#[path = "behaviour/runtime.rs"]
mod runtime;
#[cfg(feature = "sled")]
#[path = "behaviour/sealed.rs"]
mod sealed;
#[path = "behaviour/servers.rs"]
mod servers;
#[path = "behaviour/sleep.rs"]
mod sleep;
#[path = "behaviour/steering.rs"]
mod steering;
#[path = "behaviour/store.rs"]
mod store;
#[path = "behaviour/streams.rs"]
mod streams;
#[path = "behaviour/surface.rs"]
mod surface;
#[path = "behaviour/turns.rs"]
mod turns;
