//! The files that the manual shows.

use std::path::Path;

use super::run::run;

#[test]
fn every_file_of_the_manual_holds() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("files");
    let files: Vec<_> = std::fs::read_dir(directory).expect("the files are there").flatten().collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let path = file.path();
        let run = run(&[&path.to_string_lossy()], "");
        assert_eq!(run.status.code(), Some(0), "{}: {}{}", path.display(), run.shown(), run.complaint);
        assert_eq!(run.errors(), [], "{}", path.display());
    }
}

/// The manual shows the files as they are.
#[test]
fn the_manual_shows_every_file_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manual = std::fs::read_to_string(root.join("../../docs/harness.md")).expect("the manual is there");
    for file in std::fs::read_dir(root.join("files")).expect("the files are there").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("the file can be read");
        assert!(manual.contains(text.trim()), "{:?} is not shown as it is", file.file_name());
    }
}
