//! Servers that are real processes and misbehave as only processes can, seen through a whole runtime.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::tree::RuntimeEvent;
use pilothouse::{Runtime as Whole, ServerHandle};
use pilothouse_harness::peer::{HttpKind, Peer, Script};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");
/// What a loaded machine may need.
const PATIENCE: Duration = Duration::from_secs(30);

/// A peer as a process; `mark` is in its environment and in that of all its children.
fn peer(mark: &str, script: &Value) -> Server {
    Server::stdio("a", PROGRAM)
        .args(["peer".to_owned(), script.to_string()])
        .env("PILOTHOUSE_TEST_MARK", mark)
        .effect("look", Effect::Reads)
}

fn look(faults: Value) -> Value {
    json!({"tools": [{"name": "look", "reply": "seen"}], "faults": faults})
}

async fn start(server: Server) -> (Whole, ServerHandle) {
    let runtime = Runtime::builder().server(server).start().await.expect("it starts");
    let handle = runtime.servers().pop().expect("a server");
    (runtime, handle)
}

/// Processes with this mark that run; zombies are no more.
fn alive(mark: &str) -> Vec<u32> {
    let mark = format!("PILOTHOUSE_TEST_MARK={mark}");
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids.filter(marked).filter(|pid| runs(*pid)).collect()
}

fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn becomes(what: &str, fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn is_seen(server: &ServerHandle) {
    let listing = timeout(PATIENCE, server.warm(PATIENCE)).await.expect("in time");
    assert_eq!(listing.tools().len(), 1, "{:?}", server.view());
    let result = server.call("look", &json!({})).await;
    assert_eq!((result.outcome, result.text().as_str()), (CallOutcome::Succeeded, "seen"));
}

#[tokio::test]
async fn a_restart_leaves_one_process_however_the_old_one_clings() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("grandchild");
    let child = json!({"grandchild": {"seconds": 600, "pid_file": file}});
    let script = look(json!([{"ignore_eof": true}, {"ignore_sigterm": true}, child]));
    let grandchild = || -> u32 {
        let text = std::fs::read_to_string(&file).expect("it is written");
        text.trim().parse().expect("it is a process id")
    };
    let (runtime, a) = start(peer("clings", &script)).await;
    is_seen(&a).await;
    for n in 1..=5 {
        let (before, old) = (alive("clings"), grandchild());
        assert!(runs(old) && before.contains(&old), "{before:?}");
        a.restart().await.expect("it is restarted");
        becomes("the next one is ready", || a.view().state == ServerState::Ready && a.view().restarts == n)
            .await;
        is_seen(&a).await;
        let left: Vec<_> = alive("clings").into_iter().filter(|pid| before.contains(pid)).collect();
        assert_eq!(left, Vec::<u32>::new(), "of the group before");
        assert_eq!(alive("clings").len(), before.len(), "as many as before");
    }
    let last = grandchild();
    let _ended = runtime.shutdown().await;
    assert_eq!(alive("clings"), Vec::<u32>::new());
    assert!(!runs(last));
}

