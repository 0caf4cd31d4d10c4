use pilothouse_messages::deferral::DeferralGate;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{ListingState, ListingView};
use pilothouse_messages::registry::{RegistryCommand, ServerTools};
use pilothouse_messages::tool::{ToolDefinition, ToolLists};
use proptest::prelude::{ProptestConfig, any, proptest};
use serde_json::json;

use super::*;
use crate::name::wire_name;
use crate::registry::Registry;
use crate::registry::sample::{offer, offer_of, registry, server, tell, tell_offer, tenant, tool, withdraw};
use crate::tokens::Bytes4;

const PINNED: Timestamp = Timestamp(1_000_000);

fn cold(ids: &[&str]) -> Arc<BTreeSet<ServerId>> {
    Arc::new(ids.iter().map(|id| server(id)).collect())
}

fn config() -> TopicConfig {
    TopicConfig::new("m")
}

fn pinned(registry: &Registry, config: &TopicConfig, cold_ids: &[&str]) -> Surface {
    let (limits, shown) = (Limits::default(), ShownTools::default());
    let terms = Terms { limits: &limits, counter: &Bytes4, shown: &shown, dialect: Dialect::Common };
    Surface::pin(&registry.table(), config, &cold(cold_ids), PINNED, terms)
}

fn reason(
    surface: &Surface,
    registry: &Registry,
    config: &TopicConfig,
    cold_ids: &[&str],
) -> Option<RepinReason> {
    surface.must_repin(&registry.table(), config, PINNED, &cold(cold_ids), &Limits::default())
}

#[test]
fn a_surface_shows_the_tools_in_scope_sorted_with_their_schemas() {
    let schema = JsonText::from(json!({"type": "object", "properties": {"q": {"type": "string"}}}));
    let mut registry = registry(&["Zeta", "alpha", "hidden"]);
    let query = ToolDefinition { input_schema: schema.clone(), ..tool("query") };
    tell_offer(&mut registry, offer_of("db", vec![query]));
    tell_offer(&mut registry, ServerTools { tenant: Some(tenant("acme")), ..offer("theirs", &["x"]) });
    let config = TopicConfig { builtins: Some(vec!["alpha".into(), "Zeta".into()]), ..config() };
    let shown = |name: &str, description: &str, input_schema: &JsonText| ShownTool {
        name: name.into(),
        description: description.into(),
        input_schema: input_schema.clone(),
    };
    let plain = JsonText::from(json!({"type": "object", "properties": {}}));
    let expected = SurfaceView::new(vec![
        shown("Zeta", "does Zeta", &plain),
        shown("alpha", "does alpha", &plain),
        shown(&wire_name("db", "db", "query"), "does query", &schema),
    ]);
    let surface = pinned(&registry, &config, &[]);
    let view = surface.view();
    let nothing = (&Vec::new(), &None, &Vec::new());
    assert_eq!((&view.deferred, &view.section, &view.loosened), nothing);
    assert_eq!((&view.tools, view.hash, surface.used_at), (&expected.tools, expected.hash, PINNED));
}

#[test]
fn a_description_is_the_owners_text_without_control_characters_and_bounded() {
    let rows = [
        (Some("says"), Some("title"), 99, "says"),
        (None, Some("title"), 99, "title"),
        (Some(" \u{0} "), Some("title"), 99, "title"),
        (Some(""), Some(""), 99, "query"),
        (None, None, 99, "query"),
        (None, None, 3, "que"),
        (Some("a\u{1b}[31mb\u{7f}\u{85}c\r\n\td"), None, 99, "a[31mbc\n\td"),
        (Some("ab日本"), None, 7, "ab日"),
        (Some("ab日本"), None, 8, "ab日本"),
        (Some("\u{0}\u{0}\u{0}ab"), None, 2, "ab"),
    ];
    for (description, title, bytes, expected) in rows {
        let definition = ToolDefinition {
            description: description.map(str::to_owned),
            title: title.map(str::to_owned),
            ..tool("query")
        };
        let mut registry = registry(&[]);
        tell_offer(&mut registry, offer_of("db", vec![definition]));
        let mut limits = Limits::default();
        limits.description_bytes = bytes;
        let terms = Terms {
            limits: &limits,
            counter: &Bytes4,
            shown: &ShownTools::default(),
            dialect: Dialect::Common,
        };
        let surface = Surface::pin(&registry.table(), &config(), &cold(&[]), PINNED, terms);
        assert_eq!(surface.view().tools[0].description, expected, "{description:?} {title:?}");
    }
}

