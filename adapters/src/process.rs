//! Tells processes apart for good, and ends those that an earlier process of ours has left.
//!
//! A process id alone is no name: the system gives it away again. With the boot and the time of the start it is one.
//! Both are read from `/proc`, so that on other systems than Linux no process has a mark, and none is ever ended.

use std::time::Duration;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::process::ProcessMark;
use tokio::time::{Instant, sleep};

/// How often a process that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What became of a process that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It did not run any more; whoever has its id now is a stranger, and was left alone.
    Gone,
    /// It ended when it was asked to.
    Ended,
    /// It was killed, with its group.
    Killed,
}

/// The mark of a process that runs; `None` where the system does not tell.
pub fn mark(server: &ServerId, pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark { boot: boot()?, pid, started: started(pid)?, server: server.clone() })
}

/// Whether this very process runs.
pub fn runs(process: &ProcessMark) -> bool {
    started(process.pid) == Some(process.started) && boot().as_ref() == Some(&process.boot)
}

/// Ends a process and its group: asks, waits at most `grace`, kills. A process that only has its id is left alone.
pub async fn end(process: &ProcessMark, grace: Duration) -> Found {
    if !runs(process) {
        return Found::Gone;
    }
    signal(process.pid, Signal::Terminate);
    let deadline = Instant::now() + grace;
    while runs(process) {
        if Instant::now() >= deadline {
            signal(process.pid, Signal::Kill);
            return Found::Killed;
        }
        sleep(LOOK).await;
    }
    if started(process.pid).is_none() {
        // Nobody has its id, so that the group of that number, if there is one, is what it left behind.
        signal(process.pid, Signal::Kill);
    }
    Found::Ended
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

#[cfg(all(unix, feature = "mcp"))]
fn signal(group: u32, signal: Signal) {
    use nix::sys::signal::{Signal as Unix, killpg};
    let unix = match signal {
        Signal::Terminate => Unix::SIGTERM,
        Signal::Kill => Unix::SIGKILL,
    };
    if let Ok(group) = i32::try_from(group) {
        // It may have ended just now.
        let _gone = killpg(nix::unistd::Pid::from_raw(group), unix);
    }
}

/// Without `mcp` no process was started by us.
#[cfg(not(all(unix, feature = "mcp")))]
fn signal(_group: u32, _signal: Signal) {}

fn boot() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned())
}

/// When the process was started, in ticks after the boot; `None` if it does not run, or waits only to be reaped.
fn started(pid: u32) -> Option<u64> {
    started_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of proc_pid_stat(5). The name, field 2, may hold anything, so that fields are counted from its last bracket.
fn started_in(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests;
