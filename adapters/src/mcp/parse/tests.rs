use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{BATCH_ITEMS_MAX, LIGHT_BYTES_MAX, Message, Parsed, Size, parse};

fn message(value: &Value, size: Size) -> Message {
    Message { fields: value.as_object().cloned().unwrap(), size }
}

fn light(values: &[Value], junk: u64) -> Parsed {
    Parsed::Messages(values.iter().map(|value| message(value, Size::Light)).collect(), junk)
}

fn refused(reason: &str) -> Parsed {
    Parsed::Refused(reason.to_owned())
}

#[test]
fn a_line_is_one_message_or_a_batch_or_junk() {
    let (one, two) = (json!({"id": 1}), json!({"id": "2"}));
    let rows: [(&[u8], Parsed); 10] = [
        (b"", light(&[], 0)),
        (b" \r", light(&[], 0)),
        (br#"{"id": 1}"#, light(std::slice::from_ref(&one), 0)),
        (b"\xEF\xBB\xBF[{\"id\": 1}, {\"id\": \"2\"}]\r", light(&[one.clone(), two], 0)),
        (br#"[7, {"id": 1}, [], null]"#, light(&[one], 3)),
        (b"Usage: server", light(&[], 1)),
        (b"{\"half\":", light(&[], 1)),
        (b"\"text\"", light(&[], 1)),
        (b"{\"id\": \"a\xff\xfeb\xe2\x82\"}", light(&[json!({"id": "a??b??"})], 0)),
        (b"{\"id\": \"cut\xe2\x82", light(&[], 1)),
    ];
    for (line, expected) in rows {
        assert_eq!(parse(line.to_vec()), expected, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn a_long_line_is_known_as_one() {
    let long = json!({"id": "x".repeat(LIGHT_BYTES_MAX)});
    let expected = Parsed::Messages(VecDeque::from([message(&long, Size::Heavy)]), 0);
    assert_eq!(parse(long.to_string().into_bytes()), expected);
}

#[test]
fn a_line_that_costs_too_much_is_refused_before_it_is_read() {
    let costly = refused("sent a line that takes more than 128 MiB to read");
    let line = |item: &str, count: usize| format!(r#"{{"id":1,"result":[{}0]}}"#, item.repeat(count));
    let read = |line: String| matches!(parse(line.into_bytes()), Parsed::Messages(messages, 0) if messages.len() == 1);
    assert_eq!(parse(line(r#"{"a":0},"#, 200_000).into_bytes()), costly);
    assert_eq!(parse(line("0,", 1_100_000).into_bytes()), costly);
    assert!(read(line(r#"{"a":0},"#, 100_000)) && read(line("0,", 900_000)));
    // What a string holds costs nothing.
    assert!(read(json!({"id": r#"\"{},{}"#.repeat(500_000)}).to_string()));
    // A string that is told to have ended hides nothing.
    assert_eq!(parse(line(r#""\\",{"a":0},"#, 200_000).into_bytes()), costly);
}

#[test]
fn a_batch_has_a_bound() {
    let batch = |items: usize| json!(vec![json!({"id": 1}); items]).to_string().into_bytes();
    assert_eq!(parse(batch(BATCH_ITEMS_MAX)), light(&vec![json!({"id": 1}); BATCH_ITEMS_MAX], 0));
    assert_eq!(parse(batch(BATCH_ITEMS_MAX + 1)), refused("sent a batch of more than 1000 messages"));
}
