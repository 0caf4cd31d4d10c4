//! Scripted MCP servers for tests, and the language of lines that drives a Pilothouse runtime.
//!
//! ```
//! use pilothouse_harness::line::{Verb, parse};
//! use pilothouse_harness::peer::{Peer, Script};
//!
//! let script: Script = r#"{"tools": [{"name": "add", "echo": true}], "faults": [{"exit_on_call": "add"}]}"#.parse()?;
//! let peer = Peer::new(script);
//! assert_eq!((peer.connections(), peer.executions("add")), (0, 0));
//!
//! let line = parse(1, r#"{"expect": {"event": {"kind": "text", "delta": "~harbour"}}}"#)?;
//! assert!(matches!(line, Some(Verb::Expect(expect)) if expect.within_ms == 5_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`audit::of_directory`]: the audit of a store that nobody has open; its evidence stays as it is.
//! - [`driver::run`]: does lines, and prints what happens.
//! - [`peer::Peer`]: an MCP server that follows a [`peer::Script`], faults included, and counts what it ran.
//! - [`mod@line`]: the lines in, the lines out, and how an expectation is looked for.
//! - [`storm`]: seeded disasters in virtual time, the promises that they hold a runtime to, and what they are made of.
//! - [`input`]: lines from outside, read with a bound.
//! - [`program::main`]: all of it as a program, for one of your own that pins more than ours can.

pub mod audit;
pub mod driver;
pub mod input;
pub mod line;
pub mod peer;
pub mod program;
pub mod storm;
