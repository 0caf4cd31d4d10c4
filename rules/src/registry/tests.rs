use pilothouse_messages::id::TenantId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{Listing, ListingState, ListingView};
use pilothouse_messages::topic::{ResolvedTool, TopicConfig};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, proptest};
use serde_json::json;

use super::sample::{
    function, named, names, offer, offer_of, registry, server, tell, tell_offer, tenant, tool, withdraw,
};
use super::*;

fn wire(id: &str, tool: &str) -> String {
    wire_name(id, id, tool)
}

fn scope(servers: Option<&[&str]>, builtins: Option<&[&str]>) -> Scope {
    let servers = servers.map(|ids| ids.iter().map(|id| server(id)).collect());
    let builtins = builtins.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    Scope::new(TenantId::default(), servers, builtins)
}

fn everything() -> Scope {
    scope(None, None)
}

#[test]
fn a_first_offer_names_its_tools_then_offers_and_publishes() {
    let registry = registry(&[]);
    let tools = offer("db", &["query", "query", "insert"]);
    let decision = registry.decide(Timestamp(1), &RegistryCommand::Offer(Box::new(tools.clone())));
    let expected = Decision {
        answer: (),
        events: vec![
            named("db", "query", &wire("db", "query")),
            named("db", "insert", &wire("db", "insert")),
            RegistryEvent::Offered(Box::new(tools.clone())),
        ],
        directives: vec![RegistryDirective::Publish { server: tools.server, listing: Some(tools.listing) }],
    };
    assert_eq!(decision, Ok(expected));
}

#[test]
fn a_name_is_given_once_and_survives_rename_withdrawal_and_return() {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer("db", &["query"]));
    let before = names(&registry);

    let renamed = ServerTools { name: "Billing".into(), ..offer("db", &["query"]) };
    let events = tell_offer(&mut registry, renamed.clone());
    assert_eq!(events, [RegistryEvent::Offered(Box::new(renamed.clone()))]);
    assert_eq!(names(&registry), before);
    assert_eq!(registry.table().entries()[0].label, "Billing");

    assert_eq!(tell(&mut registry, &withdraw("db")), [RegistryEvent::Withdrawn { server: server("db") }]);
    assert_eq!(names(&registry), Vec::<String>::new());
    tell_offer(&mut registry, renamed);
    assert_eq!(names(&registry), before);
}

#[test]
fn a_restored_name_is_used_as_it_was_stored() {
    let mut registry = registry(&[]);
    let record = NameRecord { server: server("db"), tool: "query".into(), name: "mcp__old__query_1".into() };
    registry.apply(&Registry::restore(record));
    let tools = offer("db", &["query"]);
    assert_eq!(tell_offer(&mut registry, tools.clone()), [RegistryEvent::Offered(Box::new(tools))]);
    assert_eq!(names(&registry), ["mcp__old__query_1"]);
}

#[test]
fn a_stored_name_that_contradicts_another_or_fits_no_provider_names_nothing() {
    let mut registry = registry(&["search"]);
    let stored = [
        named("db", "query", "mcp__first"),
        named("db", "query", "mcp__second"),
        named("db", "insert", "mcp__first"),
        named("db", "drop", "search"),
        named("db", "list", "mcp__no such name"),
    ];
    for event in &stored {
        registry.apply(event);
    }
    tell_offer(&mut registry, offer("db", &["query", "insert", "drop", "list"]));
    let mut expected = vec![
        wire("db", "insert"),
        wire("db", "drop"),
        wire("db", "list"),
        "mcp__first".into(),
        "search".into(),
    ];
    expected.sort();
    assert_eq!(names(&registry), expected);
}

