//! Hands what a server says to the wire, and sees to it that every request gets exactly one answer.

use std::collections::VecDeque;
use std::sync::Arc;

use pilothouse_messages::error::ConnectError;
use rmcp::model::RequestId;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

use super::fault::Fault;
use crate::mcp::life::Life;
use crate::mcp::parse::{LIGHT_BYTES_MAX, Message, Parsed, Size, parse};

/// Messages that wait for the wire: each may be large.
pub(in crate::mcp) const WAITING_MAX: usize = 4;

/// Where messages go.
pub(in crate::mcp) struct Delivery {
    life: Arc<Life>,
    wire: mpsc::Sender<Parsed>,
    /// One long message is read at a time: what it becomes may be many times its size.
    reading: Semaphore,
    /// Why the handshake failed, for whoever waits for it.
    refused: mpsc::Sender<ConnectError>,
}

/// What was among the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Reached {
    /// The answer that was waited for.
    Answer,
    /// Something else.
    Other,
}

impl Delivery {
    /// A delivery to this wire. The first fault of the handshake goes to `refused`.
    pub(in crate::mcp) fn new(
        life: Arc<Life>,
        wire: mpsc::Sender<Parsed>,
        refused: mpsc::Sender<ConnectError>,
    ) -> Self {
        Self { life, wire, reading: Semaphore::new(1), refused }
    }

    /// Reads one or several messages and hands them on; `see` gets the result of the request that is waited for.
    pub(in crate::mcp) async fn hand_on(
        &self,
        bytes: Vec<u8>,
        waiting: Option<&RequestId>,
        see: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<Reached, Fault> {
        let (mut messages, junk) = match self.read(bytes).await {
            Parsed::Messages(messages, junk) => (messages, junk),
            Parsed::Refused(reason) => return Err(Fault::Malformed(reason)),
        };
        if messages.is_empty() {
            return Err(Fault::Malformed("it is no JSON-RPC message".to_owned()));
        }
        let mut reached = Reached::Other;
        if let Some(waiting) = waiting
            && let Some(answer) = messages.iter_mut().find(|message| answers(&message.fields, waiting))
        {
            reached = Reached::Answer;
            // As rmcp counts them: servers write numbers as texts, and forget the id of an error.
            answer.fields.insert("id".to_owned(), id_of(waiting));
            if let Some(Value::Object(result)) = answer.fields.get_mut("result") {
                see(result);
            }
        }
        self.pass(Parsed::Messages(messages, junk)).await;
        Ok(reached)
    }

    async fn read(&self, bytes: Vec<u8>) -> Parsed {
        if bytes.len() <= LIGHT_BYTES_MAX {
            return parse(bytes);
        }
        // Nobody closes this semaphore.
        let _turn = self.reading.acquire().await;
        let read = spawn_blocking(move || parse(bytes)).await;
        read.unwrap_or_else(|_| Parsed::Refused("it could not be read".to_owned()))
    }

    async fn pass(&self, messages: Parsed) {
        // A wire that is gone needs no messages.
        let _ = self.wire.send(messages).await;
    }

    /// Answers a request with what went wrong.
    pub(in crate::mcp) async fn fail(&self, request: &RequestId, fault: Fault) {
        let error = match fault {
            // The protocol has words for it, and its data may be what the greeting goes by.
            Fault::Server { code, message, data } if data.is_null() => {
                json!({"code": code, "message": message})
            }
            Fault::Server { code, message, data } => json!({"code": code, "message": message, "data": data}),
            other => {
                let error = json!({"code": -32603, "message": other.words()});
                self.life.fail(request.clone(), other.request_error());
                error
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": id_of(request), "error": error});
        if let Value::Object(fields) = answer {
            let message = Message { fields, size: Size::Light };
            self.pass(Parsed::Messages(VecDeque::from([message]), 0)).await;
        }
    }

    /// Tells whoever waits for the handshake why there is none.
    pub(in crate::mcp) fn refuse(&self, fault: Fault) {
        match fault {
            // The link says this itself.
            Fault::Server { .. } => {}
            // The first reason is the one.
            other => drop(self.refused.try_send(other.connect_error())),
        }
    }
}

/// The answer to a request, or an error of a server that does not say to what.
fn answers(message: &Map<String, Value>, waiting: &RequestId) -> bool {
    if message.contains_key("method") {
        return false;
    }
    let has_error = message.contains_key("error");
    match (message.get("id").unwrap_or(&Value::Null), waiting) {
        (Value::Null, _) => has_error,
        (Value::String(id), RequestId::Number(waiting)) => *id == waiting.to_string(),
        (id, waiting) => *id == id_of(waiting),
    }
}

fn id_of(request: &RequestId) -> Value {
    match request {
        RequestId::Number(id) => Value::from(*id),
        RequestId::String(id) => Value::from(id.as_ref()),
    }
}
