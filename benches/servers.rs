//! What servers cost each other, and what a call costs over its raw limit; all contenders of a ratio in one run.
//!
//! `cargo bench --bench servers` prints the figures; any other way of running it is a short check that it still works.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse::id::ServerId;
use pilothouse::limits::Limits;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::model::{Model, ModelRequest, ModelStream};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::store::memory::MemoryStore;
use pilothouse::{Runtime as Whole, ServerHandle};
use pilothouse_harness::peer::{HttpKind, Peer, Script};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// How much is run.
struct Plan {
    rounds: usize,
    calls: usize,
    reads: usize,
    sends: usize,
    dead: &'static [usize],
    dead_beside_a_turn: &'static [usize],
    fleet: usize,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self {
                rounds: 21,
                calls: 200,
                reads: 100_000,
                sends: 400,
                dead: &[0, 10, 50, 500],
                dead_beside_a_turn: &[0, 20, 200],
                fleet: 200,
            }
        } else {
            Self {
                rounds: 1,
                calls: 3,
                reads: 10,
                sends: 3,
                dead: &[0, 2],
                dead_beside_a_turn: &[0, 2],
                fleet: 12,
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

fn good() -> Script {
    script(json!({"tools": [{"name": "echo", "echo": true}]}))
}

fn silent() -> Script {
    script(json!({"tools": [], "faults": [{"silence": "all"}]}))
}

fn script(value: Value) -> Script {
    Script::try_from(value).expect("a script")
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("peer") {
        return serve();
    }
    let plan = Plan::from_arguments();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.expect("a Tokio runtime");
    tokio.block_on(async {
        lists(&plan).await;
        turns(&plan).await;
        calls(&plan).await;
        changes(&plan).await;
        fleet(&plan).await;
    });
}

/// This program as a server on its standard streams.
fn serve() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a Tokio runtime");
    // The status is for whoever starts it by hand.
    let _status = tokio.block_on(Peer::new(good()).serve_process());
}

fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share) as usize;
    sorted[place.min(sorted.len() - 1)]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn handle(runtime: &Whole, id: &str) -> ServerHandle {
    runtime.server(&ServerId::new(id).expect("an id")).expect("it is defined")
}

/// A runtime with a good server and so many that never answer.
async fn beside(dead: usize, model: Option<Arc<dyn Model>>) -> Whole {
    let mut builder = Runtime::builder().store(Arc::new(MemoryStore::new()));
    for n in 0..dead {
        builder = builder.server(Server::in_memory(format!("dead-{n:03}"), Peer::new(silent())));
    }
    if let Some(model) = model {
        builder = builder.models(move |_: &str| Some(model.clone()));
    }
    let good = Server::in_memory("good", Peer::new(good())).effect("echo", Effect::Reads);
    let runtime = builder.server(good).start().await.expect("it starts");
    assert!(handle(&runtime, "good").warm(PATIENCE).await.listing.is_some(), "the good one is listed");
    runtime
}

async fn lists(plan: &Plan) {
    println!("list of one server, the clock's own reading included");
    for &dead in plan.dead {
        let runtime = beside(dead, None).await;
        let server = handle(&runtime, "good");
        let mut times: Vec<_> = (0..plan.reads)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(server.list());
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("  {dead:3} dead: p50 {:?}, p99 {:?}", percentile(&times, 0.5), percentile(&times, 0.99));
        runtime.shutdown().await;
    }
}

/// A model that says when it is run.
struct Timed(ScriptedModel, mpsc::UnboundedSender<Instant>);

impl Model for Timed {
    fn run(&self, request: ModelRequest) -> ModelStream {
        // Nobody listens between two messages.
        let _gone = self.1.send(Instant::now());
        self.0.run(request)
    }
}

