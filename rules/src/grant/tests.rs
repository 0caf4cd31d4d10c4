use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::{ArgumentRule, Grant, GrantPlace, GrantSubject, PathCase};
use pilothouse_messages::id::CallId;
use pilothouse_messages::id::{ApprovalId, GrantId, ServerId, StepId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::ResolvedTool;

use super::path::is_under;
use super::{Asked, Coverage, GrantBook};

fn topic(name: &str) -> TopicId {
    TopicId::new(name).expect("an id")
}

fn source(tool: &str) -> ToolSource {
    ToolSource::Mcp { server: ServerId::new("files").expect("an id"), tool: tool.into() }
}

fn tool(name: &str, fingerprint: u8, definition: u8) -> ResolvedTool {
    ResolvedTool {
        name: name.into(),
        source: source(name),
        label: "Files".into(),
        title: None,
        effect: Effect::Unknown,
        force_prompt: false,
        interruptible: false,
        fingerprint: Digest([fingerprint; 32]),
        definition: Digest([definition; 32]),
    }
}

fn grant(index: u32, change: impl FnOnce(&mut Grant)) -> Arc<Grant> {
    let call = CallId { turn: TurnId(3), step: StepId(1), index };
    let approval = ApprovalId::of(&topic("t"), call);
    let mut grant = Grant {
        grant: GrantId::of(approval),
        approval,
        tenant: TenantId::default(),
        place: GrantPlace::Always,
        subject: GrantSubject::Tool(source("write")),
        fingerprints: vec![Digest([1; 32])],
        definition: Digest([2; 32]),
        arguments: vec![],
        by: "ann".into(),
        reason: None,
        given_at: Timestamp(1),
        expires_at: None,
    };
    change(&mut grant);
    Arc::new(grant)
}

fn covers(book: &GrantBook, tool: &ResolvedTool, arguments: &str, now: u64) -> Coverage {
    let (tenant, topic) = (TenantId::default(), topic("t"));
    let arguments = JsonText::parse(arguments).expect("JSON");
    book.covers(&Asked {
        tenant: &tenant,
        topic: Some(&topic),
        turn: Some(TurnId(3)),
        tool,
        arguments: &arguments,
        now: Timestamp(now),
    })
}

#[test]
fn a_grant_covers_a_call_only_if_everything_fits() {
    let write = || tool("write", 1, 2);
    let server = GrantSubject::Server(ServerId::new("files").expect("an id"));
    let exact = ArgumentRule::exactly(&JsonText::parse(r#"{"b":1,"a":2}"#).expect("JSON"));
    let equals = |value: &str| ArgumentRule::Equals {
        pointer: "/a".into(),
        value: JsonText::parse(value).expect("JSON"),
    };
    let under =
        ArgumentRule::Under { pointer: "/a".into(), path: "/srv/files".into(), case: PathCase::Sensitive };
    let with = |rule: ArgumentRule| grant(0, |grant| grant.arguments = vec![rule]);
    let place = |place| grant(0, |grant| grant.place = place);
    let turn = |turn| place(GrantPlace::Turn { topic: topic("t"), turn: TurnId(turn) });
    let rows = [
        ("any", grant(0, |_| {}), write(), "{}", "covers"),
        ("another tool", grant(0, |_| {}), tool("drop", 1, 2), "{}", "no"),
        ("another fingerprint", grant(0, |_| {}), tool("write", 7, 2), "{}", "void"),
        ("another definition", grant(0, |_| {}), tool("write", 1, 7), "{}", "void"),
        ("the server", grant(0, |grant| grant.subject = server.clone()), tool("drop", 1, 2), "{}", "covers"),
        ("a new tool of it", grant(0, |grant| grant.subject = server.clone()), tool("new", 7, 2), "{}", "no"),
        ("it is another", grant(0, |grant| grant.subject = server.clone()), tool("drop", 1, 7), "{}", "void"),
        ("this turn", turn(3), write(), "{}", "covers"),
        ("an earlier turn", turn(2), write(), "{}", "no"),
        ("this topic", place(GrantPlace::Topic { topic: topic("t") }), write(), "{}", "covers"),
        ("another topic", place(GrantPlace::Topic { topic: topic("u") }), write(), "{}", "no"),
        ("another tenant", grant(0, |g| g.tenant = TenantId::new("b").expect("an id")), write(), "{}", "no"),
        ("before its end", grant(0, |grant| grant.expires_at = Some(Timestamp(11))), write(), "{}", "covers"),
        ("at its end", grant(0, |grant| grant.expires_at = Some(Timestamp(10))), write(), "{}", "no"),
        ("exact", with(exact.clone()), write(), r#"{"a": 2, "b": 1}"#, "covers"),
        ("one more", with(exact), write(), r#"{"a":2,"b":1,"c":0}"#, "no"),
        ("equal", with(equals("[1]")), write(), r#"{"a":[1],"b":0}"#, "covers"),
        ("another type", with(equals("1")), write(), r#"{"a":"1"}"#, "no"),
        ("another number", with(equals("1")), write(), r#"{"a":1.0}"#, "no"),
        ("not there", with(equals("null")), write(), "{}", "no"),
        ("under", with(under.clone()), write(), r#"{"a":"/srv/files/x"}"#, "covers"),
        ("beside", with(under.clone()), write(), r#"{"a":"/srv/files/../../etc"}"#, "no"),
        ("no text", with(under), write(), r#"{"a":["/srv/files"]}"#, "no"),
    ];
    for (what, grant, tool, arguments, expected) in rows {
        let mut book = GrantBook::default();
        book.insert(grant.clone());
        let found = covers(&book, &tool, arguments, 10);
        let word = match (found.grant, found.void.as_slice()) {
            (Some(named), []) if named == grant.grant => "covers",
            (None, [void]) if *void == grant.grant => "void",
            (None, []) => "no",
            (_, _) => "nonsense",
        };
        assert_eq!(word, expected, "{what}");
        assert_eq!((book.remove(grant.grant), &book), (Some(grant), &GrantBook::default()), "{what}");
    }
}

#[test]
fn a_path_is_under_a_directory_only_if_its_text_says_so_beyond_doubt() {
    use PathCase::{Insensitive, Sensitive};
    let rows = [
        ("/a/b", "/a/b", Sensitive, true),
        ("/a/b/c", "/a/b/", Sensitive, true),
        ("/a//b/./c", "/a/b", Sensitive, true),
        ("/a/x/../b/c", "/a/b", Sensitive, true),
        ("/../a/b", "/a/b", Sensitive, true),
        ("/a/b-evil", "/a/b", Sensitive, false),
        ("/a/b/..", "/a/b", Sensitive, false),
        ("/a/b/../../etc", "/a/b", Sensitive, false),
        ("a/b", "/a", Sensitive, false),
        ("/a/b", "a", Sensitive, false),
        ("docs/x", "docs", Sensitive, true),
        ("docs/x", ".", Sensitive, true),
        ("../docs/x", ".", Sensitive, false),
        ("~/x", ".", Sensitive, false),
        ("/a/b\\..\\c", "/a/b", Sensitive, false),
        ("/a/b/\0", "/a/b", Sensitive, false),
        ("", ".", Sensitive, false),
        ("/A/b", "/a/B", Sensitive, false),
        ("/A/b/c", "/a/B", Insensitive, true),
    ];
    for (path, directory, case, expected) in rows {
        assert_eq!(is_under(path, directory, case), expected, "{path:?} in {directory:?}, {case:?}");
    }
}

#[test]
fn among_ten_thousand_grants_a_call_finds_its_own_and_no_other() {
    let mut book = GrantBook::default();
    for index in 0..10_000 {
        let exact = JsonText::parse(format!("{{\"n\":{index}}}")).expect("JSON");
        book.insert(grant(index, |grant| match index % 2 {
            0 => grant.subject = GrantSubject::Tool(source(&format!("tool{index}"))),
            _ => grant.arguments = vec![ArgumentRule::exactly(&exact)],
        }));
    }
    let found = |arguments| covers(&book, &tool("write", 1, 2), arguments, 10);
    let own = Coverage { grant: Some(grant(7_777, |_| {}).grant), void: vec![] };
    assert_eq!((found(r#"{"n":7777}"#), found(r#"{"n":10001}"#)), (own, Coverage::default()));
}
