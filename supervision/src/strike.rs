//! Ends actors of the tree from outside, as a fault of ours would: for those who test what they build on it.

use pilothouse_actors::mishap::Mishap;
use pilothouse_actors::slot::Slot;

use crate::runtime::Runtime;

impl Runtime {
    /// Kills the actor of this name, as [`tree`](Self::tree) has it, at its next await; whether there was one. The tree
    /// heals as it would after any other end of the actor. Nothing in this crate calls it.
    pub fn kill_actor(&self, name: &str) -> bool {
        self.strike(name, Blow::Kill)
    }

    /// Lets this befall the actor of this name, as [`tree`](Self::tree) has it, before it handles the `letter`th message
    /// from now on (the next one is the first), reports of its own tasks included; whether there is such a place in the
    /// tree. What was planned for it before is forgotten. Nothing in this crate calls it.
    pub fn plan_mishap(&self, name: &str, letter: u64, mishap: Mishap) -> bool {
        self.strike(name, Blow::At(letter, mishap))
    }

    fn strike(&self, name: &str, blow: Blow) -> bool {
        let wiring = &self.0.wiring;
        if let Some(server) = name.strip_prefix("connection/") {
            let places = wiring.servers.places.load();
            return places.iter().any(|(id, place)| id.as_str() == server && blow.hits(&place.slot));
        }
        if let Some(topic) = name.strip_prefix("session/") {
            let places = wiring.topics.places.all();
            return places.iter().any(|place| place.topic.as_str() == topic && blow.hits(&place.slot));
        }
        match name {
            "approval" => blow.hits(&wiring.approval.slot),
            "catalog" => blow.hits(&wiring.catalog.slot),
            "registry" => blow.hits(&wiring.registry.slot),
            "servers" => {
                let places = wiring.servers.places.load();
                blow.hits_with(&wiring.servers.slot, places.values().map(|place| place.slot.as_ref()))
            }
            "topics" => {
                let places = wiring.topics.places.all();
                blow.hits_with(&wiring.topics.slot, places.iter().map(|place| &place.slot))
            }
            _ => false,
        }
    }
}

/// What is done to an actor.
#[derive(Clone, Copy)]
enum Blow {
    Kill,
    At(u64, Mishap),
}

impl Blow {
    fn hits<M: Send + 'static>(self, slot: &Slot<M>) -> bool {
        match self {
            Self::Kill => {
                let actor = slot.current();
                if let Some(actor) = &actor {
                    actor.kill();
                }
                actor.is_some()
            }
            Self::At(letter, mishap) => {
                slot.plan_mishap(letter, mishap);
                true
            }
        }
    }

    /// Hits a supervisor; what kills it kills its children right behind it. ractor kills them, too, but in the order of a
    /// hash map, and two plays of one storm are to be the same.
    fn hits_with<'a, S, C>(self, supervisor: &Slot<S>, children: impl Iterator<Item = &'a Slot<C>>) -> bool
    where
        S: Send + 'static,
        C: Send + 'static,
    {
        let was_hit = self.hits(supervisor);
        match self {
            Self::Kill if was_hit => children.for_each(|child| {
                // One that is away needs no kill.
                let _was_there = self.hits(child);
            }),
            Self::Kill | Self::At(..) => {}
        }
        was_hit
    }
}
