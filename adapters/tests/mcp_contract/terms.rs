//! The terms on which the contract's connections are opened, and calls of one round.

use std::time::Duration;

use pilothouse_adapters::asks::AskPort;
use pilothouse_adapters::server::{CallAnswer, CallRequest, Negotiate, Notices, Terms};
use pilothouse_messages::call::CallResult;
use pilothouse_messages::error::RequestError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::protocol::{Heard, ProtocolStep, Remembered};
use pilothouse_rules::protocol::Negotiation;
use serde_json::{Map, Value};

struct Rule(Negotiation);

impl Negotiate for Rule {
    fn first(&mut self) -> ProtocolStep {
        self.0.first()
    }

    fn heard(&mut self, heard: Heard) -> ProtocolStep {
        self.0.heard(heard)
    }
}

/// Silence to `server/discover` is waited out for this long.
const DISCOVER: Duration = Duration::from_millis(200);

pub(crate) fn terms_after(notices: Notices, spoken: Remembered) -> Terms {
    let server = ServerId::new("scripted").unwrap();
    Terms::new(notices, Box::new(Rule(Negotiation::new(spoken))), DISCOVER, AskPort::refusing(server))
}

pub(crate) fn terms(notices: Notices) -> Terms {
    terms_after(notices, Remembered::Nothing)
}

pub(crate) fn request(tool: &str, arguments: Map<String, Value>) -> CallRequest {
    CallRequest::new(tool, arguments)
}

pub(crate) async fn done(
    calling: impl Future<Output = Result<CallAnswer, RequestError>>,
) -> Result<CallResult, RequestError> {
    match calling.await {
        Ok(CallAnswer::Done(result)) => Ok(result),
        Ok(other) => panic!("it is not done: {other:?}"),
        Err(error) => Err(error),
    }
}
