//! Runs one tool call to its last word, wherever the tool is.
//!
//! The task that awaits a call answers for it: nothing here travels through a mailbox, so no actor's death can keep
//! an answer back. Whatever the tool does, the answer comes within the call's deadline.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::asks::Origin;
use pilothouse_adapters::tool::{Function, Invocation, result_of};
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult, Content};
use pilothouse_messages::id::{CallId, ServerId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::WAIT_MAX;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::tool::{ToolDefinition, ToolSource};
use pilothouse_messages::topic::{ResolvedTool, RunBasis, TopicConfig};
use pilothouse_rules::arguments::Verdict;
use pilothouse_rules::output::mismatch;
use pilothouse_rules::registry::policy::{Admission, PolicyReach, ToolPolicy};
use pilothouse_rules::signature;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::heavy::Heavy;
use crate::protocol::ask_port;
use crate::session::NestedJournal;
use crate::wiring::{ServerPlace, Wiring};

mod admit;
mod clock;
mod drive;
mod last_look;
mod script;
mod taken_up;
mod words;

use admit::admit;
use clock::CallClock;
use drive::Drive;
use last_look::overruled;
use script::call_script;
use taken_up::{TakenUp, follow_task};
use words::{cancelled, cancelled_unsent, changed, rejected, timed_out, unfit};

/// How long a result may be compared with its schema.
const CHECK_WITHIN: Duration = Duration::from_secs(1);
/// The key in a request's `_meta` under which a call is the same over its attempts.
const IDEMPOTENCY_KEY: &str = "pilothouse/idempotency-key";

/// What to do when a server has as many calls in flight as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Say so at once.
    Busy,
    /// Wait for a place, within the call's deadline.
    Wait,
}

/// One call.
#[derive(Debug, Clone)]
pub struct CallOrder {
    /// The tool as it stood when the call was allowed.
    pub tool: ResolvedTool,
    /// The arguments, a JSON object.
    pub arguments: JsonText,
    /// The topic that calls; `None` outside a turn.
    pub topic: Option<TopicId>,
    /// The call; `None` outside a turn.
    pub call: Option<CallId>,
    /// The configuration of the turn that calls; `None` outside a turn.
    pub config: Option<Box<TopicConfig>>,
    /// The same over all attempts at this call.
    pub idempotency_key: Option<String>,
    /// What to do when the server is full.
    pub when_full: WhenFull,
    /// Why it may run: that has to hold until the call is sent.
    pub basis: RunBasis,
    /// What its server handed out before a restart, if the call goes on by that.
    pub receipt: Option<CallReceipt>,
    /// Cancels the call; a server is told.
    pub cancel: CancellationToken,
    /// Where the calls of a script are recorded; `None` for any other tool, and outside a turn.
    pub nested: Option<NestedJournal>,
}

/// Runs the call and returns its last word, cut to the limit. `sent` is run just before the tool can see the call:
/// before that nothing has happened, after that nobody but the tool knows.
///
/// Never panics, and returns within the server's call deadline (a function: the runtime's), waiting included.
///
/// # Cancel safety
/// Dropping the future cancels the call: a server is told, a function is dropped.
pub async fn run(wiring: &Wiring, order: CallOrder, sent: impl FnOnce() + Send) -> CallResult {
    run_watched(wiring, order, &mut OnSent(Some(sent))).await.result
}

/// What came of a call.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The last word, cut to the limit.
    pub result: CallResult,
    /// All of it, if it was cut.
    pub whole: Option<CallResult>,
}

/// As [`run`], for whoever has to know more than that the call was sent.
///
/// # Cancel safety
/// As [`run`]; a task of the server is told that nobody wants it any more, unless its receipt was kept.
pub async fn run_watched(wiring: &Wiring, order: CallOrder, watch: &mut dyn CallWatch) -> Ran {
    let result = match order.tool.source.clone() {
        ToolSource::Builtin { name } if MetaTool::of(&name) == Some(MetaTool::Exec) => {
            // Boxed: a script is rare, and every call would be as large as one.
            Box::pin(call_script(wiring, order, watch)).await
        }
        ToolSource::Builtin { name } => call_function(wiring, &name, order, watch).await,
        ToolSource::Mcp { server, tool } => call_server(wiring, &server, tool, order, watch).await,
    };
    let whole = (result.bytes() > wiring.limits.result_bytes).then(|| result.clone());
    Ran { result: result.capped(wiring.limits.result_bytes), whole }
}

