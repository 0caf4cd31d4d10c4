//! Calls outside any turn: the same gate, and nobody to ask.

use pilothouse_actors::call::{self, CallOrder, WhenFull};
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::TopicId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::topic::{PermissionMode, Resolution};
use pilothouse_rules::gate::{Need, need};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Calls a tool for the embedder, or for a topic that stands outside its turns. What needs a person is `Denied`.
pub(crate) async fn call(
    wiring: &Wiring,
    resolution: Resolution,
    arguments: &Value,
    topic: Option<TopicId>,
    mode: PermissionMode,
) -> CallResult {
    let tool = match resolution {
        Resolution::Tool(tool) => *tool,
        Resolution::Refused(words) => return CallResult::said(CallOutcome::Rejected, words),
    };
    match need(&tool, mode) {
        Need::Run(_) => {}
        Need::Ask(reason) => {
            let words = format!(
                "{reason}: only a turn can ask a person; or state its effect in the server's definition"
            );
            return CallResult::said(CallOutcome::Denied, words);
        }
    }
    // Dropping this future drops the token's guard, and with it the call.
    let cancel = CancellationToken::new();
    let _guard = cancel.clone().drop_guard();
    let order = CallOrder {
        tool,
        arguments: JsonText::from(arguments),
        topic,
        call: None,
        idempotency_key: None,
        when_full: WhenFull::Busy,
        cancel,
    };
    call::run(wiring, order, || {}).await
}
