//! What approvals cost: durable decisions against bare sled, the gate among 10 000 grants, and a restart.
//!
//! Everything goes through the approval actor and its ledger on a real disk. `cargo bench --bench decisions` prints the
//! figures with their targets; any other way of running it is a short check that it still works.

#[path = "decisions/bare.rs"]
mod bare;
#[path = "decisions/crowds.rs"]
mod crowds;
#[path = "decisions/gate.rs"]
mod gate;
#[path = "decisions/ledger.rs"]
mod ledger;
#[path = "decisions/restart.rs"]
mod restart;

/// How much is run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: u64,
    /// How many decide at once, a section each.
    pub(crate) crowds: [u64; 4],
    /// Decisions of each caller in one round, and of a lone one.
    pub(crate) each: u64,
    pub(crate) alone: u64,
    /// Grants that hold while the gate is asked, and how often it is.
    pub(crate) grants: u64,
    pub(crate) asked: u32,
    /// What a restart finds.
    pub(crate) settled: u64,
    pub(crate) open: u64,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self {
                rounds: 9,
                crowds: [1, 16, 256, 1_024],
                each: 8,
                alone: 200,
                grants: 10_000,
                asked: 20_000,
                settled: 100_000,
                open: 1_000,
            }
        } else {
            let crowds = [1, 2, 4, 8];
            Self { rounds: 1, crowds, each: 2, alone: 4, grants: 20, asked: 20, settled: 20, open: 5 }
        }
    }

    pub(crate) fn most_callers(&self) -> u64 {
        self.crowds.into_iter().max().unwrap_or(1)
    }
}

/// The value below which this share of them lies; the values are put in order.
pub(crate) fn quantile<T: PartialOrd + Copy>(values: &mut [T], share: f64) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no measurement is NaN"));
    let place = (values.len() - 1) as f64 * share;
    values[place.round() as usize]
}

pub(crate) fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    quantile(&mut values, 0.5)
}

fn main() {
    let plan = Plan::from_arguments();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.expect("a Tokio runtime");
    tokio.block_on(async {
        tokio::spawn(crowds::run(plan)).await.expect("the bench does not panic");
        tokio::spawn(gate::run(plan)).await.expect("the bench does not panic");
        tokio::spawn(restart::run(plan)).await.expect("the bench does not panic");
    });
}
