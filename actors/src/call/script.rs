//! Runs a call of `tool_exec`: the script goes to the engine, and each of its calls down the same road as a model's own.
//!
//! ```text
//! tools.call(name, args) ─▶ in scope? ─▶ arguments fit? ─▶ gate: Run ─▶ intent durable ─▶ call::run ─▶ outcome
//!                              │ no            │ no           │ Ask, Deny
//!                              └───────────────┴──────────────┴──▶ refused with words; the script goes on
//! tools.search, tools.inspect ─▶ answered as a model's own call of tool_search and tool_inspect
//! ```
//!
//! A script cannot wait for a person, so what needs one is refused and never becomes a card. Whatever a script calls stands
//! in the topic's journal below the script's own call, also what was refused.

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::exec::{ExecCaller, ScriptCall};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{CallId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::tool::SurfaceView;
use pilothouse_messages::topic::{
    NestedCall, NestedPlan, PermissionMode, ResolvedTool, RunBasis, TopicConfig,
};
use pilothouse_rules::gate::{Modes, Need, need};
use pilothouse_rules::meta::Asked;
use pilothouse_rules::registry::{resolved, scope_of};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::words::{cancelled_unsent, changed, rejected};
use super::{CallOrder, CallWatch, WhenFull, object, run};
use crate::asking::{Asker, asked};
use crate::gate::{self, Caller};
use crate::session::NestedJournal;
use crate::tasks::caught;
use crate::wiring::Wiring;

pub(super) async fn call_script(wiring: &Wiring, order: CallOrder, watch: &mut dyn CallWatch) -> CallResult {
    let Some(exec) = wiring.exec.as_ref() else { return rejected("no scripts run here any more") };
    let (Some(topic), Some(call), Some(config), Some(journal)) =
        (order.topic, order.call, order.config, order.nested)
    else {
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
    let caller = Nested {
        wiring,
        topic,
        call,
        config: *config,
        journal,
        key: order.idempotency_key,
        cancel: cancel.clone(),
    };
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
    journal: NestedJournal,
    key: Option<String>,
    cancel: CancellationToken,
}

/// What a call of a script comes to.
enum Judged {
    Run(ResolvedTool, JsonText, RunBasis),
    /// Nothing runs, whatever tool it was that the gate refused.
    Answered(CallResult, Option<ResolvedTool>),
}

impl ExecCaller for Nested<'_> {
    fn call(&self, call: ScriptCall) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let (number, name) = (call.number, call.name.clone());
            let result = self.recorded(call).await;
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
    async fn recorded(&self, call: ScriptCall) -> CallResult {
        let (number, name) = (call.number, call.name);
        let written = JsonText::from(&Value::Object(call.arguments));
        match self.judged(&name, &written).await {
            Judged::Run(tool, arguments, basis) => {
                let made = (tool.clone(), arguments.clone());
                let nested = NestedCall {
                    number,
                    name,
                    arguments: made.1,
                    tool: Some(made.0),
                    plan: NestedPlan::Run(basis.clone()),
                };
                let intended = match self.journal.intend(nested).await {
                    Ok(intended) => intended,
                    Err(refusal) => return refusal,
                };
                let order = self.order(number, tool, arguments, basis);
                // A fault of ours leaves no record open: what is after it is recorded, too.
                let result = caught(run(self.wiring, order, || intended.sent())).await;
                let result = result.unwrap_or_else(|words| {
                    CallResult::said(
                        CallOutcome::Unknown,
                        format!("the call ended in a fault of ours: {words}"),
                    )
                });
                intended.returned(result.clone());
                result
            }
            Judged::Answered(result, tool) => {
                let plan = NestedPlan::Answered(result.clone());
                self.journal.answered(NestedCall { number, name, arguments: written, tool, plan });
                result
            }
        }
    }

    fn order(&self, number: u32, tool: ResolvedTool, arguments: JsonText, basis: RunBasis) -> CallOrder {
        let number = number.to_be_bytes();
        let key =
            self.key.as_ref().map(|key| Digest::of_parts("pilothouse/script/1", &[key.as_bytes(), &number]));
        CallOrder {
            tool,
            arguments,
            topic: Some(self.topic.clone()),
            call: Some(self.call),
            config: Some(Box::new(self.config.clone())),
            idempotency_key: key.map(|key| key.to_string()),
            when_full: WhenFull::Wait,
            basis,
            receipt: None,
            cancel: self.cancel.clone(),
            nested: None,
        }
    }

    async fn judged(&self, name: &str, written: &JsonText) -> Judged {
        let (tool, arguments) = match self.resolved(name, written) {
            Ok(found) => found,
            Err(answer) => return Judged::Answered(answer, None),
        };
        match self.allowed(&tool, &arguments).await {
            Ok(basis) => Judged::Run(tool, arguments, basis),
            Err(refusal) => Judged::Answered(refusal, Some(tool)),
        }
    }

    /// The tool and its arguments, as they fit its schema; else what the call is answered with.
    fn resolved(&self, name: &str, written: &JsonText) -> Result<(ResolvedTool, JsonText), CallResult> {
        match MetaTool::of(name) {
            Some(MetaTool::Invoke | MetaTool::Exec) => {
                let words = format!("a script calls tools by their own names, and not \"{name}\"");
                return Err(rejected(&words));
            }
            Some(MetaTool::Search | MetaTool::Inspect) | None => {}
        }
        let place = self.journal.place();
        let (scope, deferred) = (scope_of(&self.config), place.deferred.load());
        let block = place.surface.load_full().unwrap_or_else(|| SurfaceView::new(Vec::new()).into());
        let asker = Asker {
            topic: &self.topic,
            scope: &scope,
            block: &block,
            deferred: &deferred,
            inspected: &place.inspected,
        };
        match asked(self.wiring, &asker, name, written.as_str()) {
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
