//! The program's soak: steady load with faults, for as long as it is told, and samples of what the process holds
//! meanwhile. What grows fails it.

mod held;
mod load;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse::Runtime;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::MISSED;
use held::{Held, Sample, grown};
use load::Load;

/// Samples of one run.
const SAMPLES: u64 = 60;
/// Rows of the table that is printed.
const ROWS: usize = 12;
/// The shortest run that says something.
const SECONDS_MIN: u64 = 10;

/// Runs the load for so many seconds, prints a table, and says what has grown.
pub(super) async fn run(seconds: u64, data: &Path) -> Result<ExitCode, String> {
    if seconds < SECONDS_MIN {
        return Err(format!("--seconds {seconds} is too short to say anything: at least {SECONDS_MIN}"));
    }
    let load = Load::start(data).await?;
    let workers = load.work();
    let samples = sampled(seconds, data, &load).await;
    load.stop().await;
    workers.abort();
    let runtime = load.runtime().clone();
    drop(load);
    let mut wrong = grown(&samples);
    print(&samples);
    wrong.extend(ended(&runtime).await);
    if let Some(last) = samples.last() {
        println!(
            "{} turns, {} calls, {} decisions, {} faults in {seconds} s; {} answers did not come in time",
            last.turns, last.calls, last.decisions, last.faults, last.stuck
        );
        for (what, done) in [("turn", last.turns), ("call", last.calls), ("decision", last.decisions)] {
            if done == 0 {
                wrong.push(format!("not one {what} came about: the load did not run"));
            }
        }
        if last.stuck > 0 {
            wrong.push(format!("{} times a topic did not come to rest within a minute", last.stuck));
        }
    }
    for what in &wrong {
        println!("GREW OR BROKE: {what}");
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

async fn sampled(seconds: u64, data: &Path, load: &Load) -> Vec<Sample> {
    let begun = Instant::now();
    let mut ticks = interval(Duration::from_millis(seconds * 1_000 / SAMPLES));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut samples = Vec::new();
    while begun.elapsed() < Duration::from_secs(seconds) {
        ticks.tick().await;
        let done = load.done();
        samples.push(Sample {
            second: begun.elapsed().as_secs(),
            held: Held::now(data),
            turns: done.turns.load(Ordering::Relaxed),
            calls: done.calls.load(Ordering::Relaxed),
            decisions: done.decisions.load(Ordering::Relaxed),
            faults: done.faults.load(Ordering::Relaxed),
            stuck: done.stuck.load(Ordering::Relaxed),
        });
    }
    samples
}

/// Ends all, and says what is left.
async fn ended(runtime: &Arc<Runtime>) -> Vec<String> {
    let mut wrong = runtime.shutdown().await.forced;
    let begun = Instant::now();
    while !held::children().is_empty() && begun.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(20)).await;
    }
    let left = held::children();
    if !left.is_empty() {
        wrong.push(format!("processes are left: {left:?}"));
    }
    wrong
}

fn print(samples: &[Sample]) {
    println!("|  second | memory, MiB | tasks | descriptors | processes | disk, MiB | turns | calls |");
    println!("|--------:|------------:|------:|------------:|----------:|----------:|------:|------:|");
    let every = samples.len().div_ceil(ROWS).max(1);
    for sample in samples.iter().rev().step_by(every).collect::<Vec<_>>().into_iter().rev() {
        println!("{sample}");
    }
}
