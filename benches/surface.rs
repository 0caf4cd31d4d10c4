//! What deferral saves on real servers, window by window, and what the decision costs.
//!
//! `cargo bench --bench surface` prints the table; any other way of running it is a short check that it still works.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pilothouse_messages::deferral::DeferralGate;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::Dialect;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::ToolDefinition;
use pilothouse_messages::topic::TopicConfig;
use pilothouse_rules::deferral::{Deferral, decide};
use pilothouse_rules::registry::ToolTable;
use pilothouse_rules::surface::{ShownTools, Surface, Terms, deferred_section};
use pilothouse_rules::tokens::Bytes4;

use serde_json::json;

#[path = "shared/catalogs.rs"]
mod catalogs;

use catalogs::{Catalog, catalogs, labelled, registry};

const WINDOWS: [u64; 5] = [8_000, 32_000, 128_000, 200_000, 1_000_000];

fn main() {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    let rounds = if asked("--bench") && !asked("--test") { 20 } else { 1 };
    let servers =
        [catalogs(), labelled()].into_iter().find(|servers| !servers.is_empty()).unwrap_or_default();
    let table = registry(&servers).table();
    let alone: Vec<_> = servers.iter().map(|server| registry(std::slice::from_ref(server)).table()).collect();
    let few = largest(&servers, 5);
    println!("{} servers, {} tools", servers.len(), table.entries().len());
    println!(
        "  window   alone: servers deferred, tokens saved   the 5 largest: shown, saved   all: shown, saved"
    );
    for window in WINDOWS {
        let decided: Vec<_> = alone.iter().map(|table| decided(table, window)).collect();
        let passed = decided.iter().filter(|one| one.report.gate == DeferralGate::Passed);
        let saved: i64 = decided.iter().map(|one| one.report.saved).sum();
        println!(
            "  {window:7}   {:3} of {:3}, {saved:7}                   {}       {}",
            passed.count(),
            servers.len(),
            shown_and_saved(&few, window),
            shown_and_saved(&table, window),
        );
    }
    let section = deferred_section(&decided(&table, 8_000).deferred).unwrap_or_default();
    println!("  the section about them: {} bytes", section.len());
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(decided(&table, 32_000));
    }
    println!(
        "  one decision about all of them: {:.2} ms",
        start.elapsed().as_secs_f64() * 1e3 / f64::from(rounds)
    );
    pins(rounds);
}

/// What pinning ten thousand tools costs, as a first turn pays it, and what reading the pin costs afterwards.
fn pins(rounds: u32) {
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}});
    let tool = |n: usize| ToolDefinition {
        name: format!("tool_{n}"),
        title: None,
        description: Some(format!(
            "Does the work of tool {n} on one path, down to a depth, and says what it did."
        )),
        input_schema: JsonText::from(&schema),
        output_schema: None,
        annotations: None,
    };
    let servers: Vec<Catalog> = (0..10)
        .map(|n| Catalog {
            id: format!("server-{n}"),
            label: format!("Server {n}"),
            tools: (0..1_000).map(tool).collect(),
        })
        .collect();
    let (table, limits, shown) = (registry(&servers).table(), Limits::default(), ShownTools::default());
    let terms = Terms { limits: &limits, counter: &Bytes4, shown: &shown, dialect: Dialect::Common };
    for (words, window) in [("deferred", None), ("shown whole", Some(100_000_000))] {
        let mut config = TopicConfig::new("m");
        config.context_window = window;
        let pin = || Surface::pin(&table, &config, &Arc::default(), Timestamp(1), terms);
        let start = Instant::now();
        let surface = pin();
        let cold = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        (0..rounds).for_each(|_| drop(black_box(pin())));
        let warm = start.elapsed().as_secs_f64() * 1e3 / f64::from(rounds);
        let start = Instant::now();
        for _ in 0..1_000 * rounds {
            black_box(black_box(&surface).view().clone());
        }
        let read = start.elapsed().as_secs_f64() * 1e9 / f64::from(1_000 * rounds);
        println!(
            "  {} tools, {words}: first pin {cold:.2} ms, again {warm:.2} ms, a read of the pin {read:.0} ns",
            table.entries().len(),
        );
    }
}

fn decided(table: &ToolTable, window: u64) -> Deferral {
    decide(table.entries(), Some(window), &Bytes4, Limits::default().description_bytes)
}

/// Tokens of tools in a request with deferral, the meta tools included, and what it saves.
fn shown_and_saved(table: &ToolTable, window: u64) -> String {
    let report = decided(table, window).report;
    let without = report.never.tokens + report.always.tokens + report.auto.tokens;
    format!("{:7} {:7}", i64::try_from(without).unwrap_or(i64::MAX) - report.saved, report.saved)
}

fn largest(servers: &[Catalog], count: usize) -> Arc<ToolTable> {
    let mut servers = servers.to_vec();
    servers.sort_by_key(|server| std::cmp::Reverse(server.tools.len()));
    servers.truncate(count);
    registry(&servers).table()
}
