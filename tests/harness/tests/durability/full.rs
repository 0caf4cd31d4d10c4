//! A disk without room, and a store that takes its process down, while it is opened and while it is written.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use pilothouse::approval::Verdict;

use super::dice::Dice;
use super::run::{Disk, OnFull, Run};
use super::{audited, decided, number};

/// The signal of a write beyond the limit, on Linux and macOS.
const SIGXFSZ: i32 = 25;
/// A block of `ulimit -f` (POSIX, `sh`).
const BLOCK: u64 = 512;

/// What there is no room for.
#[derive(Debug, Clone, Copy)]
enum Short {
    /// Not even for opening the store.
    ToOpen,
    /// Soon after the start of its work.
    ToWork,
}

impl Short {
    /// Blocks that the store's file may have. It goes on in its second segment of 512 KiB, of which little is left then.
    fn room(self, data: &Path) -> u64 {
        match self {
            Self::ToOpen => std::fs::metadata(data.join("db")).expect("it is there").len() / BLOCK,
            Self::ToWork => (512 << 10) / BLOCK + 16,
        }
    }
}

/// What a process does on a full disk, after one that had room, and before one that has room again.
async fn check(short: Short, then: OnFull, seed: u64) {
    let row = format!("{short:?}, {then:?}, seed {seed}");
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut dice = Dice::new(seed);
    let mut first = Run::start(&data, &marks);
    first.works_until(40, Duration::from_secs(20), &mut dice);
    let mut acknowledged = first.kill();
    assert!(!acknowledged.is_empty(), "{row}: something was decided");

    let mut full = Run::start_on(Disk::Full(short.room(&data), then), &data, &marks);
    full.works_until_told(Duration::from_secs(60), &mut dice);
    let (status, codes, told) = full.outcome();
    let typed = |code: &str| matches!(code, "directory" | "io" | "approvals_stopped" | "interrupted");
    match then {
        OnFull::Fails => {
            assert_eq!(status.signal(), None, "{row}: nothing takes the process down");
            assert!(codes.iter().any(|code| typed(code)), "{row}: the failure is told, {codes:?}");
        }
        OnFull::Kills => assert_eq!(status.signal(), Some(SIGXFSZ), "{row}: the store took it down"),
    }
    match short {
        Short::ToOpen => assert!(told.is_empty(), "{row}: nothing can be decided"),
        Short::ToWork => assert!(!told.is_empty(), "{row}: there was room at first"),
    }
    acknowledged.extend(told);
    goes_on(&row, &data, &marks, acknowledged, &mut dice).await;
}

/// The next process has everything that was acknowledged, and works.
async fn goes_on(
    row: &str,
    data: &Path,
    marks: &Path,
    mut acknowledged: BTreeMap<String, Verdict>,
    dice: &mut Dice,
) {
    let mut next = Run::start(data, marks);
    next.works_until(3, Duration::from_secs(20), dice);
    let told = next.kill();
    assert!(!told.is_empty(), "{row}: it goes on");
    acknowledged.extend(told);
    let report = audited(data).await;
    assert_eq!(report.faults, [], "{row}");
    let decided = decided(&report);
    let lost: Vec<_> = acknowledged.iter().filter(|(card, word)| decided.get(*card) != Some(word)).collect();
    assert!(lost.is_empty(), "{row}: lost or changed {lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_and_a_store_that_aborts_lose_no_decision_and_the_next_start_goes_on() {
    let (times, seed) = (number("PILOTHOUSE_FULL_DISKS", 1), number("PILOTHOUSE_SEED", 1));
    for seed in seed..seed + times {
        for then in [OnFull::Fails, OnFull::Kills] {
            check(Short::ToOpen, then, seed).await;
            check(Short::ToWork, then, seed).await;
        }
    }
}
