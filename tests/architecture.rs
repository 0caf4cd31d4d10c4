//! The shape of the house: who may reach whom, where versions stand, how long a file may be, and that every promise
//! names a test that exists.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines in one file, unless it says why it needs more.
const FILE_LINES_MAX: usize = 500;
const LONGER_BECAUSE: &str = "// Longer than 500 lines: ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directories of the workspace's members; the facade is the root itself.
fn members() -> Vec<PathBuf> {
    let manifest = read(&root().join("Cargo.toml"));
    let line = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap_or_default();
    let members: Vec<_> = line.split('"').skip(1).step_by(2).map(|member| root().join(member)).collect();
    assert!(members.len() >= 6, "the members were found: {members:?}");
    members
}

/// A path as a reader of this repository writes it.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", shown(path)))
}

/// Every file below `directory` with this extension, build output left out.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("a directory can be read").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, "target" | "node_modules") && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The modules of every crate, the tests beside them included.
fn sources() -> Vec<PathBuf> {
    let mut sources = files(&root().join("src"), "rs");
    sources.extend(members().iter().flat_map(|member| files(&member.join("src"), "rs")));
    sources
}

fn is_test(path: &Path) -> bool {
    let in_tests = path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace("tests/harness/", "");
    in_tests.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Fails with everything that is wrong at once.
fn check(what: &str, wrong: impl IntoIterator<Item = String>) {
    let mut listed = String::new();
    for fault in wrong {
        // Writing to a string cannot fail.
        let _ = write!(listed, "\n  {fault}");
    }
    assert!(listed.is_empty(), "{what}:{listed}");
}

/// The packages that a crate is built from, as Cargo resolves them for this crate alone.
fn reached(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none", "--color", "never"]);
    if root().join("Cargo.lock").exists() {
        tree.arg("--locked");
    }
    let output = tree.current_dir(root()).output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree -p {package}: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn no_crate_reaches_what_it_must_not() {
    let table: [(&str, &[&str], &[&str]); 5] = [
        ("pilothouse-messages", &[], &["tokio", "ractor", "sled", "rmcp"]),
        ("pilothouse-rules", &["messages"], &["tokio", "ractor", "sled", "rmcp"]),
        ("pilothouse-adapters", &["messages"], &["ractor"]),
        ("pilothouse-actors", &["messages", "rules", "adapters"], &["sled", "rmcp"]),
        ("pilothouse-supervision", &["messages", "rules", "adapters", "actors"], &[]),
    ];
    let mut wrong = Vec::new();
    for (package, may_use, never) in table {
        let reached = reached(package);
        assert!(reached.contains(package), "the tree of {package} names itself: {reached:?}");
        let forbidden = reached.iter().filter(|name| never.contains(&name.as_str()));
        wrong.extend(forbidden.map(|name| format!("{package} reaches {name}")));
        let ours =
            reached.iter().filter_map(|name| name.strip_prefix("pilothouse-").map(|short| (name, short)));
        let strange = ours.filter(|(name, short)| *name != package && !may_use.contains(short));
        wrong.extend(strange.map(|(name, _)| format!("{package} uses {name}")));
    }
    check("arrows that point the wrong way", wrong);
}

#[test]
fn versions_stand_in_the_root_manifest_only() {
    let mut wrong = Vec::new();
    for manifest in members().iter().map(|member| member.join("Cargo.toml")) {
        let mut in_dependencies = false;
        for line in read(&manifest).lines() {
            if let Some(section) = line.strip_prefix('[') {
                in_dependencies = section.contains("dependencies");
            }
            let value =
                line.split_once('=').map(|(_, value)| value.trim()).filter(|_| !line.starts_with('#'));
            let has_version = value.is_some_and(|value| value.starts_with('"') || value.contains("version"));
            if in_dependencies && has_version {
                wrong.push(format!("{}: {line}", shown(&manifest)));
            }
        }
    }
    check("versions outside the root manifest", wrong);
}

#[test]
fn a_file_is_short_or_says_why_it_is_not() {
    let too_long = |path: &PathBuf| {
        let text = read(path);
        text.lines().count() > FILE_LINES_MAX && !text.lines().any(|line| line.starts_with(LONGER_BECAUSE))
    };
    let long = sources().into_iter().filter(|path| !is_test(path)).filter(too_long);
    check("files above 500 lines that do not say why", long.map(|path| shown(&path)));
}

#[test]
fn every_module_says_what_it_is() {
    let mute =
        sources().into_iter().filter(|path| !is_test(path)).filter(|path| !read(path).starts_with("//!"));
    check("modules that do not begin with `//!`", mute.map(|path| shown(&path)));
}

#[test]
fn nothing_is_left_unfinished() {
    // Written in parts, so that this file does not find itself.
    let marks = ["todo", "unimplemented", "dbg"].map(|mark| format!("{mark}!("));
    let mut wrong = Vec::new();
    for path in files(root(), "rs") {
        let text = read(&path);
        wrong.extend(
            marks.iter().filter(|mark| text.contains(*mark)).map(|mark| format!("{}: {mark}", shown(&path))),
        );
    }
    check("unfinished code", wrong);
}

#[test]
fn the_pure_crates_are_told_what_they_may_not_call() {
    let missing = ["messages", "rules"].map(|member| root().join(member).join("clippy.toml"));
    check("no clippy.toml", missing.into_iter().filter(|path| !path.is_file()).map(|path| shown(&path)));
}

/// The level and the words of every log line in a source: the last text among the macro's arguments.
fn log_lines(source: &str) -> Vec<(&str, &str)> {
    let mut lines = Vec::new();
    for part in source.split("tracing::").skip(1) {
        let Some((level, rest)) = part.split_once("!(") else { continue };
        let end = rest.find(");").or_else(|| rest.find(")\n")).unwrap_or(rest.len());
        let words = rest[..end].rsplit('"').nth(1);
        if let (true, Some(words)) = (level.chars().all(char::is_alphabetic), words) {
            lines.push((level, words));
        }
    }
    lines
}

#[test]
fn every_log_line_stands_on_its_page() {
    let page = read(&root().join("docs/observability.md"));
    let (mut found, mut wrong) = (0, Vec::new());
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        for (level, words) in log_lines(&read(&path)) {
            found += 1;
            if !page.contains(&format!("| {level} | `{words}` |")) {
                wrong.push(format!("{}: {level} {words:?}", shown(&path)));
            }
        }
    }
    assert!(found > 20, "the log lines were found: {found}");
    check("log lines that docs/observability.md does not know", wrong);
}

/// The words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let page = read(&root().join("docs/guarantees.md"));
    let (mut promises, mut wrong) = (0, Vec::new());
    let promised = page.split("\n## Bounds").next().unwrap_or_default();
    for row in promised.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")) {
        let kept_by = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let (mut file, mut names) = (String::new(), 0);
        for word in quoted(kept_by) {
            if let Some(name) = word.strip_suffix(".rs") {
                file = format!("{name}.rs");
                continue;
            }
            names += 1;
            let text = fs::read_to_string(root().join(&file)).unwrap_or_default();
            if !text.contains(&format!("fn {word}(")) {
                wrong.push(format!("{file:?} has no test `{word}`"));
            }
        }
        if names == 0 {
            wrong.push(format!("no test keeps: {row}"));
        }
        promises += 1;
    }
    assert!(promises > 0, "the table of promises was found");
    check("promises without their tests", wrong);
}
