use std::collections::BTreeSet;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::ToolDefinition;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;
use crate::registry::sample::{
    function, offer, offer_of, registry, server, tell, tell_offer, tool, withdraw,
};

mod bounds;
mod words;

/// Everything but the tools of servers that are out of reach.
#[derive(Default)]
struct Pool {
    hidden: BTreeSet<&'static str>,
    down: BTreeSet<&'static str>,
}

impl ToolPool for Pool {
    fn admits(&self, entry: &Entry) -> bool {
        !self.hidden.contains(entry.source.raw_name())
    }

    fn is_up(&self, entry: &Entry) -> bool {
        !entry.source.server().is_some_and(|server| self.down.contains(server.as_str()))
    }
}

fn described(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition { description: Some(description.into()), ..tool(name) }
}

fn with_schema(name: &str, schema: &Value) -> ToolDefinition {
    ToolDefinition { input_schema: JsonText::from(schema), description: None, ..tool(name) }
}

fn index_of(tools: Vec<ToolDefinition>) -> ToolIndex {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer_of("s", tools));
    ToolIndex::new(&registry.table())
}

fn ask(index: &ToolIndex, text: &str) -> SearchAnswer {
    index.search(&Question { text, namespace: None, limit: HITS_MAX }, &Pool::default())
}

fn found(index: &ToolIndex, text: &str) -> Vec<String> {
    raw_names(&ask(index, text))
}

fn raw_names(answer: &SearchAnswer) -> Vec<String> {
    answer.hits.iter().map(|hit| hit.entry.source.raw_name().to_owned()).collect()
}

#[test]
fn an_exact_name_comes_first_then_names_that_begin_so_then_words() {
    let index = index_of(vec![
        described("issues", "search search search issues"),
        described("search_issues_by_label", "finds"),
        described("search", "search issues search issues search_issues"),
        described("Search-Issues", "nothing of the kind"),
    ]);
    let expected = ["Search-Issues", "search_issues_by_label", "issues", "search"];
    for text in ["search_issues", "SEARCH ISSUES", "searchIssues", " search-issues "] {
        let answer = ask(&index, text);
        let ranks: Vec<_> = answer.hits.iter().map(|hit| hit.rank).collect();
        assert_eq!(ranks, [Rank::Exact, Rank::Prefix, Rank::Words, Rank::Words], "{text}");
        assert_eq!(raw_names(&answer)[..2], expected[..2], "{text}");
    }
}

#[test]
fn every_tool_is_first_for_its_own_names_but_for_tools_that_share_them() {
    let mut registry = registry(&["fetch", "web_search"]);
    tell_offer(&mut registry, offer("a", &["search", "search_all", "query", "Query"]));
    tell_offer(&mut registry, offer("b", &["search", "query_search", "fetch"]));
    let table = registry.table();
    let index = ToolIndex::new(&table);
    for entry in table.entries() {
        let by_wire_name = ask(&index, &entry.name);
        assert_eq!(by_wire_name.hits[0].rank, Rank::Exact);
        assert_eq!(squeezed(&by_wire_name.hits[0].entry.name), squeezed(&entry.name));
        let by_raw_name = ask(&index, entry.source.raw_name());
        let exact = by_raw_name.hits.iter().take_while(|hit| hit.rank == Rank::Exact);
        let exact: Vec<_> = exact.map(|hit| &hit.entry).collect();
        assert!(exact.contains(&entry), "{}", entry.name);
        assert!(
            exact.iter().all(|other| squeezed(other.source.raw_name()) == squeezed(entry.source.raw_name()))
        );
    }
}