#[test]
fn a_new_pin_is_due_when_the_scope_changes_and_not_when_it_is_only_said_otherwise() {
    let registry = registry(&["f", "g"]);
    let chosen = |ids: &[&str]| Some(ids.iter().map(|id| server(id)).collect());
    let before = TopicConfig { servers: chosen(&["a", "b"]), ..config() };
    let surface = pinned(&registry, &before, &[]);
    let rows = [
        (before.clone(), None),
        (TopicConfig { servers: chosen(&["b", "a", "a"]), ..before.clone() }, None),
        (TopicConfig { model: "other".into(), max_steps: Some(3), ..before.clone() }, None),
        (TopicConfig { servers: chosen(&["a"]), ..before.clone() }, Some(RepinReason::ScopeChanged)),
        (TopicConfig { servers: None, ..before.clone() }, Some(RepinReason::ScopeChanged)),
        (TopicConfig { builtins: Some(vec!["f".into()]), ..before.clone() }, Some(RepinReason::ScopeChanged)),
        (TopicConfig { tenant: tenant("acme"), ..before }, Some(RepinReason::ScopeChanged)),
    ];
    for (after, expected) in rows {
        assert_eq!(reason(&surface, &registry, &after, &[]), expected, "{after:?}");
    }
}

#[test]
fn a_new_pin_is_due_once_when_a_cold_server_in_scope_has_listed() {
    let registry = registry(&[]);
    let config = TopicConfig { servers: Some(vec![server("a"), server("b")]), ..config() };
    let surface = pinned(&registry, &config, &["a", "b", "elsewhere"]);
    let listed = |id: &str| Some(RepinReason::ServerListed { server: server(id) });
    assert_eq!(reason(&surface, &registry, &config, &["a", "b", "elsewhere"]), None);
    assert_eq!(reason(&surface, &registry, &config, &["a", "b"]), None);
    assert_eq!(reason(&surface, &registry, &config, &["a"]), listed("b"));
    assert_eq!(reason(&surface, &registry, &config, &[]), listed("a"));

    let again = pinned(&registry, &config, &["a"]);
    assert_eq!(reason(&again, &registry, &config, &["a", "b"]), None);
    assert_eq!(reason(&again, &registry, &config, &["b"]), listed("a"));
}

#[test]
fn a_new_pin_is_due_when_a_tool_appears_in_scope_and_not_when_one_goes() {
    let mut registry = registry(&["f"]);
    tell_offer(&mut registry, offer("db", &["query", "insert"]));
    let surface = pinned(&registry, &config(), &[]);

    tell_offer(&mut registry, offer("db", &["query"]));
    assert_eq!(reason(&surface, &registry, &config(), &[]), None);
    tell(&mut registry, &withdraw("db"));
    assert_eq!(reason(&surface, &registry, &config(), &["db"]), None);
    tell_offer(&mut registry, ServerTools { tenant: Some(tenant("acme")), ..offer("theirs", &["x"]) });
    assert_eq!(reason(&surface, &registry, &config(), &["db"]), None);

    tell_offer(&mut registry, offer("db", &["query", "drop"]));
    let expected = RepinReason::ToolAppeared { name: wire_name("db", "db", "drop") };
    assert_eq!(reason(&surface, &registry, &config(), &[]), Some(expected));
}

#[test]
fn a_new_pin_is_due_when_the_topic_was_idle_for_longer_than_its_surface_lives() {
    let registry = registry(&["f"]);
    let ttl = |surface_ttl_ms| TopicConfig { surface_ttl_ms, ..config() };
    let rows = [
        (ttl(None), 0, 300_000, None),
        (ttl(None), 0, 300_001, Some(RepinReason::Idle)),
        (ttl(Some(50)), 0, 50, None),
        (ttl(Some(50)), 0, 51, Some(RepinReason::Idle)),
        (ttl(Some(50)), 40, 90, None),
        (ttl(Some(50)), 40, 91, Some(RepinReason::Idle)),
        (ttl(Some(u64::MAX)), 0, u64::MAX - PINNED.0, None),
    ];
    for (config, used, now, expected) in rows {
        let mut surface = pinned(&registry, &config, &[]);
        surface.used(Timestamp(PINNED.0 + used));
        surface.used(Timestamp(0));
        let now = Timestamp(PINNED.0 + now);
        let due = surface.must_repin(&registry.table(), &config, now, &cold(&[]), &Limits::default());
        assert_eq!(due, expected, "{config:?} {used} {now}");
    }
}

