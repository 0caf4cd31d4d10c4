use std::sync::Arc;

use serde::Deserialize;

use super::*;
use crate::registry::sample::{offer, registry, server, tell_offer};
use crate::registry::{Registry, ToolTable};

fn rule(text: &str) -> PolicyRule {
    PolicyRule::parse(text).expect("a sample rule is one")
}

fn rules(texts: &[&str]) -> Vec<PolicyRule> {
    texts.iter().map(|text| rule(text)).collect()
}

fn named_offer(registry: &mut Registry, id: &str, name: &str, tools: &[&str]) {
    let mut tools = offer(id, tools);
    tools.name = name.into();
    tell_offer(registry, tools);
}

/// Two servers of one name, one of a Chinese name, and two functions.
fn table() -> Arc<ToolTable> {
    let mut registry = registry(&["search_issues", "fetch"]);
    named_offer(&mut registry, "gh-1", "GitHub", &["search_issues", "get_me"]);
    named_offer(&mut registry, "gh-2", "github", &["search_issues"]);
    named_offer(&mut registry, "fp", "票据", &["search_issues"]);
    registry.table()
}

fn identity(entry: &Entry) -> String {
    match &entry.source {
        ToolSource::Builtin { name } => name.clone(),
        ToolSource::Mcp { server, tool } => format!("{server}/{tool}"),
    }
}

fn matched(table: &ToolTable, rule: &PolicyRule) -> Vec<String> {
    let mut found: Vec<_> =
        table.entries().iter().filter(|entry| rule.matches(*entry)).map(|entry| identity(entry)).collect();
    found.sort();
    found
}

