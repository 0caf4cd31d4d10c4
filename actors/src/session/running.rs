//! What runs for the open turn, and how it is cancelled: all of it, or single calls.

use std::collections::BTreeMap;

use pilothouse_messages::id::{CallId, TurnId};
use tokio_util::sync::CancellationToken;

use crate::tasks::TaskSet;

/// The tokens of one turn; a further turn begins with fresh ones. It has as many calls as one turn makes.
#[derive(Default)]
pub(super) struct Running {
    turn: Option<(TurnId, CancellationToken)>,
    calls: BTreeMap<CallId, CancellationToken>,
}

impl Running {
    /// The token that cancels whatever runs for this turn.
    pub(super) fn turn(&mut self, turn: TurnId, tasks: &TaskSet) -> CancellationToken {
        match &self.turn {
            Some((open, token)) if *open == turn => token.clone(),
            Some(_) | None => {
                let token = tasks.token();
                self.turn = Some((turn, token.clone()));
                self.calls.clear();
                token
            }
        }
    }

    /// The token of one call; it is cancelled with its turn. It is no child of the turn's: a token tells its children
    /// first, but theirs last, and a function is to hear of a cancel before whoever waits for it.
    pub(super) fn call(&mut self, call: CallId, tasks: &TaskSet) -> CancellationToken {
        let (turn, token) = (self.turn(call.turn, tasks), tasks.token());
        if turn.is_cancelled() {
            token.cancel();
        }
        self.calls.insert(call, token.clone());
        token
    }

    /// Cancels the open turn, whichever it is.
    pub(super) fn cancel(&self) {
        self.calls.values().for_each(CancellationToken::cancel);
        if let Some((_, token)) = &self.turn {
            token.cancel();
        }
    }

    /// Cancels all that runs for this turn.
    pub(super) fn cancel_turn(&self, turn: TurnId) {
        if self.turn.as_ref().is_some_and(|(open, _)| *open == turn) {
            self.cancel();
        }
    }

    /// Cancels this call.
    pub(super) fn cancel_call(&mut self, call: CallId) {
        if let Some(token) = self.calls.remove(&call) {
            token.cancel();
        }
    }
}
