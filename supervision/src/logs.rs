//! Says what of the log is worth reading: ours, and of the libraries below only what goes wrong.

/// The libraries below whose own lines are noise, or tell more than a log may keep: rmcp writes a person's answers at
/// `debug` and every notification at `info`.
const QUIET: [&str; 11] =
    ["h2", "hyper", "hyper_util", "mio", "oauth2", "ractor", "reqwest", "rmcp", "rustls", "sled", "tower"];

/// Directives for `tracing_subscriber::EnvFilter`: `level` for everything, and warnings only of the libraries below.
///
/// `level` is a word of `tracing` (`error` to `trace`); nothing is installed. Content (arguments, results, texts) is
/// logged at `trace` only, and secrets at no level.
///
/// ```
/// let filter = pilothouse_supervision::log_filter("info");
/// assert!(filter.starts_with("info,") && filter.contains("rmcp=warn"));
/// ```
pub fn log_filter(level: &str) -> String {
    let quiet = QUIET.map(|library| format!("{library}=warn"));
    format!("{level},{}", quiet.join(","))
}
