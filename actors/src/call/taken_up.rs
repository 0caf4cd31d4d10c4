//! Goes on with a call after a restart, by what its server handed out before.

use std::time::Duration;

use pilothouse_adapters::asks::Origin;
use pilothouse_adapters::server::{InputRequired, TaskTicket};
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::time::Timestamp;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::admit::reach;
use super::clock::CallClock;
use super::drive::Drive;
use super::words::{cancelled, unknown};
use super::{CallOrder, CallWatch, checked, known};
use crate::protocol::ask_port;
use crate::wiring::{ServerPlace, Wiring};

/// How long to wait before a server that could not be reached is looked for again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What a call goes on by.
pub(super) enum TakenUp {
    /// The call begins.
    Nothing,
    /// The server asked in this round.
    Asked(u32, InputRequired),
    /// The server works on it as a task.
    Task(TaskReceipt),
}

/// A task as it was noted.
pub(super) struct TaskReceipt {
    id: String,
    poll_after: Option<Duration>,
    expires_at: Option<Timestamp>,
}

impl TakenUp {
    pub(super) fn of(receipt: Option<&CallReceipt>) -> Self {
        match receipt {
            None | Some(CallReceipt::Answered { .. }) => Self::Nothing,
            Some(CallReceipt::Asked { round, requests, state }) => {
                let requests = match requests.value() {
                    Value::Object(requests) => requests,
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                        Map::new()
                    }
                };
                let state = state.as_ref().map(|state| state.expose().to_owned());
                Self::Asked(*round, InputRequired { requests, state })
            }
            Some(CallReceipt::Task { id, poll_after_ms, expires_at }) => Self::Task(TaskReceipt {
                id: id.expose().to_owned(),
                poll_after: poll_after_ms.map(Duration::from_millis),
                expires_at: *expires_at,
            }),
        }
    }
}

/// Asks a server for a task that it began before a restart, once it can be reached. Nothing is called, so neither the
/// tool nor the gate is asked again.
pub(super) async fn follow_task(
    wiring: &Wiring,
    place: &ServerPlace,
    order: CallOrder,
    task: TaskReceipt,
    watch: &mut dyn CallWatch,
) -> CallResult {
    let limits = &wiring.limits;
    let within = place.definition.call_timeout.unwrap_or(limits.call);
    let clock = CallClock::new(Instant::now(), within, limits.call_with_progress, limits.question);
    let lost = |why: &str| {
        unknown(&format!(
            "the server worked on it as a task, and could not be asked for it after a restart: {why}"
        ))
    };
    let (ready, passage, _permit) = loop {
        let reached = tokio::select! {
            biased;
            () = order.cancel.cancelled() => return cancelled(),
            reached = reach(wiring, place, &order, clock.ends_at()) => reached,
        };
        match reached {
            Ok(reached) => break reached,
            // A server takes its time to come back, as its host did.
            Err(refusal)
                if refusal.outcome == CallOutcome::Unavailable && Instant::now() < clock.ends_at() =>
            {
                tokio::select! {
                    biased;
                    () = order.cancel.cancelled() => return cancelled(),
                    () = sleep(LOOK_AGAIN_AFTER) => {}
                }
            }
            Err(refusal) => return lost(&refusal.text()),
        }
    };
    let raw = order.tool.source.raw_name().to_owned();
    let schema = known(wiring, place, &raw, &order.tool).and_then(|tool| tool.output_schema.clone());
    let ttl = task.expires_at.map(|expires_at| expires_at.since(wiring.clock.now()));
    let ticket = TaskTicket { id: task.id, poll_after: task.poll_after, ttl };
    let drive = Drive {
        ready: &ready,
        passage: &passage,
        asks: ask_port(wiring, place),
        rounds: limits.question_rounds,
        tool: raw,
        arguments: Map::new(),
        meta: Map::new(),
        origin: Origin { topic: order.topic, call: order.call },
        cancel: &order.cancel,
        time: wiring.clock.as_ref(),
        clock,
    };
    watch.sent();
    checked(drive.go_on_with_task(ticket).await, schema, wiring.heavy).await
}
