//! Durable decisions of one caller and of crowds, against bare sled that writes as many bytes.
//!
//! `grouped` puts the decisions of all callers in one batch, `each` flushes and syncs every one: the best and the worst
//! that a store under the ledger could do. All three take turns in each round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_messages::approval::Decision;

use super::bare::Bare;
use super::ledger::{BY, Ledger, all, decision_bytes};
use super::{Plan, median, quantile};

/// The rates of one round, in decisions a second.
struct Round {
    ours: f64,
    grouped: f64,
    each: f64,
}

pub(crate) async fn run(plan: Plan) {
    let bytes = decision_bytes();
    let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory for the bench"));
    let mut grouped = Bare::open(directories[0].path(), bytes);
    let mut each = Bare::open(directories[1].path(), bytes);
    let ledger = Arc::new(Ledger::open(directories[2].path(), plan.most_callers()).await);
    println!("durable decisions, {bytes} bytes each; medians of {} rounds in one run", plan.rounds);
    println!(
        "  {:>7} {:>9} {:>9} {:>9} {:>11} {:>11}",
        "callers", "a second", "p50", "p99", "of grouped", "of each"
    );
    let mut first = 0;
    for callers in plan.crowds {
        let (mut rounds, mut times) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let count = if callers == 1 { plan.alone } else { plan.each * callers };
            let (round, took) = round(&ledger, &mut grouped, &mut each, (first, count, callers)).await;
            rounds.push(round);
            times.extend(took);
            first += count;
        }
        report(callers, &rounds, &mut times);
    }
}

async fn round(
    ledger: &Arc<Ledger>,
    grouped: &mut Bare,
    each: &mut Bare,
    (first, count, callers): (u64, u64, u64),
) -> (Round, Vec<Duration>) {
    let rate = |count: u64, took: Duration| count as f64 / took.as_secs_f64();
    let batches = count / callers;
    let start = Instant::now();
    (0..batches).for_each(|_| grouped.append(callers));
    let of_groups = rate(batches * callers, start.elapsed());
    let alone = count.min(64);
    let start = Instant::now();
    (0..alone).for_each(|_| each.append(1));
    let of_each = rate(alone, start.elapsed());

    let numbers = first..first + count;
    all(ledger, numbers.clone(), callers, async |ledger, n| ledger.open_card(n).await).await;
    let start = Instant::now();
    let times = all(ledger, numbers, callers, async |ledger, n| {
        let approval = super::ledger::card(n).approval;
        let start = Instant::now();
        ledger.decide(approval, Decision::allow(BY)).await;
        start.elapsed()
    });
    let times = times.await;
    let ours = rate(count, start.elapsed());
    (Round { ours, grouped: of_groups, each: of_each }, times)
}

fn report(callers: u64, rounds: &[Round], times: &mut [Duration]) {
    let of = |ratio: fn(&Round) -> f64| median(rounds.iter().map(ratio).collect());
    let (ours, grouped, each) =
        (of(|round| round.ours), of(|round| round.ours / round.grouped), of(|round| round.ours / round.each));
    let targets = match callers {
        1 => target("of each", each, 0.8),
        256 => format!("{}; {}", target("of grouped", grouped, 0.5), target("of each", each, 10.0)),
        _ => String::new(),
    };
    let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
    println!("  {callers:>7} {ours:>9.0} {p50:>9.2?} {p99:>9.2?} {grouped:>10.2}x {each:>10.2}x  {targets}");
}

fn target(of: &str, reached: f64, wanted: f64) -> String {
    let word = if reached >= wanted { "met" } else { "MISSED" };
    format!("target {wanted}x {of}: {word}")
}
