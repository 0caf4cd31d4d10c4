//! Greets a server: asks what the negotiation says, and tells it what was heard.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_messages::error::RequestError;
use pilothouse_messages::protocol::{Era, Heard, Patience, ProtocolStep};
use rmcp::model::{
    ClientNotification, ClientRequest, DiscoverRequest, DiscoverRequestParams, InitializeRequest,
    InitializedNotification,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::host::{config, request_meta};
use super::requests::{Abandon, Requests};
use crate::asks::AskKind;
use crate::server::Negotiate;

/// Versions that one answer may name.
const VERSIONS_MAX: usize = 64;

/// What was agreed on.
pub(super) struct Greeted {
    pub(super) era: Era,
    pub(super) version: String,
    /// What the server can do.
    pub(super) capabilities: Map<String, Value>,
}

/// Agrees on a protocol.
///
/// # Errors
/// Why there is none, in plain words; they hold the server's own.
pub(super) async fn greet(
    requests: &Requests,
    mut protocol: Box<dyn Negotiate>,
    discover_within: Duration,
    kinds: &BTreeSet<AskKind>,
) -> Result<Greeted, String> {
    let mut capabilities = Map::new();
    let mut step = protocol.first();
    // Every rule gives up long before; the negotiation may be an embedder's own.
    for _round in 0..16 {
        let answer = match step {
            ProtocolStep::Speak { era, version } => {
                match era {
                    Era::Legacy => {
                        let greeted = InitializedNotification::default();
                        requests.notify(ClientNotification::InitializedNotification(greeted)).await;
                    }
                    Era::Modern => requests.always_say(request_meta(&version, kinds)),
                }
                return Ok(Greeted { era, version, capabilities });
            }
            ProtocolStep::GiveUp(words) => return Err(words),
            ProtocolStep::Discover { version, patience } => {
                let request = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
                let asking = requests.answer(request, request_meta(&version, kinds), None, Abandon::Silently);
                let answer = match patience {
                    Patience::Whole => Some(asking.await),
                    Patience::Share => timeout(discover_within, asking).await.ok(),
                };
                answer.map_or(Heard::Silence, |answer| heard(answer, &mut capabilities, discovered))
            }
            ProtocolStep::Initialize { version } => {
                let request =
                    ClientRequest::InitializeRequest(InitializeRequest::new(config(&version, kinds)));
                let answer = requests.answer(request, Map::new(), None, Abandon::Silently).await;
                heard(answer, &mut capabilities, initialized)
            }
        };
        step = protocol.heard(answer);
    }
    Err("it could not be agreed on a protocol".to_owned())
}

fn heard(
    answer: Result<Value, RequestError>,
    capabilities: &mut Map<String, Value>,
    read: fn(&Map<String, Value>) -> Result<Heard, String>,
) -> Heard {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(RequestError::Ended { reason }) => return Heard::Ended(reason),
        Err(RequestError::Unsent { reason }) => {
            return Heard::Unreached(format!("it cannot be reached: {reason}"));
        }
        Err(RequestError::Interrupted { reason }) => return Heard::Unreached(reason),
        Err(RequestError::Http { status, reason }) => return Heard::Status { status, reason },
        Err(RequestError::Unauthorised { reason, .. }) => return Heard::Status { status: 401, reason },
        // `Malformed`, and whatever else can keep an answer back.
        Err(error) => return Heard::Misshapen(error.to_string()),
    };
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        return Heard::Error {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: error.get("message").and_then(Value::as_str).unwrap_or("(no message)").to_owned(),
            supported: versions(error.pointer("/data/supported")).unwrap_or_default(),
        };
    }
    let Some(Value::Object(mut result)) = answer.get_mut("result").map(Value::take) else {
        return Heard::Misshapen("its result is no JSON object".to_owned());
    };
    match read(&result) {
        Ok(heard) => {
            if let Some(Value::Object(declared)) = result.remove("capabilities") {
                *capabilities = declared;
            }
            heard
        }
        Err(what) => Heard::Misshapen(what),
    }
}

fn discovered(result: &Map<String, Value>) -> Result<Heard, String> {
    declares(result)?;
    match versions(result.get("supportedVersions")) {
        Some(versions) => Ok(Heard::Supported(versions)),
        None => Err("`supportedVersions` is no list of versions".to_owned()),
    }
}

fn initialized(result: &Map<String, Value>) -> Result<Heard, String> {
    declares(result)?;
    match result.get("protocolVersion") {
        Some(Value::String(version)) => Ok(Heard::Answered(version.clone())),
        Some(_) => Err("`protocolVersion` is no text".to_owned()),
        None => Err("missing field `protocolVersion`".to_owned()),
    }
}

fn declares(result: &Map<String, Value>) -> Result<(), String> {
    match result.get("capabilities") {
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err("`capabilities` is no JSON object".to_owned()),
        None => Err("missing field `capabilities`".to_owned()),
    }
}

fn versions(list: Option<&Value>) -> Option<Vec<String>> {
    let list = list?.as_array()?.iter().take(VERSIONS_MAX);
    list.map(|version| version.as_str().map(str::to_owned)).collect()
}
