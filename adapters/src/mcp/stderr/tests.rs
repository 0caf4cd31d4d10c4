use super::{LINE_BYTES_MAX, StderrLog, StderrRing};
use crate::mcp::words::Words;

/// What a ring of three lines holds after a stream, and the last line of it.
async fn check(stream: &[u8], lines: &[&str], last: Option<&str>) {
    let ring = StderrRing::new(3);
    let log = StderrLog::new(ring.clone(), Words::default());
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
