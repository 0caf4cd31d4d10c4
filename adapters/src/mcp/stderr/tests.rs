use std::collections::BTreeMap;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};

use super::{LINE_BYTES_MAX, StderrLog, StderrRing};
use crate::words::Words;

/// What a ring of three lines holds after a stream, and the last line of it.
async fn check(stream: &[u8], lines: &[&str], last: Option<&str>) {
    check_of(Words::default(), stream, lines, last).await;
}

async fn check_of(words: Words, stream: &[u8], lines: &[&str], last: Option<&str>) {
    let ring = StderrRing::new(3);
    let log = StderrLog::new(ring.clone(), words);
    log.clone().drain(stream).await;
    assert_eq!(
        (ring.lines(), log.last()),
        (lines.iter().map(ToString::to_string).collect(), last.map(Into::into))
    );
}

#[tokio::test]
async fn the_last_lines_are_kept_each_within_its_bound() {
    let long = "x".repeat(LINE_BYTES_MAX);
    let endless = vec![b'x'; 3 * LINE_BYTES_MAX];
    check(b"", &[], None).await;
    check(b"one\r\n\n  \ntwo", &["one", "two"], Some("two")).await;
    check(b"1\n2\n3\n4\n5\n", &["3", "4", "5"], Some("5")).await;
    check(b"\x1b[31mred\x1b[0m\n", &["[31mred[0m"], Some("[31mred[0m")).await;
    check(b"not \xff utf-8\n", &["not \u{fffd} utf-8"], Some("not \u{fffd} utf-8")).await;
    check(&endless, &[&long], Some(&long)).await;
}

const SECRET: &str = "sk-canary-of-many-letters";

fn knowing_the_secret() -> Words {
    let env = BTreeMap::from([("KEY".to_owned(), Secret::new(SECRET))]);
    let transport = Transport::Stdio { command: "c".to_owned(), args: vec![], env, cwd: None };
    Words::of(&ServerDefinition::new(ServerId::new("s").unwrap(), transport))
}

#[tokio::test]
async fn a_secret_is_masked_in_a_line_and_across_its_bound() {
    let line = format!("invalid API key {SECRET}!\n");
    let shown = "invalid API key <secret>!";
    check_of(knowing_the_secret(), line.as_bytes(), &[shown], Some(shown)).await;
    // What is left out for fear of half a secret lies behind the bound.
    let (endless, long) = ("x".repeat(3 * LINE_BYTES_MAX), "x".repeat(LINE_BYTES_MAX));
    check_of(knowing_the_secret(), endless.as_bytes(), &[&long], Some(&long)).await;
    for before in LINE_BYTES_MAX - SECRET.len() - 2..LINE_BYTES_MAX + 2 {
        for after in ["", "\n", " and so on\n", &"x".repeat(LINE_BYTES_MAX)] {
            let ring = StderrRing::new(3);
            let stream = format!("{}{SECRET}{after}", "x".repeat(before));
            StderrLog::new(ring.clone(), knowing_the_secret()).drain(stream.as_bytes()).await;
            let lines = ring.lines();
            let fits = lines.iter().all(|line| line.len() <= LINE_BYTES_MAX && !line.contains("sk-"));
            assert!(fits && lines.len() == 1, "{before} {after}: {lines:?}");
        }
    }
}
