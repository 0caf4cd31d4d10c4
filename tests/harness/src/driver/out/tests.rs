use std::sync::Arc;
use std::time::Duration;

use pilothouse::clock::SystemClock;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Fields, HOLD, Out, TICK};
use crate::line::Body;

/// What is out: the kinds of events, and `reply`.
fn printed(out: &Out) -> Vec<String> {
    let name = |body: &Body| match body {
        Body::Event(event) => event.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Body::Reply(_) => "reply".to_owned(),
        Body::Expect(_) => "expect".to_owned(),
    };
    out.read(|lines| lines.iter().map(|line| name(&line.body)).collect())
}

/// Does a line that takes so long after an event, and looks on shortly before its reply.
async fn check(takes: Duration, before_the_reply: &[&str], in_the_end: &[&str]) {
    let out = Out::new(Box::new(std::io::sink()), Arc::new(SystemClock));
    out.event("before", Fields::new());
    let work = async {
        out.event("caused", Fields::new());
        sleep(takes).await;
        out.event("late", Fields::new());
    };
    out.hold(work).await;
    assert_eq!(printed(&out), before_the_reply, "{takes:?}");
    out.reply(1, Fields::new());
    out.release();
    out.event("after", Fields::new());
    assert_eq!(printed(&out), in_the_end, "{takes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_stands_before_what_its_line_caused_unless_it_takes_too_long() {
    let held = ["before", "reply", "caused", "late", "after"];
    check(Duration::ZERO, &["before"], &held).await;
    check(HOLD - TICK, &["before"], &held).await;
    check(HOLD + 2 * TICK, &["before", "caused"], &["before", "caused", "reply", "late", "after"]).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_line_is_told_of_it() {
    let out = Out::new(Box::new(std::io::sink()), Arc::new(SystemClock));
    let mut written = out.written();
    let waiting = tokio::spawn(async move { written.changed().await.is_ok() });
    tokio::task::yield_now().await;
    out.event("text", Fields::new());
    assert!(waiting.await.expect("it does not panic"));
}

struct Broken;

impl std::io::Write for Broken {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_output_that_nobody_reads_ends_the_run() {
    let lines = format!("{}\n", json!({"server": {"id": "a", "transport": {"peer": {}}}}));
    let options = crate::driver::Options::default();
    let ended = crate::driver::run(lines.as_bytes(), Box::new(Broken), options).await;
    assert_eq!(ended.expect_err("nothing can be written").kind(), std::io::ErrorKind::BrokenPipe);
}
