//! The mailbox of the topics' supervisor; the supervisor itself watches, so it lives in `pilothouse-supervision`.

use std::sync::Arc;

use pilothouse_messages::id::TopicId;

use crate::slot::Reply;
use crate::wiring::TopicPlace;

/// Everything that the topics' supervisor can be told.
#[derive(Debug)]
pub enum TopicsMsg {
    /// Make sure that the topic has a session.
    Open {
        /// Which.
        topic: TopicId,
        /// Its place in the tree.
        reply: Reply<Arc<TopicPlace>>,
    },
    /// The old life's tasks are gone, the successor may start; from the supervisor itself.
    Cleared {
        /// Which topic.
        topic: TopicId,
    },
    /// A session rests and its record of that is durable; from itself.
    Asleep {
        /// Which topic.
        topic: TopicId,
    },
    /// Somebody asks for a topic that sleeps; from its slot.
    Wake {
        /// Which topic.
        topic: TopicId,
    },
    /// Take a topic's records away; nothing of it is open.
    Remove {
        /// Which topic.
        topic: TopicId,
        /// Answered when they are gone.
        reply: Reply<()>,
    },
    /// A topic's records are gone, or could not be taken away; from the supervisor's own task.
    Removed {
        /// Which topic.
        topic: TopicId,
    },
    /// End every session, in order, and answer when all are gone.
    StopAll {
        /// Answered when none is left.
        reply: Reply<()>,
    },
}
