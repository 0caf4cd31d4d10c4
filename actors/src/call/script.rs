//! Runs a call of `tool_exec`: the script goes to the engine, and each of its calls down the same road as a model's own.
//!
//! ```text
//! tools.call(name, args) ─▶ in scope? ─▶ arguments fit? ─▶ gate: Run ─▶ call::run
//!                              │ no            │ no           │ Ask, Deny
//!                              └───────────────┴──────────────┴──▶ refused with words; the script goes on
//! ```
//!
//! A script cannot wait for a person, so what needs one is refused and never becomes a card. The calls stand in the result's
//! trace; the topic's journal holds the script's own intent and outcome.

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::exec::{ExecCaller, ScriptCall};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{CallId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::topic::{PermissionMode, ResolvedTool, RunBasis, TopicConfig};
use pilothouse_rules::gate::{Modes, Need, need};
use pilothouse_rules::meta::Asked;
use pilothouse_rules::registry::{resolved, scope_of};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::words::{cancelled_unsent, changed, rejected};
use super::{CallOrder, CallWatch, WhenFull, object, run};
use crate::asking::asked_directly;
use crate::gate::{self, Caller};
use crate::tasks::caught;
use crate::wiring::Wiring;

pub(super) async fn call_script(wiring: &Wiring, order: CallOrder, watch: &mut dyn CallWatch) -> CallResult {
    let Some(exec) = wiring.exec.as_ref() else { return rejected("no scripts run here any more") };
    let (Some(topic), Some(call), Some(config)) = (order.topic, order.call, order.config) else {
        return rejected("scripts run inside a turn only");
    };
    if wiring.registry.table.load().get(&order.tool.name).map(|entry| entry.fingerprint)
        != Some(order.tool.fingerprint)
    {
        return changed();
    }
    let script = match object(&order.arguments) {
        Ok(mut arguments) => arguments.remove("script"),
        Err(refusal) => return refusal,
    };
    let Some(Value::String(script)) = script else {
        return rejected(
            "\"script\" is missing: give it the body of an async JavaScript function as a string",
        );
    };
    if order.cancel.is_cancelled() {
        return cancelled_unsent();
    }
    // Whatever the script has begun ends with it.
    let cancel = order.cancel.child_token();
    let _ended = cancel.clone().drop_guard();
    let caller =
        Nested { wiring, topic, call, config: *config, key: order.idempotency_key, cancel: cancel.clone() };
    watch.sent();
    // The engine may be the embedder's.
    caught(async { exec.engine.run(script, &caller, cancel).await }).await.unwrap_or_else(|words| {
        CallResult::said(CallOutcome::Failed, format!("the engine panicked over the script: {words}"))
    })
}

/// Calls tools for one script, on behalf of the call that it runs in.
struct Nested<'a> {
    wiring: &'a Wiring,
    topic: TopicId,
    call: CallId,
    /// The turn's.
    config: TopicConfig,
    key: Option<String>,
    cancel: CancellationToken,
}

impl ExecCaller for Nested<'_> {
    fn call(&self, call: ScriptCall) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let (number, name) = (call.number, call.name.clone());
            let result = self.judged(call).await;
            tracing::debug!(
                target: "pilothouse",
                topic = %self.topic, call = %self.call, number, tool = %name, outcome = ?result.outcome,
                "a script called a tool"
            );
            result
        })
    }
}

impl Nested<'_> {
    async fn judged(&self, call: ScriptCall) -> CallResult {
        let written = JsonText::from(&Value::Object(call.arguments));
        let (tool, text) = match self.resolved(&call.name, &written) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let basis = match self.allowed(&tool, &text).await {
            Ok(basis) => basis,
            Err(refusal) => return refusal,
        };
        let number = call.number.to_be_bytes();
        let key =
            self.key.as_ref().map(|key| Digest::of_parts("pilothouse/script/1", &[key.as_bytes(), &number]));
        let order = CallOrder {
            tool,
            arguments: text,
            topic: Some(self.topic.clone()),
            call: Some(self.call),
            config: Some(Box::new(self.config.clone())),
            idempotency_key: key.map(|key| key.to_string()),
            when_full: WhenFull::Wait,
            basis,
            receipt: None,
            cancel: self.cancel.clone(),
        };
        run(self.wiring, order, || {}).await
    }

    /// The tool and its arguments, as they fit its schema.
    fn resolved(&self, name: &str, written: &JsonText) -> Result<(ResolvedTool, JsonText), CallResult> {
        if MetaTool::of(name).is_some() {
            return Err(rejected(&format!("a script calls tools by their own names, and not \"{name}\"")));
        }
        match asked_directly(self.wiring, &scope_of(&self.config), name, written.as_str()) {
            Asked::Run { entry, arguments, fixes: _ } => Ok((resolved(&entry), arguments)),
            Asked::Answered(result) => Err(result),
            Asked::Refused(words) => Err(rejected(&words)),
            Asked::Mismatch(mismatch) => Err(rejected(&mismatch.words)),
        }
    }

    /// Why it may run without a person.
    async fn allowed(&self, tool: &ResolvedTool, arguments: &JsonText) -> Result<RunBasis, CallResult> {
        let caller = Caller {
            tenant: self.config.tenant.clone(),
            topic: Some(self.topic.clone()),
            turn: Some(self.call.turn),
        };
        let findings = gate::findings(self.wiring, &caller, tool, arguments, self.modes()).await;
        // The mode may have become stricter while a classifier thought.
        match need(tool, &findings, self.modes()) {
            Need::Run(basis) => Ok(basis),
            Need::Deny(reason) => Err(CallResult::said(CallOutcome::Denied, reason)),
            Need::Ask(reason) => Err(rejected(&format!(
                "\"{}\" needs a person's approval ({reason}), and a script cannot wait for one: call it outside the script",
                tool.name
            ))),
        }
    }

    fn modes(&self) -> Modes {
        Modes { turn: self.config.mode, newest: self.newest(), max: self.wiring.limits.max_mode }
    }

    /// The topic's newest mode: what is stricter about it counts at once.
    fn newest(&self) -> PermissionMode {
        let place = self.wiring.topics.place(&self.topic);
        place.and_then(|place| place.hub.view()).map_or(self.config.mode, |view| view.config.mode)
    }
}
