//! Decides which words are taken for one another: those in which people ask and those by which tools are called.
//!
//! A row stands here if published servers call one thing by either word, whatever the server is about: what is done to a
//! record, to a document, to a process; and the kinds of files, which people call by their ending or their program. A word
//! that means the same in one field only has no place here. Rows are not chained: `list` is near `get` and `get` is
//! near `read`, but `list` is not near `read`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::document::key;
use super::stem::stem;

/// How sure a sign the other word is, where the word itself is 1: it is as often meant otherwise as not.
pub(super) const SHARE: f32 = 0.5;

const ROWS: [&[&str]; 37] = [
    // What is done to a record.
    &["create", "add", "new", "insert"],
    &["create", "generate", "make", "build"],
    &["delete", "remove", "erase", "drop"],
    &["update", "edit", "modify", "change"],
    &["set", "update", "configure"],
    &["get", "fetch", "retrieve", "read", "obtain"],
    &["get", "list", "show", "enumerate"],
    &["get", "describe", "details", "information"],
    &["search", "find", "query", "lookup", "discover"],
    &["check", "validate", "verify"],
    &["copy", "duplicate", "clone"],
    &["move", "rename"],
    // What is done to a document or a picture.
    &["read", "load", "open", "view"],
    &["write", "save", "store", "export"],
    // Who writes a text into a document adds it.
    &["write", "add", "append", "insert"],
    &["convert", "transform", "translate"],
    &["merge", "combine", "join"],
    &["summarize", "summary", "abstract"],
    &["analyze", "analysis", "examine"],
    &["draw", "plot", "render", "chart", "graph"],
    &["calculate", "compute", "evaluate"],
    // What is done over a network or to a process.
    &["send", "post", "publish", "submit"],
    &["navigate", "visit", "open", "browse"],
    &["start", "run", "launch", "execute"],
    &["stop", "end", "cancel", "terminate", "kill"],
    &["download", "fetch"],
    &["scrape", "crawl", "extract"],
    // What it is done to.
    &["directory", "folder"],
    &["repository", "repo"],
    &["website", "webpage", "page", "url", "site"],
    &["image", "picture", "photo", "png", "jpg", "jpeg"],
    &["document", "doc", "docx", "word"],
    &["presentation", "ppt", "pptx", "powerpoint", "slide"],
    &["spreadsheet", "excel", "xls", "xlsx", "sheet", "workbook"],
    &["markdown", "md"],
    &["database", "db"],
    &["information", "info", "detail", "metadata"],
];

/// The keys of the words that are taken for this one.
pub(super) fn alike(term: u64) -> &'static [u64] {
    static TABLE: OnceLock<HashMap<u64, Vec<u64>>> = OnceLock::new();
    TABLE.get_or_init(table).get(&term).map(Vec::as_slice).unwrap_or_default()
}

fn table() -> HashMap<u64, Vec<u64>> {
    let mut table: HashMap<u64, Vec<u64>> = HashMap::new();
    for row in ROWS {
        let keys: Vec<u64> = row.iter().map(|word| stemmed_key(word)).collect();
        for one in &keys {
            let known = table.entry(*one).or_default();
            for other in keys.iter().filter(|other| *other != one) {
                if !known.contains(other) {
                    known.push(*other);
                }
            }
        }
    }
    table
}

fn stemmed_key(word: &str) -> u64 {
    let mut word = word.to_owned();
    stem(&mut word);
    key(&word)
}
