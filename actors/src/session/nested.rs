//! How a script's calls reach the records of their topic. Each takes a place among the topic's calls; the call that the
//! script runs in takes none, so that scripts cannot wait for each other.

use std::fmt;
use std::sync::Arc;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{Attempt, CallId};
use pilothouse_messages::topic::{NestedCall, NestedNews, TopicCommand};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SessionMsg;
use crate::wiring::TopicPlace;

/// Records the calls of one script.
#[derive(Clone)]
pub struct NestedJournal {
    pub(super) place: Arc<TopicPlace>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) call: CallId,
    pub(super) attempt: Attempt,
}

impl fmt::Debug for NestedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NestedJournal").field("call", &self.call).finish_non_exhaustive()
    }
}

/// A call whose intent is durable, and its place among the topic's calls.
pub(crate) struct Intended {
    journal: NestedJournal,
    number: u32,
    _permit: Option<OwnedSemaphorePermit>,
}

impl NestedJournal {
    /// The topic that it belongs to.
    pub(crate) fn place(&self) -> &TopicPlace {
        &self.place
    }

    /// Records the intent to run a call.
    ///
    /// # Errors
    /// The call's result, if it must not be sent: its intent did not become durable, or its script is over.
    pub(crate) async fn intend(&self, nested: NestedCall) -> Result<Intended, CallResult> {
        let number = nested.number;
        // The semaphore is never closed; a call without a permit would only be one too many.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let command = self.command(NestedNews::Called(Box::new(nested)));
        let told =
            self.place.slot.ask(|reply| SessionMsg::Command { command, reply: Some(reply) }).await.map_err(
                |error| {
                    CallResult::unavailable(
                        format!("the call could not be recorded, so it was not made: {error}"),
                        None,
                    )
                },
            )?;
        match told {
            Ok(_noted) => Ok(Intended { journal: self.clone(), number, _permit: permit }),
            Err(rejection) => {
                let words = format!("the call was not made: {rejection}");
                Err(CallResult::said(CallOutcome::Rejected, words))
            }
        }
    }

    /// Records a call of which nothing ran.
    pub(crate) fn answered(&self, nested: NestedCall) {
        self.tell(NestedNews::Called(Box::new(nested)));
    }

    /// A session that has ended settles the script's calls from its records.
    fn tell(&self, news: NestedNews) {
        let command = self.command(news);
        self.place.slot.inform(SessionMsg::Command { command, reply: None });
    }

    fn command(&self, news: NestedNews) -> Box<TopicCommand> {
        Box::new(TopicCommand::Nested { call: self.call, attempt: self.attempt, news })
    }
}

impl Intended {
    /// Records that the call was handed over.
    pub(crate) fn sent(&self) {
        self.journal.tell(NestedNews::Sent { number: self.number });
    }

    /// Records the call's result. What the script does next is recorded behind it.
    pub(crate) fn returned(self, result: CallResult) {
        self.journal.tell(NestedNews::Returned { number: self.number, result });
    }
}