#[test]
fn ties_are_broken_by_the_bytes_of_the_names_whatever_came_first() {
    let tools = ["b", "a", "Z", "c"].map(|name| described(name, "send mail"));
    let expected = found(&index_of(tools.to_vec()), "mail");
    let mut turned = tools.to_vec();
    turned.reverse();
    assert_eq!(found(&index_of(turned), "mail"), expected);
    let index = index_of(tools.to_vec());
    let names: Vec<_> = ask(&index, "mail").hits.into_iter().map(|hit| hit.entry.name.clone()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn a_namespace_is_asked_for_by_its_label_or_its_key_exactly() {
    let mut registry = Registry::new(vec![{
        let mut page = function("mail_page");
        page.namespace = "browser".into();
        page
    }])
    .expect("the function is fine");
    for (id, name) in [("id-1", "Gmail"), ("id-2", "Gmail"), ("id-3", "天气服务")] {
        tell_offer(&mut registry, ServerToolsOf { id, name }.offer());
    }
    let index = ToolIndex::new(&registry.table());
    let rows: [(Option<&str>, usize); 8] = [
        (None, 4),
        (Some("Gmail"), 2),
        (Some("mcp:id-1"), 1),
        (Some("天气服务"), 1),
        (Some("browser"), 1),
        (Some("gmail"), 0),
        (Some(""), 0),
        (Some("id-1"), 0),
    ];
    for (namespace, expected) in rows {
        let answer = index.search(&Question { text: "mail", namespace, limit: 10 }, &Pool::default());
        assert_eq!((answer.hits.len(), answer.nothing.is_some()), (expected, expected == 0), "{namespace:?}");
    }
}

struct ServerToolsOf {
    id: &'static str,
    name: &'static str,
}

impl ServerToolsOf {
    fn offer(&self) -> pilothouse_messages::registry::ServerTools {
        let mut tools = offer(self.id, &["mail"]);
        tools.name = self.name.into();
        tools
    }
}

#[test]
fn a_tool_whose_server_is_down_is_marked_and_stays_and_one_outside_the_pool_is_not_there() {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer("up", &["send_mail", "hidden_mail"]));
    tell_offer(&mut registry, offer("down", &["list_mail"]));
    let index = ToolIndex::new(&registry.table());
    let pool = Pool { hidden: ["hidden_mail"].into(), down: ["down"].into() };
    let answer = index.search(&Question { text: "mail", namespace: None, limit: 10 }, &pool);
    let mut seen: Vec<_> = answer.hits.iter().map(|hit| (hit.entry.source.raw_name(), hit.is_up)).collect();
    seen.sort_unstable();
    assert_eq!((seen, answer.matched), (vec![("list_mail", false), ("send_mail", true)], 2));
}

#[test]
fn a_question_without_text_lists_all_by_name_and_says_how_many_there_are() {
    let mut registry = registry(&["f"]);
    tell_offer(&mut registry, offer("s", &["c", "a", "b"]));
    let table = registry.table();
    let index = ToolIndex::new(&table);
    let answer = index.search(&Question { text: " ", namespace: None, limit: 2 }, &Pool::default());
    let names: Vec<_> = answer.hits.iter().map(|hit| &hit.entry).collect();
    assert_eq!((names, answer.matched), (table.entries()[..2].iter().collect(), 4));
}

#[test]
fn a_question_that_finds_nothing_is_told_where_tools_are_and_which_names_are_near() {
    let mut registry = registry(&["fetch"]);
    tell_offer(&mut registry, offer("gh", &["search_issues", "get_me", "secret_issues"]));
    let index = ToolIndex::new(&registry.table());
    let pool = Pool { hidden: ["secret_issues"].into(), down: BTreeSet::new() };
    let answer = index.search(&Question { text: "serch_isues", namespace: None, limit: 10 }, &pool);
    let nothing = answer.nothing.expect("nothing was found");
    let wire = |tool: &str| crate::name::wire_name("gh", "gh", tool);
    assert_eq!(nothing.namespaces, [("functions".to_owned(), 1), ("gh".to_owned(), 2)]);
    assert_eq!((nothing.nearest.first(), nothing.more), (Some(&wire("search_issues")), 0));
    assert!(!nothing.nearest.contains(&wire("secret_issues")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..Default::default() })]

    #[test]
    fn an_index_that_followed_changes_answers_as_a_new_one_does(
        steps in proptest::collection::vec((0usize..3, 0usize..4, any::<bool>()), 0..10),
        text in "(search|get|issue|mail|说明|x){1,3}",
    ) {
        let mut registry = registry(&["search_mail"]);
        let mut index = ToolIndex::new(&registry.table());
        for (id, tools, comes) in steps {
            let id = ["a", "b", "c"][id];
            match comes {
                true => tell_offer(&mut registry, offer(id, &["search_issue", "get_mail", "mail说明", "x"][..tools])),
                false => tell(&mut registry, &withdraw(id)),
            };
            let table = registry.table();
            // What an older index says it is of, is of the same tools.
            prop_assert!(!index.is_of(&table) || index.entries().all(|entry| table.get(&entry.name) == Some(entry)));
            index = index.updated(&table);
            prop_assert!(index.is_of(&table));
        }
        assert_eq!(ask(&index, &text), ask(&ToolIndex::new(&registry.table()), &text));
    }
}

