use std::sync::Arc;

use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::{DroppedTool, ListedTools};
use pilothouse_messages::tool::ToolDefinition;
use serde_json::{Value, json};

use super::{PageStep, Pages, PagingError, tool_of};

fn raw(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn plain(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: None,
        input_schema: JsonText::from(json!({"type": "object"})),
        output_schema: None,
        annotations: None,
    }
}

fn dropped(name: Option<&str>, reason: &str) -> DroppedTool {
    DroppedTool { name: name.map(str::to_owned), reason: reason.to_owned() }
}

#[test]
fn a_good_tool_is_kept_as_the_server_sent_it() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let value = json!({
        "name": "read",
        "title": "Read",
        "description": "Reads a file.",
        "inputSchema": schema,
        "outputSchema": {"type": "object", "required": ["text"]},
        "annotations": {"readOnlyHint": true},
        "icons": [],
        "_meta": {"a": 1},
    });
    let tool = ToolDefinition {
        title: Some("Read".to_owned()),
        description: Some("Reads a file.".to_owned()),
        input_schema: JsonText::from(&schema),
        output_schema: Some(JsonText::from(json!({"type": "object", "required": ["text"]}))),
        annotations: Some(JsonText::from(json!({"readOnlyHint": true}))),
        ..plain("read")
    };
    assert_eq!(tool_of(value), Ok(tool));
}

#[test]
fn each_tool_is_judged_alone() {
    let with = |field: &str, value: Value| {
        let mut tool = raw("t");
        tool[field] = value;
        tool
    };
    let any_schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema"});
    let free = ToolDefinition { input_schema: JsonText::from(&any_schema), ..plain("t") };
    let longest = "n".repeat(256);
    let no_schema = "its input schema is not an object";
    let other_schema = "its input schema is for something other than an object";
    for (value, expected) in [
        (json!("t"), Err(dropped(None, "it is not an object"))),
        (json!({}), Err(dropped(None, "its name is not a string"))),
        (with("name", json!(7)), Err(dropped(None, "its name is not a string"))),
        (with("name", json!("")), Err(dropped(None, "its name is empty"))),
        (raw(&longest), Ok(plain(&longest))),
        (raw(&"n".repeat(257)), Err(dropped(Some(&longest), "its name is longer than 256 bytes"))),
        (raw("a\u{7}b"), Err(dropped(Some("a\\u{7}b"), "its name holds a control character"))),
        (raw("día 🛠"), Ok(plain("día 🛠"))),
        (json!({"name": "t"}), Err(dropped(Some("t"), no_schema))),
        (with("inputSchema", Value::Null), Err(dropped(Some("t"), no_schema))),
        (with("inputSchema", json!(true)), Err(dropped(Some("t"), no_schema))),
        (with("inputSchema", json!({"type": "array"})), Err(dropped(Some("t"), other_schema))),
        (with("inputSchema", json!({"type": ["object"]})), Err(dropped(Some("t"), other_schema))),
        (with("inputSchema", any_schema), Ok(free)),
        (with("title", json!(1)), Ok(plain("t"))),
        (with("annotations", json!([])), Ok(plain("t"))),
        (with("description", Value::Null), Ok(plain("t"))),
        (with("description", json!(1)), Err(dropped(Some("t"), "its description is not a string"))),
        (with("outputSchema", Value::Null), Ok(plain("t"))),
        (with("outputSchema", json!("x")), Err(dropped(Some("t"), "its output schema is not an object"))),
    ] {
        assert_eq!(tool_of(value.clone()), expected, "{value}");
    }
}

#[test]
fn a_tool_that_nests_too_deep_to_be_read_back_is_left_out() {
    let nested = |levels: usize| {
        let mut inner = json!({});
        for _ in 1..levels {
            inner = json!({"not": inner});
        }
        inner
    };
    let tool = |levels: usize| json!({"name": "t", "inputSchema": nested(levels)});
    let deepest = tool_of(tool(99)).unwrap();
    assert_eq!(deepest.input_schema.value(), nested(99));
    assert_eq!(tool_of(tool(100)), Err(dropped(Some("t"), "it nests deeper than 100 levels")));
}

/// One page: its tools, and where the next one starts.
type Page<'a> = (Vec<Value>, Option<&'a str>);

fn read(limits: Limits, pages: Vec<Page<'_>>) -> Result<(PageStep, ListedTools), PagingError> {
    let mut reading = Pages::new(Arc::new(limits));
    let mut step = PageStep::Done;
    for (tools, next) in pages {
        step = reading.take(tools, next.map(str::to_owned))?;
    }
    Ok((step, reading.into_listed()))
}

#[track_caller]
fn check(limits: Limits, pages: Vec<Page<'_>>, expected: Result<(PageStep, &[&str]), PagingError>) {
    let good = |tools: &[&str]| ListedTools {
        tools: tools.iter().map(|name| plain(name)).collect(),
        ..ListedTools::default()
    };
    let expected = expected.map(|(step, tools)| (step, good(tools)));
    assert_eq!(read(limits, pages), expected);
}

