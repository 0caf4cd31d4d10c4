//! What a session asks of its own past: what its model was told in closed turns, and what old client keys stand for.

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::StepRef;
use pilothouse_messages::model::HistoryItem;
use pilothouse_messages::topic::{Directive, StoredKey, TopicCommand};
use pilothouse_rules::topic::checkpoint::sent_before;
use tokio::time::timeout;

use super::history::{Earlier, told_before};
use super::journal::stored_key;
use super::{Own, OwnMsg, Report, SessionMsg, SessionShell};
use crate::phase::Phase;
use crate::slot::Letter;

/// Of what was said in closed turns a model is given this much (1 MiB), or more if its window may hold more.
const EARLIER_BYTES: usize = 1 << 20;

/// Bytes of the densest text for each token of a window.
const BYTES_PER_TOKEN: u64 = 8;

impl SessionShell {
    /// What the model of this step is told; `None` if closed turns have to be read first.
    pub(super) fn history(&mut self, at: StepRef) -> Option<Vec<HistoryItem>> {
        let Phase::Live(topic) = &self.phase else { return None };
        let (conversation, most) = (topic.state(), self.earlier_bytes());
        let last = conversation.last_closed();
        let through = self.earlier.as_ref().map(Earlier::through);
        match &mut self.earlier {
            Some(_) if through == Some(last) => {}
            Some(earlier) if through.is_some_and(|through| through.next() == last) => {
                earlier.follow(last, conversation.told_in(last));
            }
            earlier if conversation.state().closed_turns() == 0 => *earlier = Some(Earlier::new(last, most)),
            Some(_) | None => return None,
        }
        let open = conversation.told_in(at.turn);
        Some(self.earlier.iter().flat_map(Earlier::items).cloned().chain(open).collect())
    }

    fn earlier_bytes(&self) -> usize {
        let Phase::Live(topic) = &self.phase else { return EARLIER_BYTES };
        let window = topic.state().turn_config().and_then(|config| config.context_window).unwrap_or_default();
        let bytes = usize::try_from(window.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
        bytes.max(EARLIER_BYTES)
    }

    /// Reads what was said in closed turns, then runs the step.
    pub(super) fn read_earlier(&mut self, at: StepRef) {
        let (wiring, topic, most) = (self.wiring.clone(), self.place.topic.clone(), self.earlier_bytes());
        let myself = self.myself.clone();
        self.tasks.spawn(async move {
            let read = told_before(wiring.store.as_ref(), &topic, &wiring.limits, at.turn, most);
            let read = timeout(wiring.limits.topic_load, read).await.unwrap_or(Err(StoreError::TimedOut));
            // A session that has ended recovers from its records instead.
            let _gone = myself.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::EarlierRead(at, read)))));
        });
    }

    pub(super) fn earlier_read(&mut self, at: StepRef, read: Result<Earlier, StoreError>) {
        let Phase::Live(topic) = &self.phase else { return };
        if !topic.state().wants(&Directive::RunModel { at }) {
            return;
        }
        match read {
            Ok(earlier) => {
                self.earlier = Some(earlier);
                self.run_model(at);
            }
            Err(error) => {
                let message = format!("what was said before could not be read: {error}");
                Report(self.myself.clone()).tell(TopicCommand::ModelFailed { at, message });
            }
        }
    }

    /// The key of a message, if only the store can tell whether it was used before.
    pub(super) fn unknown_key(&self, body: &SessionMsg) -> Option<Digest> {
        let Phase::Live(topic) = &self.phase else { return None };
        let SessionMsg::Command { command, .. } = body else { return None };
        let TopicCommand::Send { key: Some(key), .. } = command.as_ref() else { return None };
        topic.state().state().may_be_stored(key)
    }

    /// Looks a key up; the message waits for it, and keeps its place in the mailbox's bound.
    pub(super) fn read_key(&self, key: Digest, letter: Letter<SessionMsg>) {
        let (wiring, topic, myself) = (self.wiring.clone(), self.place.topic.clone(), self.myself.clone());
        self.tasks.spawn(async move {
            let read = stored_key(wiring.store.as_ref(), &topic, key);
            let read = timeout(wiring.limits.commit, read).await.unwrap_or(Err(StoreError::TimedOut));
            // The letter's asker is told by the end of its reply.
            let _gone =
                myself.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::KeyRead(Box::new(letter), read)))));
        });
    }

    pub(super) fn key_read(
        &mut self,
        letter: Letter<SessionMsg>,
        read: Result<Option<StoredKey>, StoreError>,
    ) -> Result<(), StoreError> {
        let SessionMsg::Command { command, reply } = letter.body else { return Ok(()) };
        let answer = match (command.as_ref(), read) {
            (TopicCommand::Send { text, .. }, Ok(Some(stored))) => Ok(sent_before(&stored, text)),
            (_, Ok(_)) => return self.commit(&command, reply),
            (_, Err(error)) => Err(error),
        };
        if let Some(reply) = reply {
            reply.send(answer);
        }
        Ok(())
    }
}