#[tokio::test]
async fn the_next_process_starts_once_the_last_one_has_let_go() {
    if Command::new("flock").arg("--version").output().is_err() {
        println!("left out: there is no flock on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let lock = directory.path().join("lock");
    // Ends at once while anybody else holds the lock, as a database would.
    let script = look(json!([])).to_string();
    let server = Server::stdio("a", "flock").args([
        "--nonblock".to_owned(),
        lock.to_string_lossy().into_owned(),
        PROGRAM.to_owned(),
        "peer".to_owned(),
        script,
    ]);
    let (runtime, a) = start(server.env("PILOTHOUSE_TEST_MARK", "locks").effect("look", Effect::Reads)).await;
    is_seen(&a).await;
    let mut events = runtime.events();
    for n in 1..=5 {
        a.restart().await.expect("it is restarted");
        becomes("the next one is ready", || a.view().state == ServerState::Ready && a.view().restarts == n)
            .await;
        is_seen(&a).await;
    }
    assert!(runtime.shutdown().await.is_clean());
    assert_eq!(alive("locks"), Vec::<u32>::new());
    let mut failures = 0;
    while let Ok(Some(event)) = timeout(Duration::from_millis(100), events.next()).await {
        if let RuntimeEvent::Server(view) = event {
            failures += u32::from(view.state == ServerState::Backoff && view.attempt > 0);
        }
    }
    assert_eq!(failures, 0, "no start met the process before it");
}

#[tokio::test]
async fn a_server_that_never_greets_leaves_no_process_behind() {
    let script = look(json!([{"silence": "connect"}, {"ignore_eof": true}, {"ignore_sigterm": true}]));
    let server = peer("silent", &script).connect_timeout(Duration::from_millis(300));
    let (runtime, a) = start(server).await;
    becomes("it was tried again", || {
        assert!(alive("silent").len() <= 1, "{:?}", alive("silent"));
        a.view().attempt >= 3
    })
    .await;
    assert!(a.view().reason.is_some_and(|reason| reason.contains("no answer to the handshake")));
    let _ended = runtime.shutdown().await;
    becomes("the last one is gone", || alive("silent").is_empty()).await;
}

#[tokio::test]
async fn a_question_on_standard_output_is_shown_when_its_server_is_given_up() {
    let asks = "printf 'Need to install the package. Ok to proceed? (y) '; exec cat >/dev/null";
    let server = Server::stdio("a", "sh").args(["-c", asks]).env("PILOTHOUSE_TEST_MARK", "asks");
    let (runtime, a) = start(server.connect_timeout(Duration::from_millis(300))).await;
    becomes("it is given up", || a.view().state == ServerState::Backoff).await;
    let words = "(on its output, without a line break) Need to install the package. Ok to proceed? (y)";
    becomes("its question is shown", || a.view().stderr.iter().any(|line| line.trim_end() == words)).await;
    let _ended = runtime.shutdown().await;
    assert_eq!(alive("asks"), Vec::<u32>::new());
}

#[tokio::test]
async fn words_on_standard_error_hold_up_nothing_and_are_kept_within_a_bound() {
    let rows = [
        ("before the first word", json!([{"stderr": {"kib": 200}}])),
        ("in a call", json!([{"stderr": {"kib": 1_024, "on": "call"}}])),
        ("one line without end", json!([{"stderr": {"kib": 51_200, "no_newline": true}}])),
    ];
    for (what, faults) in rows {
        let (runtime, a) = start(peer("talks", &look(faults))).await;
        is_seen(&a).await;
        let view = a.view();
        let kept: usize = view.stderr.iter().map(String::len).sum();
        assert!(kept <= 80 << 10, "{what}: {kept} bytes");
        assert!(what == "one line without end" || kept > 0, "{what}: the last words are kept");
        assert_eq!((view.state, view.restarts), (ServerState::Ready, 0), "{what}");
        assert!(runtime.shutdown().await.is_clean(), "{what}");
    }
}

/// Where the next test's server is, for the process that it starts.
const URL: &str = "PILOTHOUSE_TEST_URL";

/// Not a test: the body of a process behind a proxy.
#[tokio::test]
async fn a_process_that_calls_a_server() {
    let Ok(url) = std::env::var(URL) else { return };
    let (_runtime, a) = start(Server::http("a", url).effect("look", Effect::Reads)).await;
    is_seen(&a).await;
}

/// A process cannot change its own environment, so another one calls the server.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_asked_for_servers_on_this_machine() {
    let script = Script::try_from(look(json!([]))).expect("the script is one");
    let offering = Peer::new(script);
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let http = offering.listen(address, HttpKind::Streamable).await.expect("it listens");
        let url = http.url();
        let calling = tokio::task::spawn_blocking(move || behind_a_proxy(&url));
        let (ended, words) = timeout(PATIENCE, calling).await.expect("in time").expect("it runs");
        assert!(ended, "{address}: {words}");
    }
    assert_eq!(offering.executions("look"), 2);
}

