//! The open questions, as everybody reads them, and the calls that wait for their answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_messages::id::{CallId, QuestionId, TopicId};
use pilothouse_messages::question::{QuestionCard, QuestionEnd, QuestionWord, Reply};
use pilothouse_rules::approval::Ledger;
use tokio::sync::oneshot;

/// The questions that wait for a person and are durable, written by the approval actor only; and who waits for each.
#[derive(Debug, Default)]
pub struct OpenQuestions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<QuestionId, Arc<QuestionCard>>,
    waiting: BTreeMap<QuestionId, Waiting>,
    /// The calls of topics that run, by topic and call.
    calls: BTreeMap<(TopicId, CallId), Running>,
}

/// A call that runs.
#[derive(Debug, Default)]
struct Running {
    /// Its attempts: one may still end while the next one has begun.
    attempts: usize,
    /// What was asked for it so far.
    asked: usize,
}

/// Why nobody waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// The call is over.
    CallIsOver,
    /// As much was asked for it as may be.
    TooMany {
        /// How many were asked before this one.
        asked: usize,
    },
}

/// What a fresh actor found.
#[derive(Debug, Default)]
pub(super) struct TakenOver {
    /// Open questions that nobody in this process waits for.
    pub(super) orphans: Vec<QuestionId>,
    /// Questions that were shown as open, and that are over.
    pub(super) over: Vec<(Arc<QuestionCard>, QuestionEnd)>,
}

/// Who waits for an answer.
#[derive(Debug)]
struct Waiting {
    topic: TopicId,
    call: CallId,
    reply: oneshot::Sender<Reply>,
}

impl OpenQuestions {
    /// The questions, in the order of topics and calls.
    pub fn cards(&self) -> Vec<Arc<QuestionCard>> {
        let mut cards: Vec<_> = self.lock().open.values().cloned().collect();
        cards.sort_by(|a, b| (&a.topic, a.call, a.question).cmp(&(&b.topic, b.call, b.question)));
        cards
    }

    /// The question of this name, while it waits.
    pub fn card(&self, question: QuestionId) -> Option<Arc<QuestionCard>> {
        self.lock().open.get(&question).cloned()
    }

    /// A call runs: servers may ask for it.
    pub(crate) fn call_begins(&self, topic: &TopicId, call: CallId) {
        self.lock().calls.entry((topic.clone(), call)).or_default().attempts += 1;
    }

    /// Waits for the answer to a question that is about to be asked, unless that is one too many.
    pub(crate) fn wait(
        &self,
        card: &QuestionCard,
        limit: usize,
    ) -> Result<oneshot::Receiver<Reply>, Unasked> {
        let mut state = self.lock();
        let running = state.calls.get_mut(&(card.topic.clone(), card.call)).ok_or(Unasked::CallIsOver)?;
        let asked = running.asked;
        running.asked += 1;
        if asked >= limit {
            return Err(Unasked::TooMany { asked });
        }
        let (reply, receiver) = oneshot::channel();
        let waiting = Waiting { topic: card.topic.clone(), call: card.call, reply };
        state.waiting.insert(card.question, waiting);
        Ok(receiver)
    }

    /// An attempt of the call is over. With the last one, what its server has asked for it is taken back, whether or not
    /// the server says so.
    pub(crate) fn call_is_over(&self, topic: &TopicId, call: CallId) {
        let mut state = self.lock();
        let name = (topic.clone(), call);
        if let Some(running) = state.calls.get_mut(&name) {
            running.attempts -= 1;
            if running.attempts > 0 {
                // The next attempt has begun: what waits may be its own.
                return;
            }
            state.calls.remove(&name);
        }
        // Whoever waits sees its sender gone, and takes its question back.
        state.waiting.retain(|_, waiting| waiting.call != call || waiting.topic != *topic);
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&self, question: QuestionId) {
        self.lock().waiting.remove(&question);
    }

    /// Takes over what a fresh actor has read. Whoever waits for a question that is over is told: the one who was to do
    /// it may have died in between. What a person wrote is not kept, so that an acceptance is told when it is said again.
    pub(super) fn replace(&self, ledger: &Ledger) -> TakenOver {
        let mut state = self.lock();
        let open = ledger.open_questions().into_iter().map(|card| (card.question, card)).collect();
        let before = std::mem::replace(&mut state.open, open);
        let over =
            |card: Arc<QuestionCard>| Some((card.clone(), ledger.question_end(card.question)?.clone()));
        let over = before.into_values().filter_map(over).collect();
        let State { open, waiting, .. } = &mut *state;
        let orphans = open.keys().filter(|question| !waiting.contains_key(question)).copied().collect();
        let told = |question: &QuestionId| Some((*question, reply_of(ledger.question_end(*question)?)?));
        let told: Vec<_> = waiting.keys().filter_map(told).collect();
        for (question, reply) in told {
            // A call that has just ended needs no answer.
            let _gone = waiting.remove(&question).map(|waiting| waiting.reply.send(reply));
        }
        TakenOver { orphans, over }
    }

    pub(super) fn show(&self, card: Arc<QuestionCard>) {
        self.lock().open.insert(card.question, card);
    }

    pub(super) fn end(&self, question: QuestionId) -> Option<Arc<QuestionCard>> {
        self.lock().open.remove(&question)
    }

    /// Gives the answer to the call that waits.
    pub(super) fn tell(&self, question: QuestionId, reply: Reply) {
        if let Some(waiting) = self.lock().waiting.remove(&question) {
            // A call that has just ended needs no answer.
            let _gone = waiting.reply.send(reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics, so a poisoned lock still holds whole cards.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the call that asked is told of a last word; nothing where that says less than the person did.
fn reply_of(end: &QuestionEnd) -> Option<Reply> {
    match end.word {
        QuestionWord::Accepted => None,
        QuestionWord::Declined => Some(Reply::Decline),
        QuestionWord::Dismissed | QuestionWord::Expired | QuestionWord::Withdrawn => Some(Reply::Dismiss),
    }
}