#[test]
fn a_name_that_belongs_to_another_tool_gets_a_number() {
    let mut registry = registry(&[]);
    let wanted = wire("db", "query");
    registry.apply(&named("other", "x", &wanted));
    registry.apply(&named("other", "y", &numbered_wire_name("db", "db", "query", 2)));
    tell_offer(&mut registry, offer("db", &["query"]));
    assert_eq!(names(&registry), [numbered_wire_name("db", "db", "query", 3)]);
    assert_eq!(names(&registry), [format!("{wanted}_3")]);
}

#[test]
fn servers_with_the_same_tools_and_display_name_never_collide() {
    let mut registry = registry(&[]);
    for id in ["a", "b", "c"] {
        tell_offer(
            &mut registry,
            ServerTools { name: "same".into(), ..offer(id, &["query", "Query", "que-ry"]) },
        );
    }
    let names: BTreeSet<_> = names(&registry).into_iter().collect();
    assert_eq!(names.len(), 9);
    for id in ["a", "b", "c"] {
        let table = registry.table();
        let entry = table.by_source(&server(id), "query").expect("it was offered");
        assert_eq!(entry.source, ToolSource::Mcp { server: server(id), tool: "query".into() });
        assert_eq!(table.get(&entry.name), Some(entry));
    }
}

#[test]
fn a_listing_in_another_order_leaves_the_table_as_it_was() {
    let mut registry = registry(&["search"]);
    tell_offer(&mut registry, offer("db", &["a", "b", "c"]));
    let before = registry.table();
    tell_offer(&mut registry, offer("db", &["c", "a", "b"]));
    assert_eq!(registry.table(), before);
}

#[test]
fn entries_say_what_the_embedder_and_only_then_the_server_states() {
    let annotated = |name: &str| ToolDefinition {
        annotations: Some(JsonText::from(json!({"readOnlyHint": true}))),
        ..tool(name)
    };
    let tools = ServerTools {
        tenant: Some(tenant("acme")),
        disabled: vec!["hidden".into()],
        force_prompt: vec!["drop".into()],
        effects: vec![("write".into(), Effect::Edits)],
        ..offer_of("db", vec![annotated("read"), annotated("write"), tool("drop"), tool("hidden")])
    };
    let seen = |trust_annotations| {
        let mut registry = registry(&[]);
        tell_offer(&mut registry, ServerTools { trust_annotations, ..tools.clone() });
        let table = registry.table();
        let row = |entry: &Arc<Entry>| (entry.source.raw_name().to_owned(), entry.effect, entry.force_prompt);
        let mut rows: Vec<_> = table.entries().iter().map(row).collect();
        rows.sort();
        rows
    };
    let rows = |read| {
        let row = |name: &str, effect, forced| (name.to_owned(), effect, forced);
        vec![row("drop", Effect::Unknown, true), row("read", read, false), row("write", Effect::Edits, false)]
    };
    assert_eq!(seen(false), rows(Effect::Unknown));
    assert_eq!(seen(true), rows(Effect::Reads));
}

#[test]
fn an_entry_carries_its_servers_tenant_label_and_fingerprints() {
    let mut registry = registry(&[]);
    let tools = ServerTools { tenant: Some(tenant("acme")), name: "Data".into(), ..offer("db", &["query"]) };
    tell_offer(&mut registry, tools.clone());
    let source = ToolSource::Mcp { server: server("db"), tool: "query".into() };
    let listing = tools.listing.listing.clone().expect("it is warm");
    let mut expected =
        Entry::new(wire_name("db", "Data", "query"), source, Arc::new(tool("query")), listing.definition);
    expected.label = "Data".into();
    expected.tenant = Some(tenant("acme"));
    assert_eq!(registry.table().entries(), [Arc::new(expected)]);
}

