//! What only child processes do: start, fail to start, leave children, and die.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pilothouse_adapters::mcp::StdioConnector;
use pilothouse_adapters::server::Connector;
use pilothouse_messages::error::{ConnectError, RequestError};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::{ServerDefinition, Transport};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::script::{KEY, SCRIPT};
use super::{
    becomes, call, child, definition, ended, is_gone, open, outside, pid, prepared, refused, runs_no_more,
    terms, text,
};

#[tokio::test]
async fn a_program_that_cannot_start_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("plain"), "no program").unwrap();
    std::fs::write(path("orphan"), "#!/no/such/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path("orphan"), executable).unwrap();

    let searched = std::env::var("PATH").unwrap();
    let rows = [
        (String::new(), None, "the command is empty; name a program: No such file or directory (os error 2)".to_owned()),
        ("pilothouse-no-such-program".to_owned(), None, format!("no such program in any directory of PATH ({searched}); install it, or name it by its full path: No such file or directory (os error 2)")),
        ("pilothouse-no-such-program".to_owned(), Some(directory.path().to_owned()), format!("no such program in any directory of PATH ({searched}); install it, or name it by its full path (in the working directory {}): No such file or directory (os error 2)", directory.path().display())),
        (path("absent"), None, "no such file; install it, or correct the path: No such file or directory (os error 2)".to_owned()),
        (path("orphan"), None, "the file exists, but what should run it does not; install the interpreter that its first line names: No such file or directory (os error 2)".to_owned()),
        (path("plain"), None, "it may not be run; make it executable for this user, and its directories readable: Permission denied (os error 13)".to_owned()),
        ("true".to_owned(), Some(PathBuf::from("/no/such/place")), "the working directory /no/such/place does not exist or is no directory; create it, or change the definition (in the working directory /no/such/place): No such file or directory (os error 2)".to_owned()),
    ];
    for (command, cwd, reason) in rows {
        let connector = StdioConnector::new(&definition(&command, &[], "", cwd), &Limits::default());
        let error = refused(&connector).await;
        assert!(error.is_permanent());
        assert_eq!(error, ConnectError::Spawn { command, reason });
    }
}

#[tokio::test]
async fn a_definition_of_a_server_in_memory_starts_no_process() {
    let limits = Limits::default();
    let in_memory =
        ServerDefinition::new(ServerId::new("m").unwrap(), Transport::InMemory { label: "m".to_owned() });
    assert!(refused(&StdioConnector::new(&in_memory, &limits)).await.is_permanent());
}

#[tokio::test]
async fn a_connect_that_is_dropped_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let connector = outside(&format!("silent {}", file.display()));
    let (notices, _noticed) = mpsc::channel(1);
    let connecting = connector.connect(terms(notices));
    let started =
        becomes("the server has started", || std::fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty()));
    tokio::select! {
        _ = connecting => panic!("a silent server does not greet"),
        () = started => {}
    }
    let pid = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    becomes("the process is gone", || is_gone(pid)).await;
}

#[tokio::test]
async fn a_close_that_nobody_waits_for_goes_on() {
    let (link, _noticed) = open(&prepared("deaf", "trap '' TERM;")).await;
    let pid = pid(&*link).await;
    assert!(timeout(Duration::from_millis(10), link.close(Duration::from_millis(60))).await.is_err());
    becomes("the process is gone", || is_gone(pid)).await;
    assert_eq!(link.ended().await, "closed");
}

/// The script, with a child of its own that outlives it.
fn with_grandchild() -> (StdioConnector, Grandchild) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let connector = prepared("plain", &format!("sleep 1000 & echo $! > {};", file.display()));
    (connector, Grandchild { file, _directory: directory })
}

struct Grandchild {
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Grandchild {
    /// The one of the last connection.
    fn pid(&self) -> u32 {
        std::fs::read_to_string(&self.file).unwrap().trim().parse().unwrap()
    }
}

/// A shell that greets as a legacy server and goes on with these commands.
fn shell(commands: &str) -> StdioConnector {
    let error = json!({"code": -32601, "message": "method not found"});
    let refusal = json!({"jsonrpc": "2.0", "id": 0, "error": error});
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "sh", "version": "1"},
    }});
    let greets = format!("read line; echo '{refusal}'; read line; echo '{greeting}'; read line;");
    child("sh", &["-c", &format!("{greets} {commands}")], "")
}

#[tokio::test]
async fn grandchildren_die_with_their_group() {
    let (connector, grandchild) = with_grandchild();
    let (link, _noticed) = open(&connector).await;
    let (leader, child) = (pid(&*link).await, grandchild.pid());
    assert!(!runs_no_more(child));
    link.kill();
    assert_eq!(call(&*link, "echo", json!({})).await, ended("killed"));
    becomes("the group is gone", || is_gone(leader) && runs_no_more(child)).await;

    let (link, _noticed) = open(&connector).await;
    let (leader, child) = (pid(&*link).await, grandchild.pid());
    link.close(Duration::from_secs(3)).await;
    assert!(
        is_gone(leader) && runs_no_more(child),
        "the leader left at the end of its input, its child did not"
    );

    let (link, _noticed) = open(&connector).await;
    let (leader, child) = (pid(&*link).await, grandchild.pid());
    assert_eq!(text(&*link, "answers and dies").await, "last answer");
    assert_eq!(link.ended().await, "exited with status 0");
    assert!(
        is_gone(leader) && runs_no_more(child),
        "a child that holds the output does not keep the connection up"
    );
}

