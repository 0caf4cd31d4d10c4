//! The bank of faults that users met in other clients: each one that is ours to answer is answered by a test that
//! exists, or is named as one that is not.
//!
//! `tests/faults/bank.json` says what goes wrong, how to see it, and what is right; `tests/faults/rows.rs` says which
//! tests assert that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[path = "faults/named.rs"]
mod named;
#[path = "faults/rows.rs"]
mod rows;
use named::{missing, read};
use rows::ROWS;

/// Families of which every fault has its row here.
const FAMILIES: [&str; 21] = [
    "F01", "F02", "F03", "F04", "F05", "F06", "F07", "F08", "F09", "F10", "F11", "F12", "F13", "F14", "F15",
    "F16", "F17", "F18", "F19", "F20", "F21",
];

/// Faults where we do not do what the bank calls right, and what we do instead. The list may only become shorter.
const OPEN: [(&str, &str); 1] =
    [("B107", "an unknown parameter goes where the schema permits it; nobody is told of it")];

/// Faults that cannot happen here, or where we chose otherwise: each has its line on the page.
const EXEMPT_MAX: usize = 10;
const PAGE: &str = "docs/decisions/faults.md";

/// The ids of the bank, each with its family.
fn bank() -> BTreeMap<String, String> {
    let faults: Vec<Value> =
        serde_json::from_str(include_str!("faults/bank.json")).expect("the bank is JSON");
    let word = |fault: &Value, field: &str| fault[field].as_str().expect("it is a text").to_owned();
    faults.iter().map(|fault| (word(fault, "id"), word(fault, "family")[..3].to_owned())).collect()
}

/// The faults that the page exempts: lines `- **B123**: why`.
fn exempt() -> Vec<String> {
    let lines = read(PAGE);
    let marked = lines.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**: "));
    marked.filter(|(_, why)| why.len() > 20).map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn every_fault_has_a_row_or_says_why_not() {
    let bank = bank();
    let strange: Vec<_> = bank.values().filter(|family| !FAMILIES.contains(&family.as_str())).collect();
    assert_eq!(strange, Vec::<&String>::new(), "families that are on no list");

    let exempt = exempt();
    assert!(exempt.len() <= EXEMPT_MAX, "{} faults are exempt, {EXEMPT_MAX} may be", exempt.len());
    let mut told: Vec<&str> = ROWS.iter().map(|(id, _)| *id).collect();
    told.extend(OPEN.iter().map(|(id, _)| *id));
    told.extend(exempt.iter().map(String::as_str));
    let known: BTreeSet<&str> = told.iter().copied().collect();
    assert_eq!(known.len(), told.len(), "a fault has one row, or one reason");

    let ours: BTreeSet<&str> = bank
        .iter()
        .filter(|(_, family)| FAMILIES.contains(&family.as_str()))
        .map(|(id, _)| id.as_str())
        .collect();
    let unanswered: Vec<_> = ours.difference(&known).collect();
    assert_eq!(unanswered, Vec::<&&str>::new(), "faults without a row");
    let foreign: Vec<_> = known.difference(&ours).collect();
    assert_eq!(foreign, Vec::<&&str>::new(), "rows without a fault of ours");

    println!("{} faults: {} answered, {} exempt, {} open", ours.len(), ROWS.len(), exempt.len(), OPEN.len());
    for (id, instead) in OPEN {
        println!("open {id}: {instead}");
    }
}

#[test]
fn every_row_names_tests_that_exist_and_run() {
    let wrong: Vec<_> = ROWS.iter().flat_map(|(id, tests)| missing(id, tests)).collect();
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}
