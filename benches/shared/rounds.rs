//! Times what is short.

use std::time::{Duration, Instant};

/// The median of eleven rounds, for one run.
pub(crate) fn each(runs: u32, mut run: impl FnMut() -> bool) -> Duration {
    let mut rounds: Vec<_> = (0..11)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..runs {
                assert!(run(), "the sample is good");
            }
            started.elapsed() / runs
        })
        .collect();
    rounds.sort();
    rounds[5]
}
