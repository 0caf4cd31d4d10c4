use serde_json::json;

use super::{Digest, canonical};

#[test]
fn canonical_text_sorts_keys_by_bytes_and_leaves_no_blanks() {
    for (value, text) in [
        (
            json!({"b": 1, "a": [1, 2.5, {"z": null, "Z": true}]}),
            r#"{"a":[1,2.5,{"Z":true,"z":null}],"b":1}"#,
        ),
        (json!({"é": 1, "z": 2}), r#"{"z":2,"é":1}"#),
        (json!("a\"b\n"), r#""a\"b\n""#),
        (json!({}), "{}"),
        (json!([]), "[]"),
    ] {
        assert_eq!(canonical(&value), text);
    }
}

#[test]
fn a_digest_reads_back_what_it_writes_and_refuses_the_rest() {
    let digest = Digest::of_json("t", &json!({"a": 1}));
    assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    for bad in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
        assert_eq!(Digest::parse(bad), None, "{bad}");
    }
}

#[test]
fn parts_that_join_to_one_text_have_different_digests() {
    assert_ne!(Digest::of_parts("t", &[b"ab", b"c"]), Digest::of_parts("t", &[b"a", b"bc"]));
}
