//! Owns what is known of the calls that are under way: how far each is, what is asked for it, and who gave up waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_messages::call::{LateAnswer, LateWord};
use pilothouse_messages::digest::Digest;
use rmcp::model::RequestId;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::asks::Origin;
use crate::server::{LateReplies, LateReply, Pulse};

/// Requests that nobody waits for, and whose answers would still be told from junk.
const FORGOTTEN_MAX: usize = 1_024;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Flights {
    known: Mutex<Known>,
    /// Counts late answers over all connections of a server.
    late: Arc<AtomicU64>,
    /// Takes late answers to calls.
    replies: Option<LateReplies>,
}

#[derive(Debug, Default)]
struct Known {
    /// By progress token, as text.
    calls: BTreeMap<String, Flight>,
    forgotten: VecDeque<Forgotten>,
    /// When the youngest call was given up that is not among the forgotten any more, for want of room.
    lost: Option<Instant>,
}

/// A request that nobody waits for any more. Its server may not know that yet, and ask for it.
#[derive(Debug)]
struct Forgotten {
    id: RequestId,
    /// For whom it ran, if it was a call.
    origin: Option<Origin>,
    at: Instant,
}

#[derive(Debug, Clone)]
struct Flight {
    pulse: watch::Sender<Pulse>,
    origin: Origin,
}

impl Flights {
    /// No calls yet.
    pub(super) fn new(late: Arc<AtomicU64>, replies: Option<LateReplies>) -> Self {
        Self { known: Mutex::default(), late, replies }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call is under way until the guard is dropped.
    pub(super) fn board(
        self: &Arc<Self>,
        token: &Value,
        pulse: watch::Sender<Pulse>,
        origin: Origin,
    ) -> Boarded {
        let token = name_of(token);
        self.known().calls.insert(token.clone(), Flight { pulse, origin });
        Boarded { flights: self.clone(), token }
    }

    /// Takes a `notifications/progress`: only what grows is progress (MCP 2025-11-25, "Progress").
    pub(super) fn progress(&self, params: &Value) {
        let (Some(token), Some(now)) =
            (params.get("progressToken"), params.get("progress").and_then(Value::as_f64))
        else {
            return;
        };
        if let Some(flight) = self.known().calls.get(&name_of(token)) {
            flight.pulse.send_if_modified(|pulse| {
                let grew = pulse.progress.is_none_or(|before| now > before);
                if grew {
                    pulse.progress = Some(now);
                }
                grew
            });
        }
    }

    /// A question of the server is open until the guard is dropped. A server does not say to which call it belongs:
    /// with several under way it may be any of them, so that all their clocks stop. Nor does it say that its call is
    /// gone: while one of another topic was given up less than `patience` ago, it may be that one's, and no person of
    /// this topic is to see it.
    pub(super) fn question(&self, patience: Duration) -> (Origin, Open) {
        let known = self.known();
        let flights: Vec<Flight> = known.calls.values().cloned().collect();
        let origin = match flights.as_slice() {
            [only] if !known.may_be_anothers(&only.origin, patience) => only.origin.clone(),
            [] | [_, ..] => Origin::default(),
        };
        drop(known);
        for flight in &flights {
            flight.pulse.send_modify(|pulse| pulse.questions += 1);
        }
        (origin, Open(flights))
    }

    /// Nobody waits for this answer any more; if it is a call's, that was for whom the call ran.
    pub(super) fn forget(&self, id: RequestId, origin: Option<Origin>) {
        let mut known = self.known();
        if known.forgotten.len() >= FORGOTTEN_MAX
            && let Some(oldest) = known.forgotten.pop_front()
            && oldest.origin.is_some()
        {
            known.lost = Some(oldest.at);
        }
        known.forgotten.push_back(Forgotten { id, origin, at: Instant::now() });
    }

    /// Whether the answer with this id comes too late; counts it, and tells whoever wants to know what it said.
    pub(super) fn is_late(&self, id: &RequestId, message: &Map<String, Value>) -> bool {
        let mut known = self.known();
        let Some(place) = known.forgotten.iter().position(|forgotten| forgotten.id == *id) else {
            return false;
        };
        let forgotten = known.forgotten.remove(place);
        drop(known);
        let count = self.late.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(%id, count, "an answer came when nobody waited for it any more");
        let origin = forgotten.and_then(|forgotten| forgotten.origin);
        if let (Some(replies), Some(origin)) = (&self.replies, origin) {
            // One that does not fit is counted.
            let _full = replies.try_send(LateReply { origin, answer: late_answer(message) });
        }
        true
    }
}

fn late_answer(message: &Map<String, Value>) -> LateAnswer {
    let result = message.get("result");
    let of = |key: &str| result.and_then(|result| result.get(key));
    let word = match (result, of("resultType").and_then(Value::as_str)) {
        (None, _) => LateWord::Refused,
        (Some(_), None | Some("complete")) if of("task").is_none() => match of("isError") {
            Some(Value::Bool(true)) => LateWord::Failed,
            Some(_) | None => LateWord::Succeeded,
        },
        (Some(_), _) => LateWord::Unfinished,
    };
    let whole = result.or_else(|| message.get("error")).unwrap_or(&Value::Null);
    LateAnswer { word, digest: Digest::of_json("pilothouse/late/1", whole) }
}

impl Known {
    /// Whether a question may belong to a call that was given up and ran for another topic than this one's.
    fn may_be_anothers(&self, origin: &Origin, patience: Duration) -> bool {
        let young = |at: &Instant| at.elapsed() < patience;
        let others = |gone: &Forgotten| gone.origin.as_ref().is_some_and(|gone| gone.topic != origin.topic);
        self.lost.as_ref().is_some_and(young)
            || self.forgotten.iter().rev().take_while(|gone| young(&gone.at)).any(others)
    }
}

/// A token as text: some servers echo a number as a string.
fn name_of(token: &Value) -> String {
    match token {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Boarded {
    flights: Arc<Flights>,
    token: String,
}

impl Drop for Boarded {
    fn drop(&mut self) {
        self.flights.known().calls.remove(&self.token);
    }
}

/// A question that is open.
#[derive(Debug)]
pub(super) struct Open(Vec<Flight>);

impl Drop for Open {
    fn drop(&mut self) {
        for flight in &self.0 {
            flight.pulse.send_modify(|pulse| pulse.questions = pulse.questions.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests;