/// What servers ask people while a call of a topic runs; taken back when the call is over, however it ends. The calls
/// of a script are its own.
pub(crate) struct QuestionsOf<'a> {
    wiring: &'a Wiring,
    topic: &'a TopicId,
    call: CallId,
}

impl<'a> QuestionsOf<'a> {
    /// Lets servers ask people for this call, until it is dropped.
    pub(crate) fn run(wiring: &'a Wiring, topic: &'a TopicId, call: CallId) -> Self {
        wiring.approval.questions.call_begins(topic, call);
        Self { wiring, topic, call }
    }
}

impl Drop for QuestionsOf<'_> {
    fn drop(&mut self) {
        self.wiring.approval.questions.call_is_over(self.topic, self.call);
    }
}

/// Whether whoever follows a call keeps what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It is durable: the call can go on by it after a restart.
    Kept,
    /// Nobody keeps it.
    Unkept,
    /// Whoever kept what came before has ended, and with it the call.
    Over,
}

/// Follows one call.
pub trait CallWatch: Send {
    /// Run just before the tool can see the call.
    fn sent(&mut self);

    /// Run on each receipt; the call goes on when this is done, or its time is over.
    fn received(&mut self, receipt: CallReceipt) -> BoxFuture<'_, Keeping> {
        drop(receipt);
        Box::pin(std::future::ready(Keeping::Unkept))
    }
}

struct OnSent<F>(Option<F>);

impl<F: FnOnce() + Send> CallWatch for OnSent<F> {
    fn sent(&mut self) {
        if let Some(sent) = self.0.take() {
            sent();
        }
    }
}

async fn call_function(
    wiring: &Wiring,
    name: &str,
    order: CallOrder,
    watch: &mut dyn CallWatch,
) -> CallResult {
    let function = match function_of(wiring, name, &order.tool) {
        Ok(function) => function,
        Err(refusal) => return refusal,
    };
    let within = function.call_timeout.unwrap_or(wiring.limits.call).min(WAIT_MAX);
    let deadline = Instant::now() + within;
    let arguments = match object(&order.arguments) {
        Ok(arguments) => Value::Object(arguments),
        Err(refusal) => return refusal,
    };
    if let Some(refusal) = misfit(wiring, &function.definition, &order.tool, &arguments) {
        return refusal;
    }
    if order.cancel.is_cancelled() {
        return cancelled_unsent();
    }
    if let Some(refusal) = overruled(wiring, &order) {
        return refusal;
    }
    let cancel = order.cancel.child_token();
    // Fires also when the caller drops us.
    let told = cancel.clone().drop_guard();
    let mut invocation = Invocation::new(arguments, cancel);
    invocation.topic = order.topic;
    invocation.call = order.call;
    watch.sent();
    let tool = function.tool.clone();
    let mut task = AbortOnDropHandle::new(tokio::spawn(async move { tool.call(invocation).await }));
    let result = tokio::select! {
        biased;
        joined = &mut task => match joined {
            Ok(answer) => result_of(answer),
            Err(_panicked) => CallResult::said(CallOutcome::Failed, "the function panicked"),
        },
        () = order.cancel.cancelled() => cancelled(),
        () = sleep_until(deadline) => timed_out(within),
    };
    drop(told);
    result
}

fn function_of<'a>(wiring: &'a Wiring, name: &str, tool: &ResolvedTool) -> Result<&'a Function, CallResult> {
    let Some(function) = wiring.functions.get(name) else {
        return Err(rejected("there is no such function any more"));
    };
    if function.definition.fingerprint() != tool.fingerprint {
        return Err(changed());
    }
    Ok(function)
}

