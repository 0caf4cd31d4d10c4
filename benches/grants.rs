//! What it costs to find the grant that covers a call, among 10 000 grants; the raw limit is one look-up in a map.
//!
//! `cargo bench --bench grants` prints the figures; any other way of running it is a short check that it still works.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::{ArgumentRule, Grant, GrantPlace, GrantSubject};
use pilothouse_messages::id::{ApprovalId, CallId, GrantId, ServerId, StepId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::ResolvedTool;
use pilothouse_rules::grant::{Asked, GrantBook};

#[path = "shared/rounds.rs"]
mod rounds;

use rounds::each;

const GRANTS: u32 = 10_000;

fn source(n: u32) -> ToolSource {
    let server = ServerId::new(format!("server-{}", n % 500)).expect("an id");
    ToolSource::Mcp { server, tool: format!("tool_{n}") }
}

fn tool(n: u32) -> ResolvedTool {
    ResolvedTool {
        name: format!("mcp__server__tool_{n}"),
        source: source(n),
        label: "Server".into(),
        title: None,
        effect: Effect::Edits,
        force_prompt: false,
        interruptible: false,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

fn grant(topic: &TopicId, n: u32, tool: u32, arguments: Vec<ArgumentRule>) -> Arc<Grant> {
    let approval = ApprovalId::of(topic, CallId { turn: TurnId(1), step: StepId(1), index: n });
    Arc::new(Grant {
        grant: GrantId::of(approval),
        approval,
        tenant: TenantId::default(),
        place: GrantPlace::Always,
        subject: GrantSubject::Tool(source(tool)),
        fingerprints: vec![Digest([1; 32])],
        definition: Digest([2; 32]),
        arguments,
        by: "bench".into(),
        reason: None,
        given_at: Timestamp(1),
        expires_at: None,
    })
}

fn main() {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    let runs = if asked("--bench") && !asked("--test") { 20_000 } else { 100 };
    let (tenant, topic) = (TenantId::default(), TopicId::new("topic").expect("an id"));
    let arguments = JsonText::parse(r#"{"path":"/data/report.md","content":"a line"}"#).expect("JSON");
    let mut each_tool = GrantBook::default();
    let mut one_tool = GrantBook::default();
    for n in 0..GRANTS {
        each_tool.insert(grant(&topic, n, n, Vec::new()));
        let other = JsonText::parse(format!(r#"{{"path":"/data/{n}"}}"#)).expect("JSON");
        one_tool.insert(grant(&topic, n, 0, vec![ArgumentRule::exactly(&other)]));
    }
    one_tool.insert(grant(&topic, GRANTS, 0, vec![ArgumentRule::exactly(&arguments)]));
    let map: HashMap<ToolSource, u32> = (0..GRANTS).map(|n| (source(n), n)).collect();
    let (known, unknown) = (tool(0), tool(GRANTS));
    let covers = |book: &GrantBook, tool: &ResolvedTool| {
        let asked = Asked {
            tenant: &tenant,
            topic: Some(&topic),
            turn: Some(TurnId(1)),
            tool,
            arguments: &arguments,
            now: Timestamp(2),
        };
        book.covers(&asked).grant.is_some()
    };
    let raw = each(runs, || map.contains_key(black_box(&known.source)));
    let rows = [
        ("a tool's own grant", each(runs, || covers(&each_tool, black_box(&known)))),
        ("a tool without one", each(runs, || !covers(&each_tool, black_box(&unknown)))),
        ("one of a tool's 10 001", each(runs, || covers(&one_tool, black_box(&known)))),
    ];
    println!("{GRANTS} grants; one look-up in a map of as many tools takes {raw:.0?}");
    for (what, took) in rows {
        println!("  {what:<24} {took:>8.0?}  {:.1}x", took.as_secs_f64() / raw.as_secs_f64());
    }
}
