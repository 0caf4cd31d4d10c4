use std::collections::BTreeSet;

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::SurfaceView;
use pilothouse_messages::topic::{Findings, PermissionMode};
use proptest::prelude::*;

use super::{Asked, Mismatch, Shelf, asked};
use crate::gate::{Modes, Need, need};
use crate::meta::Inspected;
use crate::meta::sample::World;
use crate::registry::resolved;
use crate::search::ToolIndex;

/// A call of `name` while the servers of these tools are down.
fn ask(world: &World, down: &[&str], inspected: &mut Inspected, name: &str, raw: &str) -> Asked {
    let trouble =
        |entry: &Entry| down.contains(&entry.source.raw_name()).then(|| "its server is down".to_owned());
    let shelf = Shelf { index: &ToolIndex::new(&world.table), trouble: &trouble };
    world.see(|sight| asked(name, raw, sight, &shelf, inspected))
}

fn words(asked: Asked) -> String {
    match asked {
        Asked::Run { entry, arguments, fixes } => {
            format!("{} {arguments} {fixes:?}", entry.source.raw_name())
        }
        Asked::Answered(result) => format!("{:?}: {}", result.outcome, result.text()),
        Asked::Refused(words) | Asked::Mismatch(Mismatch { words, .. }) => format!("refused: {words}"),
    }
}

