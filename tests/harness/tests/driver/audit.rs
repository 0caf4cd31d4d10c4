//! The audit of a directory that a run has left.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::run::{PROGRAM, event, held, listed, notes, send, topic};

fn audit(directory: &Path, json: &[&str]) -> Output {
    Command::new(PROGRAM).arg("audit").arg(directory).args(json).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_audit_says_who_allowed_what_and_leaves_the_evidence_as_it_is() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let call =
        json!({"calls": [{"tool": {"server": "notes", "tool": "add_note"}, "arguments": {"text": "ahoy"}}]});
    held(
        Some(&data),
        &[
            notes(&marks),
            listed("notes"),
            topic(&json!([call, {"text": "Noted."}])),
            send("Note this."),
            event(&json!({"kind": "approval_requested"})),
            json!({"decide": {"approval": "last", "decision": "allow", "by": "ann"}}),
            event(&json!({"kind": "turn_finished", "stop": "completed"})),
            json!({"decide": {"approval": "last", "decision": "deny", "by": "bob"}}),
        ],
    );
    let kept = |name: &str| std::fs::read(data.join(name)).expect("it is there");
    let before = [kept("db"), kept("marks")];

    let Output { status, stdout, stderr } = audit(&data, &[]);
    let words = text(&stdout);
    assert_eq!(status.code(), Some(0), "{words}{}", text(&stderr));
    let says = |what: &str| words.lines().any(|line| line.contains(what));
    assert!(says("ann allowed card "), "{words}");
    assert!(says("call 1.1.0 ran, attempt 1: mcp__notes__addNote_"), "{words}");
    assert!(says("because ann approved card "), "{words}");
    assert!(says("a decision of bob on card "), "{words}");
    assert!(words.ends_with(
        "4 records of the ledger and 0 of grants, whole and in their chain; 1 topics; 0 faults\n"
    ));

    let lines: Vec<Value> = text(&audit(&data, &["--json"]).stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let allowed: Vec<_> = lines.iter().filter(|line| line["fact"] == "allowed").collect();
    assert_eq!(allowed.len(), 1, "{lines:?}");
    let of = |key: &str| allowed[0][key].clone();
    assert_eq!([of("basis"), of("by"), of("topic")], ["approved", "ann", "t"].map(|text| json!(text)));
    assert_eq!(of("arguments"), json!({"text": "ahoy"}));
    assert_eq!(before, [kept("db"), kept("marks")], "reading changes nothing");

    // The file of marks says what was acknowledged; one that is gone is damage, not a fresh start.
    std::fs::remove_file(data.join("marks")).expect("it can be removed");
    let Output { status, stdout, stderr } = audit(&data, &[]);
    assert_eq!((status.code(), text(&stdout)), (Some(2), String::new()), "{}", text(&stderr));
    assert!(text(&stderr).contains("the file of marks is gone"), "{}", text(&stderr));
}

/// A directory with a store, after this change of its own record.
async fn stored(change: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
    use pilothouse::store::{Batch, Keyspace, Store as _, sled::SledStore};

    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let store = SledStore::open(directory.path()).await.expect("it opens");
    let key = b"format".to_vec();
    let mut record = store.get(Keyspace::Meta, key.clone()).await.expect("it reads").expect("a record");
    change(&mut record);
    let mut batch = Batch::new();
    batch.put(Keyspace::Meta, key, record);
    store.lane().append(batch).await.expect("it is written");
    store.close().await.expect("it closes");
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_store_of_ours_or_in_use_is_not_audited_and_the_words_say_why() {
    let refused = |path: &Path, words: &str| {
        let Output { status, stdout, stderr } = audit(path, &[]);
        assert_eq!((status.code(), text(&stdout)), (Some(2), String::new()), "{words}");
        assert!(text(&stderr).contains(words), "{words}: {}", text(&stderr));
    };
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    refused(directory.path(), "holds no store: name the data directory");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0, "nothing is made");
    refused(&directory.path().join("nowhere"), "holds no store");
    let file = directory.path().join("db");
    std::fs::write(&file, "of another program").expect("it can be written");
    refused(&file, "is a file: name the data directory");
    refused(directory.path(), "holds no store: name the data directory");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"of another program");

    let newer = stored(|record| {
        record[3] += 1;
        let body = record.len() - 4;
        let check = crc32(&record[..body]).to_be_bytes();
        record[body..].copy_from_slice(&check);
    });
    refused(newer.await.path(), "has format 2, this version reads up to 1: use the newer version");
    refused(stored(|record| record[9] ^= 1).await.path(), "a record with a wrong checksum in meta");
    let used = stored(|_| {}).await;
    let _open = pilothouse::store::sled::SledStore::open(used.path()).await.expect("it opens");
    refused(used.path(), "is in use: stop its runtime, or ask it for Runtime::audit");
}

/// The checksum of a record (CRC-32 as in IEEE 802.3).
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}
