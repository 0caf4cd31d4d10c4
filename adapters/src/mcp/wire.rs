//! Decides what each line of a server is, and hands rmcp only what it must see.
//!
//! | line | goes to |
//! |---|---|
//! | an answer or an error | rmcp, as the plain JSON that came; one that nobody waits for any more is counted |
//! | a request of the server | rmcp, which answers it; a malformed one is refused here |
//! | `notifications/tools/list_changed` | the connection's notices |
//! | `notifications/progress` | the call that it belongs to |
//! | `notifications/cancelled` | rmcp |
//! | any other notification | nobody |
//! | anything else | counted as junk |

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::RoleClient;
use rmcp::model::{CustomResult, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::io::AsyncRead;
#[cfg(feature = "mcp-http")]
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::DropGuard;

use super::flights::Flights;
use super::life::Life;
use super::lines::{LINE_BYTES_MAX, Line, LineReader};
use super::outbox::Outbox;
use super::parse::{LIGHT_BYTES_MAX, Message, Parsed, Size, parse};
use crate::server::{Notice, Notices};

/// What the wire tells besides messages.
pub(super) struct WireEnds {
    /// Where `list_changed` goes.
    pub(super) notices: Notices,
    /// The connection.
    pub(super) life: Arc<Life>,
    /// Counts lines that are no messages.
    pub(super) junk: Arc<AtomicU64>,
    /// The calls that are under way.
    pub(super) flights: Arc<Flights>,
    /// Fires when it is taken or dropped: the output has ended, or nobody reads it any more.
    pub(super) output_over: Option<DropGuard>,
}

/// Where a server's messages come from.
pub(super) enum Source {
    /// Lines of its output.
    Lines(LineReader<Box<dyn AsyncRead + Send + Unpin>>),
    /// What was read elsewhere; its end is the end of the output.
    #[cfg(feature = "mcp-http")]
    Read(mpsc::Receiver<Parsed>),
}

impl Source {
    /// Reads lines within their bound.
    pub(super) fn lines(output: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self::Lines(LineReader::new(output, LINE_BYTES_MAX))
    }

    async fn next(&mut self) -> Next {
        match self {
            Self::Lines(lines) => Next::Line(lines.next().await),
            #[cfg(feature = "mcp-http")]
            Self::Read(messages) => messages.recv().await.map_or(Next::Line(Line::End), Next::Read),
        }
    }
}

enum Next {
    Line(Line),
    #[cfg(feature = "mcp-http")]
    Read(Parsed),
}

/// rmcp's transport over one connection.
pub(super) struct Wire {
    source: Source,
    outbox: Outbox,
    ends: WireEnds,
    /// A long line that is being read off the runtime's threads. Lines stay in order: the next one waits for it, so
    /// a connection costs one such thread at most.
    parsing: Option<JoinHandle<Parsed>>,
    /// The rest of a batch.
    waiting: VecDeque<Message>,
}

impl Wire {
    /// A wire that reads `source` and writes to `outbox`.
    pub(super) fn new(source: Source, outbox: Outbox, ends: WireEnds) -> Self {
        Self { source, outbox, ends, parsing: None, waiting: VecDeque::new() }
    }

    /// The connection.
    pub(super) fn life(&self) -> &Arc<Life> {
        &self.ends.life
    }

    fn junk(&self, things: u64) {
        let count = self.ends.junk.fetch_add(things, Ordering::Relaxed) + things;
        tracing::debug!(count, "a server wrote a line that is no MCP message");
    }

    /// Waits for the messages of one more line. Breaks at the end of the connection.
    ///
    /// # Cancel safety
    /// What was read stays here, and the next call goes on with it.
    async fn read_on(&mut self) -> ControlFlow<()> {
        let parsed = match &mut self.parsing {
            Some(parsing) => {
                let parsed = parsing.await;
                self.parsing = None;
                // Only a runtime that shuts down takes a line away.
                parsed.unwrap_or_else(|_| Parsed::Refused("its output could not be read".to_owned()))
            }
            None => match self.source.next().await {
                #[cfg(feature = "mcp-http")]
                Next::Read(parsed) => parsed,
                Next::Line(Line::Whole(line)) if line.len() > LIGHT_BYTES_MAX => {
                    self.parsing = Some(spawn_blocking(move || parse(line)));
                    return ControlFlow::Continue(());
                }
                Next::Line(Line::Whole(line)) => parse(line),
                Next::Line(Line::TooLong) => {
                    let most = LINE_BYTES_MAX >> 20;
                    Parsed::Refused(format!("sent a line of more than {most} MiB"))
                }
                Next::Line(Line::End) => {
                    drop(self.ends.output_over.take());
                    return ControlFlow::Break(());
                }
                Next::Line(Line::Broken(error)) => Parsed::Refused(format!("its output broke: {error}")),
            },
        };
        self.take(parsed)
    }

    fn take(&mut self, parsed: Parsed) -> ControlFlow<()> {
        match parsed {
            Parsed::Messages(messages, junk) => {
                self.waiting.extend(messages);
                if junk > 0 {
                    self.junk(junk);
                }
                ControlFlow::Continue(())
            }
            Parsed::Refused(reason) => {
                self.ends.life.end(reason);
                ControlFlow::Break(())
            }
        }
    }

    fn sort(&mut self, message: Message) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Message { fields: message, size } = message;
        // Nothing else is an id, and only these are small enough to copy.
        let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let method = message.get("method").and_then(Value::as_str);
        match (method, id) {
            (Some("notifications/tools/list_changed"), None) => {
                // A full queue already holds a notice that says the same.
                let _ = self.ends.notices.try_send(Notice::ToolsChanged);
                None
            }
            (Some("notifications/progress"), None) => {
                self.ends.flights.progress(message.get("params").unwrap_or(&Value::Null));
                None
            }
            (Some("notifications/cancelled"), None) => typed(message, size),
            (Some(_), None) => None,
            (Some(_), Some(id)) => self.take_request(id, message, size),
            (None, id) if message.contains_key("result") || message.contains_key("error") => {
                self.take_reply(id, message)
            }
            (None, _) => {
                self.junk(1);
                None
            }
        }
    }

    fn take_request(
        &self,
        id: Value,
        message: Map<String, Value>,
        size: Size,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let Some(request) = typed(message, size) {
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
            Some(Ok(id)) if self.ends.flights.is_late(&id, &message) => None,
            Some(Ok(id)) => {
                let whole = CustomResult(Value::Object(message));
                Some(JsonRpcMessage::response(ServerResult::CustomResult(whole), id))
            }
            Some(Err(_)) | None => {
                self.junk(1);
                None
            }
        }
    }
}

/// rmcp's type of a message. It copies a message to try its shapes, so a long one is not tried.
fn typed(message: Map<String, Value>, size: Size) -> Option<RxJsonRpcMessage<RoleClient>> {
    match size {
        Size::Light => serde_json::from_value(Value::Object(message)).ok(),
        Size::Heavy => None,
    }
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
            if self.read_on().await.is_break() {
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close();
        Ok(())
    }
}