#[test]
fn a_later_offer_changes_what_was_said_about_a_tool() {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer("db", &["query"]));
    let changed = ToolDefinition { description: Some("asks".into()), ..tool("query") };
    let mut later =
        ServerTools { force_prompt: vec!["query".into()], ..offer_of("db", vec![changed.clone()]) };
    tell_offer(&mut registry, later.clone());
    let entry = Arc::clone(&registry.table().entries()[0]);
    assert_eq!((entry.fingerprint, entry.force_prompt), (changed.fingerprint(), true));

    let edited = Listing {
        definition: Digest([9; 32]),
        ..Listing::clone(later.listing.listing.as_ref().expect("warm"))
    };
    later.listing = ListingView::new(server("db"), ListingState::Warm, Some(Arc::new(edited)));
    tell_offer(&mut registry, later.clone());
    let entry = Arc::clone(&registry.table().entries()[0]);
    assert_eq!((entry.fingerprint, entry.owner), (changed.fingerprint(), Digest([9; 32])));

    later.listing = ListingView::new(server("db"), ListingState::Cold, None);
    tell_offer(&mut registry, later);
    assert_eq!(names(&registry), Vec::<String>::new());
}

#[test]
fn a_function_is_refused_for_its_name_or_its_schema() {
    let long = "x".repeat(65);
    let bad = |name: &str| Err(RegistryError::BadName { name: name.into() });
    let reserved = |name: &str| Err(RegistryError::Reserved { name: name.into() });
    let rows = [
        ("web_search", Ok(())),
        ("mcp_", Ok(())),
        ("tool_searches", Ok(())),
        ("", bad("")),
        ("web search", bad("web search")),
        ("päron", bad("päron")),
        (long.as_str(), bad(&long)),
        ("mcp__x", reserved("mcp__x")),
        ("tool_search", reserved("tool_search")),
        ("tool_inspect", reserved("tool_inspect")),
        ("tool_invoke", reserved("tool_invoke")),
        ("tool_exec", reserved("tool_exec")),
    ];
    for (name, expected) in rows {
        assert_eq!(Registry::new(vec![function(name)]).map(|_| ()), expected, "{name}");
    }
    for schema in
        [json!({"type": "string"}), json!({}), json!(true), json!(["object"]), json!({"type": ["object"]})]
    {
        let mut entry = function("f");
        entry.definition = Arc::new(ToolDefinition { input_schema: JsonText::from(&schema), ..tool("f") });
        let expected = Err(RegistryError::BadSchema { name: "f".into() });
        assert_eq!(Registry::new(vec![entry]).map(|_| ()), expected, "{schema}");
    }
}

#[test]
fn of_two_functions_with_one_name_the_last_stays() {
    let mut second = function("f");
    second.effect = Effect::Reads;
    let registry = Registry::new(vec![function("f"), function("g"), second.clone()]).expect("both are fine");
    assert_eq!(registry.table().entries(), [Arc::new(second), Arc::new(function("g"))]);
}

#[test]
fn a_scope_admits_what_was_chosen_and_what_is_the_tenants_own_or_everybodys() {
    let mut registry = registry(&["f", "g"]);
    tell_offer(&mut registry, offer("shared", &["s"]));
    tell_offer(&mut registry, ServerTools { tenant: Some(TenantId::default()), ..offer("own", &["o"]) });
    tell_offer(&mut registry, ServerTools { tenant: Some(tenant("acme")), ..offer("theirs", &["t"]) });
    let rows: [(Scope, &[&str]); 6] = [
        (everything(), &["f", "g", "o", "s"]),
        (scope(Some(&[]), None), &["f", "g"]),
        (scope(None, Some(&[])), &["o", "s"]),
        (scope(Some(&["theirs", "shared"]), Some(&["g", "none"])), &["g", "s"]),
        (Scope::new(tenant("acme"), None, Some(vec![])), &["s", "t"]),
        (scope_of(&TopicConfig::new("m")), &["f", "g", "o", "s"]),
    ];
    for (scope, expected) in rows {
        let table = registry.table();
        let active: Vec<_> = table.select_active(&scope).collect();
        assert!(active.is_sorted_by_key(|entry| entry.name.as_bytes()));
        let mut raw: Vec<_> = active.iter().map(|entry| entry.source.raw_name()).collect();
        raw.sort_unstable();
        assert_eq!(raw, expected, "{scope:?}");
    }
}

