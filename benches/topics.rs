//! What topics cost, as ratios to their raw limits; the contenders of a ratio run interleaved in one run.
//!
//! `cargo bench --bench topics` prints them; any other way of running it is a short check that it still works.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use pilothouse::limits::Limits;
use pilothouse::model::{FinishReason, Model, ModelError, ModelEvent, ModelRequest, ModelStream};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::store::sled::SledStore;
use pilothouse::store::{Batch, Keyspace, Store};
use pilothouse::tool::Invocation;
use pilothouse::topic::TopicStatus;
use serde_json::json;
use tokio::task::JoinSet;

#[path = "shared/memory.rs"]
mod memory;

/// How much is run.
struct Plan {
    /// Samples of each short thing.
    samples: u64,
    /// Deltas before a window attaches, few and many.
    deltas: [usize; 2],
    /// Turns before a topic wakes, few and many.
    turns: [u64; 2],
    /// Topics that are alive at once.
    live: usize,
    /// Topics that are opened, used and put to sleep.
    slept: usize,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self { samples: 500, deltas: [100, 100_000], turns: [10, 10_000], live: 10_000, slept: 100_000 }
        } else {
            Self { samples: 5, deltas: [10, 100], turns: [3, 30], live: 20, slept: 40 }
        }
    }
}

/// What a model does in one step.
#[derive(Clone, Copy)]
enum Act {
    Say,
    Call,
    Hang,
    /// So many pieces of text, then silence.
    Pour(usize),
}

/// A model that does one thing after the other and notes when it is asked.
#[derive(Default)]
struct Acting {
    acts: Mutex<VecDeque<Act>>,
    asked: Mutex<Vec<Instant>>,
    said: Mutex<Vec<Instant>>,
}

impl Acting {
    fn will(&self, act: Act) {
        self.acts.lock().expect("nobody panics").push_back(act);
    }

    fn asked(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.asked.lock().expect("nobody panics"))
    }
}

impl Model for Acting {
    fn run(&self, _request: ModelRequest) -> ModelStream {
        self.asked.lock().expect("nobody panics").push(Instant::now());
        let act = self.acts.lock().expect("nobody panics").pop_front().unwrap_or(Act::Say);
        let mut events = VecDeque::new();
        match act {
            Act::Say => events.push_back(ModelEvent::Text("ok".to_owned())),
            Act::Call => {
                let name = "look".to_owned();
                events.push_back(ModelEvent::CallStart { index: 0, provider_id: None, name });
                events.push_back(ModelEvent::CallDelta { index: 0, arguments: "{}".to_owned() });
            }
            Act::Hang => {}
            Act::Pour(pieces) => events.extend((0..pieces).map(|_| ModelEvent::Text("a ".to_owned()))),
        }
        let ends = matches!(act, Act::Say | Act::Call);
        if ends {
            events.push_back(ModelEvent::Finish(FinishReason::Stop));
            self.said.lock().expect("nobody panics").push(Instant::now());
        }
        Box::pin(Played { events, ends })
    }
}

struct Played {
    events: VecDeque<ModelEvent>,
    ends: bool,
}

impl Stream for Played {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.events.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    limits.reply_bytes = 512 << 10;
    change(&mut limits);
    limits
}

async fn started(store: Arc<dyn Store>, model: Arc<Acting>, limits: Limits) -> Runtime {
    let look = Function::new("look", "Looks.", &json!({"type": "object"}), async |_: Invocation| {
        Ok("seen".to_owned())
    });
    let resolver = move |_name: &str| Some(model.clone() as Arc<dyn Model>);
    let builder = Runtime::builder().store(store).models(resolver).function(look.effect(Effect::Reads));
    builder.limits(limits).start().await.expect("the runtime starts")
}

async fn opened(runtime: &Runtime, name: &str) -> Topic {
    runtime.open_topic(name, TopicConfig::new("m")).await.expect("the topic opens")
}

async fn rests(topic: &Topic, turns: u64) {
    let ended = || {
        topic.view().is_some_and(|view| {
            let closed =
                view.earlier_turns + view.turns.iter().filter(|turn| turn.stop.is_some()).count() as u64;
            closed >= turns && view.status != TopicStatus::Pending && view.status != TopicStatus::Streaming
        })
    };
    while !ended() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

fn percentile(times: &mut [Duration], hundredth: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * hundredth / 100]
}

async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let came = what.await;
    (came, start.elapsed())
}