#[tokio::test]
async fn a_process_that_closes_its_output_but_lives_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let closes = format!("echo $$ > {}; read line; echo closing >&2; exec >&-; sleep 1000", file.display());
    let (link, _noticed) = open(&shell(&closes)).await;
    let start = Instant::now();
    assert_eq!(call(&*link, "hangs", json!({})).await, ended("closed its output; its last words: closing"));
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    let pid = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    becomes("the process is gone", || is_gone(pid)).await;
}

#[tokio::test]
async fn a_process_that_is_killed_from_outside_says_so() {
    let (link, _noticed) = open(&outside("plain")).await;
    let pid = pid(&*link).await;
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert_eq!(timeout(Duration::from_secs(1), link.ended()).await.expect("in time"), "killed by signal 9");
}

#[tokio::test]
async fn stderr_is_kept_over_connections() {
    let connector = prepared("plain", "echo started >&2;");
    for connections in 1..=2 {
        let (link, _noticed) = open(&connector).await;
        becomes("the line is there", || connector.stderr() == vec!["started"; connections]).await;
        link.kill();
    }
}

#[tokio::test]
async fn a_secret_that_a_server_tells_is_shown_nowhere() {
    let connector = outside("plain");
    let (link, _noticed) = open(&connector).await;
    let told = RequestError::Server { code: -32000, message: "<secret> is no key".to_owned() };
    assert_eq!(call(&*link, "tells its secret", json!({})).await, Err(told));
    let reason = "exited with status 4; its last words: cannot use <secret>";
    assert_eq!(call(&*link, "dies of its secret", json!({})).await, ended(reason));
    assert_eq!(link.ended().await, reason);
    assert_eq!(connector.stderr(), ["invalid API key <secret>", "cannot use <secret>"]);
    let reason = "the server answered error -32000: no account for <secret>; lines";
    let ConnectError::Handshake { reason: said } = refused(&outside("telling")).await else {
        panic!("it was a handshake");
    };
    assert!(said.starts_with(reason), "{said}");
}

#[tokio::test]
async fn a_process_gets_the_base_list_and_what_is_declared() {
    let base =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", SCRIPT, KEY];
    let (link, _noticed) = open(&outside("plain")).await;
    let names: Vec<String> = serde_json::from_str(&text(&*link, "environment").await).unwrap();
    let foreign: Vec<_> = names
        .iter()
        .filter(|name| {
            !base.contains(&name.as_str()) && !name.starts_with("LC_") && !name.starts_with("XDG_")
        })
        .collect();
    assert_eq!(foreign, Vec::<&String>::new());
    assert!(names.iter().any(|name| name == SCRIPT) && names.iter().any(|name| name == "PATH"));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something that could leak");
}

#[test]
fn a_connection_may_be_dropped_anywhere() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (connector, grandchild) = with_grandchild();
    let start = || {
        runtime.block_on(async {
            let (link, _noticed) = open(&connector).await;
            let pid = pid(&*link).await;
            (link, pid, grandchild.pid())
        })
    };
    let (while_it_runs, leader, child) = start();
    std::thread::spawn(move || drop(while_it_runs)).join().unwrap();
    runtime.block_on(becomes("the group is gone", || is_gone(leader) && runs_no_more(child)));

    let (outlives, leader, child) = start();
    drop(runtime);
    let dropped = Instant::now();
    while !(runs_no_more(leader) && runs_no_more(child)) {
        assert!(dropped.elapsed() < Duration::from_secs(2), "the runtime takes its process groups along");
        std::thread::sleep(Duration::from_millis(2));
    }
    outlives.kill();
    drop(outlives);
}

#[tokio::test]
async fn a_server_that_closes_its_output_first_may_finish_within_the_grace() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("finished");
    let finish = format!("while read line; do :; done; exec >&-; sleep 0.3; echo > {}", file.display());
    let (link, _noticed) = open(&shell(&finish)).await;
    link.close(Duration::from_secs(30)).await;
    assert!(file.exists());
}

/// What a connector noted, in order.
#[derive(Default)]
struct Notebook(std::sync::Mutex<Vec<(&'static str, u32)>>);

impl Notebook {
    fn lines(&self) -> Vec<(&'static str, u32)> {
        self.0.lock().unwrap().clone()
    }
}

impl pilothouse_adapters::server::ProcessNotes for Notebook {
    fn started(
        &self,
        process: pilothouse_messages::process::ProcessMark,
    ) -> pilothouse_adapters::BoxFuture<'_, ()> {
        assert!(pilothouse_adapters::process::runs(&process));
        self.0.lock().unwrap().push(("started", process.pid));
        Box::pin(std::future::ready(()))
    }

    fn ended(&self, process: &pilothouse_messages::process::ProcessMark) {
        self.0.lock().unwrap().push(("ended", process.pid));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_is_noted_before_it_is_greeted_and_until_it_is_gone() {
    let (connector, notebook) = (prepared("plain", ""), std::sync::Arc::new(Notebook::default()));
    connector.note_processes(notebook.clone());
    let (link, _noticed) = open(&connector).await;
    let polite = pid(&*link).await;
    assert_eq!(notebook.lines(), [("started", polite)]);
    link.close(Duration::from_secs(3)).await;
    becomes("the note is removed", || notebook.lines() == [("started", polite), ("ended", polite)]).await;
    assert!(is_gone(polite));

    let (link, _noticed) = open(&connector).await;
    let dropped = pid(&*link).await;
    drop(link);
    let lines = [("started", polite), ("ended", polite), ("started", dropped), ("ended", dropped)];
    becomes("the note is removed", || notebook.lines() == lines).await;
}
