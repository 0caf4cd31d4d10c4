//! An embedding process with real servers is killed under load and started again on its data, over and over: nothing
//! that it acknowledged is lost, nothing is doubled, and no process of an earlier life goes on.
//!
//! `PILOTHOUSE_RING_SECONDS=3600 cargo test --test ring -- --nocapture` is a long one; `PILOTHOUSE_SEED` draws another.
#![cfg(target_os = "linux")]

#[path = "durability/dice.rs"]
mod dice;
#[path = "ring/embedder.rs"]
mod embedder;
#[path = "durability/lines.rs"]
mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dice::Dice;
use embedder::{Embedder, Ground, TOPICS, Told, marked, sweep, token_in};
use pilothouse::audit::AuditFact;
use pilothouse::call::CallOutcome;
use pilothouse::prelude::*;
use pilothouse::topic::{CallState, TurnView};
use pilothouse_harness::audit::of_directory;
use serde_json::Value;

/// How long a run lasts unless it is told otherwise.
const SECONDS: u64 = 15;
/// How long what a killed process has left may go on in the next life of its embedder.
const ORPHAN: Duration = Duration::from_secs(20);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Lives of one run of this test; those of another one on this machine have other numbers.
const LIVES: u64 = 1_000_000;

/// Waits until no server of another life of this run goes on.
fn no_orphan_beside(life: u64, seed: u64) {
    let (begun, run) = (Instant::now(), u64::from(std::process::id()));
    loop {
        let is_ours = |of: u64| of / LIVES == run && of != life;
        let orphans: Vec<_> = marked().into_iter().filter(|(_, of)| is_ours(*of)).collect();
        if orphans.is_empty() {
            return;
        }
        assert!(begun.elapsed() < ORPHAN, "seed {seed}: (process, life) {orphans:?} beside life {life}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One topic as it is kept: its messages, and its calls by their tokens.
#[derive(Default)]
struct Kept {
    messages: Vec<String>,
    calls: Vec<(String, Option<CallOutcome>)>,
}

impl Kept {
    fn read(&mut self, turn: &TurnView) {
        self.messages.extend(turn.messages.iter().map(|message| message.text.clone()));
        for call in turn.steps.iter().flat_map(|step| &step.calls) {
            let outcome = match &call.state {
                CallState::Finished(result) => Some(result.outcome),
                CallState::Awaiting { .. } | CallState::Running => None,
            };
            let arguments: Value = serde_json::from_str(call.arguments.as_str()).unwrap_or_default();
            self.calls.push((token_in(&arguments).unwrap_or_default(), outcome));
        }
    }
}

/// Reads everything back with a process of its own, which opens no connection.
async fn read_back(ground: &Ground) -> BTreeMap<String, Kept> {
    let runtime = Runtime::builder().data_dir(&ground.data).start().await.expect("the data opens");
    let mut all = BTreeMap::new();
    for topic in (0..TOPICS).map(|topic| format!("t{topic}")) {
        let Ok(handle) = runtime.topic(topic.as_str()).await else { continue };
        let (mut kept, mut cursor, mut seen) = (Kept::default(), None, BTreeSet::new());
        let begun = Instant::now();
        let view = loop {
            if let Some(view) = handle.view() {
                break view;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{topic} has a view");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let waiting = view.queue.iter().chain(&view.held);
        kept.messages.extend(waiting.map(|message| message.text.clone()));
        loop {
            let page = handle.history(cursor).await.expect("the past is read");
            for turn in &page.turns {
                assert!(seen.insert(turn.turn), "turn {} of {topic} comes in one page", turn.turn);
                kept.read(turn);
            }
            cursor = page.earlier;
            if cursor.is_none() {
                break;
            }
        }
        view.turns.iter().filter(|turn| !seen.contains(&turn.turn)).for_each(|turn| kept.read(turn));
        all.insert(topic, kept);
    }
    assert!(runtime.shutdown().await.is_clean());
    all
}

/// Holds what was told against what is kept, and what is kept against what the servers ran.
async fn check(ground: &Ground, told: &Told, seed: u64) -> String {
    let report = of_directory(&ground.data).await.expect("the audit reads it");
    assert_eq!(report.faults, [], "seed {seed}");
    let mut decided = BTreeMap::new();
    for row in &report.rows {
        if let AuditFact::Decided { approval, verdict, .. } = &row.fact {
            let before = decided.insert(approval.to_string(), *verdict);
            assert_eq!(before, None, "seed {seed}: {approval} was decided twice");
        }
    }
    let lost: Vec<_> = told.decided.iter().filter(|(card, word)| decided.get(*card) != Some(word)).collect();
    assert!(lost.is_empty(), "seed {seed}: decisions lost or changed: {lost:?}");

    let kept = read_back(ground).await;
    for (topic, kept) in &kept {
        let once: BTreeSet<_> = kept.messages.iter().collect();
        assert_eq!(once.len(), kept.messages.len(), "seed {seed}: a message of {topic} is there twice");
    }
    let is_lost = |(topic, text): &&(String, String)| {
        kept.get(topic.as_str()).is_none_or(|kept| !kept.messages.contains(text))
    };
    let lost: Vec<_> = told.taken.iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "seed {seed}: messages lost: {lost:?}");

    let mut ran: BTreeMap<String, u64> = BTreeMap::new();
    for line in std::fs::read_to_string(&ground.calls).expect("calls ran").lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        *ran.entry(token_in(&line["arguments"]).expect("a call has its token")).or_default() += 1;
    }
    let doubled: Vec<_> =
        ran.iter().filter(|(token, times)| **times > 1 && !token.ends_with("read")).collect();
    assert!(doubled.is_empty(), "seed {seed}: ran more than once: {doubled:?}");
    let calls: BTreeMap<_, _> = kept.values().flat_map(|kept| kept.calls.iter().cloned()).collect();
    for (token, outcome) in &calls {
        assert!(outcome.is_some(), "seed {seed}: {token} has no result");
        assert!(
            *outcome != Some(CallOutcome::Succeeded) || ran.contains_key(token),
            "seed {seed}: {token} succeeded and never ran"
        );
        assert!(
            *outcome != Some(CallOutcome::Denied) || !ran.contains_key(token),
            "seed {seed}: {token} was denied and ran"
        );
    }
    let shown =
        told.succeeded.iter().filter(|token| calls.get(*token) != Some(&Some(CallOutcome::Succeeded)));
    assert_eq!(shown.collect::<Vec<_>>(), Vec::<&String>::new(), "seed {seed}: shown as succeeded, then not");
    format!(
        "{} messages and {} decisions acknowledged, {} calls kept, {} ran, {} shown as succeeded; 0 lost, 0 doubled",
        told.taken.len(),
        told.decided.len(),
        calls.len(),
        ran.len(),
        told.succeeded.len()
    )
}

/// Leaves no process of this run's lives behind, however it ends.
struct Swept(u64);

impl Drop for Swept {
    fn drop(&mut self) {
        sweep(|life| life / LIVES == self.0 / LIVES);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_over_and_over_loses_nothing_doubles_nothing_and_leaves_no_orphan() {
    let (seconds, seed) = (number("PILOTHOUSE_RING_SECONDS", SECONDS), number("PILOTHOUSE_SEED", 1));
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let ground = Ground { data: directory.path().join("data"), calls: directory.path().join("calls") };
    let (mut dice, mut told, begun) = (Dice::new(seed), Told::default(), Instant::now());
    let first = u64::from(std::process::id()) * LIVES;
    let _swept = Swept(first);
    let mut life = first;
    while begun.elapsed() < Duration::from_secs(seconds) {
        life += 1;
        let mut embedder = Embedder::start(&ground, life);
        match dice.below(6) {
            0 => embedder.begins(Duration::from_millis(dice.below(400))),
            _ => {
                embedder.lives(Duration::from_millis(100 + dice.below(1_500)), &mut dice);
                no_orphan_beside(life, seed);
            }
        }
        told.also(embedder.kill());
    }
    life += 1;
    let mut last = Embedder::start(&ground, life);
    last.rests(Duration::from_secs(60), &mut dice);
    no_orphan_beside(life, seed);
    told.also(last.end());
    no_orphan_beside(0, seed);
    let found = check(&ground, &told, seed).await;
    println!("{} lives in {} s, seed {seed}: {found}; no orphan", life - first, begun.elapsed().as_secs());
    let lives = life - first;
    assert!(told.taken.len() as u64 >= lives && !told.succeeded.is_empty(), "{lives} lives: {found}");
}
