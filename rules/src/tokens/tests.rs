use pilothouse_messages::json::JsonText;
use proptest::prelude::{any, proptest};
use serde_json::json;

use super::*;

fn tool(name: &str, description: &str, schema: &str) -> ShownTool {
    ShownTool {
        name: name.into(),
        description: description.into(),
        input_schema: JsonText::parse(schema).expect("a sample schema is JSON"),
    }
}

#[test]
fn four_bytes_are_a_token_and_only_the_sum_is_rounded_up() {
    let empty = || tool("", "", "{}");
    let rows: [(Vec<ShownTool>, u64); 6] = [
        (vec![], 0),
        // {"name":"","description":"","input_schema":{}} has 46 bytes.
        (vec![empty()], 12),
        (vec![empty(), empty()], 23),
        (vec![tool("ab", "", "{}")], 12),
        (vec![tool("abc", "", "{}")], 13),
        (vec![tool("", "日本", "{ \"a\" :\n[ 1 , \" \\\" \" ] }")], 17),
    ];
    for (tools, expected) in rows {
        assert_eq!(Bytes4.tokens(&mut tools.iter()), expected, "{tools:?}");
    }
    assert_eq!(Bytes4.name(), "utf8-bytes/4@1");
}

#[test]
fn a_counter_of_texts_is_given_each_tool_as_compact_json() {
    let tools = [tool("a", "b", "{ }"), tool("c", "d", "{}")];
    let expected = [
        r#"{"name":"a","description":"b","input_schema":{}}"#,
        r#"{"name":"c","description":"d","input_schema":{}}"#,
    ];
    let counter = PerTool::new("bytes@1", move |text| {
        assert!(expected.contains(&text), "{text}");
        text.len() as u64
    });
    let counted = (counter.name(), counter.tokens(&mut tools.iter()));
    assert_eq!(counted, ("bytes@1", 2 * expected[0].len() as u64));
}

proptest! {
    #[test]
    fn the_bytes_that_are_counted_are_those_of_the_json(name in ".*", description in any::<String>(), key in ".*") {
        let schema = json!({"type": "object", "properties": {key.clone(): {"enum": [key, "\\", 1, null]}}});
        for text in [schema.to_string(), serde_json::to_string_pretty(&schema).expect("it is JSON")] {
            let tool = tool(&name, &description, &text);
            assert_eq!(json_bytes(&tool), compact_json(&tool).len() as u64);
        }
    }
}