#[test]
fn a_renamed_server_leaves_the_block_as_it_was() {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer("db", &["query"]));
    let surface = pinned(&registry, &config(), &[]);
    tell_offer(&mut registry, ServerTools { name: "Billing".into(), ..offer("db", &["query"]) });
    assert_eq!(reason(&surface, &registry, &config(), &[]), None);
    assert_eq!(pinned(&registry, &config(), &[]), surface);
}

/// What a server that flaps does to its listing.
fn flap(id: &str, tools: &[&str], state: ListingState) -> RegistryCommand {
    let mut tools = offer(id, tools);
    tools.listing = ListingView::new(server(id), state, tools.listing.listing);
    RegistryCommand::Offer(Box::new(tools))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn flapping_servers_give_one_block_and_no_reason_for_another(
        flaps in proptest::collection::vec((0usize..3, any::<bool>(), any::<bool>()), 0..24),
    ) {
        let servers = [("a", ["x", "y"]), ("b", ["x", "z"]), ("c", ["query", "insert"])];
        let mut registry = registry(&["f"]);
        for (id, tools) in &servers {
            tell_offer(&mut registry, offer(id, tools));
        }
        let surface = pinned(&registry, &config(), &[]);
        for (i, is_stale, is_turned) in flaps {
            let (id, mut tools) = servers[i];
            if is_turned {
                tools.reverse();
            }
            let state = if is_stale { ListingState::Stale { reason: "gone".into() } } else { ListingState::Warm };
            tell(&mut registry, &flap(id, &tools, state));
            assert_eq!(reason(&surface, &registry, &config(), &[]), None);
            assert_eq!(pinned(&registry, &config(), &[]).view().hash, surface.view().hash);
        }
    }
}

/// Forty tools that cost more than a tenth of the default window, on the server `db`.
fn many() -> Vec<ToolDefinition> {
    let long = |i: usize| ToolDefinition { description: Some("x".repeat(400)), ..tool(&format!("t{i}")) };
    (0..40).map(long).collect()
}

fn names(surface: &Surface) -> Vec<&str> {
    surface.view().tools.iter().map(|tool| tool.name.as_str()).collect()
}

const META: [&str; 3] = ["tool_inspect", "tool_invoke", "tool_search"];

#[test]
fn what_a_search_finds_more_cheaply_is_left_out_and_comes_with_the_meta_tools() {
    let mut registry = registry(&["f"]);
    tell_offer(&mut registry, offer_of("db", many()));
    let surface = pinned(&registry, &config(), &[]);
    let view = surface.view();
    assert_eq!(names(&surface), [&["f"], &META[..]].concat());
    assert_eq!(view.deferred, [DeferredGroup { label: "db".into(), count: 40 }]);
    assert_eq!(view.deferral.as_ref().map(|report| report.gate), Some(DeferralGate::Passed));
    assert_eq!((surface.deferred().len(), surface.late(&registry.table())), (40, None));
    let section = view.section.as_deref().expect("something is deferred");
    assert!(section.contains("<namespace name=\"db\" count=\"40\"/>"), "{section}");
    assert_ne!(view.hash, SurfaceView::new(view.tools.clone()).hash, "the section is part of the block");

    let wide = TopicConfig { context_window: Some(1_000_000), ..config() };
    assert_eq!(reason(&surface, &registry, &wide, &[]), Some(RepinReason::WindowChanged));
    let all = pinned(&registry, &wide, &[]);
    assert_eq!((all.view().tools.len(), &all.view().section, all.deferred().len()), (41, &None, 0));
}

