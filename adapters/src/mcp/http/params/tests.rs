use serde_json::{Value, json};

use super::Params;

fn learnt(schema: &Value) -> (Params, usize) {
    let (params, mut page) =
        (Params::default(), json!({"tools": [{"name": "t", "inputSchema": schema}, {"name": 7}]}));
    params.learn(page.as_object_mut().unwrap());
    let left = page["tools"].as_array().unwrap().len();
    (params, left)
}

#[test]
fn marked_arguments_go_into_headers() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        "plain": {"type": "string"},
    }});
    let (params, left) = learnt(&schema);
    assert_eq!(left, 2);
    let rows = [
        (json!({"region": "eu", "plain": "x"}), vec![("mcp-param-region", "eu")]),
        (
            json!({"count": 3, "dry": false, "where": {"zone": "b"}}),
            vec![("mcp-param-count", "3"), ("mcp-param-dry", "false"), ("mcp-param-zone", "b")],
        ),
        (json!({"region": null, "where": 7}), vec![]),
        (json!(null), vec![]),
    ];
    for (arguments, expected) in rows {
        let line = json!({"params": {"name": "t", "arguments": arguments}}).to_string();
        let mut headers = params.of_call("t", line.as_bytes());
        headers.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, expected, "{arguments}");
        assert_eq!(params.of_call("other", line.as_bytes()), []);
    }
}

#[test]
fn a_tool_with_a_wrong_mark_is_left_out_of_its_page() {
    let property = |property: Value| json!({"properties": {"p": property}});
    let rows = [
        json!({"x-mcp-header": "Root", "properties": {}}),
        property(json!({"type": "string", "x-mcp-header": ""})),
        property(json!({"type": "string", "x-mcp-header": 7})),
        property(json!({"type": "string", "x-mcp-header": "two words"})),
        property(json!({"type": "string", "x-mcp-header": "a:b"})),
        property(json!({"type": "number", "x-mcp-header": "P"})),
        property(json!({"x-mcp-header": "P"})),
        property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "P"}})),
        json!({"$defs": {"d": {"type": "string", "x-mcp-header": "P"}}}),
        json!({"anyOf": [{"type": "string", "x-mcp-header": "P"}]}),
        json!({"properties": {
            "p": {"type": "string", "x-mcp-header": "P"}, "q": {"type": "string", "x-mcp-header": "p"},
        }}),
    ];
    for schema in rows {
        assert_eq!(learnt(&schema).1, 1, "{schema}");
    }
    assert_eq!(learnt(&property(json!({"type": "string", "default": {"x-mcp-header": "P"}}))).1, 2);
}
