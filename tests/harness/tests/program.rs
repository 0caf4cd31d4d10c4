//! The program from outside: what it says and how it ends.

use std::io::Write;
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
    check(
        &["{}", "--http", "127.0.0.1:0"],
        "",
        2,
        "",
        "--http is not available in this version: use --stdio",
    );
    check(&["{}", "--sse", "127.0.0.1:0"], "", 2, "", "--sse is not available in this version: use --stdio");
    check(&["/no/such/file"], "", 2, "", "the script \"/no/such/file\" cannot be read");
    check(&["{\"tool\": []}"], "", 2, "", "unknown field `tool`");
    check(&["{"], "", 2, "", "the peer's script is wrong at `.`");
    check(&[], "", 2, "", "<SCRIPT>");
}