#[test]
fn a_rule_means_every_tool_that_it_could_mean() {
    let table = table();
    let wire = &table.by_source(&server("gh-1"), "search_issues").expect("it is offered").name;
    let rows: [(&str, &[&str]); 15] = [
        ("search_issues", &["fp/search_issues", "gh-1/search_issues", "gh-2/search_issues", "search_issues"]),
        ("Search_Issues", &[]),
        ("fetch", &["fetch"]),
        (wire, &["gh-1/search_issues"]),
        ("mcp__github__searchIssues", &["gh-1/search_issues", "gh-2/search_issues"]),
        ("mcp__GitHub__searchIssues", &[]),
        ("mcp__searchIssues", &["fp/search_issues"]),
        ("mcp__github__*", &["gh-1/get_me", "gh-1/search_issues", "gh-2/search_issues"]),
        ("mcp__piaoJu__*", &["fp/search_issues"]),
        ("mcp__git__*", &[]),
        ("mcp__other__*", &[]),
        ("mcp:gh-1", &["gh-1/get_me", "gh-1/search_issues"]),
        ("mcp:GitHub", &[]),
        ("search*", &[]),
        (
            "*",
            &[
                "fetch",
                "fp/search_issues",
                "gh-1/get_me",
                "gh-1/search_issues",
                "gh-2/search_issues",
                "search_issues",
            ],
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(matched(&table, &rule(text)), expected, "{text}");
    }
    let one = PolicyRule::Tool(ToolSource::Mcp { server: server("gh-2"), tool: "search_issues".into() });
    assert_eq!(matched(&table, &one), ["gh-2/search_issues"]);
}

#[test]
fn a_rule_outlives_the_renaming_of_its_server() {
    let mut registry = registry(&[]);
    named_offer(&mut registry, "gh", "GitHub", &["search_issues"]);
    let wire = registry.table().entries()[0].name.clone();
    named_offer(&mut registry, "gh", "Code Forge", &["search_issues"]);
    let texts = [
        &wire,
        "mcp__github__searchIssues",
        "mcp__codeForge__searchIssues",
        "mcp__github__*",
        "mcp__codeForge__*",
    ];
    for text in texts {
        assert_eq!(matched(&registry.table(), &rule(text)), ["gh/search_issues"], "{text}");
    }
}

#[test]
fn a_text_that_can_match_nothing_is_no_rule() {
    let long = "x".repeat(RULE_BYTES + 1);
    let bad_server = |text: &str, error: PolicyRuleError| (text.to_owned(), error);
    let reason = ServerId::new("").expect_err("an id is not empty").to_string();
    let rows = [
        bad_server("", PolicyRuleError::Empty),
        bad_server(" \t", PolicyRuleError::Empty),
        bad_server(&long, PolicyRuleError::TooLong { bytes: RULE_BYTES + 1 }),
        bad_server("mcp____*", PolicyRuleError::NoServer),
        bad_server("mcp__*", PolicyRuleError::NoServer),
        bad_server("mcp:", PolicyRuleError::BadServer { text: "mcp:".into(), reason }),
    ];
    for (text, expected) in rows {
        assert_eq!(PolicyRule::parse(&text), Err(expected), "{text:.40}");
    }
    for text in ["*", "mcp:gh-1", "mcp__github__*", "search_issues", "mcp__a__b__c", "\u{1f680}"] {
        assert_eq!(rule(text).to_string(), text);
    }
}

fn policy(reach: PolicyReach, allow: Option<&[&str]>, deny: &[&str]) -> ToolPolicy {
    ToolPolicy { reach, allow: allow.map(rules), deny: rules(deny) }
}

fn admitted(table: &ToolTable, policies: &[ToolPolicy]) -> Vec<String> {
    let is_admitted = |entry: &&Arc<Entry>| admits_all(policies, entry) == Admission::Admitted;
    let mut found: Vec<_> = table.entries().iter().filter(is_admitted).map(|entry| identity(entry)).collect();
    found.sort();
    found
}

#[test]
fn a_deny_from_any_list_wins_and_every_allow_list_has_to_agree() {
    use PolicyReach::{Everywhere, Server};
    let table = table();
    let gh_1 = || Server(server("gh-1"));
    let rows: [(Vec<ToolPolicy>, &[&str]); 7] = [
        (
            vec![],
            &[
                "fetch",
                "fp/search_issues",
                "gh-1/get_me",
                "gh-1/search_issues",
                "gh-2/search_issues",
                "search_issues",
            ],
        ),
        (vec![policy(Everywhere, Some(&[]), &[])], &[]),
        (
            vec![policy(Everywhere, Some(&["fetch", "mcp:gh-1"]), &["get_me"])],
            &["fetch", "gh-1/search_issues"],
        ),
        (
            vec![policy(gh_1(), Some(&["get_me"]), &[]), policy(Everywhere, Some(&["mcp__github__*"]), &[])],
            &["gh-1/get_me", "gh-2/search_issues"],
        ),
        (
            vec![policy(gh_1(), None, &["*"]), policy(Everywhere, Some(&["*"]), &["fetch"])],
            &["fp/search_issues", "gh-2/search_issues", "search_issues"],
        ),
        (
            vec![
                policy(gh_1(), Some(&["search_issues"]), &["search_issues"]),
                policy(Everywhere, Some(&["mcp:gh-1"]), &[]),
            ],
            &[],
        ),
        (vec![ToolPolicy::open(Everywhere), policy(Everywhere, Some(&["fetch"]), &[])], &["fetch"]),
    ];
    for (policies, expected) in rows {
        assert_eq!(admitted(&table, &policies), expected, "{policies:?}");
    }
    let entry = table.by_source(&server("gh-1"), "get_me").expect("it is offered");
    let lists = [policy(Everywhere, Some(&[]), &[]), policy(Everywhere, None, &["mcp:gh-1"])];
    assert_eq!(admits_all(&lists, entry), Admission::Denied(&rule("mcp:gh-1")));
    assert_eq!(admits_all(&lists[..1], entry), Admission::NotAllowed);
}

#[test]
fn rules_that_match_nothing_are_told() {
    let table = table();
    let lists = policy(
        PolicyReach::Everywhere,
        Some(&["fetch", "fetsch", "mcp__github__getIssue"]),
        &["mcp__other__*", "mcp:gh-9", "get_me"],
    );
    let told: Vec<_> = lists.unmatched(table.entries()).iter().map(UnmatchedRule::to_string).collect();
    let expected = [
        "the policy rule \"fetsch\" matches no tool: check its spelling and its case",
        "the policy rule \"mcp__github__getIssue\" matches no tool: no server \"github\" lists a tool \"getIssue\"",
        "the policy rule \"mcp__other__*\" matches no tool: no such server lists any",
        "the policy rule \"mcp:gh-9\" matches no tool: no such server lists any",
    ];
    assert_eq!(told, expected);
    let of_server = policy(PolicyReach::Server(server("gh-2")), None, &["get_me", "search_issues"]);
    let told: Vec<_> =
        of_server.unmatched(table.entries()).iter().map(|unmatched| unmatched.rule.clone()).collect();
    assert_eq!(told, rules(&["get_me"]));
}

#[derive(Deserialize)]
struct Vectors {
    mcp_source_policy: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    server: ServerRow,
    tool: ToolRow,
    access: Access,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerRow {
    name: String,
    disabled_tools: Vec<String>,
}

#[derive(Deserialize)]
struct ToolRow {
    name: String,
    id: Option<String>,
}

#[derive(Deserialize)]
struct Access {
    enabled: bool,
}

#[test]
fn deny_lists_agree_with_the_golden_rows_whose_names_exist_here() {
    let rows = serde_json::from_str::<Vectors>(include_str!("../../../tests/vectors/policy.json"));
    let rows = rows.expect("the vectors are JSON").mcp_source_policy;
    assert_eq!(rows.len(), 12);
    let mut differ = Vec::new();
    for row in &rows {
        let mut registry = registry(&[]);
        named_offer(&mut registry, "s", &row.server.name, &[&row.tool.name]);
        let mut entry = Entry::clone(&registry.table().entries()[0]);
        entry.name = row.tool.id.clone().unwrap_or(entry.name);
        let deny: Result<Vec<_>, _> =
            row.server.disabled_tools.iter().map(|text| PolicyRule::parse(text)).collect();
        let is_as_expected = deny.is_ok_and(|deny| {
            let policy = ToolPolicy { reach: PolicyReach::Server(server("s")), allow: None, deny };
            (policy.admits(&entry) == Admission::Admitted) == row.access.enabled
        });
        if !is_as_expected {
            differ.push(row.server.disabled_tools.join(","));
        }
    }
    // Two rows name a tool as another host's runtime does; one is a wildcard that servers would share, refused as a rule.
    assert_eq!(differ, ["rt_1", "mcp__docs_aaaaaaaaaaaa__*", "mcp____*"]);
}