#[test]
fn a_call_comes_to_a_tool_an_answer_or_words_whatever_name_it_has() {
    let world = World::of(&["find", "drop"], &["drop"], &["drop"]);
    let (find, drop) = (world.wire("find"), world.wire("drop"));
    let mut inspected = Inspected::default();
    let missing = format!(
        "refused: \"{drop}\" was not called: the arguments do not match its schema:\n- arguments: \"q\" is required \
         and missing\nThis is its signature:\nfunction {drop}(params)"
    );
    let list = format!(
        "refused: \"{drop}\" was not called: the arguments must be a JSON object, this is an array\nThis is its \
         signature:\nfunction {drop}(params)"
    );
    let unlisted = |name: &str| {
        format!(
            "refused: no tool named \"{name}\" is available here; the nearest is \"{drop}\": call it by exactly that \
             name, or look with tool_search"
        )
    };
    let through = |params: &str| format!(r#"{{"name":"{find}","params":{params}}}"#);
    let unseen = format!(
        "refused: \"{find}\" was not called, because it had not been inspected. This is its signature; call it again \
         with arguments that fit:\nfunction {find}(params)"
    );
    let listed = format!(
        "Succeeded: db\n  - {find} — does find (its server is down)\nSee a signature with tool_inspect, then call the \
         tool with tool_invoke."
    );
    let rows = [
        (drop.as_str(), r#"{"q":"a"}"#.to_owned(), r#"drop {"q":"a"} []"#.to_owned()),
        (&drop, r#""{\"q\":\"a\"}""#.to_owned(), r#"drop {"q":"a"} [Decoded]"#.to_owned()),
        (&drop, String::new(), missing),
        (&drop, "[1]".to_owned(), list),
        ("drop", r#"{"q":"a"}"#.to_owned(), unlisted("drop")),
        ("find", r#"{"q":"a"}"#.to_owned(), unlisted("find")),
        ("tool_exec", "{}".to_owned(), unlisted("tool_exec")),
        ("tool_search", String::new(), listed.clone()),
        ("tool_search", r#"{"query":"drop the find"}"#.to_owned(), listed),
        (
            "tool_search",
            "7".to_owned(),
            "refused: tool_search: the arguments must be a JSON object, this is a number".to_owned(),
        ),
        ("tool_invoke", through(r#"{"q":"a"}"#), unseen),
        ("tool_invoke", through(r#"{"q":"a"}"#), r#"find {"q":"a"} []"#.to_owned()),
        ("tool_inspect", format!(r#"{{"name":"{find}"}}"#), format!("Succeeded: function {find}(params)")),
        (&find, r#"{"q":"a"}"#.to_owned(), r#"find {"q":"a"} []"#.to_owned()),
    ];
    for (name, raw, expected) in rows {
        assert_eq!(words(ask(&world, &["find"], &mut inspected, name, &raw)), expected, "{name} {raw}");
    }
}

#[test]
fn a_tool_that_is_not_shown_passes_the_checks_of_tool_invoke_also_by_its_own_name() {
    let mut world = World::of(&["find", "drop", "idle"], &[], &["drop"]);
    let [find, drop, idle] = ["find", "drop", "idle"].map(|tool| world.wire(tool));
    world.gone.insert(idle.clone());
    let unseen = |name: &str| {
        format!(
            "refused: \"{name}\" was not called, because it had not been inspected. This is its signature; call it \
             again with arguments that fit:\nfunction {name}(params)"
        )
    };
    let mut inspected = Inspected::default();
    let rows = [
        (&find, "{}", unseen(&find)),
        (
            &find,
            "{}",
            format!(
                "refused: \"{find}\" was not called: the arguments do not match its schema:\n- arguments: \"q\" is \
                 required and missing\nThis is its signature:\nfunction {find}(params)"
            ),
        ),
        (&find, r#"{"q":"a"}"#, r#"find {"q":"a"} []"#.to_owned()),
        // Always asked about, and there is no other way to it: the gate opens its card.
        (&drop, r#"{"q":"a"}"#, unseen(&drop)),
        (&drop, r#"{"q":"a"}"#, r#"drop {"q":"a"} []"#.to_owned()),
        (
            &idle,
            r#"{"q":"a"}"#,
            format!("refused: nothing runs \"{idle}\" now, so it was not called: go on without it"),
        ),
    ];
    for (name, raw, expected) in rows {
        assert_eq!(words(ask(&world, &[], &mut inspected, name, raw)), expected, "{name} {raw}");
    }
}

#[test]
fn a_meta_tool_that_is_not_shown_is_no_tool() {
    let mut world = World::of(&["find"], &["find"], &[]);
    world.block.tools.retain(|tool| MetaTool::of(&tool.name).is_none());
    let find = world.wire("find");
    for meta in MetaTool::ALL {
        let told = words(ask(&world, &[], &mut Inspected::default(), meta.name(), r#"{"name":"find"}"#));
        let expected = format!(
            "refused: no tool named \"{meta}\" is available here; the nearest is \"{find}\": call it by exactly that name"
        );
        assert_eq!(told, expected);
    }
}

#[test]
fn arguments_nested_without_end_are_refused_and_harm_nothing() {
    let world = World::of(&["find"], &["find"], &[]);
    let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "1");
    let told = words(ask(&world, &[], &mut Inspected::default(), &world.wire("find"), &deep));
    assert!(told.contains("recursion limit") && told.len() < 2_000, "{told}");
}

#[test]
fn a_tool_that_the_table_has_no_longer_is_not_found() {
    let (world, later) = (World::of(&["find", "drop"], &[], &[]), World::of(&["find"], &[], &[]));
    let shelf = Shelf { index: &ToolIndex::new(&world.table), trouble: &|_| None };
    let asked = later.see(|sight| asked("tool_search", "{}", sight, &shelf, &mut Inspected::default()));
    assert!(!words(asked).contains(&world.wire("drop")));
}

/// A call in which every path to a tool may be taken.
#[derive(Debug, Clone)]
struct Path {
    tool: &'static str,
    way: Way,
    params: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Wire,
    Raw,
    Legacy,
    Invoke,
    InvokeRaw,
    Nested,
    Search,
    Inspect,
}

fn path() -> impl Strategy<Value = Path> {
    let way = prop::sample::select(vec![
        Way::Wire,
        Way::Raw,
        Way::Legacy,
        Way::Invoke,
        Way::InvokeRaw,
        Way::Nested,
        Way::Search,
        Way::Inspect,
    ]);
    let tool = prop::sample::select(vec!["find", "drop", "idle"]);
    let params = prop::sample::select(vec![r#"{"q":"a"}"#, r#""{\"q\":\"a\"}""#, "{}", "7"]);
    (tool, way, params).prop_map(|(tool, way, params)| Path { tool, way, params })
}

/// The name and the arguments that a model writes on this path.
fn written(world: &World, path: &Path) -> (String, String) {
    let Path { tool, way, params } = path;
    let wire = world.wire(tool);
    let named = |name: &str| format!(r#"{{"name":"{name}","params":{params}}}"#);
    match way {
        Way::Wire => (wire, (*params).to_owned()),
        Way::Raw => ((*tool).to_owned(), (*params).to_owned()),
        Way::Legacy => (format!("mcp__db__{tool}"), (*params).to_owned()),
        Way::Invoke => ("tool_invoke".to_owned(), named(&wire)),
        Way::InvokeRaw => ("tool_invoke".to_owned(), named(tool)),
        Way::Nested => {
            ("tool_invoke".to_owned(), format!(r#"{{"name":"tool_invoke","params":{}}}"#, named(&wire)))
        }
        Way::Search => ("tool_search".to_owned(), format!(r#"{{"query":"{tool}","verbose":true}}"#)),
        Way::Inspect => ("tool_inspect".to_owned(), format!(r#"{{"name":"{wire}"}}"#)),
    }
}

fn some(tools: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["find", "drop", "idle"], 0..=tools)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is shown, deferred, down, denied and always asked about, on every path, one after the other.
    #[test]
    fn no_path_runs_a_tool_without_its_decision_and_no_refusal_names_a_way_that_there_is_not(
        inline in some(3), forced in some(3), denied in some(3), down in some(3),
        metas in prop::sample::subsequence(MetaTool::ALL.to_vec(), 0..=4),
        mode in prop::sample::select(vec![PermissionMode::Default, PermissionMode::Auto, PermissionMode::Bypass]),
        paths in prop::collection::vec(path(), 1..8),
    ) {
        let mut world = World::of(&["find", "drop", "idle"], &inline, &forced);
        let mut shown = world.block.tools.clone();
        shown.retain(|tool| MetaTool::of(&tool.name).is_none_or(|meta| metas.contains(&meta)));
        world.block = SurfaceView::new(shown);
        let has = |name: &str| world.block.tools.iter().any(|tool| tool.name == name);
        let mut inspected = Inspected::default();
        let mut seen = BTreeSet::new();
        for path in paths {
            let (name, raw) = written(&world, &path);
            let asked = ask(&world, &down, &mut inspected, &name, &raw);
            let shows = |tool: &&str| match &asked {
                Asked::Answered(result) => result.text().contains(&world.wire(tool)),
                Asked::Refused(told) | Asked::Mismatch(Mismatch { words: told, .. }) => {
                    told.contains(&format!("function {}(params)", world.wire(tool)))
                }
                Asked::Run { .. } => false,
            };
            seen.extend(["find", "drop", "idle"].into_iter().filter(shows));
            let told = match asked {
                Asked::Run { entry, arguments, fixes: _ } => {
                    prop_assert!(has(&entry.name) || seen.contains(path.tool), "its signature was never shown");
                    prop_assert_eq!(entry.source.raw_name(), path.tool, "another tool than was meant");
                    prop_assert_eq!(arguments.as_str(), r#"{"q":"a"}"#);
                    let denial = denied.contains(&path.tool).then(|| "no".to_owned());
                    let findings = Findings { denied: denial, ..Findings::default() };
                    match need(&resolved(&entry), &findings, Modes::of(mode, PermissionMode::Bypass)) {
                        Need::Run(_) => prop_assert!(!denied.contains(&path.tool) && !forced.contains(&path.tool)),
                        Need::Ask(_) => prop_assert!(!denied.contains(&path.tool)),
                        Need::Deny(_) => prop_assert!(denied.contains(&path.tool)),
                    }
                    let through = name == MetaTool::Invoke.name();
                    prop_assert!(!(through && forced.contains(&path.tool) && has(&entry.name)), "by an alias");
                    continue;
                }
                Asked::Answered(result) => {
                    prop_assert!(has(&name), "a meta tool that is not shown has answered");
                    if result.outcome == CallOutcome::Succeeded { continue }
                    result.text()
                }
                Asked::Refused(words) | Asked::Mismatch(Mismatch { words, .. }) => words,
            };
            // What the model itself wrote is quoted, and no way.
            let told = told.replace(&format!("\"{name}\""), "");
            for meta in MetaTool::ALL.into_iter().filter(|meta| told.contains(meta.name())) {
                prop_assert!(has(meta.name()) || raw.contains(meta.name()), "{} in {}", meta, told);
            }
            if told.contains("directly") && !raw.contains("tool_") {
                prop_assert!(has(&world.wire(path.tool)), "{}", told);
            }
            if name != MetaTool::Invoke.name() && told.contains("nearest") {
                let named = ["find", "drop", "idle"].map(|tool| world.wire(tool));
                prop_assert!(named.iter().all(|wire| has(wire) || !told.contains(wire.as_str())), "{}", told);
            }
        }
    }
}
