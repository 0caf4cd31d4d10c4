//! Storms an embedder's own approval policy.
//!
//! You will see the same disasters over two guards that are to let no tool `drop` run unasked: one that asks about every
//! call, and one that forgets to after the third. A check of the embedder's own tells them apart, and the second one's
//! first bad seed is made small.
//!
//! Run it with `cargo run --example storm_policy`.

use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse::approval::GuardVerdict;
use pilothouse_harness::storm::{Plan, Scene, Storm, StormError};

/// Asks about `drop`, for as long as its patience lasts.
fn guarded(patience: u64) -> Scene {
    Scene::default()
        .with(move |builder| {
            let asked = AtomicU64::new(0);
            builder.guard(move |subject: &pilothouse::approval::Subject| {
                let forgets = asked.fetch_add(1, Ordering::Relaxed) >= patience;
                if subject.tool.source.raw_name() == "look" && !forgets {
                    GuardVerdict::Ask("this house asks about everything".to_owned())
                } else {
                    GuardVerdict::Pass
                }
            })
        })
        .holds(|story| match story.ran.iter().find(|call| call.tool == "look" && !call.was_allowed) {
            Some(call) => Err(format!("{} ran {} unasked", call.server, call.token)),
            None => Ok(()),
        })
}

fn main() -> Result<(), StormError> {
    let plan: Plan = "approvals".parse()?;
    for (name, patience) in [("asks always", u64::MAX), ("forgets", 3)] {
        let storm = Storm::new(plan).over(guarded(patience));
        let bad = (0..40).find(|seed| !storm.run(*seed).violations.is_empty());
        println!("the guard that {name}: the first seed of 40 that breaks a promise is {bad:?}");
        let Some(shrunk) = bad.and_then(|seed| storm.shrink(seed)) else { continue };
        println!("  {}: {}", shrunk.violation.promise, shrunk.violation.words);
        for step in shrunk.case.steps {
            println!("  {step}");
        }
    }
    Ok(())
}
