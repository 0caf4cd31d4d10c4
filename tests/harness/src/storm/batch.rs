//! Many seeds, on several threads: how many broke a promise, and what was reached on the way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Outcome, Seeds, Storm, Violation};

/// What a batch of the plan `all` has to reach; one that was never reached tells that the storm has lost its force.
pub const SOMETIMES: [&str; 38] = [
    "a batch failed",
    "a call timed out",
    "a call was cancelled",
    "a call was denied",
    "a card expired",
    "a card was shown",
    "a card was withdrawn",
    "a connection was dead",
    "a connection was silent",
    "a decision came after its card was taken back",
    "a decision was not confirmed",
    "a grant was offered",
    "a listing was stale",
    "a message was held",
    "a message was queued behind a turn",
    "a message was refused, or not confirmed",
    "a model failed, refused or was cut short",
    "a model fell silent",
    "a server backed off",
    "a server died",
    "a server was not there for a call",
    "a session was restarted",
    "a turn ended at an expired card",
    "a turn ran out of steps",
    "a turn was interrupted",
    "a turn was stopped",
    "a turn yielded",
    "a window lagged",
    "an actor was killed",
    "nobody knew whether a call ran",
    "the approval actor was restarted",
    "the catalog was restarted",
    "the disk stood still",
    "the process crashed",
    "the process ended at a record",
    "the process was restarted",
    "the registry was restarted",
    "two people disagreed about a card",
];

/// Seeds from which on everything in [`SOMETIMES`] has to have been reached.
pub const ENOUGH_SEEDS: u64 = 2_000;

/// What came of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Seeds that were played.
    pub seeds: u64,
    /// The first violation of each seed that had one, by seed.
    pub broken: BTreeMap<u64, Violation>,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// For how many virtual milliseconds killed actors of each kind were away.
    pub away: BTreeMap<String, Vec<u64>>,
    /// Virtual milliseconds in all.
    pub lasted: u64,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// What was to be reached and was not; nothing as long as there were too few seeds to tell.
    pub fn never(&self) -> Vec<&'static str> {
        let reached = |what: &&'static str| self.counts.get(what).copied().unwrap_or_default() > 0;
        if self.seeds < ENOUGH_SEEDS {
            return Vec::new();
        }
        SOMETIMES.into_iter().filter(|what| !reached(what)).collect()
    }

    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.lasted += outcome.lasted;
        for (what, times) in outcome.counts {
            *self.counts.entry(what).or_default() += times;
        }
        for (kind, away) in outcome.away {
            self.away.entry(kind).or_default().extend(away);
        }
        if let Some(violation) = outcome.violations.into_iter().next() {
            self.broken.insert(seed, violation);
        }
    }
}

/// Plays seeds on so many threads, and tells of each one that broke a promise as it is found.
pub fn run(storm: &Storm, seeds: Seeds, jobs: usize, found: impl Fn(u64, &Violation) + Sync) -> Report {
    let (next, began) = (AtomicU64::new(seeds.from), Instant::now());
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _job in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.to {
                        return;
                    }
                    let outcome = storm.run(seed);
                    if let Some(violation) = outcome.violations.first() {
                        found(seed, violation);
                    }
                    report.lock().unwrap_or_else(PoisonError::into_inner).add(seed, outcome);
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.took = began.elapsed();
    report
}
