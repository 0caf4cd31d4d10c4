//! Keeps what a call hands over and is handed, so that it can be told, or go on, after a restart.

use pilothouse_adapters::BoxFuture;
use pilothouse_messages::call::CallReceipt;
use pilothouse_messages::id::{Attempt, CallId};
use pilothouse_messages::topic::TopicCommand;

use super::Report;
use crate::call::{CallWatch, Keeping};

/// Follows one call for its session.
pub(super) struct Witness {
    pub(super) report: Report,
    pub(super) call: CallId,
    pub(super) attempt: Attempt,
}

impl CallWatch for Witness {
    fn sent(&mut self) {
        let Self { report, call, attempt } = self;
        report.tell(TopicCommand::CallSent { call: *call, attempt: *attempt });
    }

    fn received(&mut self, receipt: CallReceipt) -> BoxFuture<'_, Keeping> {
        let (call, attempt) = (self.call, self.attempt);
        Box::pin(async move {
            match self.report.ask(TopicCommand::CallReceipted { call, attempt, receipt }).await {
                Some(_noted) => Keeping::Kept,
                None => Keeping::Over,
            }
        })
    }
}
