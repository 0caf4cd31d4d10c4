//! Runs one tool call to its last word, wherever the tool is.
//!
//! The task that awaits a call answers for it: nothing here travels through a mailbox, so no actor's death can keep
//! an answer back. Whatever the tool does, the answer comes within the call's deadline.

use std::sync::Arc;

use pilothouse_adapters::tool::{Function, Invocation, result_of};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::RequestError;
use pilothouse_messages::id::{CallId, ServerId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{CatalogCommand, RefreshCause};
use pilothouse_messages::server::ServerState;
use pilothouse_messages::tool::ToolSource;
use pilothouse_messages::topic::ResolvedTool;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::catalog::CatalogMsg;
use crate::demand::awake;
use crate::tasks::caught;
use crate::traffic::Passage;
use crate::wiring::{Ready, ServerPlace, Wiring};

/// The JSON-RPC code with which a server refuses arguments (JSON-RPC 2.0, section 5.1).
const INVALID_PARAMS: i64 = -32602;
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
    /// The same over all attempts at this call.
    pub idempotency_key: Option<String>,
    /// What to do when the server is full.
    pub when_full: WhenFull,
    /// Cancels the call; a server is told.
    pub cancel: CancellationToken,
}

/// Runs the call and returns its last word, cut to the limit. `sent` is run just before the tool can see the call:
/// before that nothing has happened, after that nobody but the tool knows.
///
/// Never panics, and returns within the server's call deadline (a function: the runtime's), waiting included.
///
/// # Cancel safety
/// Dropping the future cancels the call: a server is told, a function is dropped.
pub async fn run(wiring: &Wiring, order: CallOrder, sent: impl FnOnce() + Send) -> CallResult {
    let result = match order.tool.source.clone() {
        ToolSource::Builtin { name } => call_function(wiring, &name, order, sent).await,
        ToolSource::Mcp { server, tool } => call_server(wiring, &server, tool, order, sent).await,
    };
    result.capped(wiring.limits.result_bytes)
}

async fn call_function(
    wiring: &Wiring,
    name: &str,
    order: CallOrder,
    sent: impl FnOnce() + Send,
) -> CallResult {
    let deadline = Instant::now() + wiring.limits.call;
    let function = match function_of(wiring, name, &order.tool) {
        Ok(function) => function,
        Err(refusal) => return refusal,
    };
    let arguments = match object(&order.arguments) {
        Ok(arguments) => Value::Object(arguments),
        Err(refusal) => return refusal,
    };
    let cancel = order.cancel.child_token();
    // Fires also when the caller drops us.
    let told = cancel.clone().drop_guard();
    let mut invocation = Invocation::new(arguments, cancel);
    invocation.topic = order.topic;
    invocation.call = order.call;
    if order.cancel.is_cancelled() {
        return cancelled_unsent();
    }
    sent();
    let tool = function.tool.clone();
    let mut task = AbortOnDropHandle::new(tokio::spawn(async move { tool.call(invocation).await }));
    let result = tokio::select! {
        biased;
        joined = &mut task => match joined {
            Ok(answer) => result_of(answer),
            Err(_panicked) => CallResult::said(CallOutcome::Failed, "the function panicked"),
        },
        () = order.cancel.cancelled() => cancelled(),
        () = sleep_until(deadline) => timed_out(wiring.limits.call),
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
    sent: impl FnOnce() + Send,
) -> CallResult {
    let Some(place) = wiring.servers.place(server) else {
        return rejected(&format!("there is no server \"{server}\" any more"));
    };
    let arguments = match object(&order.arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal,
    };
    let within = place.definition.call_timeout.unwrap_or(wiring.limits.call);
    let deadline = Instant::now() + within;
    let admitted = tokio::select! {
        biased;
        () = order.cancel.cancelled() => return cancelled_unsent(),
        admitted = admit(wiring, &place, &tool, &order, deadline) => admitted,
    };
    let (ready, passage, _permit) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal,
    };
    let key = order.idempotency_key.map(|key| (IDEMPOTENCY_KEY.to_owned(), Value::String(key)));
    let meta: Map<String, Value> = key.into_iter().collect();
    sent();
    let asked = Instant::now();
    tokio::select! {
        biased;
        answer = caught(async { ready.connection.call(tool, arguments, meta).await }) => match answer {
            Ok(Ok(result)) => {
                passage.answered();
                result
            }
            Ok(Err(error)) => {
                heard_in(&error, &passage);
                refused_by(&error)
            }
            Err(_panicked) => unknown("it was sent, and the connection panicked before it answered"),
        },
        () = ready.ended.cancelled() => unknown("it was sent, and the connection ended before it answered"),
        () = order.cancel.cancelled() => cancelled(),
        () = sleep_until(deadline) => {
            passage.timed_out(asked);
            timed_out(within)
        }
    }
}

