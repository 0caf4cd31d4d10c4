//! What a durable decision costs, as ratios to the raw limit: a bare sled batch, flushed and synced.
//!
//! The decisions go through the approval actor and its ledger. `cargo bench --bench decisions` prints the ratios; any
//! other way of running it is a short check that it still works.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_actors::approval::{ApprovalActor, ApprovalArgs, ApprovalMsg};
use pilothouse_actors::wiring::{Materials, Wiring};
use pilothouse_adapters::clock::SystemClock;
use pilothouse_adapters::model::Model;
use pilothouse_adapters::store::sled::SledStore;
use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand, Card, DecideAnswer, Decision};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, CallId, StepId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use ractor::Actor;

/// How much is run.
struct Plan {
    rounds: u64,
    /// Decisions of the lone caller in one round.
    alone: u64,
    /// Decisions of each of the many callers in one round.
    each: u64,
    callers: u64,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self { rounds: 11, alone: 300, each: 20, callers: 256 }
        } else {
            Self { rounds: 1, alone: 3, each: 2, callers: 8 }
        }
    }
}

/// sled by itself, with the sync that it leaves out.
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

    /// As many bytes as the record of a decision has.
    fn append(&self, n: u64) {
        let mut batch = sled::Batch::default();
        batch.insert(n.to_be_bytes().to_vec(), vec![0xab; 200]);
        self.db.apply_batch(batch).expect("sled takes a batch");
        self.db.flush().expect("sled flushes");
        self.file.sync_data().expect("the file syncs");
    }
}

fn card(n: u64) -> Card {
    let topic = TopicId::new(format!("topic-{n}")).expect("an id");
    let call = CallId { turn: TurnId(1), step: StepId(1), index: 0 };
    Card {
        approval: ApprovalId::of(&topic, call),
        tenant: TenantId::default(),
        topic,
        call,
        tool: "mcp__files__write".to_owned(),
        source: ToolSource::Builtin { name: "write".to_owned() },
        label: "files".to_owned(),
        title: None,
        effect: Effect::Edits,
        arguments: JsonText::from(serde_json::json!({"path": "a"})),
        fingerprint: Digest([0; 32]),
        definition: Digest([1; 32]),
        reason: "it changes things".to_owned(),
        expires_at: Timestamp(u64::MAX),
    }
}

async fn ask(wiring: &Wiring, command: ApprovalCommand) -> ApprovalAnswer {
    loop {
        let command = command.clone();
        match wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await {
            Ok(answer) => return answer.expect("the ledger takes it"),
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

async fn decide(wiring: &Wiring, approval: ApprovalId) {
    let answer = ask(
        wiring,
        ApprovalCommand::Decide {
            approval,
            decision: Box::new(Decision::allow("bench")),
            present: Vec::new(),
        },
    )
    .await;
    assert_eq!(answer, ApprovalAnswer::Decide(DecideAnswer::Applied));
}

async fn ledger(directory: &Path, callers: u64) -> Arc<Wiring> {
    let mut limits = Limits::default();
    limits.mailbox = limits.mailbox.max(usize::try_from(callers).expect("a count"));
    let store = SledStore::open(directory).await.expect("the store opens");
    let wiring = Arc::new(Wiring::new(Materials {
        layers: Default::default(),
        repair: None,
        counter: Arc::new(pilothouse_rules::tokens::Bytes4),
        exec: None,
        limits,
        clock: Arc::new(SystemClock),
        store: Arc::new(store),
        models: Arc::new(|_: &str| None::<Arc<dyn Model>>),
        functions: BTreeMap::new(),
        table: Arc::default(),
        asks: None,
        history: Arc::new(pilothouse_rules::history::NewestTurns),
        servers: Vec::new(),
        heavy: Default::default(),
    }));
    let args = ApprovalArgs { wiring: wiring.clone() };
    let (actor, _join) = Actor::spawn(None, ApprovalActor, args).await.expect("the actor starts");
    wiring.approval.slot.fill(actor);
    wiring
}

/// Cards of one round, opened before the clock runs.
async fn opened(wiring: &Arc<Wiring>, first: u64, count: u64) -> Vec<ApprovalId> {
    let opens: Vec<_> = (first..first + count)
        .map(|n| {
            let wiring = wiring.clone();
            tokio::spawn(async move {
                let card = card(n);
                let approval = card.approval;
                ask(&wiring, ApprovalCommand::Open(Box::new(card))).await;
                approval
            })
        })
        .collect();
    let mut approvals = Vec::new();
    for open in opens {
        approvals.push(open.await.expect("no caller panics"));
    }
    approvals
}

async fn round(plan: &Plan, wiring: &Arc<Wiring>, bare: &Bare, n: u64) -> (f64, f64, f64) {
    let per_round = plan.alone + plan.each * plan.callers;
    let cards = opened(wiring, n * per_round, per_round).await;
    let (alone, many) = cards.split_at(usize::try_from(plan.alone).expect("a count"));
    let raw: Vec<_> = (0..plan.alone).map(|k| timed(|| bare.append(n * plan.alone + k))).collect();
    let mut ours = Vec::new();
    for approval in alone {
        let start = Instant::now();
        decide(wiring, *approval).await;
        ours.push(start.elapsed());
    }
    let start = Instant::now();
    let share = usize::try_from(plan.each).expect("a count");
    let callers: Vec<_> = many
        .chunks(share)
        .map(|mine| {
            let (wiring, mine) = (wiring.clone(), mine.to_vec());
            tokio::spawn(async move {
                for approval in mine {
                    decide(&wiring, approval).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    let rate = (plan.each * plan.callers) as f64 / start.elapsed().as_secs_f64();
    (median(raw).as_secs_f64(), median(ours).as_secs_f64(), rate)
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no measurement is NaN"));
    values[values.len() / 2]
}

fn main() {
    let plan = Plan::from_arguments();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.expect("a Tokio runtime");
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory for the bench"));
    let bare = Bare::open(directories[0].path());
    let wiring = tokio.block_on(ledger(directories[1].path(), plan.callers));
    let task = async move {
        let (mut one, mut many) = (Vec::new(), Vec::new());
        for n in 0..plan.rounds {
            let (raw, ours, rate) = round(&plan, &wiring, &bare, n).await;
            one.push(ours / raw);
            many.push(rate * ours);
        }
        println!(
            "durable decisions through the approval actor; medians of {} rounds in one run",
            plan.rounds
        );
        println!("  one caller: {:.2}x the time of a bare sled batch + flush + fdatasync", median(one));
        println!("  {} callers: {:.1}x the rate of one caller", plan.callers, median(many));
    };
    tokio.block_on(async { tokio.spawn(task).await.expect("the bench does not panic") });
}
