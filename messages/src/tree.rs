//! The supervision tree, and what the whole runtime reports.

use serde::Serialize;

use crate::id::{QuestionId, Revision, ServerId, TopicId};
use crate::question::{QuestionCard, QuestionEnd};
use crate::server::ServerView;
use crate::topic::view::TopicStatus;

/// One actor of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TreeNode {
    /// Its name, as in the picture of the tree: `approval`, `connection/files` …
    pub name: String,
    /// What it is doing.
    pub state: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// Messages of askers in its mailbox, the one that is being handled included; reports of its own tasks ride along
    /// and are not counted.
    pub mailbox: usize,
    /// Its last failure, in plain words.
    pub last_failure: Option<String>,
    /// For a connection: the server as it is now.
    pub server: Option<ServerView>,
    /// For a session: what the topic is doing.
    pub status: Option<TopicStatus>,
    /// Its children, in the order in which they start.
    pub children: Vec<TreeNode>,
}

impl TreeNode {
    /// A node without children.
    pub fn new(name: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: state.into(),
            restarts: 0,
            mailbox: 0,
            last_failure: None,
            server: None,
            status: None,
            children: Vec::new(),
        }
    }
}

/// What the runtime as a whole reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeEvent {
    /// A server does something else now.
    Server(Box<ServerView>),
    /// A server's listing changed.
    Listing {
        /// The server.
        server: ServerId,
        /// Its revision; `None` if the listing is gone.
        revision: Option<Revision>,
        /// How many tools.
        tools: usize,
        /// Whether it is fresh.
        fresh: bool,
        /// If not, why.
        reason: Option<String>,
    },
    /// An actor ended and a fresh one took its place.
    Restarted {
        /// Its name in the tree.
        actor: String,
        /// Why the old one ended.
        reason: String,
    },
    /// A topic was opened in this process.
    TopicOpened {
        /// Which.
        topic: TopicId,
    },
    /// A server asks a person; the question is durable.
    QuestionAsked(Box<QuestionCard>),
    /// A question has its last word.
    QuestionOver {
        /// Which.
        question: QuestionId,
        /// The topic whose call asked.
        topic: TopicId,
        /// The last word.
        end: QuestionEnd,
    },
    /// The subscriber was too slow: this many events are missing.
    Lagged {
        /// How many.
        missed: u64,
    },
    /// A topic that rested was put to sleep: it is on the disk only, and wakes with its next command.
    TopicSlept {
        /// Which.
        topic: TopicId,
    },
}
