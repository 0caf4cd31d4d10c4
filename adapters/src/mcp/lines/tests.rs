use super::{Line, LineReader};

/// Everything that a reader with a bound of 8 bytes makes of a stream.
async fn check(stream: &[u8], expected: &[&str]) {
    let mut reader = LineReader::new(stream, 8);
    let mut seen = Vec::new();
    loop {
        match reader.next().await {
            Line::Whole(line) => seen.push(String::from_utf8_lossy(&line).into_owned()),
            Line::TooLong => {
                seen.push("<too long>".to_owned());
                break;
            }
            Line::End => break,
            Line::Broken(error) => panic!("a slice does not break: {error}"),
        }
    }
    assert_eq!(seen, expected, "{:?}", String::from_utf8_lossy(stream));
}

#[tokio::test]
async fn a_stream_is_cut_at_line_breaks_and_ends_at_the_bound() {
    check(b"", &[]).await;
    check(b"one\ntwo\n", &["one", "two"]).await;
    check(b"one\n\ntwo", &["one", "", "two"]).await;
    check(b"crlf\r\n", &["crlf\r"]).await;
    check(b"12345678\n123456789\nafter\n", &["12345678", "<too long>"]).await;
    check(b"endless without a break", &["<too long>"]).await;
}

#[tokio::test]
async fn a_read_that_is_dropped_loses_nothing() {
    use tokio::io::AsyncWriteExt;
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut reader = LineReader::new(reader, 64);
    writer.write_all(b"hal").await.unwrap();
    let dropped = tokio::time::timeout(std::time::Duration::from_millis(5), reader.next()).await;
    assert!(dropped.is_err(), "half a line is no line");
    writer.write_all(b"f\n").await.unwrap();
    assert!(matches!(reader.next().await, Line::Whole(line) if line == b"half"));
}