/// An error is an answer, unless the connection has ended.
fn heard_in(error: &RequestError, passage: &Passage) {
    if !matches!(error, RequestError::Ended { .. }) {
        passage.answered();
    }
}

/// Everything before the call may be sent: a connection, a place, and the tool's confirmation.
async fn admit(
    wiring: &Wiring,
    place: &ServerPlace,
    tool: &str,
    order: &CallOrder,
    deadline: Instant,
) -> Result<(Arc<Ready>, Passage, OwnedSemaphorePermit), CallResult> {
    if order.tool.definition != place.fingerprint {
        return Err(changed());
    }
    let (ready, passage, permit) = loop {
        awake(wiring, place, deadline).await;
        // A server that is down refuses before anybody waits for a place.
        reached(wiring, place, order.when_full, deadline).await?;
        let permit = permit(place, order.when_full, deadline).await?;
        let ready = connected(wiring, place)?;
        if !place.made(&ready) {
            return Err(changed());
        }
        // One that is being stopped for want of use is started again.
        match ready.traffic.enter() {
            Some(passage) => break (ready, passage, permit),
            None if Instant::now() >= deadline => return Err(unavailable(wiring, place)),
            None => drop(permit),
        }
    };
    match confirmed(wiring, place, &ready, tool, deadline).await? {
        Some(fingerprint) if fingerprint == order.tool.fingerprint => Ok((ready, passage, permit)),
        Some(_) => Err(changed()),
        None => Err(rejected("the server no longer offers it")),
    }
}

/// The connection; inside a turn one that is being made is waited for. A call that is taken up at the start of a
/// process always finds its server connecting.
async fn reached(
    wiring: &Wiring,
    place: &ServerPlace,
    when_full: WhenFull,
    deadline: Instant,
) -> Result<Arc<Ready>, CallResult> {
    match when_full {
        WhenFull::Busy => {}
        WhenFull::Wait => {
            let (mut ready, mut phase) = (place.ready.subscribe(), place.phase.subscribe());
            let known = async {
                tokio::select! {
                    _answers = ready.wait_for(Option::is_some) => {}
                    _over = phase.wait_for(|phase| phase.state != ServerState::Connecting) => {}
                }
            };
            // Whatever is known by then decides.
            let _elapsed = timeout_at(deadline, known).await;
        }
    }
    connected(wiring, place)
}

fn connected(wiring: &Wiring, place: &ServerPlace) -> Result<Arc<Ready>, CallResult> {
    let ready = place.ready.borrow().clone();
    ready.filter(|ready| !ready.ended.is_cancelled()).ok_or_else(|| unavailable(wiring, place))
}

