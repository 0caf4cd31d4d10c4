//! Whether the tests that a row names are there.

use std::path::Path;

/// A file, and tests in it.
pub(crate) type Tests = (&'static str, &'static [&'static str]);

pub(crate) fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is wrong with the tests of one row: those that are not there, or do not run.
pub(crate) fn missing(row: &str, tests: &[Tests]) -> Vec<String> {
    let mut wrong = Vec::new();
    if tests.is_empty() {
        wrong.push(format!("{row}: names no test"));
    }
    for (file, names) in tests {
        let text = read(file);
        for name in *names {
            let (before, _) = text.split_once(&format!("fn {name}(")).unwrap_or_default();
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            let runs = ["#[tokio::test", "#[test]"].iter().any(|mark| attributes.contains(mark));
            if !runs {
                wrong.push(format!("{row}: {file} has no test `{name}`"));
            }
            if attributes.contains("#[ignore") {
                wrong.push(format!("{row}: {file} does not run `{name}`"));
            }
        }
    }
    wrong
}
