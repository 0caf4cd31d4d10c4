//! Decides what each line of a server is, and hands rmcp only what it must see.
//!
//! | line | goes to |
//! |---|---|
//! | the answer to `initialize` | rmcp, typed |
//! | any later answer or error | rmcp, as the plain JSON that came |
//! | a request of the server | rmcp, which answers it; a malformed one is refused here |
//! | `notifications/tools/list_changed` | the connection's notices |
//! | `notifications/cancelled` | rmcp |
//! | any other notification | nobody |
//! | anything else | counted as junk |

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::RoleClient;
use rmcp::model::{CustomResult, InitializeResult, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::io::AsyncRead;
use tokio_util::sync::DropGuard;

use super::life::Life;
use super::lines::{LINE_BYTES_MAX, Line, LineReader};
use super::outbox::Outbox;
use crate::server::{Notice, Notices};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What the wire tells besides messages.
pub(super) struct WireEnds {
    /// Where `list_changed` goes.
    pub(super) notices: Notices,
    /// The connection.
    pub(super) life: Arc<Life>,
    /// Counts lines that are no messages.
    pub(super) junk: Arc<AtomicU64>,
    /// Fires when it is taken or dropped: the output has ended, or nobody reads it any more.
    pub(super) output_over: Option<DropGuard>,
}

/// rmcp's transport over one connection.
pub(super) struct Wire {
    lines: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    outbox: Outbox,
    ends: WireEnds,
    /// The rest of a batch.
    waiting: VecDeque<Map<String, Value>>,
    /// Whether the answer to `initialize` is still to come.
    greeting: bool,
}

impl Wire {
    /// A wire that reads `output` and writes to `outbox`.
    pub(super) fn new(output: Box<dyn AsyncRead + Send + Unpin>, outbox: Outbox, ends: WireEnds) -> Self {
        let lines = LineReader::new(output, LINE_BYTES_MAX);
        Self { lines, outbox, ends, waiting: VecDeque::new(), greeting: true }
    }

    fn junk(&self) {
        let count = self.ends.junk.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(count, "a server wrote a line that is no MCP message");
    }

    /// Takes the messages out of a line: one, or the items of a batch.
    fn take_line(&mut self, line: &[u8]) {
        let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return;
        }
        match parse(line) {
            Some(Value::Object(message)) => self.waiting.push_back(message),
            Some(Value::Array(batch)) => {
                for item in batch {
                    match item {
                        Value::Object(message) => self.waiting.push_back(message),
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::String(_)
                        | Value::Array(_) => {
                            self.junk();
                        }
                    }
                }
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => self.junk(),
        }
    }

    fn sort(&mut self, message: Map<String, Value>) -> Option<RxJsonRpcMessage<RoleClient>> {
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let method = message.get("method").and_then(Value::as_str);
        match (method, id) {
            (Some("notifications/tools/list_changed"), None) => {
                // A full queue already holds a notice that says the same.
                let _ = self.ends.notices.try_send(Notice::ToolsChanged);
                None
            }
            (Some("notifications/cancelled"), None) => serde_json::from_value(Value::Object(message)).ok(),
            (Some(_), None) => None,
            (Some(_), Some(id)) => self.take_request(id, message),
            (None, id) if message.contains_key("result") || message.contains_key("error") => {
                if self.greeting { self.take_greeting(message) } else { self.take_reply(id, message) }
            }
            (None, _) => {
                self.junk();
                None
            }
        }
    }

    fn take_request(&self, id: Value, message: Map<String, Value>) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let Ok(request) = serde_json::from_value(Value::Object(message)) {
            return Some(request);
        }
        let refusal =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "invalid request"}});
        // A queue that is closed or full has ended the connection, and the request with it.
        let _ = self.outbox.push(format!("{refusal}\n").into_bytes());
        None
    }

    fn take_reply(
        &self,
        id: Option<Value>,
        message: Map<String, Value>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        match id.map(serde_json::from_value::<RequestId>) {
            Some(Ok(id)) => {
                let whole = CustomResult(Value::Object(message));
                Some(JsonRpcMessage::response(ServerResult::CustomResult(whole), id))
            }
            Some(Err(_)) | None => {
                self.junk();
                None
            }
        }
    }

    fn take_greeting(&mut self, mut message: Map<String, Value>) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.greeting = false;
        let read = match message.remove("result") {
            Some(result) => serde_json::from_value::<InitializeResult>(result).and_then(|result| {
                let id = message.remove("id").unwrap_or_default();
                let id = serde_json::from_value::<RequestId>(id)?;
                Ok(JsonRpcMessage::response(ServerResult::InitializeResult(result), id))
            }),
            None => serde_json::from_value(Value::Object(message)),
        };
        match read {
            Ok(message) => Some(message),
            Err(error) => {
                self.ends.life.end(format!("its answer to `initialize` is malformed: {error}"));
                None
            }
        }
    }
}

/// Bytes that are no UTF-8 are replaced, so that an answer with a broken character still is one.
fn parse(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).or_else(|_| serde_json::from_str(&String::from_utf8_lossy(line))).ok()
}

impl Transport<RoleClient> for Wire {
    type Error = io::Error;

    /// Done when it returns: messages are queued in the order in which they are sent, and a cancel notice never
    /// overtakes its request.
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let pushed = serde_json::to_vec(&item).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.outbox.push(line)
        });
        std::future::ready(pushed)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(message) = self.waiting.pop_front() {
                if let Some(message) = self.sort(message) {
                    return Some(message);
                }
            }
            match self.lines.next().await {
                Line::Whole(line) => self.take_line(&line),
                Line::TooLong => {
                    let most = LINE_BYTES_MAX >> 20;
                    self.ends.life.end(format!("sent a line of more than {most} MiB"));
                    return None;
                }
                Line::End => {
                    drop(self.ends.output_over.take());
                    return None;
                }
                Line::Broken(error) => {
                    self.ends.life.end(format!("its output broke: {error}"));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close();
        Ok(())
    }
}
