//! What Pilothouse *says*: plain data, shared by every other crate.
//!
//! Ids, commands, events, views, records, limits and errors. Nothing here waits, decides or reaches
//! anything; stored shapes are frozen by golden files (see [`record`]).

pub mod approval;
pub mod audit;
pub mod call;
pub mod connection;
pub mod deferral;
pub mod digest;
pub mod endpoint;
pub mod error;
pub mod grant;
pub mod id;
pub mod json;
pub mod limits;
pub mod listing;
pub mod meta;
pub mod model;
pub mod process;
pub mod protocol;
pub mod question;
pub mod record;
pub mod registry;
pub mod scope;
pub mod secret;
pub mod server;
pub mod time;
pub mod tool;
pub mod topic;
pub mod tree;
