//! Every topic that is open in this process, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_messages::id::TopicId;

use super::TopicPlace;
use crate::slot::Presence;

/// The topics. Written by their supervisor only; the lock is held for the look-up alone, so that no reader waits for
/// an actor.
#[derive(Default)]
pub struct TopicPlaces(RwLock<BTreeMap<TopicId, Arc<TopicPlace>>>);

impl fmt::Debug for TopicPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TopicPlaces")
    }
}

impl TopicPlaces {
    /// One topic.
    pub fn get(&self, topic: &TopicId) -> Option<Arc<TopicPlace>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// All of them, in the order of their names.
    pub fn all(&self) -> Vec<Arc<TopicPlace>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds one.
    pub fn insert(&self, place: Arc<TopicPlace>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(place.topic.clone(), place);
    }

    /// Takes one out.
    pub fn remove(&self, topic: &TopicId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    /// Takes one out that sleeps and that nobody else holds; what is there of it then is on the disk only.
    pub fn retire(&self, topic: &TopicId) -> Retired {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match places.get(topic) {
            // Under this lock nobody else can come to hold it.
            Some(place) if place.slot.presence() != Presence::Asleep => Retired::Yes,
            // Under this lock nobody else can come to hold it; a window may outlive its handle.
            Some(place) if Arc::strong_count(place) > 1 || place.hub.windows() > 0 => Retired::StillHeld,
            Some(_) => {
                places.remove(topic);
                Retired::Yes
            }
            None => Retired::Yes,
        }
    }
}

/// Whether a topic that sleeps costs no memory any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// It does not, or it does not sleep any more.
    Yes,
    /// Somebody still holds it.
    StillHeld,
}
