use std::io::ErrorKind;

use super::{LINE_BYTES_MAX, LineReader};

async fn check(bytes: &[u8], expected: &[&str]) {
    let mut reader = LineReader::new(bytes);
    let mut lines = Vec::new();
    while let Some(line) = reader.next().await.expect("the row can be read") {
        lines.push(line);
    }
    assert_eq!(lines, expected, "{:?}", String::from_utf8_lossy(bytes));
}

#[tokio::test]
async fn lines_end_at_line_feeds_and_the_last_one_needs_none() {
    check(b"", &[]).await;
    check(b"a\nb", &["a", "b"]).await;
    check(b"a\r\n\nb\n", &["a", "", "b"]).await;
    check(b"\xff\n", &["\u{fffd}"]).await;
}

#[tokio::test]
async fn a_line_without_an_end_in_sight_is_refused() {
    let endless = vec![b'x'; LINE_BYTES_MAX + 1];
    let error = LineReader::new(endless.as_slice()).next().await.expect_err("the line is too long");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
