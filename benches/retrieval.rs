//! How often a search finds the tool that people chose: LiveMCPBench's tasks against its 527 tools, alone and with the
//! catalogs of real servers in between. `cargo bench --bench retrieval` prints recall at 1, 3, 5 and 10 and the mean
//! reciprocal rank, beside plain BM25 over the same texts; `-- --misses` also lists what is not among the first five. Nothing is timed.
//!
//! A pair is a step's text and the tool that the annotators name for it: all tasks with as many steps as tools, those in
//! the pool. Some pairs are wrong (a step "get news" beside a tool for cash flows), so 1 cannot be reached. Nothing in the
//! search is fitted to these texts.

use std::collections::BTreeSet;

use pilothouse_rules::search::{HITS_MAX, Question, ToolIndex};
use serde_json::Value;

#[path = "shared/catalogs.rs"]
mod catalogs;
#[path = "shared/everything.rs"]
mod everything;
#[path = "shared/plain.rs"]
mod plain;

use catalogs::{LABELLED, catalogs, labelled, registry};
use everything::Everything;
use plain::PlainIndex;

/// A text and the raw names that it should find.
struct Case {
    text: String,
    gold: Vec<String>,
}

fn main() {
    let labelled = labelled();
    let known: BTreeSet<&str> =
        labelled.iter().flat_map(|server| &server.tools).map(|tool| tool.name.as_str()).collect();
    let (steps, questions) = cases(&known);
    let mut crowd = labelled.clone();
    crowd.extend(catalogs());
    println!("{} steps with one tool each, {} questions with all their tools", steps.len(), questions.len());
    for (name, servers) in [("alone", &labelled), ("with all catalogs", &crowd)] {
        let index = ToolIndex::new(&registry(servers).table());
        let plain = PlainIndex::new(servers);
        println!("{name}: {} tools", index.len());
        println!("  {:28} {:>6} {:>6} {:>6} {:>6} {:>6}", "", "R@1", "R@3", "R@5", "R@10", "MRR");
        for (what, cases) in [("step", &steps), ("question", &questions)] {
            report(&format!("{what}, plain BM25"), cases, |text| plain.search(text));
            report(&format!("{what}, pilothouse"), cases, |text| search(&index, text));
        }
    }
}

fn search(index: &ToolIndex, text: &str) -> Vec<(String, String)> {
    let answer = index.search(&Question { text, namespace: None, limit: HITS_MAX }, &Everything);
    let hits = answer.hits.into_iter();
    hits.map(|hit| (hit.entry.namespace.clone(), hit.entry.source.raw_name().to_owned())).collect()
}

fn report(name: &str, cases: &[Case], search: impl Fn(&str) -> Vec<(String, String)>) {
    let (mut found, mut reciprocal, mut wanted) = ([0.0; 4], 0.0, 0.0);
    for case in cases {
        let hits = search(&case.text);
        for gold in &case.gold {
            let is_gold = |(server, tool): &(String, String)| server.contains(LABELLED) && tool == gold;
            let place = hits.iter().position(is_gold);
            if std::env::args().any(|argument| argument == "--misses") {
                miss(&case.text, gold, place, &hits);
            }
            wanted += 1.0;
            reciprocal += place.map_or(0.0, |place| 1.0 / (place + 1) as f64);
            for (count, within) in found.iter_mut().zip([1, 3, 5, 10]) {
                *count += f64::from(u8::from(place.is_some_and(|place| place < within)));
            }
        }
    }
    let [one, three, five, ten] = found.map(|count| count / wanted);
    println!("  {name:28} {one:6.3} {three:6.3} {five:6.3} {ten:6.3} {:6.3}", reciprocal / wanted);
}

/// Prints a tool that is not among the first five: of which kind the miss is, and what stands there instead.
fn miss(text: &str, gold: &str, place: Option<usize>, hits: &[(String, String)]) {
    let kind = match place {
        None => "has no word of it, or is behind all that is told".to_owned(),
        Some(0..5) => return,
        Some(place) => format!("place {}", place + 1),
    };
    let first: Vec<_> = hits.iter().take(3).map(|(_, tool)| tool.as_str()).collect();
    println!("    {gold} ({kind}) <- {text:.90} ; {first:?}");
}

fn cases(known: &BTreeSet<&str>) -> (Vec<Case>, Vec<Case>) {
    let value: Value =
        serde_json::from_str(include_str!("retrieval/tasks.json")).expect("the data set is JSON");
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let (mut steps, mut questions) = (Vec::new(), Vec::new());
    for task in value["tasks"].as_array().expect("it lists tasks") {
        let (said, gold) = (texts(&task["steps"]), texts(&task["tools"]));
        if said.len() == gold.len() {
            let pairs = said.into_iter().zip(&gold).filter(|(_, tool)| known.contains(tool.as_str()));
            steps.extend(pairs.map(|(text, tool)| Case { text, gold: vec![tool.clone()] }));
        }
        let gold: Vec<_> = gold.into_iter().filter(|tool| known.contains(tool.as_str())).collect();
        let text = task["question"].as_str().unwrap_or_default().to_owned();
        questions.push(Case { text, gold });
    }
    (steps, questions)
}
