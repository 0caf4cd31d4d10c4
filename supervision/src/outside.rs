//! Calls outside any turn: the same gate, and nobody to ask.

use pilothouse_actors::call::{self, CallOrder, WhenFull};
use pilothouse_actors::gate::{self, Caller};
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{TenantId, TopicId};
use pilothouse_messages::topic::PermissionMode;
use pilothouse_rules::gate::{Modes, Need, need};
use pilothouse_rules::meta::{Asked, Mismatch};
use pilothouse_rules::registry::resolved;
use tokio_util::sync::CancellationToken;

/// Calls a tool for the embedder, or for a topic that stands outside its turns. What needs a person is `Denied`.
pub(crate) async fn call(
    wiring: &Wiring,
    asked: Asked,
    (tenant, topic): (TenantId, Option<TopicId>),
    mode: PermissionMode,
) -> CallResult {
    let (tool, text) = match asked {
        Asked::Run { entry, arguments, fixes: _ } => (resolved(&entry), arguments),
        Asked::Answered(result) => return result,
        Asked::Refused(words) | Asked::Mismatch(Mismatch { words, .. }) => {
            return CallResult::said(CallOutcome::Rejected, words);
        }
    };
    let modes = Modes::of(mode, wiring.limits.max_mode);
    let caller = Caller { tenant, topic: topic.clone(), turn: None };
    let findings = gate::findings(wiring, &caller, &tool, &text, modes).await;
    let basis = match need(&tool, &findings, modes) {
        Need::Run(basis) => basis,
        Need::Deny(reason) => return CallResult::said(CallOutcome::Denied, reason),
        Need::Ask(reason) => {
            let words = format!(
                "{reason}: only a turn can ask a person; or state its effect in the server's definition"
            );
            return CallResult::said(CallOutcome::Denied, words);
        }
    };
    // Dropping this future drops the token's guard, and with it the call.
    let cancel = CancellationToken::new();
    let _guard = cancel.clone().drop_guard();
    let order = CallOrder {
        tool,
        arguments: text,
        topic,
        call: None,
        config: None,
        idempotency_key: None,
        basis,
        receipt: None,
        when_full: WhenFull::Busy,
        cancel,
        nested: None,
    };
    call::run(wiring, order, || {}).await
}
