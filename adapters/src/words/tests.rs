use std::collections::BTreeMap;

use pilothouse_messages::endpoint::Endpoint;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};

use serde_json::json;

use super::{Cut, REASON_BYTES_MAX, Words};

fn knowing(secrets: &[&str]) -> Words {
    let named = (0..).zip(secrets).map(|(n, secret)| (format!("V{n}"), Secret::new(*secret)));
    let env: BTreeMap<_, _> = named.collect();
    let transport = Transport::Stdio { command: "c".to_owned(), args: vec![], env, cwd: None };
    Words::of(&ServerDefinition::new(ServerId::new("s").unwrap(), transport))
}

#[test]
fn a_reason_keeps_no_secret_however_it_is_spelt() {
    let rows: [(&[&str], &str, &str); 9] = [
        (&[], "as it is", "as it is"),
        (&["sk-canary"], "invalid API key sk-canary", "invalid API key <secret>"),
        (&["sk-canary"], "sk-canarysk-canary!", "<secret><secret>!"),
        (&["sk-canary", "sk-canary-2"], "sk-canary-2 sk-canary", "<secret> <secret>"),
        (&["short"], "short stays", "short stays"),
        (&["pa\"ss\\word"], r#"{"key":"pa\"ss\\word"}"#, r#"{"key":"<secret>"}"#),
        (&["pässwörd\n"], "of pässwörd", "of <secret>"),
        (&["-----BEGIN\nAAAABBBB\n-----END"], "line AAAABBBB of a key", "line <secret> of a key"),
        (&["      "], "two      words", "two      words"),
    ];
    for (secrets, said, expected) in rows {
        assert_eq!(knowing(secrets).reason(said), expected, "{said}");
    }
}

#[test]
fn a_reason_is_bounded_and_a_secret_across_the_bound_leaves_no_half() {
    let words = knowing(&["sk-canary-of-many-letters"]);
    for before in REASON_BYTES_MAX - 30..REASON_BYTES_MAX + 2 {
        for after in ["", "and so on"] {
            let said = format!("{}sk-canary-of-many-letters{after}", "x".repeat(before));
            let kept = words.reason(&said);
            assert!(kept.len() <= REASON_BYTES_MAX && !kept.contains("sk-"), "{before} {after}");
        }
    }
    let crowded = words.reason("sk-canary-of-many-letters".repeat(10_000));
    assert!(crowded.len() <= REASON_BYTES_MAX && !crowded.contains("sk-"), "{crowded}");
    assert_eq!(knowing(&[]).reason("ä".repeat(4_000)), "ä".repeat(REASON_BYTES_MAX / 2));
}

#[test]
fn the_end_of_a_cut_text_is_not_believed() {
    let words = knowing(&["sk-canary"]);
    // As much as its longest spelling, base 64, may be half of it.
    assert_eq!(words.kept("the key: sk-cana", Cut::Yes, 99), "the ");
    assert_eq!(words.kept("key: sk-cana", Cut::No, 99), "key: sk-cana");
}

#[test]
fn a_reason_is_not_written_out_beyond_its_bound() {
    struct Endless;
    impl std::fmt::Display for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            loop {
                f.write_str("again and ")?;
            }
        }
    }
    assert_eq!(knowing(&["sk-canary"]).reason(Endless).len(), REASON_BYTES_MAX);
}

#[test]
fn what_masks_secrets_shows_none() {
    assert_eq!(format!("{:?}", knowing(&["sk-canary"])), "Words { secrets: 2 }");
}

#[test]
fn a_url_keeps_its_secrets_escaped_or_not_and_as_a_request_writes_them() {
    let url = "https://ann:pass%2Dword%21@a.test/mcp?key=query%20key#x";
    let endpoint = Endpoint::parse(url).unwrap();
    let transport = Transport::Http { endpoint, headers: BTreeMap::new() };
    let mut definition = ServerDefinition::new(ServerId::new("s").unwrap(), transport);
    definition.secrets.push(Secret::new("--key=argument"));
    let words = Words::of(&definition);
    // `ann:pass-word!`, `pass-word!` and `query key` in base 64, with and without its padding.
    for said in [
        "pass%2Dword%21",
        "pass-word!",
        "query%20key",
        "query key",
        "YW5uOnBhc3Mtd29yZCE",
        "cGFzcy13b3JkIQ",
        "cXVlcnkga2V5",
        "--key=argument",
    ] {
        assert_eq!(words.reason(format!("no {said}==")), "no <secret>==", "{said}");
    }
}

#[test]
fn what_passes_is_known_again_for_a_while_and_within_a_bound() {
    let words = knowing(&[]);
    words.pass_answer(
        &json!({"action": "accept", "content": {"name": "Ada Lovelace", "tags": ["difference engine"]}}),
    );
    assert_eq!(words.reason("accept Ada Lovelace's difference engine"), "accept <secret>'s <secret>");
    words.pass(&"x".repeat(5 << 10));
    assert!(words.margin() < 64, "{}", words.margin());
    for n in 0..64 {
        words.pass(&format!("passing-{n}"));
    }
    assert_eq!(words.reason("Ada Lovelace passing-31 passing-32"), "Ada Lovelace passing-31 <secret>");
}
