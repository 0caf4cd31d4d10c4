use std::sync::Arc;

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::TenantId;
use pilothouse_messages::meta::{MetaTool, SearchDetail, SearchInput};
use pilothouse_messages::tool::SurfaceView;
use proptest::prelude::*;
use serde_json::json;

use super::sample::World;
use super::{
    Finding, Found, Inspected, InvokeDecision, answer_search, definitions, inspect, invoke, search_input,
};
use crate::arguments::{Fix, Validators};
use crate::registry::Scope;

/// What a call of `tool_invoke` comes to, as text.
fn invoked(world: &World, inspected: &mut Inspected, raw: &str) -> String {
    world.see(|sight| match invoke(raw, sight, inspected) {
        InvokeDecision::Refuse(words) => format!("refused: {words}"),
        InvokeDecision::Mismatch(mismatch) => format!("refused: {}", mismatch.words),
        InvokeDecision::Run { entry, arguments, fixes } => {
            format!("{} {} {fixes:?}", entry.source.raw_name(), arguments.as_str())
        }
    })
}

fn check(world: &World, inspected: &mut Inspected, rows: &[(String, String)]) {
    for (raw, expected) in rows {
        assert_eq!(invoked(world, inspected, raw), *expected, "{raw}");
    }
}

fn asks(name: &str, params: &str) -> String {
    format!(r#"{{"name":"{name}","params":{params}}}"#)
}

/// The first thing that is wrong is what is told: rows in the order of the checks, each with every later thing wrong.
#[test]
fn an_invocation_is_checked_in_order_and_refused_with_the_first_fault() {
    let mut world = World::of(&["find", "drop", "idle"], &["drop"], &["drop", "idle"]);
    let (find, drop, idle) = (world.wire("find"), world.wire("drop"), world.wire("idle"));
    let mut inspected = Inspected::default();
    let strange = "mcp__db__strange_00000000000000000000";
    let refused = |words: &str| format!("refused: {words}");
    let gone = "is not offered any more, so it was not called: look for another one with tool_search";
    world.deferred.insert(strange.to_owned());
    check(
        &world,
        &mut inspected,
        &[
            (asks(strange, "{}"), refused(&format!("\"{strange}\" {gone}"))),
            (
                asks("nobody", "{}"),
                refused(&format!(
                    "no tool named \"nobody\" is available here; the nearest names are \"{drop}\", \"{find}\", \
                 \"{idle}\": take one of those, or look with tool_search"
                )),
            ),
        ],
    );
    world.gone = [find.clone(), drop.clone()].into();
    let nothing =
        |name: &str| refused(&format!("nothing runs \"{name}\" now, so it was not called: go on without it"));
    check(
        &world,
        &mut inspected,
        &[(asks(&find, "{}"), nothing(&find)), (asks(&drop, "{}"), nothing(&drop))],
    );
    world.gone.clear();
    let directly =
        format!("a person is asked before each call of \"{drop}\": call it directly, by that name");
    let unseen = format!(
        "\"{find}\" was not called, because it had not been inspected. This is its signature; \
         call it again with arguments that fit:\nfunction {find}(params)"
    );
    let wrong = format!(
        "\"{find}\" was not called: the arguments do not match its schema:\n- arguments: \"q\" is required and \
         missing\nThis is its signature:\nfunction {find}(params)"
    );
    check(
        &world,
        &mut inspected,
        &[
            (asks(&drop, "{}"), refused(&directly)),
            (asks(&find, "{}"), refused(&unseen)),
            (asks(&find, "{}"), refused(&wrong)),
            (asks(&find, r#"{"q":"a"}"#), r#"find {"q":"a"} []"#.to_owned()),
        ],
    );
}

#[test]
fn a_tool_that_always_asks_is_told_apart_by_every_name_that_it_goes_by() {
    let world = World::of(&["drop"], &["drop"], &["drop"]);
    let wire = world.wire("drop");
    for name in [wire.as_str(), "drop"] {
        let words = invoked(&world, &mut Inspected::default(), &asks(name, r#"{"q":"a"}"#));
        assert_eq!(
            words,
            format!(
                "refused: a person is asked before each call of \"{wire}\": call it directly, by that name"
            )
        );
    }
}

/// It was deferred when it was made to ask: the call goes through, and the gate makes a card of it.
#[test]
fn a_tool_that_came_to_ask_while_it_was_deferred_is_not_refused() {
    let world = World::of(&["drop"], &[], &["drop"]);
    let mut inspected = Inspected::default();
    let raw = asks("drop", r#"{"q":"a"}"#);
    assert!(invoked(&world, &mut inspected, &raw).contains("had not been inspected"));
    assert_eq!(invoked(&world, &mut inspected, &raw), r#"drop {"q":"a"} []"#);
}

#[test]
fn a_tool_that_is_shown_needs_no_inspection_and_another_tenants_tool_is_none() {
    let mut world = World::of(&["find"], &["find"], &[]);
    let raw = asks("find", r#"{"q":"a"}"#);
    assert_eq!(invoked(&world, &mut Inspected::default(), &raw), r#"find {"q":"a"} []"#);
    world.block = SurfaceView::new(definitions().to_vec());
    world.scope = Scope::new(TenantId::default(), Some(Vec::new()), None);
    let words = invoked(&world, &mut Inspected::default(), &raw);
    assert_eq!(words, "refused: no tool named \"find\" is available here: look with tool_search");
}

#[test]
fn arguments_are_taken_from_where_a_model_puts_them_and_never_lost() {
    let world = World::of(&["find", "list"], &["find", "list"], &[]);
    let good = |fixes: &str| format!(r#"find {{"q":"a"}} [{fixes}]"#);
    let call = |rest: &str| format!(r#"{{"name":"find"{rest}}}"#);
    let beside =
        "refused: \"q\" is no parameter of tool_invoke: put the tool's own arguments into \"params\"";
    let twice = |name: &str| call(&format!(r#","params":{{"name":"{name}","arguments":{{"q":"a"}}}}"#));
    check(
        &world,
        &mut Inspected::default(),
        &[
            (call(r#","params":{"q":"a"}"#), good("")),
            (call(r#","arguments":{"q":"a"}"#), good("")),
            (call(r#","params":"{\"q\":\"a\"}""#), good("Decoded")),
            (call(r#","arguments":"{\"name\":\"find\",\"arguments\":{\"q\":\"a\"}}""#), good("Unwrapped")),
            (twice("find"), good("Unwrapped")),
            (call(r#","q":"a""#), beside.to_owned()),
            (format!(r#""{}""#, call(r#","params":{"q":"a"}"#).replace('"', "\\\"")), good("")),
            (r#"{"name":""}"#.to_owned(), "refused: \"name\" is empty: name a tool".to_owned()),
        ],
    );
    for raw in
        [call(""), call(r#","params":null"#), twice("list"), "{}".to_owned(), String::new(), "7".to_owned()]
    {
        let words = invoked(&world, &mut Inspected::default(), &raw);
        assert!(words.starts_with("refused: "), "{raw}: {words}");
    }
    assert_eq!(Fix::Empty.to_string(), "no arguments were taken as {}");
}

#[test]
fn meta_tools_are_not_called_through_another_tool() {
    let world = World::of(&["find"], &[], &[]);
    let refused =
        |tool: &str| format!("refused: {tool} is not called through another tool: call it directly");
    let mut rows: Vec<_> = ["tool_search", "tool_inspect", "tool_invoke"]
        .iter()
        .map(|tool| (asks(tool, "{}"), refused(tool)))
        .collect();
    let wire = world.wire("find");
    rows.push((
        asks("tool_exec", "{}"),
        format!("refused: no tool named \"tool_exec\" is available here; the nearest name is \"{wire}\": take that one, or look with tool_search"),
    ));
    check(&world, &mut Inspected::default(), &rows);
}

#[test]
fn an_inspection_shows_the_signature_and_lets_the_call_pass() {
    let world = World::of(&["find"], &[], &[]);
    let wire = world.wire("find");
    let mut inspected = Inspected::default();
    let mut ask = |raw: &str| {
        let result = world.see(|sight| inspect(raw, sight, &mut inspected));
        (result.outcome, result.text())
    };
    let signature = format!("function {wire}(params)");
    assert_eq!(ask(&format!(r#"{{"name":"{wire}"}}"#)), (CallOutcome::Succeeded, signature));
    assert_eq!(ask(r#"{"name":"tool_invoke"}"#).0, CallOutcome::Rejected);
    assert_eq!(ask(r#"{"name":"nobody"}"#).0, CallOutcome::Rejected);
    assert_eq!(ask("{}"), (
        CallOutcome::Rejected,
        "tool_inspect: the arguments do not match its schema:\n- arguments: \"name\" is required and missing".to_owned(),
    ));
    assert_eq!(invoked(&world, &mut inspected, &asks(&wire, r#"{"q":"a"}"#)), r#"find {"q":"a"} []"#);
}

#[test]
fn the_ledger_forgets_the_oldest_and_keeps_what_is_new() {
    let mut inspected = Inspected::default();
    let digest = |n: u32| Digest::of_parts("test", &[&n.to_be_bytes()]);
    for n in 0..3_000 {
        inspected.record(digest(n));
        inspected.record(digest(n));
    }
    assert!(!inspected.contains(digest(1_975)));
    assert!((1_976..3_000).all(|n| inspected.contains(digest(n))));
}

#[test]
fn a_search_is_read_from_whatever_a_model_writes() {
    let validators = Validators::default();
    let all = SearchInput { limit: 20, ..SearchInput::default() };
    for raw in [
        "",
        "{}",
        "null",
        r#"{"query":null,"namespace":null,"verbose":null,"limit":null}"#,
        r#"{"query":"","namespace":" "}"#,
    ] {
        assert_eq!(search_input(raw, &validators), Ok(all.clone()), "{raw}");
    }
    let asked = SearchInput {
        query: "(".to_owned(),
        namespace: Some("popo-acp".to_owned()),
        detail: SearchDetail::Schemas,
        limit: 100,
    };
    let raw = r#"{"query":"(","namespace":"popo-acp","verbose":true,"limit":99999}"#;
    assert_eq!(search_input(raw, &validators), Ok(asked));
    for (limit, expected) in [("0", 1), ("-5", 1), ("3", 3), ("18446744073709551615", 100)] {
        let input = search_input(&format!(r#"{{"limit":{limit}}}"#), &validators);
        assert_eq!(input.map(|input| input.limit), Ok(expected), "{limit}");
    }
    for raw in [r#"{"query":5}"#, r#"{"verbose":"yes"}"#, "[", "7"] {
        assert!(
            search_input(raw, &validators).is_err_and(|words| words.starts_with("tool_search: ")),
            "{raw}"
        );
    }
}

#[test]
fn an_answer_groups_by_label_marks_what_is_down_and_verbose_makes_inspected() {
    let world = World::of(&["find", "send-file"], &[], &[]);
    let findings: Vec<_> =
        world.table.entries().iter().map(|entry| Finding { entry: entry.clone(), trouble: None }).collect();
    let mut found = Found { findings, matched: 5, ..Found::default() };
    found.findings[1].trouble = Some("the server is down".to_owned());
    let (find, send) = (world.wire("find"), world.wire("send-file"));
    let mut inspected = Inspected::default();
    let mut answer = |detail| {
        let input = SearchInput { limit: 20, detail, ..SearchInput::default() };
        let text = answer_search(&input, &found, &world.block, &mut inspected).text();
        let known = found.findings.iter().filter(|found| inspected.contains(found.entry.fingerprint)).count();
        (text, known)
    };
    let more = "2 of 5 tools are listed: say more in the query, or name a namespace";
    let brief = format!(
        "db\n  - {find} — does find\n  - {send} — does send-file (the server is down)\n{more}\n\
         See a signature with tool_inspect, then call the tool with tool_invoke."
    );
    assert_eq!(answer(SearchDetail::Brief), (brief, 0));
    let schema = world.table.entries()[0].definition.input_schema.as_str();
    let verbose = format!(
        "db\n  - {find} — does find\n    input: {schema}\n  - {send} — does send-file (the server is down)\n    \
         input: {schema}\n{more}"
    );
    assert_eq!(answer(SearchDetail::Schemas), (verbose, 2));
}

#[test]
fn an_answer_is_bounded_and_what_it_leaves_out_is_not_inspected() {
    let world = World::of(&["find"], &[], &[]);
    let entry = |n: usize, bytes: usize| {
        let mut entry = (**world.table.entries().first().expect("there is one")).clone();
        let mut definition = (*entry.definition).clone();
        definition.input_schema = (&json!({"type": "object", "description": "x".repeat(bytes)})).into();
        definition.description = Some("<b>line one\nline\u{202e} two</b> ".repeat(500));
        entry.definition = Arc::new(definition);
        entry.fingerprint = Digest::of_parts("test", &[&n.to_be_bytes()]);
        entry.label = "<script>\n".repeat(n + 1);
        Finding { entry: Arc::new(entry), trouble: Some("no answer\n".repeat(1_000)) }
    };
    let mut findings: Vec<_> = (0..90).map(|n| entry(n, 2_000)).collect();
    findings.insert(0, entry(100, 9_000));
    let found = Found { matched: findings.len(), findings, ..Found::default() };
    let input = SearchInput { limit: 100, detail: SearchDetail::Schemas, ..SearchInput::default() };
    let mut inspected = Inspected::default();
    let text = answer_search(&input, &found, &world.block, &mut inspected).text();
    assert!(text.len() < 34 << 10, "{}", text.len());
    assert!(text.contains("bytes of schema, too many to be listed"));
    assert!(!text.contains(['<', '>', '\u{202e}']), "{text}");
    let listed = text.matches("    input: {").count();
    let known = found.findings.iter().filter(|finding| inspected.contains(finding.entry.fingerprint)).count();
    assert!(listed > 5 && listed < 20, "{listed}");
    assert_eq!(known, listed);
}

#[test]
fn a_search_without_a_hit_names_what_there_is() {
    let input = SearchInput { query: "tides".to_owned(), limit: 20, ..SearchInput::default() };
    let found = Found {
        namespaces: vec![("db".to_owned(), 3), ("w<eb".to_owned(), 1)],
        nearest: vec!["tidy".to_owned()],
        ..Found::default()
    };
    let block = SurfaceView::new(definitions().to_vec());
    let text = answer_search(&input, &found, &block, &mut Inspected::default()).text();
    let expected = "no tools found for \"tides\"\nnearest names: tidy\nnamespaces:\n  - db (3)\n  - w&lt;eb (1)\n\
                    use other or fewer words, or leave out the query to list all tools";
    assert_eq!(text, expected);
}

/// The bytes are part of every pinned block: a change of them costs every provider's prompt cache once.
#[test]
fn the_bytes_of_the_meta_tools_are_fixed_and_sorted() {
    let shown = definitions();
    let names: Vec<_> = shown.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["tool_inspect", "tool_invoke", "tool_search"]);
    assert!(shown.iter().all(|tool| MetaTool::of(&tool.name).is_some()));
    let bytes = serde_json::to_vec(&shown).expect("they serialise");
    assert!(bytes.len() < 2_000, "about 500 tokens, as deferral reckons: {}", bytes.len());
    assert_eq!(Digest::of_bytes(&[&bytes]).prefix(16), "3e0c91ed4805371f");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is shown, deferred, forced and asked for: a refusal names only what the model has.
    #[test]
    fn no_refusal_names_a_way_that_is_not_in_the_pinned_block(
        inline in prop::sample::subsequence(vec!["find", "drop", "idle"], 0..=3),
        forced in prop::sample::subsequence(vec!["find", "drop", "idle"], 0..=3),
        metas in prop::sample::subsequence(MetaTool::ALL.to_vec(), 0..=4),
        name in prop::sample::select(vec!["find", "drop", "idle", "nobody", "tool_invoke", "tool_exec", "tool_search"]),
        params in prop::sample::select(vec!["{}", r#"{"q":"a"}"#, "7"]),
    ) {
        let mut world = World::of(&["find", "drop", "idle"], &inline, &forced);
        let mut shown = world.block.tools.clone();
        shown.retain(|tool| MetaTool::of(&tool.name).is_none_or(|meta| metas.contains(&meta)));
        world.block = SurfaceView::new(shown);
        let has = |name: &str| world.block.tools.iter().any(|tool| tool.name == name);
        let mut inspected = Inspected::default();
        for _ in 0..2 {
            let words = invoked(&world, &mut inspected, &asks(name, params));
            let Some(words) = words.strip_prefix("refused: ") else { continue };
            // What the model itself wrote is quoted, and no way.
            let told = words.replace(&format!("\"{name}\""), "");
            for meta in MetaTool::ALL.into_iter().filter(|meta| told.contains(meta.name())) {
                prop_assert!(has(meta.name()), "{meta} in {words}");
            }
            if words.contains("directly") && MetaTool::of(name).is_none() {
                prop_assert!(has(&world.wire(name)), "{words}");
            }
        }
        let looked = world.see(|sight| inspect(&format!(r#"{{"name":"{name}"}}"#), sight, &mut inspected)).text();
        let told = looked.replace(&format!("\"{name}\""), "");
        for meta in MetaTool::ALL.into_iter().filter(|meta| told.contains(meta.name())) {
            prop_assert!(has(meta.name()), "{meta} in {looked}");
        }
    }
}