async fn call_server(
    wiring: &Wiring,
    server: &ServerId,
    tool: String,
    order: CallOrder,
    watch: &mut dyn CallWatch,
) -> CallResult {
    let taken_up = TakenUp::of(order.receipt.as_ref());
    let Some(place) = wiring.servers.place(server) else {
        return rejected(&format!("there is no server \"{server}\" any more"));
    };
    let asked = match taken_up {
        TakenUp::Task(ticket) => return follow_task(wiring, &place, order, ticket, watch).await,
        TakenUp::Asked(round, asked) => Some((round, asked)),
        TakenUp::Nothing => None,
    };
    let arguments = match object(&order.arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal,
    };
    let limits = &wiring.limits;
    let within = place.definition.call_timeout.unwrap_or(limits.call);
    let clock = CallClock::new(Instant::now(), within, limits.call_with_progress, limits.question);
    let admitted = tokio::select! {
        biased;
        () = order.cancel.cancelled() => return cancelled_unsent(),
        admitted = admit(wiring, &place, &tool, &order, clock.ends_at()) => admitted,
    };
    let (ready, passage, _permit) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal,
    };
    let Some(definition) = known(wiring, &place, &tool, &order.tool) else { return changed() };
    if let Some(refusal) = misfit(wiring, &definition, &order.tool, &order.arguments.value()) {
        return refusal;
    }
    if let Some(refusal) = overruled(wiring, &order) {
        return refusal;
    }
    let schema = definition.output_schema.clone();
    let key = order.idempotency_key.map(|key| (IDEMPOTENCY_KEY.to_owned(), Value::String(key)));
    let drive = Drive {
        ready: &ready,
        passage: &passage,
        asks: ask_port(wiring, &place),
        rounds: limits.question_rounds,
        tool,
        arguments,
        meta: key.into_iter().collect(),
        origin: Origin { topic: order.topic, call: order.call },
        cancel: &order.cancel,
        time: wiring.clock.as_ref(),
        clock,
    };
    watch.sent();
    checked(drive.run(asked, watch).await, schema, wiring.heavy).await
}

/// The tool as it stood when the call was allowed, if its server still offers it to the caller.
fn known(
    wiring: &Wiring,
    place: &ServerPlace,
    tool: &str,
    allowed: &ResolvedTool,
) -> Option<Arc<ToolDefinition>> {
    let (definition, server) = (&place.definition, &place.definition.id);
    // The table follows the definition and the catalog, so these are asked where it may be behind.
    if definition.disabled.iter().any(|hidden| hidden == tool) {
        return None;
    }
    match ToolPolicy::of(&definition.tools, PolicyReach::Server(server.clone())).admits(allowed) {
        Admission::Admitted => {}
        Admission::NotAllowed | Admission::Denied(_) => return None,
    }
    let table = wiring.registry.table.load();
    if let Some(entry) = table.by_source(server, tool)
        && entry.fingerprint == allowed.fingerprint
    {
        return Some(entry.definition.clone());
    }
    let places = wiring.catalog.places.load();
    let listed = places.get(server)?.view.tools().iter().find(|known| known.name == tool)?;
    (listed.fingerprint() == allowed.fingerprint).then(|| Arc::new(listed.clone()))
}

/// Why the tool is not called with these arguments, if its own schema does not allow them. Whatever way a call took, this
/// is asked last.
fn misfit(
    wiring: &Wiring,
    definition: &ToolDefinition,
    tool: &ResolvedTool,
    arguments: &Value,
) -> Option<CallResult> {
    match wiring.validators.of(definition, tool.fingerprint).check(arguments) {
        Verdict::Valid => None,
        Verdict::Unchecked(why) => {
            let name = &tool.name;
            tracing::warn!(target: "pilothouse", tool = %name, %why, "a tool is called with unchecked arguments");
            None
        }
        Verdict::Invalid(faults) => {
            let signature = signature::render(definition, &tool.name, &wiring.limits);
            Some(unfit(&tool.name, &faults, &signature))
        }
    }
}

/// Reports structured content that is not what its schema says, beside the content: the server has done its work.
async fn checked(mut result: CallResult, schema: Option<JsonText>, heavy: Heavy) -> CallResult {
    let (Some(schema), Some(structured), CallOutcome::Succeeded) =
        (schema, result.structured(), result.outcome)
    else {
        return result;
    };
    let structured = structured.clone();
    // A hostile schema may take long; it takes a thread of the blocking pool then, and no answer waits for it.
    let checking = heavy.start(move || mismatch(&schema, &structured));
    if let Ok(Ok(Some(words))) = timeout(CHECK_WITHIN, checking).await {
        let words = format!("[its structured content is not what its output schema says: {words}]");
        result.content.push(Content::Text(words));
    }
    result
}

fn object(arguments: &JsonText) -> Result<Map<String, Value>, CallResult> {
    match arguments.value() {
        Value::Object(arguments) => Ok(arguments),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(rejected("the arguments are not a JSON object"))
        }
    }
}
