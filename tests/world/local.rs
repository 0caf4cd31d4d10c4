//! Many real servers at once over their standard streams: listed, called, frozen, and failing in their own ways.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::{Runtime as Whole, ServerHandle};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::machine;

/// What a machine that starts them all at once may need.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server answers one call.
#[derive(Clone, Copy)]
enum Says {
    /// It succeeds with these words in it.
    Words(&'static str),
    /// It refuses: without a network, a key or arguments it can do nothing.
    No,
}

use Says::{No, Words};

struct Row {
    program: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    tools: usize,
    call: (&'static str, Value),
    says: Says,
}

fn row(program: &'static str, tools: usize, tool: &'static str, arguments: Value, says: Says) -> Row {
    Row { program, args: &[], env: &[], tools, call: (tool, arguments), says }
}

impl Row {
    fn args(self, args: &'static [&'static str]) -> Self {
        Self { args, ..self }
    }

    fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }
}

/// The servers, and for each a call that needs no network. `DIR` stands for a directory of the test's own.
fn rows() -> Vec<Row> {
    let thought = json!({"thought": "x", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    vec![
        row("mcp-server-everything", 13, "echo", json!({"message": "ahoy"}), Words("ahoy")).args(&["stdio"]),
        row("mcp-server-filesystem", 14, "list_allowed_directories", json!({}), Words("Allowed"))
            .args(&["DIR"]),
        row("mcp-server-memory", 9, "read_graph", json!({}), Words("entities"))
            .env(&[("MEMORY_FILE_PATH", "DIR/memory.jsonl")]),
        row("mcp-server-sequential-thinking", 1, "sequentialthinking", thought, Words("thoughtNumber")),
        row("context7-mcp", 2, "resolve-library-id", json!({}), No),
        row("notion-mcp-server", 24, "API-get-user", json!({}), No).env(&[("NOTION_TOKEN", "ntn_x")]),
        row("playwright-mcp", 25, "browser_navigate", json!({}), No).args(&["--headless"]),
        row("mcp-server-brave-search", 2, "brave_web_search", json!({}), No).env(&[("BRAVE_API_KEY", "x")]),
        row("mcp-server-github", 26, "search_repositories", json!({}), No)
            .env(&[("GITHUB_PERSONAL_ACCESS_TOKEN", "x")]),
        row("mcp-server-gitlab", 9, "search_repositories", json!({}), No)
            .env(&[("GITLAB_PERSONAL_ACCESS_TOKEN", "x")]),
        row("mcp-server-slack", 8, "slack_post_message", json!({}), No)
            .env(&[("SLACK_BOT_TOKEN", "xoxb-x"), ("SLACK_TEAM_ID", "T0")]),
        row("mcp-server-google-maps", 7, "maps_distance_matrix", json!({}), No)
            .env(&[("GOOGLE_MAPS_API_KEY", "x")]),
        row("mcp-server-postgres", 1, "query", json!({"sql": "select 1"}), No)
            .args(&["postgresql://localhost:5999/x"]),
        row("mcp-server-puppeteer", 7, "puppeteer_navigate", json!({}), No),
        row("mcp-server-time", 2, "get_current_time", json!({"timezone": "UTC"}), Words("UTC"))
            .args(&["--local-timezone", "UTC"]),
        row("mcp-server-git", 12, "git_status", json!({"repo_path": "DIR"}), Words("branch"))
            .args(&["--repository", "DIR"]),
        row("mcp-server-fetch", 1, "fetch", json!({}), No),
    ]
}

fn in_directory(text: &str, directory: &Path) -> String {
    text.replace("DIR", &directory.to_string_lossy())
}

fn definition(row: &Row, program: &Path, directory: &Path) -> Server {
    let args = row.args.iter().map(|arg| in_directory(arg, directory));
    let server = Server::stdio(row.program, program.to_string_lossy())
        .args(args)
        .env("PILOTHOUSE_WORLD_SERVER", row.program)
        .effect(row.call.0, Effect::Reads)
        .call_timeout(Duration::from_secs(30));
    row.env.iter().fold(server, |server, (name, value)| server.env(*name, in_directory(value, directory)))
}

fn handle(runtime: &Whole, id: &str) -> ServerHandle {
    let found = runtime.servers().into_iter().find(|server| server.id().as_str() == id);
    found.unwrap_or_else(|| panic!("{id} is defined"))
}

async fn until(what: &str, server: &ServerHandle, holds: impl Fn(&ServerHandle) -> bool) {
    let begun = Instant::now();
    while !holds(server) {
        assert!(begun.elapsed() < PATIENCE, "in {PATIENCE:?}: {what}: {:?}", server.view());
        sleep(Duration::from_millis(20)).await;
    }
}

fn assert_says(program: &str, result: &CallResult, says: Says) {
    match says {
        Words(words) => {
            assert_eq!(result.outcome, CallOutcome::Succeeded, "{program}: {result:?}");
            assert!(result.text().contains(words), "{program}: {result:?}");
        }
        No => assert!(
            matches!(result.outcome, CallOutcome::Failed | CallOutcome::Rejected),
            "{program} says no, or its schema does, and why: {result:?}"
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seventeen_servers_of_npm_and_pypi_are_listed_and_answer_side_by_side() {
    let directory = tempfile::tempdir().expect("a directory");
    let init = Command::new("git").arg("init").arg("--quiet").arg(directory.path()).status();
    assert!(init.is_ok_and(|status| status.success()), "git makes a repository");
    let mut builder = Runtime::builder();
    for row in rows() {
        let Some(program) = machine::installed(row.program) else { return };
        builder = builder.server(definition(&row, &program, directory.path()));
    }
    let runtime = builder.start().await.expect("it starts");
    for row in rows() {
        let server = handle(&runtime, row.program);
        let listing = server.warm(PATIENCE).await;
        assert!(listing.tools().len() >= row.tools, "{}: {:?}", row.program, server.view());
        let arguments: Value = serde_json::from_str(&in_directory(&row.call.1.to_string(), directory.path()))
            .expect("still JSON");
        assert_says(row.program, &server.call(row.call.0, &arguments).await, row.says);
        assert_eq!((server.view().state, server.view().restarts), (ServerState::Ready, 0), "{}", row.program);
    }
    assert!(runtime.shutdown().await.is_clean());
    let left: Vec<_> = rows()
        .iter()
        .flat_map(|row| {
            machine::children(std::process::id(), &format!("PILOTHOUSE_WORLD_SERVER={}", row.program))
        })
        .collect();
    assert_eq!(left, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_its_own_callers_only_and_is_called_again_once_it_goes_on() {
    let Some(program) = machine::installed("mcp-server-memory") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = |id: &str| {
        let file = directory.path().join(id);
        Server::stdio(id, program.to_string_lossy())
            .env("MEMORY_FILE_PATH", file.to_string_lossy())
            .env("PILOTHOUSE_WORLD_SERVER", format!("frozen-{id}"))
            .effect("read_graph", Effect::Reads)
            .call_timeout(Duration::from_secs(2))
    };
    let runtime =
        Runtime::builder().server(server("a")).server(server("b")).start().await.expect("it starts");
    runtime.warm(PATIENCE).await;
    let (a, b) = (handle(&runtime, "a"), handle(&runtime, "b"));
    let [process] = machine::children(std::process::id(), "PILOTHOUSE_WORLD_SERVER=frozen-a")[..] else {
        panic!("a has one process")
    };
    process.freeze();
    let begun = Instant::now();
    let outcome = a.call("read_graph", &json!({})).await.outcome;
    let took = begun.elapsed();
    let fine = b.call("read_graph", &json!({})).await;
    process.thaw();
    assert!(matches!(outcome, CallOutcome::TimedOut | CallOutcome::Unknown), "{outcome:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(fine.outcome, CallOutcome::Succeeded, "{fine:?}");
    let begun = Instant::now();
    while a.call("read_graph", &json!({})).await.outcome != CallOutcome::Succeeded {
        assert!(begun.elapsed() < PATIENCE, "{:?}", a.view());
        sleep(Duration::from_millis(100)).await;
    }
    assert!(runtime.shutdown().await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_backend_and_one_that_cannot_be_imported_say_so_and_delay_nobody() {
    let programs = ["mcp-server-redis", "mcp-server-sqlite", "mcp-server-memory"].map(machine::installed);
    let [Some(redis), Some(sqlite), Some(memory)] = programs else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("memory");
    let runtime = Runtime::builder()
        .server(
            Server::stdio("waits", redis.to_string_lossy())
                .arg("redis://localhost:6399")
                .env("PILOTHOUSE_WORLD_SERVER", "waits")
                .connect_timeout(Duration::from_secs(3)),
        )
        .server(
            Server::stdio("broken", sqlite.to_string_lossy()).arg("--db-path").arg(file.to_string_lossy()),
        )
        .server(
            Server::stdio("sound", memory.to_string_lossy())
                .env("MEMORY_FILE_PATH", file.to_string_lossy())
                .effect("read_graph", Effect::Reads),
        )
        .start()
        .await
        .expect("it starts");
    let sound = handle(&runtime, "sound");
    sound.warm(PATIENCE).await;
    assert_eq!(sound.call("read_graph", &json!({})).await.outcome, CallOutcome::Succeeded);
    let said = |words: &'static str| {
        move |server: &ServerHandle| server.view().reason.is_some_and(|reason| reason.contains(words))
    };
    let waits = handle(&runtime, "waits");
    until("it is given up", &waits, said("no answer to the handshake")).await;
    let broken = handle(&runtime, "broken");
    until("it is told what Python said", &broken, said("Error")).await;
    assert!(broken.view().stderr.iter().any(|line| line.contains("Error")), "{:?}", broken.view());
    let _ended = runtime.shutdown().await;
    let left = machine::children(std::process::id(), "PILOTHOUSE_WORLD_SERVER=waits");
    assert_eq!(left, []);
}
