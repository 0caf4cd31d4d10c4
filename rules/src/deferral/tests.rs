use std::collections::BTreeMap;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::{ToolDefinition, ToolSource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::tokens::Bytes4;

mod peer;

use peer::{CharsBy4, Tokenx};

const BYTES: usize = 1 << 20;

fn entry(name: &str, defer: Defer, description: Option<String>, schema: &Value) -> Arc<Entry> {
    let definition = ToolDefinition {
        name: name.to_owned(),
        title: None,
        description,
        input_schema: JsonText::from(schema),
        output_schema: None,
        annotations: None,
    };
    let source = ToolSource::Builtin { name: name.to_owned() };
    let mut entry = Entry::new(name.to_owned(), source, Arc::new(definition), Digest([0; 32]));
    entry.defer = defer;
    Arc::new(entry)
}

/// So many tools that together have exactly so many bytes of compact JSON.
fn tools(count: usize, bytes: u64, defer: Defer) -> Vec<Arc<Entry>> {
    let made =
        |n: usize, padding: usize| entry(&format!("t{n}"), defer, Some("x".repeat(1 + padding)), &json!({}));
    let smallest: Vec<_> = (0..count).map(|n| made(n, 0)).collect();
    let least: usize =
        smallest.iter().map(|tool| crate::tokens::compact_json(&as_owned(tool, BYTES)).len()).sum();
    let padding = usize::try_from(bytes).expect("it fits") - least;
    (0..count).map(|n| made(n, if n == 0 { padding } else { 0 })).collect()
}

fn gate_of(tools: &[Arc<Entry>], window: Option<u64>) -> DeferralGate {
    decide(tools, window, &Bytes4, BYTES).report.gate
}

#[test]
fn each_gate_is_strict_and_they_are_asked_in_order() {
    use DeferralGate::{CheaperThanTheMetaTools, FitsTheWindow, Passed, TooFew};
    let rows = [
        (4, 40_000, Some(8_000), TooFew),
        (5, 3_200 * 4, Some(32_000), FitsTheWindow),
        (5, 3_200 * 4 + 1, Some(32_000), Passed),
        (5, 3_200 * 4, None, FitsTheWindow),
        (5, 3_200 * 4 + 1, None, Passed),
        (5, 3_200 * 4 + 1, Some(0), Passed),
        (5, 500 * 4, Some(1), CheaperThanTheMetaTools),
        (5, 500 * 4 + 1, Some(1), Passed),
        (5, 501 * 4, Some(5_009), Passed),
        (5, 501 * 4, Some(5_010), FitsTheWindow),
        (5, 20_001 * 4, Some(1_000_000), FitsTheWindow),
        (200, 20_001 * 4, Some(200_000), Passed),
        (200, 20_001 * 4, Some(u64::MAX), FitsTheWindow),
    ];
    for (count, bytes, window, expected) in rows {
        assert_eq!(
            gate_of(&tools(count, bytes, Defer::Auto), window),
            expected,
            "{count} {bytes} {window:?}"
        );
    }
}

#[test]
fn a_report_says_what_was_counted_what_was_saved_and_which_gate_decided() {
    let mut all = tools(6, 16_000, Defer::Auto);
    all.push(entry("browser", Defer::Always, None, &json!({})));
    all.push(entry("fetch", Defer::Never, None, &json!({})));
    let cost = |tools: &[Arc<Entry>]| {
        let shown: Vec<_> = tools.iter().map(|tool| as_owned(tool, BYTES)).collect();
        ToolCost::new(tools.len(), Bytes4.tokens(&mut shown.iter()))
    };
    let expected = |window: u64, gate| {
        DeferralReport::new(
            "utf8-bytes/4@1".into(),
            window,
            Gates { share: window / 10, overhead: META_TOKENS },
            [cost(&all[7..]), cost(&all[6..7]), ToolCost::new(6, 4_000)],
            gate,
        )
    };
    let small = decide(&all, Some(8_000), &Bytes4, BYTES);
    assert_eq!(small.report, expected(8_000, DeferralGate::Passed));
    assert_eq!((small.inline.as_slice(), small.deferred.as_slice()), (&all[7..], &all[..7]));
    let browser = i64::try_from(cost(&all[6..7]).tokens).expect("it fits");
    assert_eq!(small.report.saved, 4_000 + browser - 500);

    let large = decide(&all, Some(128_000), &Bytes4, BYTES);
    assert_eq!(large.report, expected(128_000, DeferralGate::FitsTheWindow));
    assert_eq!(large.deferred, all[6..7]);
    assert_eq!(large.report.saved, browser - 500);

    let none = decide(&all[7..], Some(8_000), &Bytes4, BYTES);
    assert_eq!((none.report.saved, none.deferred.len()), (0, 0));
}

#[test]
fn a_tool_that_always_asks_is_shown_whatever_was_said() {
    for defer in [Defer::Never, Defer::Always, Defer::Auto] {
        let mut all = tools(5, 40_000, Defer::Auto);
        let mut asks = Entry::clone(&entry("asks", defer, None, &json!({})));
        asks.force_prompt = true;
        all.push(Arc::new(asks));
        let decided = decide(&all, None, &Bytes4, BYTES);
        assert_eq!(
            (decided.inline.as_slice(), decided.deferred.as_slice()),
            (&all[5..], &all[..5]),
            "{defer:?}"
        );
    }
}

#[test]
fn servers_tools_are_deferred_where_that_pays_and_functions_are_not_unless_said() {
    let mut registry = crate::registry::sample::registry(&["f"]);
    crate::registry::sample::tell_offer(&mut registry, crate::registry::sample::offer("db", &["query"]));
    let table = registry.table();
    let said: Vec<_> = table.entries().iter().map(|entry| (entry.source.raw_name(), entry.defer)).collect();
    assert_eq!(said, [("f", Defer::Never), ("query", Defer::Auto)]);
}

#[test]
fn a_description_costs_what_is_shown_of_it() {
    let tools: Vec<_> = (0..5)
        .map(|n| entry(&format!("t{n}"), Defer::Auto, Some("x".repeat(16 << 20)), &json!({})))
        .collect();
    let report = decide(&tools, None, &Bytes4, 100).report;
    assert_eq!((report.auto, report.gate), (ToolCost::new(5, 185), DeferralGate::FitsTheWindow));
}

#[derive(Deserialize)]
struct Vectors {
    token_estimate_text: Vec<TextRow>,
    token_estimate_tool: Vec<ToolRow>,
    should_defer_tokenx: Vec<DeferRow>,
    should_defer_chars4_generation: Vec<DeferRow>,
}

#[derive(Deserialize)]
struct TextRow {
    text: String,
    tokens: u64,
}

#[derive(Deserialize)]
struct ToolRow {
    serialised: String,
    tokens: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeferRow {
    label: String,
    context_window: Option<i64>,
    entries: Vec<EntryRow>,
    threshold: u64,
    #[serde(alias = "auto_cost_tokenx_1_2_1", rename = "auto_cost")]
    auto_cost: u64,
    deferred: Vec<String>,
}

#[derive(Deserialize)]
struct EntryRow {
    name: String,
    defer: Defer,
    description: Option<Value>,
    desc_unit: Option<String>,
    desc_count: Option<usize>,
    schema: Option<Value>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/vectors/deferral.json")).expect("the vectors are JSON")
}

impl EntryRow {
    fn description(&self) -> Option<String> {
        let repeated = self.desc_unit.as_ref().zip(self.desc_count).map(|(unit, count)| unit.repeat(count));
        let written = self.description.as_ref().and_then(Value::as_str);
        written.map(str::to_owned).or(repeated)
    }

    fn entry(&self) -> Arc<Entry> {
        entry(&self.name, self.defer, self.description(), self.schema.as_ref().unwrap_or(&Value::Null))
    }
}

/// The peer sends a tool's own description, and leaves out what is not there; a surface shows the name instead.
fn told(rows: &[EntryRow]) -> BTreeMap<String, Option<String>> {
    rows.iter().map(|row| (row.name.clone(), row.description())).collect()
}

fn check(row: &DeferRow, counter: &dyn TokenCounter) {
    let entries: Vec<_> = row.entries.iter().map(EntryRow::entry).collect();
    let window = row.context_window.and_then(|window| u64::try_from(window).ok());
    let decided = decide(&entries, window, counter, BYTES);
    let mut names: Vec<_> = decided.deferred.iter().map(|entry| entry.name.clone()).collect();
    names.sort();
    names.dedup();
    let mut expected = row.deferred.clone();
    expected.sort();
    let made = (decided.report.share, decided.report.auto.tokens, names);
    assert_eq!(made, (row.threshold, row.auto_cost, expected), "{}", row.label);
}

#[test]
fn the_gates_agree_with_every_golden_row_of_either_estimator() {
    let vectors = vectors();
    assert_eq!((vectors.should_defer_tokenx.len(), vectors.should_defer_chars4_generation.len()), (54, 20));
    for row in &vectors.should_defer_tokenx {
        check(row, &Tokenx { told: told(&row.entries) });
    }
    for row in &vectors.should_defer_chars4_generation {
        check(row, &CharsBy4 { told: told(&row.entries) });
    }
}

#[test]
fn the_peers_estimate_is_reproduced() {
    let vectors = vectors();
    assert_eq!((vectors.token_estimate_text.len(), vectors.token_estimate_tool.len()), (74, 10));
    for row in &vectors.token_estimate_text {
        assert_eq!(peer::tokenx(&row.text), row.tokens, "{:?}", row.text);
    }
    for row in &vectors.token_estimate_tool {
        assert_eq!(peer::tokenx(&row.serialised), row.tokens, "{}", row.serialised);
    }
}
