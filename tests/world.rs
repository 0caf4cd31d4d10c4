//! Real servers, real processes: what the paused clock and scripted peers cannot show.
//!
//! The servers, and a mock of a model's provider, come from npm and PyPI. `PILOTHOUSE_WORLD` names the directory that `npm ci` was run in, and whose `venv`
//! holds the ones in Python; without it they are searched in `PATH`. Where they are missing these tests say so and pass,
//! unless `PILOTHOUSE_WORLD_REQUIRED=1`.

#[cfg(all(feature = "mcp", target_os = "linux"))]
#[path = "world/everything.rs"]
mod everything;
#[cfg(all(feature = "mcp", target_os = "linux"))]
#[path = "world/local.rs"]
mod local;
#[cfg(all(feature = "mcp", target_os = "linux"))]
#[path = "world/machine.rs"]
mod machine;
#[cfg(all(feature = "models", feature = "mcp-http", target_os = "linux"))]
#[path = "world/models.rs"]
mod models;
#[cfg(all(feature = "mcp-http", target_os = "linux"))]
#[path = "world/remote.rs"]
mod remote;
