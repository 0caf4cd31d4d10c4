//! What a process holds: memory, tasks, descriptors, children, disk; and whether that grows.

use std::fmt;
use std::path::Path;

/// What the process holds at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// Resident memory, in KiB.
    pub(super) memory: u64,
    pub(super) tasks: u64,
    pub(super) descriptors: u64,
    pub(super) children: u64,
    /// Bytes of the data directory.
    pub(super) disk: u64,
}

/// That, with what was done until then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) second: u64,
    pub(super) held: Held,
    pub(super) turns: u64,
    pub(super) calls: u64,
    pub(super) decisions: u64,
    pub(super) faults: u64,
    pub(super) stuck: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { memory, tasks, descriptors, children, disk } = self.held;
        let (memory, disk) = (mib(memory << 10), mib(disk));
        write!(
            f,
            "| {:>7} | {memory:>11.1} | {tasks:>5} | {descriptors:>11} | {children:>9} | {disk:>9.1} | {:>5} | {:>5} |",
            self.second, self.turns, self.calls
        )
    }
}

fn mib(bytes: u64) -> f64 {
    // Far below what a float tells apart.
    bytes as f64 / f64::from(1 << 20)
}

impl Held {
    pub(super) fn now(data: &Path) -> Self {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let descriptors = std::fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default();
        Self {
            memory: resident(),
            tasks: tasks as u64,
            descriptors: descriptors as u64,
            children: children().len() as u64,
            disk: size(data),
        }
    }
}

/// Resident memory, in KiB; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// The children of this process, those that nobody has reaped included.
pub(super) fn children() -> Vec<i32> {
    let me = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1).map(str::to_owned)
    };
    pids.filter(|pid| parent(*pid).as_deref() == Some(me.as_str())).collect()
}

fn size(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            // It was removed in the meantime.
            Err(_gone) => 0,
        })
        .sum()
}

/// One thing that must not grow.
struct Bound {
    what: &'static str,
    of: fn(&Held) -> u64,
    /// What it may grow by over the last two thirds: so much, and so many hundredths.
    by: (u64, u64),
}

const BOUNDS: [Bound; 5] = [
    Bound { what: "memory, KiB", of: |held| held.memory, by: (8 << 10, 10) },
    Bound { what: "tasks", of: |held| held.tasks, by: (16, 0) },
    Bound { what: "descriptors", of: |held| held.descriptors, by: (8, 0) },
    Bound { what: "processes", of: |held| held.children, by: (2, 0) },
    // sled gives room back in segments of 8 MiB, and the ledger keeps every decision.
    Bound { what: "disk, bytes", of: |held| held.disk, by: (32 << 20, 25) },
];

/// What is more in the last third than in the second one; the first one warms up. The least of each third is compared:
/// what is held for a moment is no growth.
pub(super) fn grown(samples: &[Sample]) -> Vec<String> {
    let third = samples.len() / 3;
    let least = |of: fn(&Held) -> u64, part: &[Sample]| part.iter().map(|sample| of(&sample.held)).min();
    let mut wrong = Vec::new();
    for Bound { what, of, by: (flat, hundredths) } in BOUNDS {
        let (Some(before), Some(after)) =
            (least(of, &samples[third..2 * third]), least(of, &samples[2 * third..]))
        else {
            continue;
        };
        if after > before + flat + before * hundredths / 100 {
            wrong.push(format!("{what}: {before} at least in the second third, {after} in the last"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests;
