//! What another client's tests ask of registry, exposition, meta tools, scripts, gate, repair and names, and which of our
//! tests answers it. Where we do more, or otherwise on purpose, the row says so.

#[path = "faults/named.rs"]
mod named;
#[path = "checklist/rows.rs"]
mod rows;

use std::collections::BTreeSet;

use named::missing;
use rows::{Answer, CALLS, Row, SHOWING};

fn rows() -> impl Iterator<Item = &'static Row> {
    SHOWING.iter().chain(CALLS)
}

#[test]
fn every_line_of_the_checklist_is_answered_by_tests_that_exist_and_run() {
    let asked: BTreeSet<_> = rows().map(|(part, line, ..)| (part, line)).collect();
    assert_eq!(asked.len(), rows().count(), "a line stands once");
    let answered = |answer: &Answer| match answer {
        Answer::So | Answer::Beyond(_) => true,
        Answer::Without(_) => false,
    };
    let tested = rows().filter(|(_, _, answer, _)| answered(answer));
    let wrong: Vec<_> =
        tested.flat_map(|(part, line, _, tests)| missing(&format!("{part}: {line}"), tests)).collect();
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

#[test]
fn a_line_that_is_answered_otherwise_says_how() {
    let silent = rows().filter(|(_, _, answer, tests)| match answer {
        Answer::So => false,
        Answer::Beyond(how) => how.len() < 20,
        // What is not there has no test.
        Answer::Without(why) => why.len() < 20 || !tests.is_empty(),
    });
    assert_eq!(
        silent.map(|(part, line, ..)| format!("{part}: {line}")).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
    let without = rows().filter(|(_, _, answer, _)| matches!(answer, Answer::Without(_))).count();
    assert!(without <= 8, "{without} lines have no answer; the list may only become shorter");
}
