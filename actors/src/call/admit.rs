//! Lets a call through to its server: a connection, a place, and the tool's confirmation.

use std::sync::Arc;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::listing::{CatalogCommand, RefreshCause};
use pilothouse_messages::server::ServerState;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};
use tokio::time::{Instant, timeout_at};

use super::words::{changed, rejected};
use super::{CallOrder, WhenFull};
use crate::catalog::CatalogMsg;
use crate::demand::awake;
use crate::traffic::Passage;
use crate::wiring::{Ready, ServerPlace, Wiring};

/// A connection, with a place on it.
pub(super) type Admitted = (Arc<Ready>, Passage, OwnedSemaphorePermit);

/// Everything before the call may be sent: a connection, a place, and the tool's confirmation.
pub(super) async fn admit(
    wiring: &Wiring,
    place: &ServerPlace,
    tool: &str,
    order: &CallOrder,
    deadline: Instant,
) -> Result<Admitted, CallResult> {
    let (ready, passage, permit) = reach(wiring, place, order, deadline).await?;
    match confirmed(wiring, place, &ready, tool, deadline).await? {
        Some(fingerprint) if fingerprint == order.tool.fingerprint => Ok((ready, passage, permit)),
        Some(_) => Err(changed()),
        None => Err(rejected("the server no longer offers it")),
    }
}

/// A connection and a place on it.
pub(super) async fn reach(
    wiring: &Wiring,
    place: &ServerPlace,
    order: &CallOrder,
    deadline: Instant,
) -> Result<Admitted, CallResult> {
    if order.tool.definition != place.fingerprint {
        return Err(changed());
    }
    loop {
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
            Some(passage) => return Ok((ready, passage, permit)),
            None if Instant::now() >= deadline => return Err(unavailable(wiring, place)),
            None => drop(permit),
        }
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
