//! Two `everything` servers: one is killed in the middle of a call and comes back, the other one notices nothing.

use std::io::{self, Write};
use std::path::Path;
use std::process::id as own_pid;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::id::ServerId;
use pilothouse::listing::ListingState;
use pilothouse::model::scripted::{ScriptedModel, Step, ToolRef};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::topic::CallState;
use pilothouse::{ServerHandle, Subscription};
use pilothouse_harness::driver;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::machine::{self, Process};

const PROGRAM: &str = "mcp-server-everything";
const LONG: &str = "trigger-long-running-operation";
/// How long a loaded machine may take to start a Node program, list it, or start it again.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a caller calls prompt: the server would have gone on for twenty seconds.
const PROMPT: Duration = Duration::from_secs(3);

fn server(id: &str, program: &Path) -> Server {
    Server::stdio(id, program.to_string_lossy())
        .arg("stdio")
        .env("PILOTHOUSE_WORLD_SERVER", id)
        .effect("echo", Effect::Reads)
        .effect(LONG, Effect::Reads)
}

/// The one process of this server.
fn process(id: &str) -> Process {
    match machine::children(own_pid(), &format!("PILOTHOUSE_WORLD_SERVER={id}"))[..] {
        [process] => process,
        ref others => panic!("server {id} has one process, not {others:?}"),
    }
}

