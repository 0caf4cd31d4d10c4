//! What a durable write costs, as ratios to its raw limit; all contenders of a ratio run interleaved in one run.
//!
//! `cargo bench --bench commit` prints them; any other way of running it (`cargo test --benches`) is a short check
//! that it still works.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_adapters::store::sled::SledStore;
use pilothouse_adapters::store::{Batch, Keyspace, Lane, Store};

/// A record as a decision writes it: 28 bytes of key, 256 of value.
const KEY_TAIL: [u8; 20] = [b'k'; 20];
const VALUE: [u8; 256] = [0xab; 256];

/// How much is run.
struct Plan {
    rounds: u64,
    /// Appends of the lone caller in one round.
    alone: u64,
    /// Appends of each of the many callers in one round.
    each: u64,
    callers: u64,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self { rounds: 15, alone: 500, each: 40, callers: 256 }
        } else {
            Self { rounds: 1, alone: 5, each: 2, callers: 16 }
        }
    }
}

fn key(n: u64) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.extend_from_slice(&KEY_TAIL);
    key
}

fn batch(n: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Keyspace::Journal, key(n), VALUE);
    batch
}

/// sled by itself, with the sync that it leaves out: the limit of one caller.
struct Bare {
    db: sled::Db,
    file: std::fs::File,
}

impl Bare {
    fn open(path: &Path) -> Self {
        let db = sled::Config::new().path(path).flush_every_ms(None).open().expect("sled opens");
        let file = std::fs::OpenOptions::new().write(true).open(path.join("db")).expect("its file opens");
        Self { db, file }
    }

    fn append(&self, n: u64) {
        let mut batch = sled::Batch::default();
        let mut stored = vec![b'j'];
        stored.extend_from_slice(&key(n));
        batch.insert(stored, VALUE.to_vec());
        self.db.apply_batch(batch).expect("sled takes a batch");
        self.db.flush().expect("sled flushes");
        self.file.sync_data().expect("the file syncs");
    }
}

/// Median of the time that each of `count` runs takes.
fn median_time(count: u64, mut run: impl FnMut(u64)) -> Duration {
    let times = (0..count).map(|n| {
        let start = Instant::now();
        run(n);
        start.elapsed()
    });
    median(times.collect())
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no measurement is NaN"));
    values[values.len() / 2]
}

/// One section's measurements, a value for each round.
#[derive(Default)]
struct Rounds {
    bare: Vec<f64>,
    lane: Vec<f64>,
    many: Vec<f64>,
}

impl Rounds {
    fn ratios(over: &[f64], under: &[f64]) -> f64 {
        median(over.iter().zip(under).map(|(over, under)| over / under).collect())
    }
}

/// How long `each` appends of every caller take, all callers at once.
async fn many_callers(store: &SledStore, plan: &Plan, first: u64) -> Duration {
    let start = Instant::now();
    let callers: Vec<_> = (0..plan.callers)
        .map(|caller| {
            let (lane, first, each) = (store.lane(), first + caller * plan.each, plan.each);
            tokio::spawn(async move {
                for n in first..first + each {
                    lane.append(batch(n)).await.expect("the store acknowledges");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    start.elapsed()
}

/// Bare sled, one caller and many callers, each on its own store, in turns.
fn store_section(runtime: &tokio::runtime::Runtime, plan: &Plan) {
    let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory for the bench"));
    let [bare, alone, crowd] = &directories;
    let bare = Bare::open(bare.path());
    let open = |path: &Path| runtime.block_on(SledStore::open(path)).expect("the store opens");
    let (alone, crowd) = (open(alone.path()), open(crowd.path()));
    let lane: Arc<dyn Lane> = alone.lane();
    let mut rounds = Rounds::default();
    for round in 0..plan.rounds {
        let first = round * plan.alone;
        let bare = median_time(plan.alone, |n| bare.append(first + n));
        let one = runtime.block_on(runtime.spawn({
            let (lane, count) = (lane.clone(), plan.alone);
            async move {
                let mut times = Vec::new();
                for n in first..first + count {
                    let start = Instant::now();
                    lane.append(batch(n)).await.expect("the store acknowledges");
                    times.push(start.elapsed());
                }
                median(times)
            }
        }));
        let one = one.expect("the caller does not panic");
        let all = runtime.block_on(many_callers(&crowd, plan, round * plan.callers * plan.each));
        rounds.bare.push(bare.as_secs_f64());
        rounds.lane.push(one.as_secs_f64());
        rounds.many.push((plan.callers * plan.each) as f64 / all.as_secs_f64());
    }
    for store in [alone, crowd] {
        runtime.block_on(store.close()).expect("the store closes");
    }
    report(&rounds, plan);
}

fn report(rounds: &Rounds, plan: &Plan) {
    let micros = |seconds: &[f64]| median(seconds.to_vec()) * 1e6;
    let lone_rates: Vec<f64> = rounds.lane.iter().map(|seconds| 1.0 / seconds).collect();
    println!(
        "one caller: durable append {:.0} us, bare sled apply_batch+flush+sync_data {:.0} us: ratio {:.2} (target <= 1.5)",
        micros(&rounds.lane),
        micros(&rounds.bare),
        Rounds::ratios(&rounds.lane, &rounds.bare),
    );
    println!(
        "{} callers: {:.0} appends/s, one caller {:.0}/s: ratio {:.1} (target >= 10)",
        plan.callers,
        median(rounds.many.clone()),
        median(lone_rates.clone()),
        Rounds::ratios(&rounds.many, &lone_rates),
    );
}

fn main() {
    let plan = Plan::from_arguments();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the bench");
    store_section(&runtime, &plan);
}
