//! Starts a server that was stopped because nobody used it, for whoever wants to use it.

use pilothouse_messages::connection::ConnectionPhase;
use pilothouse_messages::server::ServerState;
use tokio::time::{Instant, timeout_at};

use crate::servers::ServersMsg;
use crate::wiring::{ServerPlace, Wiring};

/// Has the server started if it only waits for somebody, and waits until that has come to something, at most until the
/// deadline. Every other server is left as it is, at once.
pub(crate) async fn awake(wiring: &Wiring, place: &ServerPlace, deadline: Instant) {
    let is_closed = place.ready.borrow().as_ref().is_some_and(|ready| !ready.traffic.is_open());
    if !is_closed && !place.phase.borrow().on_demand {
        return;
    }
    let server = place.definition.id.clone();
    wiring.servers.slot.inform(ServersMsg::Demand { server });
    let (mut ready, mut phase) = (place.ready.subscribe(), place.phase.subscribe());
    let known = async {
        tokio::select! {
            _answers = ready.wait_for(|ready| ready.as_ref().is_some_and(|ready| ready.traffic.is_open())) => {}
            _over = phase.wait_for(is_over) => {}
        }
    };
    // Whatever is known by then decides.
    let _elapsed = timeout_at(deadline, known).await;
}

/// Whether a start that was asked for has come to nothing.
fn is_over(phase: &ConnectionPhase) -> bool {
    match phase.state {
        ServerState::Connecting | ServerState::Ready => false,
        ServerState::Stopped => !phase.on_demand,
        ServerState::Backoff | ServerState::Failed => true,
    }
}
