//! What a server finds at our end: answers to what it asks, and an ear for what it tells.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use serde_json::{Map, Value, json};

use super::flights::Flights;
use crate::asks::{AskKind, AskPort};
use crate::server::{Notice, Notices};
use crate::words::Words;

/// Tasks of tool calls, as 2026-07-28 negotiates them.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Our end of one connection.
pub(super) struct Host {
    pub(super) asks: AskPort,
    pub(super) flights: Arc<Flights>,
    pub(super) notices: Notices,
    pub(super) words: Words,
}

/// What is declared: nothing that nobody here would answer.
pub(super) fn capabilities(kinds: &BTreeSet<AskKind>) -> Map<String, Value> {
    let mut declared = Map::new();
    let mut elicitation = Map::new();
    for kind in kinds {
        match kind {
            AskKind::Roots => drop(declared.insert("roots".to_owned(), json!({}))),
            AskKind::Sampling => drop(declared.insert("sampling".to_owned(), json!({}))),
            AskKind::Form => drop(elicitation.insert("form".to_owned(), json!({}))),
            AskKind::Url => drop(elicitation.insert("url".to_owned(), json!({}))),
        }
    }
    if !elicitation.is_empty() {
        declared.insert("elicitation".to_owned(), elicitation.into());
    }
    declared
}

/// What goes into every request to a modern server (MCP 2026-07-28, "Per-request metadata").
pub(super) fn request_meta(version: &str, kinds: &BTreeSet<AskKind>) -> Map<String, Value> {
    let mut declared = capabilities(kinds);
    declared.insert("extensions".to_owned(), json!({TASKS_EXTENSION: {}}));
    let meta = [
        ("io.modelcontextprotocol/protocolVersion", json!(version)),
        (
            "io.modelcontextprotocol/clientInfo",
            json!({"name": "pilothouse", "version": env!("CARGO_PKG_VERSION")}),
        ),
        ("io.modelcontextprotocol/clientCapabilities", declared.into()),
    ];
    meta.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// What `initialize` says about us.
pub(super) fn config(version: &str, kinds: &BTreeSet<AskKind>) -> ClientConfig {
    let client = Implementation::new("pilothouse", env!("CARGO_PKG_VERSION"));
    // What is not in rmcp's type is not declared.
    let declared: ClientCapabilities = serde_json::from_value(capabilities(kinds).into()).unwrap_or_default();
    let version = serde_json::from_value(json!(version)).unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE);
    ClientConfig::new(declared, client).with_protocol_version(version)
}

impl Host {
    async fn answer(&self, method: &str, params: &Value) -> Result<Value, ErrorData> {
        // Only what is put to the embedder takes time.
        let (origin, _open) = if self.asks.would_ask(method, params) {
            let (origin, open) = self.flights.question(self.asks.patience());
            (origin, Some(open))
        } else {
            Default::default()
        };
        let answer = self.asks.put(origin, method, params).await;
        answer.iter().for_each(|answer| self.words.pass_answer(answer));
        answer.map_err(|refusal| {
            let code = i32::try_from(refusal.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
            ErrorData::new(code, refusal.message, None)
        })
    }
}

impl Service<RoleClient> for Host {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        let mut asked = serde_json::to_value(&request).unwrap_or_default();
        let params = asked.get_mut("params").map(Value::take).unwrap_or_default();
        let method = asked.get("method").and_then(Value::as_str).unwrap_or_default();
        tokio::select! {
            biased;
            // The server has taken its question back; rmcp answers nothing then.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            answer = self.answer(method, &params) => {
                answer.map(|answer| ClientResult::CustomResult(CustomResult(answer)))
            }
        }
    }

    /// A transport whose messages come through rmcp brings its notifications here.
    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        match &notification {
            ServerNotification::ToolListChangedNotification(_) => {
                // A full queue already holds a notice that says the same.
                let _ = self.notices.try_send(Notice::ToolsChanged);
            }
            ServerNotification::ProgressNotification(progress) => {
                self.flights.progress(&serde_json::to_value(&progress.params).unwrap_or_default());
            }
            // Everything else is rmcp's own, or nobody's.
            _ => {}
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        config(ProtocolVersion::LATEST_WITH_INITIALIZE.as_str(), self.asks.kinds())
    }
}
