//! Storms of every plan, a few seeds each; CI's job `storm` plays thousands.

use pilothouse_harness::storm::{PLANS, Storm};

/// Seeds of each plan.
const SEEDS: u64 = 4;

#[test]
fn storms_break_no_promise() {
    let mut broken = Vec::new();
    for plan in PLANS {
        for seed in 0..SEEDS {
            let outcome = Storm::new(plan).run(seed);
            broken.extend(outcome.violations.into_iter().map(|violation| (plan.name, seed, violation)));
        }
    }
    assert_eq!(broken, []);
}