#[test]
fn what_is_deferred_does_not_flip_while_it_is_pinned() {
    let mut registry = registry(&[]);
    tell_offer(&mut registry, offer_of("db", many()));
    let surface = pinned(&registry, &config(), &[]);
    tell_offer(&mut registry, offer_of("db", many().split_off(38)));
    assert_eq!(reason(&surface, &registry, &config(), &[]), None);
    let few = pinned(&registry, &config(), &[]);
    assert_eq!((few.view().tools.len(), few.deferred().len()), (2, 0), "it would be decided otherwise now");
}

#[test]
fn a_late_tool_is_announced_where_a_search_finds_it_and_shown_where_none_does() {
    let rows = [
        (offer_of("db", many()), &[][..], true),
        (offer("db", &["t0"]), &["slow"][..], true),
        (offer("db", &["t0"]), &[][..], false),
    ];
    for (first, cold_ids, has_meta) in rows {
        let mut registry = registry(&[]);
        let mut tools = first.listing.tools().to_vec();
        tell_offer(&mut registry, first);
        let surface = pinned(&registry, &config(), cold_ids);
        assert_eq!(META.iter().all(|name| names(&surface).contains(name)), has_meta);
        tools.push(tool("late"));
        tell_offer(&mut registry, offer_of("db", tools));
        let (due, late) = (reason(&surface, &registry, &config(), cold_ids), surface.late(&registry.table()));
        let line = "  <namespace name=\"db\" count=\"1\"/>\n";
        match has_meta {
            true => {
                assert!(due.is_none() && late.as_ref().is_some_and(|late| late.contains(line)), "{late:?}")
            }
            false => {
                let name = wire_name("db", "db", "late");
                assert_eq!((due, late), (Some(RepinReason::ToolAppeared { name }), None));
            }
        }
    }
}

#[test]
fn lists_narrow_a_surface_and_other_lists_are_a_reason_for_another() {
    let mut registry = registry(&["f", "g"]);
    tell_offer(&mut registry, offer("db", &["query", "drop"]));
    let lists = |allow: Option<&[&str]>, deny: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        TopicConfig { tools: ToolLists { allow: allow.map(texts), deny: texts(deny) }, ..config() }
    };
    let query = wire_name("db", "db", "query");
    let rows = [
        (lists(None, &["mcp:db", "f"]), vec!["g"]),
        (lists(Some(&["g", "mcp__db__*"]), &["drop"]), vec!["g", &query]),
        (lists(Some(&[]), &[]), vec![]),
        (lists(Some(&["Query"]), &[]), vec![]),
        (lists(None, &["*"]), vec![]),
    ];
    let open = pinned(&registry, &config(), &[]);
    for (config, expected) in rows {
        let narrow = pinned(&registry, &config, &[]);
        assert_eq!(names(&narrow), expected, "{config:?}");
        assert_eq!(reason(&open, &registry, &config, &[]), Some(RepinReason::ScopeChanged));
        assert_eq!(reason(&narrow, &registry, &config, &[]), None);
    }
}

#[test]
fn a_thousand_flaps_give_one_hash_for_each_pin() {
    for first in [offer("db", &["t0", "t1", "t2"]), offer_of("db", many())] {
        let mut registry = registry(&["f"]);
        let tools = first.listing.tools().to_vec();
        tell_offer(&mut registry, first);
        let surface = pinned(&registry, &config(), &[]);
        let mut hashes = BTreeSet::from([surface.view().hash]);
        let mut dice = 7u64;
        for _ in 0..1_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut shuffled = tools.clone();
            shuffled.rotate_left((dice >> 40) as usize % tools.len());
            let state = match dice >> 62 {
                0 => ListingState::Stale { reason: "gone".into() },
                _ => ListingState::Warm,
            };
            let mut offer = offer_of("db", shuffled);
            offer.listing = ListingView::new(server("db"), state, offer.listing.listing);
            match dice >> 60 & 3 {
                0 => drop(tell(&mut registry, &withdraw("db"))),
                _ => drop(tell(&mut registry, &RegistryCommand::Offer(Box::new(offer)))),
            }
            assert_eq!(reason(&surface, &registry, &config(), &[]), None);
            hashes.insert(surface.view().hash);
        }
        tell_offer(&mut registry, offer_of("db", tools));
        hashes.insert(pinned(&registry, &config(), &[]).view().hash);
        assert_eq!(hashes.len(), 1);
    }
}