fn handle(runtime: &Runtime, id: &str) -> ServerHandle {
    let id = ServerId::new(id).expect("it is an id");
    runtime.server(&id).expect("the server is defined")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn echo(server: &ServerHandle, words: &str) -> CallResult {
    server.call("echo", &json!({"message": words})).await
}

fn assert_echoed(result: &CallResult, words: &str) {
    assert_eq!(result.outcome, CallOutcome::Succeeded, "{result:?}");
    assert!(result.text().contains(words), "{result:?}");
}

fn long_call() -> Value {
    json!({"duration": 20, "steps": 20})
}

/// Every provider takes these names, and no two tools share one.
fn assert_wire_names(names: &[String]) {
    for name in names {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        assert!(plain && name.len() <= 63 && name.starts_with("mcp__"), "{name}");
    }
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

async fn tool_started(window: &mut Subscription) {
    let started = async {
        while let Some(event) = window.next().await {
            if let TopicEventOut::Update { update: TopicUpdate::ToolStarted { .. }, .. } = event {
                return;
            }
        }
        panic!("the window closed before a tool started");
    };
    timeout(PATIENCE, started).await.expect("the turn calls its tool");
}

async fn turn_finished(window: &mut Subscription) -> StopReason {
    let finished = async {
        while let Some(event) = window.next().await {
            if let TopicEventOut::Update { update: TopicUpdate::TurnFinished { stop, .. }, .. } = event {
                return stop;
            }
        }
        panic!("the window closed before the turn ended");
    };
    timeout(PATIENCE, finished).await.expect("the turn ends")
}

/// The outcomes of the calls of a topic's only turn.
fn outcomes(topic: &Topic) -> Vec<Option<CallOutcome>> {
    let view = topic.view().expect("the topic is open");
    let calls = view.turns.iter().flat_map(|turn| &turn.steps).flat_map(|step| &step.calls);
    let outcome = |state: &CallState| match state {
        CallState::Awaiting { .. } | CallState::Running => None,
        CallState::Finished(result) => Some(result.outcome),
    };
    calls.map(|call| outcome(&call.state)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_a_call_comes_back_and_its_neighbour_notices_nothing() {
    let Some(program) = machine::installed(PROGRAM) else { return };
    let call_long = Step::call(ToolRef::of_server("a", LONG), long_call());
    let runtime = Runtime::builder()
        .server(server("a", &program))
        .server(server("b", &program))
        .model("plays", ScriptedModel::new(vec![call_long, Step::text("It did not answer.")]))
        .start()
        .await
        .expect("the runtime starts");
    let (a, b) = (handle(&runtime, "a"), handle(&runtime, "b"));

    for server in [&a, &b] {
        timeout(PATIENCE, server.refresh()).await.expect("in time").expect("the server lists its tools");
        let listing = server.list();
        assert_eq!(listing.state, ListingState::Warm);
        assert!(listing.tools().len() >= 13, "{} tools", listing.tools().len());
    }
    let mut config = TopicConfig::new("plays");
    // Two servers of fifteen tools would be folded away for a model whose window nobody knows.
    config.context_window = Some(200_000);
    let topic = runtime.open_topic("watch", config).await.expect("the topic opens");
    let all = a.list().tools().len() + b.list().tools().len();
    until("every tool is shown", || topic.surface().is_some_and(|surface| surface.tools.len() == all)).await;
    let surface = topic.surface().expect("it is shown");
    assert_wire_names(&surface.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>());
    assert_echoed(&echo(&a, "ahoy").await, "ahoy");
    let (process_a, process_b) = (process("a"), process("b"));

    // One call from outside, one in a turn, both in the middle of their work.
    let mut window = topic.attach().expect("the topic is open");
    topic.send("Take your time.").await.expect("the message is taken");
    tool_started(&mut window).await;
    let outside = tokio::spawn({
        let a = a.clone();
        async move { a.call(LONG, &long_call()).await }
    });
    // A real server does not say that it has begun; a second is enough for that, and far from its twenty.
    sleep(Duration::from_secs(1)).await;
    assert!(!outside.is_finished(), "the call is under way");
    process_a.kill();

    let outside =
        timeout(PROMPT, outside).await.expect("the caller is told at once").expect("the task lives");
    assert_eq!(outside.outcome, CallOutcome::Unknown, "{outside:?}");
    assert_echoed(&echo(&b, "undisturbed").await, "undisturbed");
    assert_eq!(turn_finished(&mut window).await, StopReason::Completed);
    assert_eq!(outcomes(&topic), [Some(CallOutcome::Unknown)]);

    until("a is ready again", || {
        let view = a.view();
        view.state == ServerState::Ready && view.restarts >= 1
    })
    .await;
    assert_echoed(&echo(&a, "back").await, "back");
    assert_ne!(process("a"), process_a);
    assert_eq!(process("b"), process_b);
    let view = b.view();
    assert_eq!((view.state, view.restarts), (ServerState::Ready, 0));

    let shutdown = runtime.shutdown().await;
    assert!(shutdown.is_clean(), "{shutdown:?}");
    for id in ["a", "b"] {
        let left = machine::children(own_pid(), &format!("PILOTHOUSE_WORLD_SERVER={id}"));
        assert_eq!(left, [], "of server {id}");
    }
}

/// What a run prints, for the test that looks on.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics while printing").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Printed {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics while printing")).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_about_two_everything_servers_hold() {
    let Some(program) = machine::installed(PROGRAM) else { return };
    let lines = include_str!("everything.jsonl");
    // A process of its own would search PATH; this one cannot change its own.
    let lines = lines.replace(&format!("{PROGRAM:?}"), &json!(program).to_string());
    let printed = Printed::default();
    let run = driver::run(lines.as_bytes(), Box::new(printed.clone()), driver::Options::default());
    let ended = timeout(PATIENCE * 3, run).await.expect("the run ends").expect("it can print");
    assert_eq!(ended, driver::Ended::Held, "{}", printed.text());

    let states = printed.text().lines().filter_map(|line| state_of("b", line)).collect::<Vec<_>>();
    let alive: Vec<_> = states.iter().filter(|state| *state != "stopped").collect();
    assert_eq!(alive, ["connecting", "ready"], "b starts once: {states:?}");
}

/// What a line says that this server does, if it says so.
fn state_of(id: &str, line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let event = line.get("event").filter(|event| event["kind"] == "server_state" && event["server"] == id)?;
    event["state"].as_str().map(str::to_owned)
}
