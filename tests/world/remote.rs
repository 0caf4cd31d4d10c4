//! Real servers behind HTTP, and programs that put others behind it: listed, called, restarted on their port, and
//! refusing.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::prelude::*;
use pilothouse::server::ServerState;
use pilothouse::{Runtime as Whole, ServerHandle};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::machine;

const PATIENCE: Duration = Duration::from_secs(60);

/// A port below those that the system gives away by itself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 18_000 + u16::try_from(std::process::id() % 5_000).unwrap_or_default();
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server that somebody else runs. It is killed with all that it started.
pub(crate) struct Elsewhere(pub(crate) Child);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let group = format!("kill -KILL -{}", self.0.id());
        // It may have ended by itself.
        let _ = Command::new("sh").args(["-c", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// One way to have a server behind HTTP; `PORT` and `MEMORY` in its words stand for the port and a program.
#[derive(Clone, Copy)]
struct Row {
    program: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    path: &'static str,
    host: &'static str,
    token: Option<&'static str>,
    tools: usize,
    call: Option<(&'static str, &'static str)>,
}

const PLAIN: Row = Row {
    program: "",
    args: &[],
    env: &[],
    path: "/mcp",
    host: "127.0.0.1",
    token: None,
    tools: 1,
    call: None,
};
const EVERYTHING: Row = Row {
    program: "mcp-server-everything",
    args: &["streamableHttp"],
    env: &[("PORT", "PORT")],
    tools: 13,
    call: Some(("echo", r#"{"message": "ahoy"}"#)),
    ..PLAIN
};
const PLAYWRIGHT: Row = Row {
    program: "playwright-mcp",
    args: &["--headless", "--port", "PORT"],
    host: "localhost",
    tools: 25,
    ..PLAIN
};
const NOTION: Row = Row {
    program: "notion-mcp-server",
    args: &["--transport", "http", "--port", "PORT", "--auth-token", "x"],
    env: &[("NOTION_TOKEN", "ntn_x")],
    token: Some("x"),
    tools: 24,
    ..PLAIN
};
const GRAPH: Option<(&str, &str)> = Some(("read_graph", "{}"));
const ROWS: [Row; 7] = [
    EVERYTHING,
    Row { args: &["sse"], path: "/sse", ..EVERYTHING },
    PLAYWRIGHT,
    NOTION,
    Row { program: "context7-mcp", args: &["--transport", "http", "--port", "PORT"], tools: 2, ..PLAIN },
    Row {
        program: "mcp-proxy",
        args: &["--host", "127.0.0.1", "--port", "PORT", "--", "MEMORY"],
        tools: 9,
        call: GRAPH,
        ..PLAIN
    },
    Row {
        program: "supergateway",
        args: &[
            "--stdio",
            "MEMORY",
            "--port",
            "PORT",
            "--outputTransport",
            "streamableHttp",
            "--streamableHttpPath",
            "/mcp",
        ],
        tools: 9,
        call: GRAPH,
        ..PLAIN
    },
];

impl Row {
    /// Both programs that it takes, if they are installed.
    fn installed(&self) -> Option<(PathBuf, PathBuf)> {
        Some((machine::installed(self.program)?, machine::installed("mcp-server-memory")?))
    }

    async fn start(&self, port: u16) -> Option<Elsewhere> {
        let (program, memory) = self.installed()?;
        let filled = |text: &str| match text {
            "PORT" => port.to_string(),
            "MEMORY" => memory.to_string_lossy().into_owned(),
            other => other.to_owned(),
        };
        let mut command = Command::new(program);
        command.args(self.args.iter().map(|arg| filled(arg))).env_remove("PORT");
        command.envs(self.env.iter().map(|(name, value)| (*name, filled(value))));
        let file = std::env::temp_dir().join(format!("pilothouse-world-{port}.jsonl"));
        command.env("MEMORY_FILE_PATH", file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let running = Elsewhere(command.spawn().expect("it starts"));
        let begun = Instant::now();
        while TcpStream::connect((self.host, port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "{} listens", self.program);
            sleep(Duration::from_millis(50)).await;
        }
        Some(running)
    }

    async fn connect(&self, port: u16, token: Option<&str>) -> (Whole, ServerHandle) {
        let url = format!("http://{}:{port}{}", self.host, self.path);
        let mut server = if self.path == "/sse" { Server::sse("a", url) } else { Server::http("a", url) };
        if let Some(token) = token {
            server = server.bearer(token);
        }
        if let Some((tool, _)) = self.call {
            server = server.effect(tool, Effect::Reads);
        }
        let runtime = Runtime::builder().server(server).start().await.expect("it starts");
        let handle = runtime.servers().pop().expect("a server");
        (runtime, handle)
    }

    async fn is_sound(&self, a: &ServerHandle) {
        let listing = a.warm(PATIENCE).await;
        assert!(listing.tools().len() >= self.tools, "{} {}: {:?}", self.program, self.path, a.view());
        if let Some((tool, arguments)) = self.call {
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            let result = a.call(tool, &arguments).await;
            assert_eq!(result.outcome, CallOutcome::Succeeded, "{} {}: {result:?}", self.program, self.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_gateways_behind_http_and_sse_are_listed_and_called() {
    for row in ROWS {
        let port = free_port();
        let Some(_running) = row.start(port).await else { return };
        let (runtime, a) = row.connect(port, row.token).await;
        row.is_sound(&a).await;
        assert!(runtime.shutdown().await.is_clean(), "{}", row.program);
    }
}

/// One says 400 of a session that it does not know, the other one 404.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_started_anew_on_its_port_is_found_again() {
    for row in [EVERYTHING, PLAYWRIGHT] {
        let port = free_port();
        let Some(running) = row.start(port).await else { return };
        let (runtime, a) = row.connect(port, row.token).await;
        row.is_sound(&a).await;
        drop(running);
        let Some(_again) = row.start(port).await else { return };
        let begun = Instant::now();
        // What uses the lost session is what finds out.
        while a.refresh().await.is_err() || a.view().restarts == 0 || a.view().state != ServerState::Ready {
            assert!(begun.elapsed() < PATIENCE, "{}: {:?}", row.program, a.view());
            sleep(Duration::from_millis(100)).await;
        }
        row.is_sound(&a).await;
        assert!(runtime.shutdown().await.is_clean(), "{}", row.program);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_token_says_so_and_is_left_alone() {
    let port = free_port();
    let Some(_running) = NOTION.start(port).await else { return };
    for token in [None, Some("wrong")] {
        let (runtime, a) = NOTION.connect(port, token).await;
        let begun = Instant::now();
        while a.view().state != ServerState::Failed {
            assert!(begun.elapsed() < PATIENCE, "{:?}", a.view());
            sleep(Duration::from_millis(20)).await;
        }
        let reason = a.view().reason.unwrap_or_default();
        assert!(reason.contains("give it a token") || reason.contains("does not allow"), "{reason}");
        let refused = a.call("API-get-self", &json!({})).await;
        assert_ne!(refused.outcome, CallOutcome::Succeeded);
        assert!(runtime.shutdown().await.is_clean());
    }
}
