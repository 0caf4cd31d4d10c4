//! The protocol from 2026-07-28 on: no handshake, metadata in every request, questions as results, subscriptions.

use serde_json::{Map, Value, json};

use super::answer::{INVALID_PARAMS, METHOD_NOT_FOUND, Request, Said, capabilities};
use super::fault::AskKind;
use super::frame::{Frame, Out};
use super::plan::{Live, Plan};
use super::script::Protocol;
use super::session::{Session, announcements};

/// The versions with `initialize`; the last one is what is offered to a client that asks for another.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The first version without it.
const MODERN: &str = "2026-07-28";

const UNSUPPORTED_VERSION: i64 = -32022;
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Of which generation a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    Legacy,
    Modern,
}

/// The server's name and version.
pub(super) fn info() -> Value {
    json!({"name": "pilothouse-peer", "version": env!("CARGO_PKG_VERSION")})
}

/// The versions that a script speaks of this generation, oldest first.
pub(super) fn versions(live: &Live, generation: Generation) -> Vec<String> {
    let spoken: Vec<String> = match (&live.script.versions, live.script.protocol) {
        (Some(versions), _) => versions.clone(),
        (None, Protocol::Legacy) => LEGACY.map(str::to_owned).to_vec(),
        (None, Protocol::Modern) => vec![MODERN.to_owned()],
        (None, Protocol::Both) => LEGACY.iter().chain([&MODERN]).map(|&version| version.to_owned()).collect(),
    };
    let is_modern = |version: &String| version.as_str() >= MODERN;
    spoken.into_iter().filter(|version| is_modern(version) == (generation == Generation::Modern)).collect()
}

/// Of which generation this request is, or why it is refused.
pub(super) fn generation(live: &Live, request: &Request) -> Result<Generation, Said> {
    let protocol = live.script.protocol;
    let asked = request.params.pointer("/_meta").and_then(|meta| meta.get(VERSION_KEY));
    match (protocol, request.method.as_str(), asked) {
        (Protocol::Legacy, "server/discover", _) => {
            Err(Said::error(METHOD_NOT_FOUND, "there is no method \"server/discover\""))
        }
        (Protocol::Legacy, _, _) => Ok(Generation::Legacy),
        (Protocol::Modern, "initialize", _) => {
            Err(unsupported(live, request.params.get("protocolVersion").cloned().unwrap_or(Value::Null)))
        }
        (Protocol::Both, "initialize", _) => Ok(Generation::Legacy),
        (Protocol::Both, method, None) if method != "server/discover" => Ok(Generation::Legacy),
        (Protocol::Modern | Protocol::Both, _, None) => {
            Err(Said::error(INVALID_PARAMS, format!("a request has _meta[\"{VERSION_KEY}\"]")))
        }
        (Protocol::Modern | Protocol::Both, _, Some(asked)) => {
            let known = versions(live, Generation::Modern);
            if !known.iter().any(|version| Some(version.as_str()) == asked.as_str()) {
                return Err(unsupported(live, asked.clone()));
            }
            match request.params.pointer("/_meta").and_then(|meta| meta.get(CAPABILITIES_KEY)) {
                Some(Value::Object(_)) => Ok(Generation::Modern),
                _ => Err(Said::error(INVALID_PARAMS, format!("a request has _meta[\"{CAPABILITIES_KEY}\"]"))),
            }
        }
    }
}

fn unsupported(live: &Live, requested: Value) -> Said {
    let supported =
        [Generation::Legacy, Generation::Modern].map(|generation| versions(live, generation)).concat();
    Said::Error {
        code: UNSUPPORTED_VERSION,
        message: "unsupported protocol version".into(),
        data: Some(json!({"supported": supported, "requested": requested})),
    }
}

/// What the server is.
pub(super) fn discover(live: &Live) -> Value {
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": versions(live, Generation::Modern),
        "capabilities": capabilities(live),
        "ttlMs": live.script.ttl_ms,
        "cacheScope": live.script.cache_scope.name(),
        "_meta": {SERVER_INFO_KEY: info()},
    });
    if let (Some(text), Some(fields)) = (&live.script.instructions, result.as_object_mut()) {
        fields.insert("instructions".into(), json!(text));
    }
    result
}

/// What a page of a listing says besides, as the start of an object.
pub(super) fn list_extra(live: &Live, generation: Generation) -> String {
    match generation {
        Generation::Legacy => String::new(),
        Generation::Modern => format!(
            "\"resultType\":\"complete\",\"ttlMs\":{},\"cacheScope\":\"{}\",",
            live.script.ttl_ms,
            live.script.cache_scope.name()
        ),
    }
}

/// The questions of a call as its result, unless the client has answered them.
pub(super) fn input_required(session: &Session, plan: &Plan, params: &Value) -> Option<Said> {
    if plan.asks.is_empty() {
        return None;
    }
    let state = params.get("requestState").and_then(Value::as_str);
    if let Some(Value::Object(responses)) = params.get("inputResponses") {
        if !state.is_some_and(|state| session.state.takes_back(state)) {
            return Some(Said::error(INVALID_PARAMS, "the request state is not the one that was given"));
        }
        for (key, response) in responses {
            session.state.heard(json!({"key": key, "answer": response}));
        }
        return None;
    }
    let mut requests = Map::new();
    for (number, ask) in (1..).zip(&plan.asks) {
        requests.insert(format!("ask-{number}"), question(ask.what, ask.params.as_ref()));
    }
    let given = session.state.gives_state();
    Some(Said::value(
        &json!({"resultType": "input_required", "inputRequests": requests, "requestState": given}),
    ))
}

/// The client's answers, as texts.
pub(super) fn input_responses(params: &Value) -> Vec<String> {
    let responses = params.get("inputResponses").and_then(Value::as_object);
    responses.into_iter().flatten().map(|(_, response)| response.to_string()).collect()
}

/// A question as it is asked.
pub(super) fn question(what: AskKind, params: Option<&Value>) -> Value {
    let (method, good) = match what {
        AskKind::Ping => ("ping", json!({})),
        AskKind::Roots => ("roots/list", json!({})),
        AskKind::Sampling => (
            "sampling/createMessage",
            json!({"maxTokens": 16, "messages":
                [{"role": "user", "content": {"type": "text", "text": "Which harbour?"}}]}),
        ),
        AskKind::Elicitation => (
            "elicitation/create",
            json!({"message": "Who are you?", "requestedSchema":
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}),
        ),
        AskKind::ElicitationUrl => (
            "elicitation/create",
            json!({"mode": "url", "message": "Please sign in.", "url": "https://example.com/sign-in",
                "elicitationId": "peer-elicitation"}),
        ),
        AskKind::Unknown => ("peer/unknown", json!({})),
    };
    json!({"method": method, "params": params.unwrap_or(&good)})
}

/// Keeps a subscription open until the client ends it.
pub(super) async fn listen(session: &Session, live: &Live, request: &Request, out: &Out) -> Said {
    let wants = request.params.pointer("/notifications/toolsListChanged") == Some(&Value::Bool(true));
    let accepted = if wants { json!({"toolsListChanged": true}) } else { json!({}) };
    let meta = json!({SUBSCRIPTION_KEY: request.id});
    let first = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": accepted}});
    let announced = session.state.announced.subscribe();
    if out.send(Frame::notice(&first)).await.is_err() || !wants {
        // A subscription to nothing stays open all the same.
        return std::future::pending().await;
    }
    let notice =
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
    announcements(live, announced, out, &Frame::notice(&notice)).await;
    Said::value(&json!({"resultType": "complete", "_meta": meta}))
}
