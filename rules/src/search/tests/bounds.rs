//! What hostile texts cost.

use super::*;

#[test]
fn a_question_without_end_is_read_to_its_bounds_only() {
    let index = index_of(vec![described("needle", "a needle"), tool("hay")]);
    let filler = |bytes: usize| "stack ".repeat(bytes / 6);
    let terms: String = (0..100_000).map(|n| format!("t{n} ")).collect();
    let questions = [
        (format!("needle {}", filler(1 << 20)), 1),
        (format!("{}needle", filler(1 << 20)), 0),
        (format!("needle {terms}"), 1),
        (format!("{terms} needle"), 0),
        ("x".repeat(1 << 20), 0),
        ("needle".repeat(1 << 17), 0),
        ("针".repeat(1 << 18), 0),
        ("aB".repeat(1 << 19), 0),
    ];
    for (text, expected) in &questions {
        assert_eq!(found(&index, text).len(), *expected, "{text:.40}");
    }
    assert_eq!(question_keys(&terms).len(), QUESTION_TERMS);
}

#[test]
fn a_tool_without_end_is_read_to_its_bounds_only() {
    let long = "needle ".repeat((16 << 20) / 7);
    let properties: serde_json::Map<_, _> =
        (0..100_000).map(|n| (format!("parameter_{n}"), json!({"description": long.get(..64)}))).collect();
    let mut deep = json!({"properties": {"bottom": {}}});
    for _ in 0..100 {
        deep = json!({"properties": {"down": deep}});
    }
    let tools = vec![
        described("described", &format!("{long} end")),
        described(&long, "named"),
        ToolDefinition { title: Some(long.clone()), ..tool("titled") },
        with_schema("wide", &json!({"type": "object", "properties": properties})),
        with_schema("enumerated", &json!({"properties": {"x": {"enum": vec!["value"; 20_000]}}})),
        with_schema("nested", &deep),
        described("one_word", &"x".repeat(16 << 20)),
        described("unspaced", &"针".repeat(4 << 20)),
    ];
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer_of("s", tools));
    let table = registry.table();
    let index = ToolIndex::new(&table);
    for document in &index.sources[&Some(server("s"))].segment.documents {
        assert!(document.terms.len() <= 2_000, "{:.40}", document.entry.name);
    }
    assert!(found(&index, "needle").contains(&"described".to_owned()));
    for text in ["end", "bottom", "wide parameter 99999"] {
        let names = found(&index, text);
        assert!(names.iter().all(|name| name == "wide"), "{text}: {names:?}");
    }
}

#[test]
fn an_answer_has_as_many_hits_as_were_asked_for_within_bounds() {
    let names: Vec<_> = (0..300).map(|n| format!("mail_{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer("s", &names));
    let index = ToolIndex::new(&registry.table());
    for (limit, expected) in [(0, 1), (1, 1), (7, 7), (100, 100), (usize::MAX, HITS_MAX)] {
        for text in ["mail", ""] {
            let answer = index.search(&Question { text, namespace: None, limit }, &Pool::default());
            assert_eq!((answer.hits.len(), answer.matched), (expected, 300), "{limit}");
        }
    }
}

#[test]
fn many_namespaces_are_counted_beyond_the_first() {
    let mut registry = registry(&[]);
    for n in 0..100 {
        tell_offer(&mut registry, offer(&format!("s{n:02}"), &["x"]));
    }
    let nothing = ask(&ToolIndex::new(&registry.table()), "zzz").nothing.expect("nothing was found");
    assert_eq!((nothing.namespaces.len(), nothing.more), (NAMESPACES_MAX, 36));
}
