//! Faults that users met in other clients, each met by a whole runtime: `tests/faults.rs` says which test answers which.

#[path = "faults/actors.rs"]
mod actors;
#[path = "faults/approvals.rs"]
mod approvals;
#[path = "faults/arguments.rs"]
mod arguments;
#[path = "faults/calls.rs"]
mod calls;
#[path = "faults/http.rs"]
mod http;
#[path = "faults/lines.rs"]
mod lines;
#[path = "faults/listings.rs"]
mod listings;
#[path = "faults/names.rs"]
mod names;
#[path = "faults/results.rs"]
mod results;
#[path = "faults/schemas.rs"]
mod schemas;
#[path = "faults/servers.rs"]
mod servers;
#[path = "faults/turns.rs"]
mod turns;