#[test]
fn pages_are_read_in_order_until_there_is_no_cursor() {
    let more = |cursor: &str| PageStep::More(cursor.to_owned());
    let page = |name: &str, next| (vec![raw(name)], next);
    for (pages, expected) in [
        (vec![(vec![], None)], Ok((PageStep::Done, &[][..]))),
        (vec![page("a", None)], Ok((PageStep::Done, &["a"][..]))),
        (vec![page("a", Some("1"))], Ok((more("1"), &["a"][..]))),
        (vec![page("b", Some("1")), page("a", None)], Ok((PageStep::Done, &["b", "a"][..]))),
        (vec![page("a", Some(""))], Ok((more(""), &["a"][..]))),
        (vec![page("a", Some("")), page("b", Some(""))], Ok((PageStep::Done, &["a", "b"][..]))),
        (
            vec![page("a", Some("1")), page("b", Some("")), page("a", Some("1"))],
            Ok((PageStep::Done, &["a", "b"][..])),
        ),
    ] {
        check(Limits::default(), pages, expected);
    }
}

#[test]
fn a_listing_that_breaks_a_bound_fails_whole() {
    let bounds = |pages, tools, bytes| {
        let mut limits = Limits::default();
        limits.listing_pages = pages;
        limits.listing_tools = tools;
        limits.listing_bytes = bytes;
        limits
    };
    let page = |name: &str, next| (vec![raw(name)], next);
    // As compact JSON: {"inputSchema":{"type":"object"},"name":"a"}
    let size = 44;
    let two = || vec![page("a", Some("12")), page("b", None)];
    let endless = || vec![page("a", Some("1")), page("b", Some("2"))];
    let both = Ok((PageStep::Done, &["a", "b"][..]));
    let bad_too = vec![(vec![json!(1), json!(2), raw("a")], None)];
    for (limits, pages, expected) in [
        (bounds(2, 2, 2 * size + 2), two(), both),
        (bounds(1, 9, 999), two(), Err(PagingError::TooManyPages { limit: 1 })),
        (bounds(2, 9, 999), endless(), Err(PagingError::TooManyPages { limit: 2 })),
        (bounds(9, 1, 999), two(), Err(PagingError::TooManyTools { limit: 1 })),
        (bounds(9, 2, 999), bad_too, Err(PagingError::TooManyTools { limit: 2 })),
        (bounds(9, 9, 2 * size + 1), two(), Err(PagingError::TooManyBytes { limit: 2 * size + 1 })),
    ] {
        check(limits, pages, expected);
    }
}

#[test]
fn of_two_tools_with_one_name_the_first_good_one_stays() {
    let other = json!({"name": "a", "description": "other", "inputSchema": {}});
    let (_, listed) = read(
        Limits::default(),
        vec![(vec![json!({"name": "b"}), raw("a"), raw("b")], Some("1")), (vec![other], None)],
    )
    .unwrap();
    let expected = ListedTools {
        tools: vec![plain("a"), plain("b")],
        dropped: vec![
            dropped(Some("b"), "its input schema is not an object"),
            dropped(Some("a"), "an earlier tool of the listing has the same name"),
        ],
        ..ListedTools::default()
    };
    assert_eq!(listed, expected);
}

#[test]
fn a_cursor_that_comes_again_ends_the_listing_with_what_was_read() {
    let page =
        |names: &[&str], next: &str| (names.iter().map(|name| raw(name)).collect(), Some(next.to_owned()));
    let long = "c".repeat(99);
    let rows = [
        (vec![page(&["a", "b"], "x"), page(&["a", "b"], "x")], vec!["a", "b"], "x"),
        (vec![page(&["a"], "1"), page(&["b"], "2"), page(&["c"], "1")], vec!["a", "b", "c"], "1"),
        (vec![page(&["a"], &long), page(&["b"], &long)], vec!["a", "b"], &long[..64]),
        (vec![page(&["a"], "\u{1b}[2J"), page(&["b"], "\u{1b}[2J")], vec!["a", "b"], "\\u{1b}[2J"),
    ];
    for (pages, names, cursor) in rows {
        let mut reading = Pages::new(Arc::new(Limits::default()));
        let steps: Vec<_> = pages.into_iter().map(|(tools, next)| reading.take(tools, next)).collect();
        assert_eq!(steps.last(), Some(&Ok(PageStep::Done)), "{cursor}");
        let told =
            format!("the server gave the cursor \"{cursor}\" twice, so what comes after it was not read");
        let expected = ListedTools {
            tools: names.into_iter().map(plain).collect(),
            dropped: vec![dropped(None, &told)],
            ..ListedTools::default()
        };
        assert_eq!(reading.into_listed(), expected, "{cursor}");
    }
}