async fn permit(
    place: &ServerPlace,
    when_full: WhenFull,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, CallResult> {
    let removed = || CallResult::said(CallOutcome::Rejected, "the server was removed; it was not called");
    let busy = |why: TryAcquireError| match why {
        TryAcquireError::Closed => removed(),
        TryAcquireError::NoPermits => {
            CallResult::unavailable("the server is busy: as many calls as it may have are under way", None)
        }
    };
    match when_full {
        WhenFull::Busy => place.permits.clone().try_acquire_owned().map_err(busy),
        WhenFull::Wait => match timeout_at(deadline, place.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(removed()),
            Err(_elapsed) => Err(CallResult::unavailable(
                "the server was busy for as long as the call could wait; it was not called",
                None,
            )),
        },
    }
}

/// What this connection's own listing says about the tool; waits for the listing.
async fn confirmed(
    wiring: &Wiring,
    place: &ServerPlace,
    ready: &Ready,
    tool: &str,
    deadline: Instant,
) -> Result<Option<Digest>, CallResult> {
    let mut confirmed = ready.confirmed.subscribe();
    if confirmed.borrow().is_none() {
        // Joins the refresh that every connection brings; starts another one if that has failed.
        let server = place.definition.id.clone();
        let command = CatalogCommand::Refresh { server, cause: RefreshCause::Asked };
        wiring.catalog.slot.inform(CatalogMsg::Command { command });
    }
    let known = tokio::select! {
        biased;
        () = ready.ended.cancelled() => return Err(unavailable(wiring, place)),
        known = timeout_at(deadline, confirmed.wait_for(Option::is_some)) => known,
    };
    match known {
        Ok(Ok(tools)) => Ok(tools.as_ref().and_then(|tools| tools.get(tool).copied())),
        Ok(Err(_)) | Err(_) => Err(CallResult::unavailable(
            "the server is connected but has not listed its tools yet; it was not called",
            None,
        )),
    }
}

fn unavailable(wiring: &Wiring, place: &ServerPlace) -> CallResult {
    let phase = place.phase.borrow().clone();
    let doing = match phase.state {
        ServerState::Connecting => "is connecting",
        ServerState::Ready => "has just lost its connection",
        ServerState::Backoff => "is down and will be tried again",
        ServerState::Stopped => "is not running",
        ServerState::Failed if phase.retry_at.is_some() => "has failed too often and is tried now and then",
        ServerState::Failed => "has failed and waits for a restart",
    };
    let name = &place.definition.name;
    let reason = phase.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let retry_after = phase.retry_at.map(|retry_at| retry_at.since(wiring.clock.now()));
    CallResult::unavailable(format!("the server \"{name}\" {doing}{reason}; it was not called"), retry_after)
}

fn refused_by(error: &RequestError) -> CallResult {
    match error {
        RequestError::Server { code: INVALID_PARAMS, message } => {
            rejected(&format!("the server refused the arguments: {message}"))
        }
        RequestError::Ended { reason } => {
            unknown(&format!("it was sent, and the connection ended before it answered: {reason}"))
        }
        // `Server` and `Malformed`, and whatever else an answer can be.
        error => CallResult::said(CallOutcome::Failed, error.to_string()),
    }
}

fn object(arguments: &JsonText) -> Result<Map<String, Value>, CallResult> {
    match arguments.value() {
        Value::Object(arguments) => Ok(arguments),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(rejected("the arguments are not a JSON object"))
        }
    }
}

fn rejected(words: &str) -> CallResult {
    CallResult::said(CallOutcome::Rejected, words)
}

fn changed() -> CallResult {
    rejected("the tool has changed since the call was allowed; it was not called")
}

fn unknown(words: &str) -> CallResult {
    CallResult::said(CallOutcome::Unknown, words)
}

fn cancelled_unsent() -> CallResult {
    CallResult::said(CallOutcome::Cancelled, "cancelled before it was called")
}

fn cancelled() -> CallResult {
    CallResult::said(CallOutcome::Cancelled, "cancelled before it answered")
}

fn timed_out(within: std::time::Duration) -> CallResult {
    CallResult::said(CallOutcome::TimedOut, format!("no answer within {} ms", within.as_millis()))
}
