use std::collections::BTreeMap;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};

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
    assert_eq!(words.kept("key: sk-cana", Cut::Yes, 99), "key");
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
    assert_eq!(format!("{:?}", knowing(&["sk-canary"])), "Words { secrets: 1 }");
}