async fn turns(plan: &Plan) {
    println!("send to the first model step, median");
    let mut stages = Vec::new();
    for &dead in plan.dead_beside_a_turn {
        let (told, runs) = mpsc::unbounded_channel();
        let steps = (0..plan.sends + 1).map(|_| Step::text("Done.")).collect();
        let runtime = beside(dead, Some(Arc::new(Timed(ScriptedModel::new(steps), told)))).await;
        let topic = runtime.open_topic("t", TopicConfig::new("main")).await.expect("the topic opens");
        stages.push((dead, runtime, topic, runs, Vec::new()));
    }
    // In turns, so that what the machine does meanwhile meets all alike.
    for _ in 0..plan.sends {
        for (_, _, topic, runs, times) in &mut stages {
            let start = Instant::now();
            topic.send("Go.").await.expect("the message is taken");
            let run = runs.recv().await.expect("the model runs");
            times.push(run.duration_since(start).as_secs_f64());
            while topic.view().is_some_and(|view| view.status != pilothouse::topic::TopicStatus::Done) {
                tokio::task::yield_now().await;
            }
        }
    }
    let mut first = None;
    for (dead, runtime, _, _, times) in stages {
        let time = median(times);
        let ratio = time / *first.get_or_insert(time);
        println!("  {dead:3} dead: {:6.1} us, {ratio:.2}x of none (wanted: 1.1x)", time * 1e6);
        runtime.shutdown().await;
    }
}

type Bare = RunningService<RoleClient, ()>;

async fn bare_call(bare: &Bare) {
    let arguments = json!({"n": 1}).as_object().cloned().expect("an object");
    let params = CallToolRequestParams::new("echo").with_arguments(arguments);
    bare.call_tool(params).await.expect("it answers");
}

async fn our_call(server: &ServerHandle) {
    let result = server.call("echo", &json!({"n": 1})).await;
    assert_eq!(result.outcome, pilothouse::call::CallOutcome::Succeeded, "{result:?}");
}

/// The median over rounds of the ratio of both, and our time.
async fn compare<F: Future<Output = ()>>(
    plan: &Plan,
    server: &ServerHandle,
    bare: impl Fn() -> F,
) -> (f64, f64) {
    let (mut ratios, mut times) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let start = Instant::now();
        for _ in 0..plan.calls {
            bare().await;
        }
        let raw = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for _ in 0..plan.calls {
            our_call(server).await;
        }
        let ours = start.elapsed().as_secs_f64();
        ratios.push(ours / raw);
        times.push(ours / plan.calls as f64);
    }
    (median(ratios), median(times))
}

