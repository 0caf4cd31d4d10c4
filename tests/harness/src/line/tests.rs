use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    Body, Cards, Cursor, Expect, Line, Outcome, Pattern, Search, Since, Verb, Writer, matches, parse,
};

fn read(line: &Value) -> Verb {
    match parse(1, &line.to_string()) {
        Ok(Some(verb)) => verb,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_verb_is_read_with_all_its_fields() {
    let stdio = json!({"stdio": {"command": "npx", "args": ["-y"], "env": {"KEY": "secret"}}});
    let peer = json!({"peer": {"tools": [{"name": "add", "echo": true}], "page_size": 2, "faults": [{"exit_after": 3}]}});
    let server = json!({"id": "files", "name": "Files", "transport": stdio, "connect_timeout_ms": 1,
        "call_timeout_ms": 2, "idle_stop_ms": 3, "force_prompt": ["write"], "interruptible": ["read"], "disabled": ["drop"], "trust_annotations": true,
        "tools": {"allow": ["read", "fetch"], "deny": ["mcp__files__*"]},
        "effects": {"read": "reads", "fetch": "open_world"}, "tenant": "acme"});
    let script = json!([{"text": "hi", "calls": [{"tool": {"server": "files", "tool": "read"}, "arguments": {}}],
        "finish": "stop", "delay_ms": 1, "chunk_ms": 2}, {"error": {"status": 500, "message": "no"}}, {"hang": true}]);
    let config = json!({"mode": "default", "steering": "chain", "max_steps": 3, "servers": ["files"],
        "builtins": ["kb_list"], "surface_ttl_ms": 4, "approval_ttl_ms": 5});
    let rows = [
        json!({"server": server}),
        json!({"server": {"id": "peer", "transport": peer}}),
        json!({"server_restart": {"id": "files"}}),
        json!({"refresh": {"server": "files"}}),
        json!({"topic": {"topic": "t", "tenant": "acme", "model": {"script": script}, "config": config}}),
        json!({"send": {"topic": "t", "text": "hello", "key": "k", "level": "next_step"}}),
        json!({"stop": {"topic": "t"}}),
        json!({"decide": {"approval": "all", "decision": "allow", "by": "ann", "digest": "00", "scope": "once", "of": "tool", "reason": "r"}}),
        json!({"configure": {"topic": "t", "mode": "default", "steering": "chain", "max_steps": 3, "servers": [],
            "builtins": [], "surface_ttl_ms": 4, "approval_ttl_ms": 5}}),
        json!({"attach": {"topic": "t", "as": "w1", "buffer": 4}}),
        json!({"detach": {"topic": "t", "as": "w1"}}),
        json!({"call": {"tool": "kb_list", "arguments": {"q": 1}, "topic": "t"}}),
        json!({"call": {"tool": {"server": "files", "tool": "read"}}}),
        json!({"list": {"server": "files"}}),
        json!({"surface": {"topic": "t"}}),
        json!({"view": {"topic": "t"}}),
        json!({"tree": {}}),
        json!({"approvals": null}),
        json!({"expect": {"reply": {"to": 3}, "within_ms": 10, "from": "start"}}),
        json!({"expect_absent": {"event": {"kind": "text"}, "for_ms": 10, "from": "start"}}),
        json!({"sleep": {"ms": 5}}),
        json!({"restart": {}}),
        json!({"crash": {}}),
        json!({"server_enable": {"id": "files", "enabled": false}}),
        json!({"decide": {"approval": "last", "decision": "allow", "by": "ann", "scope": "always", "of": "server", "arguments": {"a": 1}, "tenant": "acme"}}),
        json!({"grants": {}}),
        json!({"revoke": {"grant": "last", "by": "ann"}}),
        json!({"questions": {}}),
        json!({"answer": {"question": "last", "action": "accept", "content": {"name": "Ada"}, "by": "ann"}}),
        json!({"configure": {"topic": "t", "mode": "bypassPermissions", "headless": "deny",
            "context_window": 8000, "tools": {"allow": ["read"], "deny": ["*"]}}}),
        json!({"server_remove": {"id": "files"}}),
        json!({"configure": {"topic": "t", "steering": "inject", "claim": "batch", "after_crash": "resume_once",
            "budget": {"tokens": 9, "steps": 2, "wall_ms": 3, "cost": {"limit": 1, "input": 2, "output": 3}}}}),
        json!({"send": {"topic": "t", "text": "hello", "level": "now"}}),
        json!({"continue": {"topic": "t"}}),
        json!({"edit": {"topic": "t", "message": 2, "text": "other"}}),
        json!({"drop": {"topic": "t", "message": 2, "by": "ann"}}),
        json!({"reorder": {"topic": "t", "messages": [3, 2]}}),
        json!({"resend": {"topic": "t", "message": 2}}),
        json!({"relevel": {"topic": "t", "message": 2, "level": "next_turn"}}),
    ];
    let verbs: Vec<Verb> = rows.iter().map(read).collect();
    let secrets = format!("{:?}", verbs.first());
    assert!(secrets.contains("<secret>") && !secrets.contains("\"secret\""), "{secrets}");
    let Some(Verb::Decide(decide)) = verbs.get(7) else { panic!("{verbs:?}") };
    assert_eq!(decide.approval, Cards::All);
    let Some(Verb::Configure(configure)) = verbs.get(8) else { panic!("{verbs:?}") };
    assert_eq!((configure.topic.as_str(), configure.config.patch().max_steps), ("t", Some(3)));
    let Some(Verb::Expect(expect)) = verbs.get(18) else { panic!("{verbs:?}") };
    let wanted = Expect { pattern: Pattern::Reply(json!({"to": 3})), within_ms: 10, since: Since::Start };
    assert_eq!(expect, &wanted);
}

#[test]
fn blank_lines_and_remarks_say_nothing_and_an_expectation_waits_five_seconds() {
    for line in ["", "   ", "\t\r", "# {\"crash\": {}}", "  # later"] {
        assert_eq!(parse(1, line), Ok(None), "{line:?}");
    }
    let Verb::Expect(expect) = read(&json!({"expect": {"event": {}}})) else { panic!("another verb") };
    assert_eq!((expect.within_ms, expect.since), (5_000, Since::LastMatch));
}

#[test]
fn a_wrong_line_is_refused_with_its_number_field_and_reason() {
    let later = "not available in this version";
    let topic = |config: Value| json!({"topic": {"topic": "t", "model": {"script": []}, "config": config}});
    let decide = |more: Value| {
        let mut fields = json!({"approval": "last", "decision": "deny", "by": "ann"});
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        json!({"decide": fields})
    };
    let server = |transport: Value| json!({"server": {"id": "s", "transport": transport}});
    let rows = [
        (json!("crash"), None, "a line is an object with one key, the verb"),
        (json!({}), None, "this one has: none"),
        (json!({"tree": {}, "crash": {}}), None, "this one has: crash, tree"),
        (
            json!({"sned": {}}),
            Some("sned"),
            "there is no such verb; use one of server, server_restart, server_enable",
        ),
        (json!({"send": {"topic": "t"}}), Some("send"), "missing field `text`"),
        (
            json!({"send": {"topic": "t", "txt": "a"}}),
            Some("send.txt"),
            "unknown field `txt`, expected one of `topic`",
        ),
        (
            json!({"send": {"topic": "", "text": "a"}}),
            Some("send.topic"),
            "an id needs at least one character",
        ),
        (json!({"send": 7}), Some("send"), "invalid type"),
        (json!({"sleep": {"ms": -1}}), Some("sleep.ms"), "invalid value: integer `-1`"),
        (json!({"tree": {"deep": true}}), Some("tree.deep"), "the verb has no fields"),
        (json!({"crash": 7}), Some("crash"), "the verb has no fields"),
        (
            topic(json!({"max_steps": "x"})),
            Some("topic.config.max_steps"),
            "invalid type: string \"x\", expected u32",
        ),
        (
            topic(json!({"mode": "loose"})),
            Some("topic.config.mode"),
            "unknown variant `loose`, expected one of `default`",
        ),
        (json!({"configure": {"topic": "t", "max_steps": "x"}}), Some("configure.max_steps"), "expected u32"),
        (json!({"configure": {"max_steps": 1}}), Some("configure"), "missing field `topic`"),
        (json!({"configure": {"topic": "t", "speed": 1}}), Some("configure.speed"), "unknown field `speed`"),
        (
            json!({"topic": {"topic": "t", "model": {"script": [{}, {"calls": [{"tool": 1}]}]}}}),
            Some("topic.model.script[1].calls[0].tool"),
            "a tool is a wire name",
        ),
        (
            server(json!({"peer": {"faults": [{"bomb": true}]}})),
            Some("server.transport.peer.faults[0]"),
            "expected one of `silence`",
        ),
        (server(json!({"stdio": {}})), Some("server.transport.stdio"), "missing field `command`"),
        (server(json!({"pipe": {}})), Some("server.transport"), "unknown variant `pipe`"),
        (json!({"expect": {}}), Some("expect"), "missing field `event` or `reply`"),
        (json!({"expect": {"event": {}, "reply": {}}}), Some("expect"), "not both"),
        (json!({"expect": {"event": "text"}}), Some("expect"), "`event` or `reply` is an object"),
        (json!({"expect": {"event": {}, "from": "end"}}), Some("expect.from"), "expected `start`"),
        (json!({"expect_absent": {"event": {}}}), Some("expect_absent"), "missing field `for_ms`"),
        // What the language knows and this version does not do.
        (json!({"audit": {}}), Some("audit"), later),
        (
            json!({"send": {"topic": "t", "text": "a", "level": "soon"}}),
            Some("send.level"),
            "unknown variant `soon`",
        ),
        (topic(json!({"steering": "none"})), Some("topic.config.steering"), "unknown variant `none`"),
        (topic(json!({"budget": {"token": 1}})), Some("topic.config.budget.token"), "unknown field `token`"),
        (
            topic(json!({"tools": {"deny": "all"}})),
            Some("topic.config.tools.deny"),
            "invalid type: string \"all\", expected a sequence",
        ),
        (
            json!({"topic": {"topic": "t", "model": {"provider": "p", "name": "n"}}}),
            Some("topic.model.provider"),
            "not available in this version: use `script`",
        ),
        (server(json!({"http": {}})), Some("server.transport.http"), "missing field `url`"),
        (server(json!({"sse": {"url": 1}})), Some("server.transport.sse.url"), "invalid type: integer `1`"),
        (decide(json!({"scope": "forever"})), Some("decide.scope"), "unknown variant `forever`"),
        (decide(json!({"of": "tenant"})), Some("decide.of"), "unknown variant `tenant`"),
        (json!({"crash": {"at": "call.intent"}}), Some("crash.at"), later),
    ];
    for (line, field, reason) in rows {
        let Err(error) = parse(7, &line.to_string()) else { panic!("{line} is taken") };
        assert_eq!((error.line, error.field.as_deref()), (7, field), "{line}: {error}");
        assert!(error.reason.contains(reason), "{line}: {error}");
    }
    let error = parse(7, "{oops").expect_err("this is not JSON");
    assert!(error.to_string().starts_with("line 7: this is not JSON (key must be a string"), "{error}");
    let error = parse(7, r#"{"sleep": {"ms": "x"}}"#).expect_err("the field is no number");
    assert_eq!(error.to_string(), "line 7: `sleep.ms`: invalid type: string \"x\", expected u64");
}

#[test]
fn a_pattern_matches_what_it_gives() {
    let rows = [
        (json!({}), json!({"a": 1}), true),
        (json!({"a": 1}), json!({"a": 1, "b": 2}), true),
        (json!({"a": 1, "b": 2}), json!({"a": 1}), false),
        (json!({"a": {"b": "~ell"}}), json!({"a": {"b": "hello", "c": 1}}), true),
        (json!({"a": null}), json!({"a": null}), true),
        (json!({"a": null}), json!({}), false),
        (json!([1, 2]), json!([1, 2]), true),
        (json!([1]), json!([1, 2]), false),
        (json!([{"a": 1}]), json!([{"a": 1, "b": 2}]), false),
        (json!(["~a"]), json!(["a"]), false),
        (json!("~"), json!(""), true),
        (json!("~b"), json!("abc"), true),
        (json!("b"), json!("abc"), false),
        (json!("~1"), json!(1), false),
        (json!(1), json!(1), true),
        (json!(1), json!("1"), false),
        (json!({"a": 1}), json!([1]), false),
    ];
    for (pattern, actual, expected) in rows {
        assert_eq!(matches(&pattern, &actual), expected, "{pattern} in {actual}");
    }
}

fn text(delta: &str) -> Body {
    Body::Event(json!({"kind": "text", "delta": delta}))
}

fn lines(bodies: &[Body]) -> Vec<Line> {
    (1..).zip(bodies).map(|(n, body)| Line { n, at: 0, body: body.clone() }).collect()
}

fn wanted(delta: &str) -> Pattern {
    Pattern::Event(json!({"kind": "text", "delta": delta}))
}

/// What a run of expectations finds in five lines: `a`, a reply, `b`, `a`, an expectation.
fn check(searches: &[(Pattern, Since)], expected: &[Option<usize>]) {
    let reply = Body::Reply(json!({"kind": "text", "delta": "a", "to": 1}));
    let said = Body::Expect(json!({"kind": "text", "delta": "b"}));
    let lines = lines(&[text("a"), reply, text("b"), text("a"), said]);
    let mut cursor = Cursor::default();
    let mut search = |(pattern, since): &(Pattern, Since)| {
        let mut search = cursor.search(pattern.clone(), *since);
        cursor.advance(&mut search, &lines)
    };
    assert_eq!(searches.iter().map(&mut search).collect::<Vec<_>>(), expected, "{searches:?}");
}

#[test]
fn a_search_begins_after_the_last_match_unless_it_covers_everything() {
    let (a, b) = (wanted("a"), wanted("b"));
    let reply = Pattern::Reply(json!({"to": 1}));
    let last = |pattern: &Pattern| (pattern.clone(), Since::LastMatch);
    let start = |pattern: &Pattern| (pattern.clone(), Since::Start);
    check(&[last(&a), last(&a), last(&a)], &[Some(0), Some(3), None]);
    check(&[last(&b), last(&a), last(&b)], &[Some(2), Some(3), None]);
    check(&[last(&b), last(&reply), start(&reply)], &[Some(2), None, Some(1)]);
    check(&[last(&b), start(&a), start(&a), last(&a)], &[Some(2), Some(0), Some(0), Some(3)]);
}

#[test]
fn a_search_goes_on_as_lines_come_and_an_absence_moves_nothing() {
    let all = lines(&[text("a"), text("b"), text("a")]);
    let (early, mut cursor) = (&all[..1], Cursor::default());
    let mut search = cursor.search(wanted("b"), Since::LastMatch);
    assert_eq!((search.advance(early), search.advance(early), search.advance(&all)), (None, None, Some(1)));
    assert_eq!(cursor, Cursor::default());
    let mut search = cursor.search(wanted("b"), Since::LastMatch);
    assert_eq!(cursor.advance(&mut search, early), None);
    assert_eq!(cursor.advance(&mut search, &all), Some(1));
    assert_eq!(cursor.advance(&mut cursor.search(wanted("a"), Since::LastMatch), &all), Some(2));
}

#[test]
fn what_was_seen_instead_is_of_the_same_kind_if_there_is_any() {
    let mut bodies: Vec<Body> = (0..7).map(|n| text(&n.to_string())).collect();
    bodies.push(Body::Event(json!({"kind": "listing"})));
    let lines = lines(&bodies);
    let seen = |search: &Search| search.seen(&lines).iter().map(|line| line.n).collect::<Vec<_>>();
    assert_eq!(seen(&Cursor::default().search(wanted("x"), Since::Start)), [3, 4, 5, 6, 7]);
    let reply = Pattern::Reply(json!({"to": 1}));
    assert_eq!(seen(&Cursor::default().search(reply, Since::LastMatch)), [4, 5, 6, 7, 8]);
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

#[tokio::test(start_paused = true)]
async fn lines_out_are_numbered_without_gaps_and_stamped() {
    let mut writer = Writer::new(Vec::new());
    writer.event("text", fields(json!({"delta": "a"}))).expect("memory takes it");
    tokio::time::advance(Duration::from_millis(12)).await;
    writer.reply(4, fields(json!({"message": 1}))).expect("memory takes it");
    writer.error(Some(5), "unknown_topic", "no such topic").expect("memory takes it");
    writer.error(None, "store", "gone").expect("memory takes it");
    writer.expectation(6, &Outcome::Held).expect("memory takes it");
    let first = writer.lines()[..1].to_vec();
    let missed = Outcome::Missed { wanted: &wanted("b"), seen: first.iter().collect(), seed: 9 };
    writer.expectation(7, &missed).expect("memory takes it");
    assert_eq!(writer.lines().len(), 6);
    let written = String::from_utf8(writer.into_inner()).expect("lines are text");
    let expected = [
        r#"{"n":1,"at":0,"event":{"delta":"a","kind":"text"}}"#,
        r#"{"n":2,"at":12,"reply":{"message":1,"to":4}}"#,
        r#"{"n":3,"at":12,"event":{"code":"unknown_topic","kind":"error","line":5,"message":"no such topic"}}"#,
        r#"{"n":4,"at":12,"event":{"code":"store","kind":"error","message":"gone"}}"#,
        r#"{"n":5,"at":12,"expect":{"line":6,"ok":true}}"#,
        concat!(
            r#"{"n":6,"at":12,"expect":{"line":7,"ok":false,"seed":9,"#,
            r#""seen":[{"at":0,"event":{"delta":"a","kind":"text"},"n":1}],"#,
            r#""wanted":{"event":{"delta":"b","kind":"text"}}}}"#
        ),
    ];
    assert_eq!(written.lines().collect::<Vec<_>>(), expected);
}

struct Broken;

impl std::io::Write for Broken {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_line_that_could_not_be_written_takes_no_number() {
    let mut writer = Writer::new(Broken);
    let error = writer.reply(1, Map::new()).expect_err("the pipe is broken");
    assert_eq!((error.kind(), writer.lines().len()), (std::io::ErrorKind::BrokenPipe, 0));
}
