//! The open questions, as everybody reads them, and the calls that wait for their answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_messages::id::{CallId, QuestionId, TopicId};
use pilothouse_messages::question::{QuestionCard, Reply};
use tokio::sync::oneshot;

/// The questions that wait for a person and are durable, written by the approval actor only; and who waits for each.
#[derive(Debug, Default)]
pub struct OpenQuestions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<QuestionId, Arc<QuestionCard>>,
    waiting: BTreeMap<QuestionId, Waiting>,
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

    /// Waits for the answer to a question that is about to be asked.
    pub(crate) fn wait(&self, card: &QuestionCard) -> oneshot::Receiver<Reply> {
        let (reply, receiver) = oneshot::channel();
        let waiting = Waiting { topic: card.topic.clone(), call: card.call, reply };
        self.lock().waiting.insert(card.question, waiting);
        receiver
    }

    /// The call is over: what its server has asked for it is taken back, whether or not the server says so.
    pub(crate) fn call_is_over(&self, topic: &TopicId, call: CallId) {
        // Whoever waits sees its sender gone, and takes its question back.
        self.lock().waiting.retain(|_, waiting| waiting.call != call || waiting.topic != *topic);
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&self, question: QuestionId) {
        self.lock().waiting.remove(&question);
    }

    /// Takes over what a fresh actor has read; answers the questions that nobody in this process waits for.
    pub(super) fn replace(&self, cards: Vec<Arc<QuestionCard>>) -> Vec<QuestionId> {
        let mut state = self.lock();
        state.open = cards.into_iter().map(|card| (card.question, card)).collect();
        let orphans = state.open.keys().filter(|question| !state.waiting.contains_key(question));
        orphans.copied().collect()
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