async fn calls(plan: &Plan) {
    println!("a call outside a turn over its limit");
    let peer = Peer::new(good());
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let serving = peer.clone();
    tokio::spawn(async move {
        let (read, write) = tokio::io::split(theirs);
        serving.serve(read, write).await;
    });
    let bare = ().serve(tokio::io::split(ours)).await.expect("it greets");
    let ratio = over(plan, Server::in_memory("a", peer), || bare_call(&bare)).await;
    shown("in memory, over bare rmcp", ratio, 1.5);

    let program = std::env::current_exe().expect("this program has a path");
    let mut child = tokio::process::Command::new(&program)
        .arg("peer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let pipes = (child.stdout.take().expect("its output"), child.stdin.take().expect("its input"));
    let bare = ().serve(pipes).await.expect("it greets");
    let server = Server::stdio("a", program.to_string_lossy()).args(["peer"]);
    let ratio = over(plan, server, || bare_call(&bare)).await;
    shown("stdio, over bare rmcp", ratio, 1.25);

    let http_script = json!({"tools": [{"name": "echo", "echo": true}],
        "http": {"answers": "json", "sessions": false, "get": false}});
    let http =
        Peer::new(script(http_script)).listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    let bare = ().serve(StreamableHttpClientTransport::from_uri(http.url())).await.expect("it greets");
    let ratio = over(plan, Server::http("a", http.url()), || bare_call(&bare)).await;
    shown("HTTP, over bare rmcp", ratio, 1.25);
}

fn shown(what: &str, (ratio, time): (f64, f64), wanted: f64) {
    println!("  {what}: {ratio:.2}x, {:.1} us (wanted: {wanted}x)", time * 1e6);
}

async fn over<F: Future<Output = ()>>(plan: &Plan, server: Server, bare: impl Fn() -> F) -> (f64, f64) {
    let builder = Runtime::builder().server(server.effect("echo", Effect::Reads));
    let runtime = builder.start().await.expect("it starts");
    let server = handle(&runtime, "a");
    server.warm(PATIENCE).await;
    our_call(&server).await;
    let found = compare(plan, &server, bare).await;
    runtime.shutdown().await;
    found
}

async fn changes(plan: &Plan) {
    let peer = Peer::new(good());
    let debounce = Limits::default().list_changed_debounce;
    let runtime =
        Runtime::builder().server(Server::in_memory("a", peer.clone())).start().await.expect("it starts");
    let server = handle(&runtime, "a");
    server.warm(PATIENCE).await;
    let mut slowest = Duration::ZERO;
    for n in 0..plan.rounds.min(5) {
        // Listings that notices bring about are a second apart.
        sleep(Duration::from_millis(1_100)).await;
        let tools: Vec<_> = (0..n + 2).map(|n| json!({"name": format!("echo-{n}"), "echo": true})).collect();
        peer.set_script(script(json!({"tools": tools})));
        let start = Instant::now();
        peer.announce_tools();
        while server.list().tools().len() != n + 2 {
            sleep(Duration::from_micros(100)).await;
        }
        slowest = slowest.max(start.elapsed().saturating_sub(debounce));
    }
    println!("a change is visible {slowest:?} after the quiet time, at most (wanted: 50 ms)");
    runtime.shutdown().await;
}

/// How long each of these takes until it is ready.
async fn ready(runtime: &Whole, start: Instant, ids: &[String]) -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    while times.len() < ids.len() {
        assert!(start.elapsed() < PATIENCE, "{times:?}");
        for id in ids {
            if !times.contains_key(id) && handle(runtime, id).view().state == ServerState::Ready {
                times.insert(id.clone(), start.elapsed());
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
    times
}

async fn fleet(plan: &Plan) {
    // A process as servers are: half a second until it answers.
    let slow =
        || script(json!({"tools": [{"name": "echo"}], "faults": [{"delay": {"on": "connect", "ms": 300}}]}));
    let healthy: Vec<String> = (0..10.min(plan.fleet / 2)).map(|n| format!("z-{n}")).collect();
    let with = |builder: pilothouse::Builder| {
        healthy.iter().fold(builder, |builder, id| builder.server(Server::in_memory(id, Peer::new(slow()))))
    };
    let start = Instant::now();
    let mut alone = Duration::ZERO;
    for id in healthy.iter().take(1) {
        let runtime = Runtime::builder()
            .server(Server::in_memory(id, Peer::new(slow())))
            .start()
            .await
            .expect("it starts");
        alone = ready(&runtime, start, std::slice::from_ref(id)).await[id];
        runtime.shutdown().await;
    }
    let mut builder = Runtime::builder();
    // The dead ones come first.
    for n in 0..plan.fleet - healthy.len() {
        builder = builder.server(Server::in_memory(format!("dead-{n:03}"), Peer::new(silent())));
    }
    let start = Instant::now();
    let runtime = with(builder).start().await.expect("it starts");
    let times = ready(&runtime, start, &healthy).await;
    let last = times.values().max().copied().unwrap_or_default();
    let ratio = last.as_secs_f64() / alone.as_secs_f64();
    println!(
        "{} servers, {} healthy and behind the others: the last is ready after {last:?}, alone {alone:?}: {ratio:.2}x (wanted: 1.5x)",
        plan.fleet,
        healthy.len()
    );
    runtime.shutdown().await;
}
