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

#[test]
fn what_is_no_store_or_in_use_is_not_audited() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let refused = |words: &str| {
        let Output { status, stderr, .. } = audit(directory.path(), &[]);
        assert_eq!((status.code(), text(&stderr).contains(words)), (Some(2), true), "{}", text(&stderr));
    };
    refused("holds no store");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0, "nothing is made");
    std::fs::write(directory.path().join("db"), "").expect("it can be written");
    let lock = std::fs::File::create(directory.path().join("lock")).expect("it can be made");
    fs2::FileExt::lock_exclusive(&lock).expect("it can be locked");
    refused("is in use: stop its runtime");
}
