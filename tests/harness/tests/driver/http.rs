//! Servers behind a URL, as lines.

use std::net::SocketAddr;

use pilothouse_harness::peer::{HttpKind, HttpPeer, Peer, Script};
use serde_json::{Value, json};

use super::run::held;

async fn listening(kind: HttpKind) -> HttpPeer {
    let script = json!({
        "tools": [{"name": "echo", "echo": true}],
        "http": {"require": {"x-key": "sk-canary-0123456789"}},
    });
    let script: Script = serde_json::from_value(script).unwrap();
    Peer::new(script).listen(SocketAddr::from(([127, 0, 0, 1], 0)), kind).await.unwrap()
}

fn lines(transport: &str, url: &str) -> Vec<Value> {
    let server = json!({"url": url, "headers": {"x-key": "sk-canary-0123456789"}});
    vec![
        json!({"server": {"id": "away", "transport": {transport: server}, "effects": {"echo": "reads"}}}),
        json!({"expect": {"event": {"kind": "listing", "server": "away", "fresh": true}, "within_ms": 20_000}}),
        json!({"call": {"tool": {"server": "away", "tool": "echo"}, "arguments": {"a": 1}}}),
        json!({"tree": {}}),
    ]
}

#[test]
fn a_server_behind_a_url_is_listed_and_called_and_its_key_is_shown_nowhere() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    for (transport, kind) in [("http", HttpKind::Streamable), ("sse", HttpKind::Sse)] {
        let peer = tokio.block_on(listening(kind));
        let run = held(None, &lines(transport, &peer.url()));
        assert_eq!(run.reply(3)["outcome"], "succeeded", "{transport}: {}", run.shown());
        assert!(!run.shown().contains("sk-canary") && !run.complaint.contains("sk-canary"), "{transport}");
    }
}
