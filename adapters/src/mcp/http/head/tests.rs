use serde_json::{Value, json};

use super::Head;
use crate::mcp::http::params::Params;

fn headers(message: &Value, spoken: Option<&str>) -> Vec<(String, String)> {
    let params = Params::default();
    let mut page = json!({"tools": [{"name": "deploy", "inputSchema": {"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
    }}}]});
    params.learn(page.as_object_mut().unwrap());
    let line = message.to_string();
    let headers = Head::of(line.as_bytes()).headers(spoken, line.as_bytes(), &params);
    let mut pairs: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn a_message_has_the_headers_of_its_version() {
    let modern = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let call = |name: &str, region: &str| {
        json!({"id": 1, "method": "tools/call", "params": {
            "_meta": modern, "name": name, "arguments": {"region": region},
        }})
    };
    let version = ("mcp-protocol-version", "2026-07-28");
    let method = ("mcp-method", "tools/call");
    let rows = [
        (json!({"id": 0, "method": "initialize", "params": {}}), Some("2025-06-18"), vec![]),
        (json!({"id": 1, "method": "tools/list"}), None, vec![]),
        (
            json!({"id": 1, "method": "tools/list"}),
            Some("2025-06-18"),
            vec![("mcp-protocol-version", "2025-06-18")],
        ),
        (json!({"id": 1, "result": {}}), Some("2025-06-18"), vec![("mcp-protocol-version", "2025-06-18")]),
        (
            json!({"id": 1, "method": "server/discover", "params": {"_meta": modern}}),
            None,
            vec![("mcp-method", "server/discover"), version],
        ),
        (
            call("deploy", "eu"),
            Some("2025-06-18"),
            vec![method, ("mcp-name", "deploy"), ("mcp-param-region", "eu"), version],
        ),
        (call("other", "eu"), None, vec![method, ("mcp-name", "other"), version]),
        (
            call("deploy", "Zürich"),
            None,
            vec![method, ("mcp-name", "deploy"), ("mcp-param-region", "=?base64?WsO8cmljaA==?="), version],
        ),
        (
            call("deploy", " eu"),
            None,
            vec![method, ("mcp-name", "deploy"), ("mcp-param-region", "=?base64?IGV1?="), version],
        ),
        (
            call("deploy", "=?base64?eu?="),
            None,
            vec![
                method,
                ("mcp-name", "deploy"),
                ("mcp-param-region", "=?base64?PT9iYXNlNjQ/ZXU/PQ==?="),
                version,
            ],
        ),
        (
            json!({"id": 1, "method": "resources/read", "params": {"uri": "file:///a"}}),
            Some("2026-07-28"),
            vec![("mcp-method", "resources/read"), ("mcp-name", "file:///a"), version],
        ),
    ];
    for (message, spoken, expected) in rows {
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(headers(&message, spoken), expected, "{message}");
    }
}
