//! The tree as a picture, put together from snapshots.

use pilothouse_actors::slot::{Presence, Slot};
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::server::ServerState;
use pilothouse_messages::tree::TreeNode;

use crate::inner::Life;

pub(crate) fn picture(wiring: &Wiring, life: &Life) -> TreeNode {
    let mut servers = node(&wiring.servers.slot);
    for place in wiring.servers.places.load().values() {
        let view = place.view(wiring);
        let mut child = node(&place.slot);
        child.state = state_name(view.state).to_owned();
        child.restarts = view.restarts;
        let failure = view.last_failure.as_ref().map(|failure| failure.reason.clone());
        child.last_failure = failure.or(child.last_failure);
        child.server = Some(view);
        servers.children.push(child);
    }
    let mut topics = node(&wiring.topics.slot);
    for place in wiring.topics.places.all() {
        let mut child = node(&place.slot);
        child.status = place.hub.view().map(|view| view.status);
        topics.children.push(child);
    }
    let mut approval = node(&wiring.approval.slot);
    if let Some(error) = wiring.approval.stopped.load_full() {
        approval.state = "failed".to_owned();
        approval.last_failure =
            Some(format!("nothing is approved until the runtime is started again: {error}"));
    }
    let state = match life {
        Life::Running => "running",
        Life::Stopping => "stopping",
        Life::Over(_) => "stopped",
    };
    let mut root = TreeNode::new("runtime", state);
    root.children = vec![approval, node(&wiring.catalog.slot), node(&wiring.registry.slot), servers, topics];
    root
}

fn node<M: Send + 'static>(slot: &Slot<M>) -> TreeNode {
    let state = match slot.presence() {
        Presence::Away => "restarting",
        Presence::Here => "running",
        Presence::Parked(_) => "failed",
        Presence::Closed => "stopped",
        Presence::Asleep => "asleep",
    };
    let mut node = TreeNode::new(slot.name(), state);
    node.restarts = slot.restarts();
    node.mailbox = slot.queued();
    node.last_failure = slot.last_failure();
    node
}

fn state_name(state: ServerState) -> &'static str {
    match state {
        ServerState::Connecting => "connecting",
        ServerState::Ready => "ready",
        ServerState::Backoff => "backoff",
        ServerState::Stopped => "stopped",
        ServerState::Failed => "failed",
    }
}
