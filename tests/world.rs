//! Real servers, real processes: what the paused clock and scripted peers cannot show.
//!
//! The servers come from npm. `PILOTHOUSE_WORLD` names the directory that `npm ci` was run in; without it they are
//! searched in `PATH`. Where they are missing these tests say so and pass, unless `PILOTHOUSE_WORLD_REQUIRED=1`.

#[cfg(all(feature = "mcp", target_os = "linux"))]
#[path = "world/everything.rs"]
mod everything;
#[cfg(all(feature = "mcp", target_os = "linux"))]
#[path = "world/machine.rs"]
mod machine;
