//! What the index costs over 10 000 tools of 500 servers: building it, following one server's change, a question.
//!
//! The tools are real ones, repeated; the questions are people's steps and tasks, names, beginnings of names and words that
//! find nothing. Each question is asked several times and its best time counts, so that the percentiles are those of the
//! questions and not of a busy machine. `cargo bench --bench search` prints the figures; any other way of running it is a short check that it
//! still works.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pilothouse_rules::search::{Question, ToolIndex};
use serde_json::Value;

#[path = "shared/catalogs.rs"]
mod catalogs;
#[path = "shared/everything.rs"]
mod everything;

use catalogs::{Catalog, catalogs, labelled, offer, registry};
use everything::Everything;

/// How much is run.
struct Plan {
    servers: usize,
    rounds: usize,
}

impl Plan {
    fn from_arguments() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--bench") && !asked("--test") {
            Self { servers: 500, rounds: 9 }
        } else {
            Self { servers: 5, rounds: 1 }
        }
    }
}

fn main() {
    let plan = Plan::from_arguments();
    let mut registry = registry(&servers(plan.servers));
    let table = registry.table();
    let start = Instant::now();
    let index = ToolIndex::new(&table);
    println!("{} tools of {} servers", index.len(), plan.servers);
    println!("  index built in {:.1} ms", ms(start.elapsed()));

    let large = large_server();
    offer(&mut registry, &large);
    let before = index.updated(&registry.table());
    let mut one = large.clone();
    one.tools[0].description = Some("says something else".into());
    let mut all = large.clone();
    all.tools.iter_mut().for_each(|tool| tool.description = Some(format!("{} now", tool.name)));
    for (what, changed) in [("one of its 200 tools", one), ("all of its 200 tools", all)] {
        offer(&mut registry, &changed);
        let table = registry.table();
        println!("  a server changes {what}: {:.2} ms", ms(best(plan.rounds, || before.updated(&table))));
        offer(&mut registry, &large);
    }

    for (what, texts) in questions() {
        let times: Vec<_> = texts.iter().map(|text| best(plan.rounds, || search(&index, text))).collect();
        let (p50, p99) = (percentile(times.clone(), 50), percentile(times, 99));
        println!("  {what:24} {:4} questions, p50 {:.3} ms, p99 {:.3} ms", texts.len(), ms(p50), ms(p99));
    }
}

fn search(index: &ToolIndex, text: &str) -> usize {
    let answer = index.search(&Question { text, namespace: None, limit: 10 }, &Everything);
    answer.hits.len()
}

/// The pool of real tools, dealt out twenty to a server until there are enough servers.
fn servers(count: usize) -> Vec<Catalog> {
    let pool: Vec<_> = labelled().into_iter().chain(catalogs()).flat_map(|catalog| catalog.tools).collect();
    let mut dealt = pool.iter().cycle();
    let server = |n: usize| Catalog {
        id: format!("server-{n}"),
        label: format!("Server {n}"),
        tools: dealt.by_ref().take(20).cloned().collect(),
    };
    (0..count).map(server).collect()
}

fn large_server() -> Catalog {
    let tools = labelled().into_iter().flat_map(|catalog| catalog.tools).take(200).enumerate();
    let tools = tools.map(|(n, mut tool)| {
        tool.name.push_str(&format!("_{n}"));
        tool
    });
    Catalog { id: "large".into(), label: "Large".into(), tools: tools.collect() }
}

fn questions() -> [(&'static str, Vec<String>); 4] {
    let value: Value =
        serde_json::from_str(include_str!("retrieval/tasks.json")).expect("the data set is JSON");
    let tasks = value["tasks"].as_array().expect("it lists tasks");
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let names: Vec<String> = tasks.iter().flat_map(|task| texts(&task["tools"])).collect();
    let starts = names.iter().map(|name| name.chars().take(4).collect());
    let unknown = names.iter().map(|name| name.chars().rev().filter(|c| c.is_alphabetic()).collect());
    [
        ("steps", tasks.iter().flat_map(|task| texts(&task["steps"])).collect()),
        (
            "whole tasks",
            tasks.iter().filter_map(|task| Some(task["question"].as_str()?.to_owned())).collect(),
        ),
        ("names and beginnings", names.iter().cloned().chain(starts).collect()),
        ("words nobody uses", unknown.collect()),
    ]
}

fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

/// The best of some rounds: what it costs when nobody else has the processor.
fn best<T>(rounds: usize, mut run: impl FnMut() -> T) -> Duration {
    (0..rounds).map(|_| time(&mut run)).min().unwrap_or_default()
}

fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
