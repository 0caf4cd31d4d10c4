//! The program from outside: what it says and how it ends.

use std::io::{BufRead, Read, Write};
use std::process::{Command, Output, Stdio};

/// Runs `pilothouse-harness peer` with these arguments and this input.
fn peer(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pilothouse-harness"))
        .arg("peer")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that refuses its arguments reads nothing.
    let _gone = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("the program ends")
}

fn check(arguments: &[&str], input: &str, code: i32, out: &str, complaint: &str) {
    let Output { status, stdout, stderr } = peer(arguments, input);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!((status.code(), stdout.as_ref()), (Some(code), out), "{arguments:?}: {stderr}");
    assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
}

const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
const PONG: &str = "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}\n";

#[test]
fn a_peer_serves_its_script_on_the_standard_streams() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let path = directory.path().join("script.json");
    std::fs::write(&path, r#"{"tools": [{"name": "a"}]}"#).expect("the file can be written");
    let file = path.to_string_lossy();
    check(&["{}", "--stdio"], PING, 0, PONG, "");
    check(&[&file], PING, 0, PONG, "");
}

#[test]
fn a_peer_ends_with_its_fault_while_its_input_stays_open() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pilothouse-harness"))
        .args(["peer", r#"{"faults": [{"exit_after": 1}]}"#])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("the input is a pipe");
    stdin.write_all(PING.as_bytes()).expect("the program reads");
    let Output { status, stdout, .. } = child.wait_with_output().expect("the program ends");
    assert_eq!((status.code(), String::from_utf8_lossy(&stdout).as_ref()), (Some(0), PONG));
    drop(stdin);
}

#[test]
fn wrong_arguments_end_with_two_and_the_reason() {
    check(&["{}", "--http", "127.0.0.1:0", "--sse", "127.0.0.1:0"], "", 2, "", "cannot be used with");
    check(&["{}", "--http", "nowhere"], "", 2, "", "the peer cannot listen at nowhere");
    check(&["/no/such/file"], "", 2, "", "the script \"/no/such/file\" cannot be read");
    check(&["{\"tool\": []}"], "", 2, "", "unknown field `tool`");
    check(&["{"], "", 2, "", "the peer's script is wrong at `.`");
    check(&[], "", 2, "", "<SCRIPT>");
}

/// A peer whose pipes are held, so that its end is seen.
struct Running {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

impl Running {
    fn new(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pilothouse-harness"))
            .arg("peer")
            .args(arguments)
            .env("PEER_SECRET", "hush")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = std::io::BufReader::new(child.stdout.take().expect("the output is a pipe"));
        Self { child, out }
    }

    fn send(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("the input is a pipe");
        stdin.write_all(line.as_bytes()).expect("the program reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("the output can be read");
        line
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().expect("the errors are a pipe");
        stderr.read_to_string(&mut text).expect("the errors can be read");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn faults_of_a_process_are_those_of_a_real_one() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let pid = directory.path().join("pid");
    let script = serde_json::json!({"tools": [{"name": "a"}], "faults": [
        {"ignore_eof": true}, {"ignore_sigterm": true},
        {"grandchild": {"seconds": 600, "pid_file": pid}}]});
    let mut peer = Running::new(&[&script.to_string()]);
    peer.send(PING);
    assert_eq!(peer.line(), PONG);
    let group = |pid: u32| nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process id fits"));
    let grandchild: u32 =
        std::fs::read_to_string(&pid).expect("it is written").trim().parse().expect("it is a number");
    assert!(nix::sys::signal::kill(group(grandchild), None).is_ok(), "the grandchild lives");
    drop(peer.child.stdin.take());
    nix::sys::signal::kill(group(peer.child.id()), nix::sys::signal::Signal::SIGTERM)
        .expect("it can be told");
    // Nothing can be waited for here: that it is still there after a while is the point.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(peer.child.try_wait().expect("it can be asked").is_none(), "it ignores both");
    nix::sys::signal::kill(group(grandchild), nix::sys::signal::Signal::SIGKILL).expect("it can be ended");
}

#[test]
fn words_on_standard_error_and_the_exit_status_are_the_scripts() {
    let script = r#"{"tools": [{"name": "a"}], "faults": [{"stderr": {"kib": 3}},
        {"echo_secret": {"env": "PEER_SECRET", "in": "stderr"}}, {"exit": {"on": {"method": "call", "nth": 2}, "status": 7}}]}"#;
    let mut peer = Running::new(&[script]);
    let call = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n";
    peer.send(call);
    assert!(peer.line().contains("done"), "the first call is answered");
    peer.send(call);
    let told = peer.stderr();
    assert_eq!((told.lines().filter(|line| line.len() == 63).count(), told.contains("hush\n")), (48, true));
    assert_eq!(peer.child.wait().expect("it ends").code(), Some(7));
}

#[test]
fn a_peer_listens_where_it_says_and_ends_with_its_fault() {
    for (kind, path) in [("--http", "/mcp"), ("--sse", "/sse")] {
        let script = r#"{"tools": [{"name": "a"}], "http": {"sessions": false, "answers": "json"},
            "faults": [{"exit": {"on": "ping", "status": 5}}]}"#;
        let mut peer = Running::new(&[script, kind, "127.0.0.1:0"]);
        let url = peer.line();
        let address =
            url.trim().strip_prefix("http://").and_then(|url| url.strip_suffix(path)).expect("a URL");
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.write_all(b"GET /_peer HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
        let mut start = [0; 15];
        stream.read_exact(&mut start).expect("it answers");
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        if kind == "--http" {
            let ping = PING.trim();
            let text = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n\r\n{ping}", ping.len());
            stream.write_all(text.as_bytes()).expect("it reads");
            assert_eq!(peer.child.wait().expect("it ends").code(), Some(5));
        }
    }
}
