use std::time::Duration;

use super::{Event, Parser};

/// Feeds a stream in chunks of this size.
fn read(stream: &[u8], size: usize) -> (Vec<(String, String)>, Option<String>, Option<Duration>) {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for chunk in stream.chunks(size) {
        let mut at = 0;
        while at < chunk.len() {
            let (used, event) = parser.take(&chunk[at..]);
            at += used;
            events.extend(event.map(|Event { name, data }| (name, String::from_utf8(data).unwrap())));
        }
    }
    (events, parser.last_id, parser.retry)
}

/// A stream, its events, the last id, and the retry in milliseconds.
type Row = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>, Option<u64>);

#[test]
fn events_are_the_same_whatever_the_borders_of_the_chunks() {
    let rows: [Row; 9] = [
        ("data: a\n\n", &[("", "a")], None, None),
        ("\u{feff}data: a\r\n\r\ndata:b\r\rdata: c\n\n", &[("", "a"), ("", "b"), ("", "c")], None, None),
        ("data: a\ndata:  b\ndata\n\n", &[("", "a\n b\n")], None, None),
        ("event: endpoint\ndata: /m\n\ndata: x\n\n", &[("endpoint", "/m"), ("", "x")], None, None),
        (": ping\n\n:\n\ndata: a\n\n", &[("", "a")], None, None),
        ("id: 7\nretry: 500\ndata:\n\n", &[("", "")], Some("7"), Some(500)),
        ("id: 7\n\nid\n\nid: a\0b\n\nretry: soon\nretry: -1\n\n", &[], None, None),
        ("id: 7\nretry: 99999999999999999999\n\n", &[], Some("7"), None),
        ("data: whole\n\ndata: half", &[("", "whole")], None, None),
    ];
    for (stream, events, id, retry) in rows {
        let events: Vec<_> =
            events.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        let expected = (events, id.map(str::to_owned), retry.map(Duration::from_millis));
        for size in [1, 2, 3, 7, stream.len()] {
            assert_eq!(read(stream.as_bytes(), size), expected, "{stream:?} by {size}");
        }
    }
}