/// One bare commit of this store, of as many bytes as a small record.
async fn commit(store: &dyn Store, number: u64) -> Duration {
    let mut batch = Batch::new();
    batch.put(Keyspace::Meta, [b"bench".as_slice(), &number.to_be_bytes()].concat(), vec![7; 96]);
    let lane = store.lane();
    let (done, took) = timed(lane.append(batch)).await;
    done.expect("the store takes it");
    took
}

async fn sled(directory: &tempfile::TempDir) -> Arc<SledStore> {
    Arc::new(SledStore::open(directory.path()).await.expect("the store opens"))
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the bench")
}

/// A steer that is acknowledged, the way from a turn's end to the next model request, and a call in a turn.
async fn turns_section(plan: &Plan) {
    let directory = directory();
    let (store, model) = (sled(&directory).await, Arc::new(Acting::default()));
    let runtime = started(store.clone(), model.clone(), limits(|_| ())).await;
    let topic = opened(&runtime, "t").await;
    let (mut commits, mut acks, mut chains, mut calls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut turns = 0;
    for sample in 0..plan.samples {
        commits.push(commit(store.as_ref(), sample).await);
        // One turn hangs while it is steered; its stop holds the steer.
        model.will(Act::Hang);
        topic.send("go").await.expect("it is taken");
        let (sent, took) = timed(topic.send("steer")).await;
        let steer = sent.expect("it is taken").message;
        acks.push(took);
        topic.stop("bench").await.expect("it stops");
        // So that what is held stays within its bound, however many samples there are.
        topic.drop_message(steer, "bench").await.expect("it is held");
        turns += 1;
        // A call in one turn, and a message that waits behind it: the turn yields to it.
        model.asked();
        model.will(Act::Call);
        topic.send("go").await.expect("it is taken");
        turns += 1;
        rests(&topic, turns).await;
        let asked = model.asked();
        if let [first, second] = asked.as_slice() {
            calls.push(second.duration_since(*first));
        }
        model.will(Act::Say);
        let (first, second) = tokio::join!(topic.send("a"), topic.send("b"));
        first.and(second).expect("they are taken");
        turns += 2;
        rests(&topic, turns).await;
        let asked = model.asked();
        if let [first, second] = asked.as_slice() {
            chains.push(second.duration_since(*first));
        }
    }
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut told = |what: &str, times: &mut Vec<Duration>, target: &str| {
        println!(
            "{what}: median {:.2} ms, p99 {:.2} ms; one commit: median {:.2} ms, p99 {:.2} ms ({target})",
            ms(percentile(times, 50)),
            ms(percentile(times, 99)),
            ms(percentile(&mut commits, 50)),
            ms(percentile(&mut commits, 99)),
        );
    };
    told("a steer is acknowledged", &mut acks, "target: one commit + 1 ms");
    told(
        "from a step with a call to the next request",
        &mut calls,
        "intent, result and next step: three commits",
    );
    told(
        "from a turn's only step to the next turn's request",
        &mut chains,
        "target: p99 of one commit + 1 ms",
    );
    runtime.shutdown().await;
}

/// What one update costs with more windows, and what a window costs after more deltas.
async fn windows_section(plan: &Plan) {
    let model = Arc::new(Acting::default());
    let runtime = started(Arc::new(MemoryStore::new()), model.clone(), limits(|_| ())).await;
    let mut attached = Vec::new();
    for deltas in plan.deltas {
        let topic = opened(&runtime, &format!("after {deltas}")).await;
        model.will(Act::Pour(deltas));
        topic.send("go").await.expect("it is taken");
        let written = || {
            topic.view().is_some_and(|view| {
                view.turns
                    .last()
                    .and_then(|turn| turn.steps.last())
                    .is_some_and(|step| step.text.len() >= deltas * 2)
            })
        };
        while !written() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut times: Vec<_> = (0..plan.samples)
            .map(|_| {
                let start = Instant::now();
                let window = topic.attach().expect("it is open");
                let took = start.elapsed();
                drop(window);
                took
            })
            .collect();
        attached.push(percentile(&mut times, 50).as_secs_f64());
    }
    let [few, many] = plan.deltas;
    println!("attach after {many} deltas over {few}: ratio {:.2} (target <= 2)", attached[1] / attached[0]);

    let mut costs = Vec::new();
    for windows in [1, 10, 100] {
        let topic = opened(&runtime, &format!("with {windows}")).await;
        let mut open: Vec<_> = (0..windows).map(|_| topic.attach().expect("it is open")).collect();
        let start = Instant::now();
        for _ in 0..plan.samples {
            topic.send("go").await.expect("it is taken");
            for window in &mut open {
                while !matches!(
                    window.next().await,
                    Some(TopicEventOut::Update { update: TopicUpdate::TurnFinished { .. }, .. }) | None
                ) {}
            }
        }
        costs.push(start.elapsed().as_secs_f64() / plan.samples as f64 * 1e6);
    }
    println!(
        "one turn seen to its end by 1, 10, 100 windows: {:.0}, {:.0}, {:.0} us: {:.1} us for each further window",
        costs[0],
        costs[1],
        costs[2],
        (costs[2] - costs[0]) / 99.0
    );
    runtime.shutdown().await;
}

/// Waking after few and after many turns.
async fn wake_section(plan: &Plan) {
    let directory = directory();
    let (store, model) = (sled(&directory).await, Arc::new(Acting::default()));
    let runtime = started(store.clone(), model, limits(|_| ())).await;
    let mut work = JoinSet::new();
    for turns in plan.turns {
        let topic = opened(&runtime, &format!("after {turns}")).await;
        work.spawn(async move {
            for turn in 1..=turns {
                topic.send("go").await.expect("it is taken");
                rests(&topic, turn).await;
            }
        });
    }
    work.join_all().await;
    runtime.shutdown().await;
    drop(store);
    let mut woken: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..11 {
        let store = sled(&directory).await;
        let runtime = started(store, Arc::default(), limits(|_| ())).await;
        // The first topic pays for what a fresh process has to warm up.
        opened(&runtime, "warm").await;
        for (turns, times) in plan.turns.into_iter().zip(&mut woken) {
            let (topic, took) = timed(opened(&runtime, &format!("after {turns}"))).await;
            assert!(topic.view().is_some());
            times.push(took);
        }
        runtime.shutdown().await;
    }
    let [few, many] = woken.map(|mut times| percentile(&mut times, 50));
    println!(
        "waking after {} turns {:.2} ms, after {} turns {:.2} ms: ratio {:.2} (target <= 2)",
        plan.turns[0],
        few.as_secs_f64() * 1e3,
        plan.turns[1],
        many.as_secs_f64() * 1e3,
        many.as_secs_f64() / few.as_secs_f64()
    );
}

/// Memory of topics that are alive and idle, and of those that sleep.
async fn memory_section(plan: &Plan) {
    let runtime = started(Arc::new(MemoryStore::new()), Arc::default(), limits(|_| ())).await;
    opened(&runtime, "warm").await;
    let before = memory::resident();
    let mut live = Vec::new();
    for number in 0..plan.live {
        live.push(opened(&runtime, &format!("live {number}")).await);
    }
    let each = memory::resident().saturating_sub(before) / plan.live.max(1);
    println!("a live idle topic, its store in memory included: {each} bytes (target <= 12288)");
    drop(live);
    runtime.shutdown().await;

    let directory = directory();
    let idle = limits(|limits| limits.topic_idle = Duration::from_millis(100));
    let runtime = started(sled(&directory).await, Arc::default(), idle).await;
    let (start, mut sizes) = (Instant::now(), Vec::new());
    for quarter in 0..4 {
        let mut work = JoinSet::new();
        for lane in 0..64 {
            let (runtime, count) = (runtime.clone(), plan.slept / 4 / 64 + 1);
            work.spawn(async move {
                for number in 0..count {
                    let topic = opened(&runtime, &format!("{quarter}.{lane}.{number}")).await;
                    topic.send("go").await.expect("it is taken");
                    rests(&topic, 1).await;
                }
            });
        }
        work.join_all().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        sizes.push(memory::resident() >> 20);
    }
    let left = runtime.tree().children[4].children.len();
    println!(
        "{} topics opened, used and put to sleep in {:.0} s: {sizes:?} MiB after each quarter, {left} topics left awake",
        plan.slept,
        start.elapsed().as_secs_f64()
    );
    runtime.shutdown().await;
}

fn main() {
    let plan = Plan::from_arguments();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.expect("a runtime for the bench").block_on(async {
        turns_section(&plan).await;
        windows_section(&plan).await;
        wake_section(&plan).await;
        memory_section(&plan).await;
    });
}
