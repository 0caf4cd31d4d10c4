//! Ends actors of the tree from outside, as a fault of ours would: for those who test what they build on it.

use pilothouse_actors::slot::Slot;

use crate::runtime::Runtime;

impl Runtime {
    /// Kills the actor of this name, as [`tree`](Self::tree) has it, at its next await; whether there was one. The tree
    /// heals as it would after any other end of the actor. Nothing in this crate calls it.
    pub fn kill_actor(&self, name: &str) -> bool {
        let wiring = &self.0.wiring;
        if let Some(server) = name.strip_prefix("connection/") {
            let places = wiring.servers.places.load();
            return places.iter().any(|(id, place)| id.as_str() == server && kill(&place.slot));
        }
        if let Some(topic) = name.strip_prefix("session/") {
            let places = wiring.topics.places.all();
            return places.iter().any(|place| place.topic.as_str() == topic && kill(&place.slot));
        }
        match name {
            "approval" => kill(&wiring.approval.slot),
            "catalog" => kill(&wiring.catalog.slot),
            "registry" => kill(&wiring.registry.slot),
            "servers" => kill(&wiring.servers.slot),
            "topics" => kill(&wiring.topics.slot),
            _ => false,
        }
    }
}

fn kill<M: Send + 'static>(slot: &Slot<M>) -> bool {
    let actor = slot.current();
    if let Some(actor) = &actor {
        actor.kill();
    }
    actor.is_some()
}
