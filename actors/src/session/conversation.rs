//! A topic with its transcript.

use std::sync::Arc;

use pilothouse_adapters::store::head::Used;
use pilothouse_messages::id::{TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::HistoryItem;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, NestedNews, TopicAnswer, TopicCheckpoint, TopicCommand, TopicConfig, TopicEvent,
    TopicRejection, TopicUpdate, TopicView,
};
use pilothouse_rules::topic::TopicState;
use pilothouse_rules::topic::transcript::Transcript;
use pilothouse_rules::{Decider, Decision};

use crate::durable::Pictured;
use crate::hub::TopicPicture;

/// The topic's state and what its model is told, folded from the same events.
///
/// It holds the open turn and what its view shows; what a model was told in closed turns is read where it is needed.
pub struct Conversation {
    state: TopicState,
    /// What was said in the open turn and in the last closed one.
    transcript: Transcript,
    /// How many turns had ended at the newest checkpoint.
    checkpointed: u64,
    /// The checkpoint that is due by the batch that was taken last.
    due: Option<Due>,
}

/// A checkpoint that is due.
pub(super) struct Due {
    /// How many events of its batch come before it.
    pub(super) after: usize,
    pub(super) checkpoint: TopicCheckpoint,
}

/// A checkpoint is written when so many turns have ended since the last one.
pub(super) const CHECKPOINT_TURNS: u64 = 8;

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("status", &self.state.status()).finish()
    }
}

impl Conversation {
    /// An empty one; the numbers that an earlier topic of its name has used are not given again.
    pub(super) fn new(topic: TopicId, limits: Arc<Limits>, used: Used) -> Self {
        let state = TopicState::numbered(topic, limits, used.turn, used.message);
        Self { state, transcript: Transcript::default(), checkpointed: 0, due: None }
    }

    /// One that goes on from a checkpoint, when there are newer ones: at the newest, so many turns had ended.
    pub(super) fn resumed(
        topic: TopicId,
        limits: Arc<Limits>,
        from: &TopicCheckpoint,
        checkpointed: u64,
    ) -> Self {
        let (state, transcript) = (TopicState::resumed(topic, limits, from), Transcript::resumed(from));
        Self { state, transcript, checkpointed, due: None }
    }

    /// The checkpoint that is due by the batch that was taken last.
    pub(super) fn due(&self) -> Option<&Due> {
        self.due.as_ref()
    }

    /// The topic's state.
    pub(super) fn state(&self) -> &TopicState {
        &self.state
    }

    /// The picture that readers get.
    pub fn view(&self) -> TopicView {
        self.state.view()
    }

    /// Whether the last record was no clean end.
    pub fn needs_recovery(&self) -> bool {
        self.state.needs_recovery()
    }

    /// Whether a start has to look at it.
    pub fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// What a model is told of this turn, if it is the open or the last closed one.
    pub(super) fn told_in(&self, turn: TurnId) -> Vec<HistoryItem> {
        self.transcript.items_of(turn)
    }

    /// The last turn that has ended; 0 if none has.
    pub(super) fn last_closed(&self) -> TurnId {
        let last = self.state.last_turn();
        if self.state.has_open_turn() { TurnId(last.0.saturating_sub(1)) } else { last }
    }

    /// Folds one event into the transcript, which forgets all but the open turn and the last closed one.
    fn tell(&mut self, event: &TopicEvent) {
        self.transcript.apply(event);
        if let TopicEvent::TurnFinished { turn, .. } = event {
            self.transcript.forget_before(*turn);
        }
    }

    /// Whether an effect is still wanted: a stop may have been decided while its record became durable.
    pub fn wants(&self, directive: &Directive) -> bool {
        match directive {
            Directive::RunModel { at } => self.state.runs_model(*at),
            Directive::CallTool { call, attempt, .. } | Directive::TakeUpCall { call, attempt, .. } => {
                self.state.runs_call(*call, *attempt)
            }
            Directive::OpenCard(_)
            | Directive::WithdrawCards { .. }
            | Directive::PayDebt { .. }
            | Directive::CancelTurn { .. }
            | Directive::Announce(_)
            | Directive::CancelCalls { .. } => true,
            // A command that came while its record became durable wakes it before it sleeps.
            Directive::FallAsleep => !self.state.is_open(),
        }
    }

    /// The configuration of the turn that runs; the topic's own between turns.
    pub fn turn_config(&self) -> Option<TopicConfig> {
        self.state.turn_config().cloned()
    }
}

impl Decider for Conversation {
    type Command = TopicCommand;
    type Event = TopicEvent;
    type Directive = Directive;
    type Answer = TopicAnswer;
    type Rejection = TopicRejection;

    fn decide(
        &self,
        now: Timestamp,
        command: &TopicCommand,
    ) -> Result<Decision<TopicEvent, Directive, TopicAnswer>, TopicRejection> {
        self.state.decide(now, command)
    }

    fn apply(&mut self, event: &TopicEvent) {
        self.state.apply(event);
        self.tell(event);
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.state.next_deadline()
    }

    fn resume(&self) -> Vec<Directive> {
        self.state.resume()
    }
}

impl Pictured for Conversation {
    type Picture = TopicPicture;

    fn take(&mut self, events: &[TopicEvent]) -> TopicPicture {
        let before = self.state.status();
        let mut updates = Vec::new();
        self.due = None;
        for (event, after) in events.iter().zip(1..) {
            updates.extend(self.state.apply_told(event));
            self.tell(event);
            let closed = self.state.closed_turns();
            if matches!(event, TopicEvent::TurnFinished { .. })
                && closed >= self.checkpointed + CHECKPOINT_TURNS
                && let Some(mut checkpoint) = self.state.checkpoint()
            {
                checkpoint.model_spoke_last = self.transcript.model_spoke_last();
                self.checkpointed = closed;
                self.due = Some(Due { after, checkpoint });
            }
        }
        // Nobody sees what the topic was between the events of one batch.
        updates.retain(|update| !matches!(update, TopicUpdate::Status(_)));
        let after = self.state.status();
        if after != before {
            updates.push(TopicUpdate::Status(after));
        }
        // Text is by far the most frequent, and the hub adds it to its view by itself; a hand-over shows nothing.
        let same_view = |event: &TopicEvent| {
            matches!(
                event,
                TopicEvent::TextAppended { .. }
                    | TopicEvent::CallSent { .. }
                    | TopicEvent::CallReceipted { .. }
                    | TopicEvent::CallAnsweredLate { .. }
                    | TopicEvent::Nested { news: NestedNews::Sent { .. }, .. }
            )
        };
        let view = (after != before || !events.iter().all(same_view)).then(|| self.state.view());
        TopicPicture { updates, view }
    }
}