#[test]
fn a_change_of_one_server_shares_the_segments_of_all_others() {
    let mut registry = registry(&["f"]);
    for id in ["a", "b"] {
        tell_offer(&mut registry, offer(id, &["x", "y"]));
    }
    let before = ToolIndex::new(&registry.table());
    tell_offer(&mut registry, offer_of("a", vec![tool("x"), described("y", "changed")]));
    let after = before.updated(&registry.table());
    let shares = |id: Option<&str>| {
        let id = id.map(server);
        Arc::ptr_eq(&before.sources[&id].segment, &after.sources[&id].segment)
    };
    assert_eq!([shares(None), shares(Some("a")), shares(Some("b"))], [true, false, true]);
    let terms = |index: &ToolIndex, at: usize| {
        Arc::clone(&index.sources[&Some(server("a"))].segment.documents[at].terms)
    };
    assert!(Arc::ptr_eq(&terms(&before, 0), &terms(&after, 0)));
    assert_eq!((found(&before, "changed"), found(&after, "changed")), (vec![], vec!["y".to_owned()]));
}

#[derive(Deserialize)]
struct Vectors {
    tool_search_namespaced: Searches<Namespaces>,
    tool_search_native_ranking: Searches<Native>,
}

#[derive(Deserialize)]
struct Searches<C> {
    entries: Vec<Tool>,
    #[serde(default)]
    deferred: Vec<String>,
    cases: Vec<C>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    namespace: String,
    namespace_label: Option<String>,
    description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Namespaces {
    args: Args,
    matched_namespaces: Vec<Matched>,
}

#[derive(Deserialize)]
struct Args {
    query: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct Matched {
    tools: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Native {
    query: String,
    names: Vec<String>,
}

struct Deferred(Vec<String>);

impl ToolPool for Deferred {
    fn admits(&self, entry: &Entry) -> bool {
        self.0.is_empty() || self.0.contains(&entry.name)
    }

    fn is_up(&self, _entry: &Entry) -> bool {
        true
    }
}

/// Golden tools with their names as they are.
fn golden(tools: &[Tool]) -> ToolIndex {
    let entry = |tool: &Tool| {
        let mut entry = function(&tool.name);
        entry.definition = Arc::new(described(&tool.name, &tool.description));
        entry.namespace = tool.namespace_label.clone().unwrap_or_else(|| tool.namespace.clone());
        Arc::new(entry)
    };
    let segment = Segment::new(&tools.iter().map(entry).collect::<Vec<_>>(), None);
    let sources = BTreeMap::from([(None, Source { offered: None, segment: Arc::new(segment) })]);
    ToolIndex { sources, tools: tools.len() }
}

#[test]
fn golden_searches_find_the_same_but_where_words_are_told_from_their_insides() {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../tests/vectors/search.json")).expect("the vectors are JSON");
    let Searches { entries, deferred, cases, .. } = vectors.tool_search_namespaced;
    assert_eq!(cases.len(), 19);
    let (index, pool) = (golden(&entries), Deferred(deferred));
    let names = |answer: SearchAnswer| -> BTreeSet<String> {
        answer.hits.into_iter().map(|hit| hit.entry.name.clone()).collect()
    };
    let mut differ = Vec::new();
    let mut check =
        |text: &str, namespace: Option<&str>, peer: BTreeSet<String>, pool: &Deferred, index: &ToolIndex| {
            // A key is another thing here than a label; the golden tools have labels only.
            if namespace == Some("mcp:id-1") {
                return;
            }
            let ours = names(index.search(&Question { text, namespace, limit: HITS_MAX }, pool));
            if ours != peer {
                differ.push(text.to_owned());
            }
        };
    for case in cases {
        let peer = case.matched_namespaces.into_iter().flat_map(|matched| matched.tools);
        let peer = peer.map(|tool| tool.name).collect();
        let text = case.args.query.unwrap_or_default();
        check(&text, case.args.namespace.as_deref(), peer, &pool, &index);
    }
    let native = vectors.tool_search_native_ranking;
    assert_eq!(native.cases.len(), 12);
    let (index, all) = (golden(&native.entries), Deferred(Vec::new()));
    for case in native.cases {
        check(&case.query, None, case.names.into_iter().collect(), &all, &index);
    }
    // A peer finds the inside of words ("mail" in "Gmail") and only whole questions; words are found here in any order and
    // apart, and a question without text lists all.
    differ.sort();
    differ.dedup();
    assert_eq!(
        differ,
        ["", "   ", "MAIL", "MCP__S1__A", "list mail", "mail", "mail list", "mcp:gmail", "mcp__s1__a"]
    );
}
