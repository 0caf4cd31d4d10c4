//! What a read of the catalog costs, as a ratio to its raw limit: one atomic load plus one look-up in a map.
//!
//! 500 servers, of which 0, 250 and 499 never answer. `cargo bench --bench reads` prints the ratios; any other way of
//! running it is a short check that it still works.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use pilothouse::Runtime;
use pilothouse::Server;
use pilothouse::id::ServerId;
use pilothouse::limits::Limits;
use pilothouse_harness::peer::{Peer, Script};

const SERVERS: usize = 500;

/// How much is run.
struct Plan {
    rounds: usize,
    reads: u32,
    servers: usize,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self { rounds: 31, reads: 200_000, servers: SERVERS }
        } else {
            Self { rounds: 1, reads: 100, servers: 10 }
        }
    }
}

fn main() {
    let plan = Plan::from_arguments();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.expect("a Tokio runtime");
    let last = plan.servers - 1;
    println!("list of one server, {} servers; ratio to one atomic load + map look-up", plan.servers);
    let mut first = None;
    for dead in [0, plan.servers / 2, last] {
        let (ours, raw) = tokio.block_on(measure(&plan, dead));
        let ratio = ours / raw;
        let flat = ours / *first.get_or_insert(ours);
        println!(
            "  {dead:3} dead: {:6.1} ns, raw {:6.1} ns, ratio {ratio:.2}x, to none dead {flat:.2}x",
            ours * 1e9,
            raw * 1e9
        );
    }
}

/// Medians of one read through the facade and of its limit, in seconds; rounds of both in turns.
async fn measure(plan: &Plan, dead: usize) -> (f64, f64) {
    let good: Script = r#"{"tools":[{"name":"echo","echo":true}]}"#.parse().expect("a good script");
    let silent: Script = r#"{"tools":[],"faults":[{"silence":"all"}]}"#.parse().expect("a good script");
    let names: Vec<String> = (0..plan.servers).map(|n| format!("server-{n:03}")).collect();
    let mut limits = Limits::default();
    // Dead ones keep their places until their deadline; the good one is not to wait for that.
    limits.connects_at_once = plan.servers;
    let mut builder = Runtime::builder().limits(limits);
    for (n, name) in names.iter().enumerate() {
        // The last one is always good, and is the one that is read.
        let script = if n < dead { &silent } else { &good };
        builder = builder.server(Server::in_memory(name, Peer::new(script.clone())));
    }
    let runtime = builder.start().await.expect("the runtime starts");
    let id = ServerId::new(names.last().expect("there is one").as_str()).expect("an id");
    let server = runtime.server(&id).expect("it is defined");
    let listed = server.warm(Duration::from_secs(60)).await;
    assert!(listed.listing.is_some(), "the good server is listed");
    let limit: BTreeMap<ServerId, Arc<u64>> =
        names.iter().map(|name| (ServerId::new(name.as_str()).expect("an id"), Arc::new(1))).collect();
    let limit = ArcSwap::from_pointee(limit);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        raw.push(per_read(plan.reads, || limit.load().get(black_box(&id)).cloned()));
        ours.push(per_read(plan.reads, || black_box(&server).list()));
    }
    runtime.shutdown().await;
    (median(ours), median(raw))
}

fn per_read<T>(reads: u32, mut read: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..reads {
        black_box(read());
    }
    start.elapsed().as_secs_f64() / f64::from(reads)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