#[test]
fn scopes_that_admit_the_same_are_equal() {
    assert_eq!(
        scope(Some(&["b", "a", "b"]), Some(&["g", "f"])),
        scope(Some(&["a", "b"]), Some(&["f", "g", "g"]))
    );
    assert_ne!(scope(Some(&[]), None), scope(None, None));
}

#[test]
fn a_call_gets_the_tool_as_it_stands() {
    let mut registry = registry(&[]);
    let described = ToolDefinition { title: Some("Query".into()), ..tool("query") };
    let tools = ServerTools { force_prompt: vec!["query".into()], ..offer_of("db", vec![described.clone()]) };
    tell_offer(&mut registry, tools.clone());
    let expected = ResolvedTool {
        name: wire("db", "query"),
        source: ToolSource::Mcp { server: server("db"), tool: "query".into() },
        label: "db".into(),
        title: Some("Query".into()),
        effect: Effect::Unknown,
        force_prompt: true,
        interruptible: false,
        fingerprint: described.fingerprint(),
        definition: tools.listing.listing.expect("it is warm").definition,
    };
    let table = registry.table();
    assert_eq!(table.get(&wire("db", "query")).map(|entry| resolved(entry)), Some(expected));
}

#[test]
fn a_replay_of_the_events_equals_the_live_state() {
    let mut live = registry(&["f"]);
    let mut log = Vec::new();
    log.extend(tell_offer(&mut live, offer("a", &["x", "y"])));
    log.extend(tell_offer(&mut live, offer("b", &["x"])));
    log.extend(tell(&mut live, &withdraw("a")));
    log.extend(tell(&mut live, &withdraw("never seen")));
    log.extend(tell_offer(&mut live, offer("a", &["y", "z"])));
    let mut again = registry(&["f"]);
    log.iter().for_each(|event| again.apply(event));
    assert_eq!(again, live);
    assert_eq!((live.next_deadline(), live.resume()), (None, vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn the_table_depends_on_what_is_offered_last_and_not_on_the_way_there(
        past in proptest::collection::vec((0usize..3, any::<bool>()), 0..12),
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
    ) {
        let ids = ["a", "b", "c"];
        let last = |i: usize| offer(ids[i], &["query", "insert", "drop"][..=i]);
        let mut plain = registry(&["f"]);
        (0..3).for_each(|i| { tell_offer(&mut plain, last(i)); });
        let mut travelled = registry(&["f"]);
        for (i, comes) in past {
            match comes {
                true => tell_offer(&mut travelled, offer(ids[i], &["drop", "query"])),
                false => tell(&mut travelled, &withdraw(ids[i])),
            };
        }
        order.into_iter().for_each(|i| { tell_offer(&mut travelled, last(i)); });
        assert_eq!(travelled.table(), plain.table());
    }
}

#[test]
fn a_server_that_names_its_tools_anew_each_time_gets_so_many_names_and_no_more() {
    const LISTED: usize = 5_000;
    let mut registry = registry(&[]);
    let mut offered = |round: usize| {
        let tools: Vec<_> = (0..LISTED).map(|n| format!("t{round}_{n}")).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        tell_offer(&mut registry, offer("db", &tools));
        names(&registry).len()
    };
    let full = NAMES_MAX / LISTED;
    for round in 0..full {
        assert_eq!(offered(round), LISTED, "round {round}");
    }
    assert_eq!(offered(full), NAMES_MAX % LISTED, "the first that are listed get the last names");
    assert_eq!(offered(full + 1), 0);
    assert_eq!(offered(0), LISTED, "a name that was given stays");
    tell_offer(&mut registry, offer("other", &["query"]));
    assert_eq!(names(&registry).len(), LISTED + 1, "another server has its own");
}
