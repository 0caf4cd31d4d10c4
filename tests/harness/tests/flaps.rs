//! Servers that flap: a thousand lives later there is no process, task or descriptor more than before.
//!
//! `PILOTHOUSE_FLAPS=full` runs a thousand flaps over stdio and a hundred over HTTP; without it there are fewer.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::limits::Limits;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::{Runtime as Whole, ServerHandle};
use pilothouse_harness::peer::{HttpKind, HttpPeer, Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");
/// What a loaded machine may need.
const PATIENCE: Duration = Duration::from_secs(30);

/// Few flaps, or as many as are promised.
fn flaps(few: usize, full: usize) -> usize {
    if std::env::var("PILOTHOUSE_FLAPS").is_ok_and(|size| size == "full") { full } else { few }
}

fn script() -> Value {
    json!({"tools": [{"name": "look", "reply": "seen"}]})
}

/// What this process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Has {
    descriptors: usize,
    children: usize,
    tasks: usize,
}

impl Has {
    fn now() -> Self {
        let mine = |entry: &str| std::fs::read_dir(entry).map(Iterator::count).unwrap_or_default();
        Self {
            descriptors: mine("/proc/self/fd"),
            children: children().len(),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }
}

/// The children of this process, those that nobody has reaped included.
fn children() -> Vec<i32> {
    let me = i32::try_from(std::process::id()).expect("an id");
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(me)).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Resident memory, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it says so");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

async fn becomes(what: &str, fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Has as much as before, once whatever is on its way out is gone.
async fn is_back_to(before: Has) {
    let begun = Instant::now();
    loop {
        let now = Has::now();
        if now.descriptors <= before.descriptors
            && now.children <= before.children
            && now.tasks <= before.tasks
        {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{now:?} instead of {before:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn start(server: Server) -> (Whole, ServerHandle) {
    let mut limits = Limits::default();
    // So that time goes into flaps, and not into waiting between them.
    (limits.backoff_first, limits.backoff_max) = (Duration::from_millis(1), Duration::from_millis(20));
    limits.restart_budget = u32::MAX;
    let server = server.effect("look", Effect::Reads);
    let runtime = Runtime::builder().server(server).limits(limits).start().await.expect("it starts");
    let handle = runtime.servers().pop().expect("a server");
    becomes("it is ready", || handle.view().state == ServerState::Ready).await;
    (runtime, handle)
}

async fn is_seen(server: &ServerHandle) {
    server.warm(PATIENCE).await;
    let result = server.call("look", &json!({})).await;
    assert_eq!((result.outcome, result.text().as_str()), (CallOutcome::Succeeded, "seen"));
}

/// Flaps as often as `flap` is told to, and holds what is promised.
async fn check<F: Future<Output = ()>>(
    server: &ServerHandle,
    times: usize,
    mut flap: impl FnMut(usize) -> F,
) {
    let (warm_up, half) = (times / 10, times / 2);
    let (mut before, mut at_half) = (Has::now(), 0);
    is_seen(server).await;
    for n in 1..=times {
        let restarts = server.view().restarts;
        flap(n).await;
        becomes("it is back", || {
            let view = server.view();
            view.state == ServerState::Ready && view.restarts > restarts
        })
        .await;
        is_seen(server).await;
        if n == warm_up {
            sleep(Duration::from_millis(500)).await;
            before = Has::now();
        }
        if n == half {
            at_half = resident();
        }
    }
    is_back_to(before).await;
    let (grown, last) = (resident().saturating_sub(at_half), times - half);
    println!("{times} flaps: {before:?}, {grown} KiB more over the last {last}");
    // An allocator keeps a page here and there, which few flaps do not spread thin.
    assert!(grown <= last.max(512), "{grown} KiB more over the last {last} flaps");
}

/// One test, so that what one server has is not counted with the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_flap_leave_nothing_behind() {
    let server = Server::stdio("a", PROGRAM).args(["peer".to_owned(), script().to_string()]);
    let (runtime, a) = start(server).await;
    check(&a, flaps(60, 1_000), |n| flap_of_a_process(&a, n)).await;
    assert!(runtime.shutdown().await.is_clean());
    assert_eq!(children(), Vec::<i32>::new());

    let offering: Arc<Peer> = Peer::new(Script::try_from(script()).expect("the script is one"));
    let http = offering.listen("127.0.0.1:0", HttpKind::Streamable).await.expect("it listens");
    let (runtime, a) = start(Server::http("a", http.url())).await;
    check(&a, flaps(20, 100), |n| flap_behind_http(&a, &http, n)).await;
    assert!(runtime.shutdown().await.is_clean());
}

/// Now by a word, now by a kill.
async fn flap_of_a_process(a: &ServerHandle, n: usize) {
    if n.is_multiple_of(2) {
        return a.restart().await.expect("it is restarted");
    }
    for pid in children() {
        let killed =
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        assert_eq!(killed, Ok(()));
    }
}

/// Now by a word, now since the server has forgotten the session.
async fn flap_behind_http(a: &ServerHandle, http: &HttpPeer, n: usize) {
    if n.is_multiple_of(2) {
        return a.restart().await.expect("it is restarted");
    }
    http.forget_sessions();
    let result = a.call("look", &json!({})).await;
    assert_ne!(result.outcome, CallOutcome::Succeeded, "{result:?}");
}