fn behind_a_proxy(url: &str) -> (bool, String) {
    let mut program = Command::new(std::env::current_exe().expect("this program has a path"));
    program.args(["a_process_that_calls_a_server", "--exact", "--nocapture"]).env(URL, url);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        program.env(name, "http://127.0.0.1:1");
    }
    let output = program.output().expect("the program starts");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How the next process ends, and where it keeps its data.
const END: &str = "PILOTHOUSE_TEST_END";
const DATA: &str = "PILOTHOUSE_TEST_DATA";

/// Not a test: the body of a process that embeds a runtime and ends in one way or another.
#[test]
fn a_process_that_ends() {
    let (Ok(end), Ok(data)) = (std::env::var(END), std::env::var(DATA)) else { return };
    // It clings as well as it can, and so does its child.
    let script =
        look(json!([{"ignore_eof": true}, {"ignore_sigterm": true}, {"grandchild": {"seconds": 600}}]));
    let tokio = tokio::runtime::Runtime::new().expect("a Tokio runtime");
    let up = async || {
        let builder = Runtime::builder().data_dir(&data).server(peer(&format!("ends {data}"), &script));
        let runtime = builder.start().await.expect("it starts");
        let a = runtime.servers().pop().expect("a server");
        is_seen(&a).await;
        (runtime, a)
    };
    match end.as_str() {
        "shutdown" => tokio.block_on(async { drop(up().await.0.shutdown().await) }),
        "drop" => tokio.block_on(async {
            drop(up().await);
            // Whoever drops the last handle does not wait; the runtime does its work while Tokio runs.
            sleep(Duration::from_secs(8)).await;
        }),
        "drop of tokio" => {
            let held = tokio.block_on(up());
            drop(tokio);
            drop(held);
        }
        "panic" => tokio.block_on(async {
            let _held = up().await;
            panic!("as embedders do");
        }),
        "kill" => tokio.block_on(async {
            let _held = up().await;
            println!("up");
            std::future::pending::<()>().await;
        }),
        other => panic!("{other:?} is no end"),
    }
}

fn process_that(end: &str, data: &std::path::Path) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("this program has a path"));
    program.args(["a_process_that_ends", "--exact", "--nocapture"]).env(END, end).env(DATA, data);
    program
}

#[tokio::test]
async fn however_the_process_of_an_embedder_ends_none_of_its_servers_is_left() {
    for end in ["shutdown", "drop", "drop of tokio", "panic"] {
        let data = tempfile::tempdir().expect("a directory");
        let mark = format!("ends {}", data.path().display());
        let mut program = process_that(end, data.path());
        let output = tokio::task::spawn_blocking(move || program.output()).await.expect("it runs");
        let output = output.expect("the program starts");
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.success(), end != "panic", "{end}: {words}");
        assert!(words.contains("1 passed") == (end != "panic"), "{end}: {words}");
        becomes(&format!("{end}: none is left"), || alive(&mark).is_empty()).await;
    }
}

#[tokio::test]
async fn what_a_killed_process_leaves_is_ended_by_the_next_start() {
    use std::io::{BufRead, BufReader};
    let data = tempfile::tempdir().expect("a directory");
    let mark = format!("ends {}", data.path().display());
    let mut killed =
        process_that("kill", data.path()).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(killed.stdout.take().expect("its output"));
    let up = tokio::task::spawn_blocking(move || {
        said.lines().map_while(Result::ok).any(|line| line.contains("up"))
    });
    assert!(timeout(PATIENCE, up).await.expect("in time").expect("it runs"));
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let left = alive(&mark);
    assert!(!left.is_empty(), "a server that clings outlives its host");

    let mut next = process_that("shutdown", data.path());
    let output =
        tokio::task::spawn_blocking(move || next.output()).await.expect("it runs").expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(alive(&mark), Vec::<u32>::new(), "of {left:?}, and of its own");
}
