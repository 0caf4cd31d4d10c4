//! A topic with its transcript, and the surface that its turn has pinned.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_adapters::model::Model;
use pilothouse_messages::id::{ServerId, StepId, StepRef, TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::HistoryItem;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, NestedNews, TopicAnswer, TopicCheckpoint, TopicCommand, TopicConfig, TopicEvent,
    TopicRejection, TopicUpdate, TopicView,
};
use pilothouse_rules::registry::ToolTable;
use pilothouse_rules::surface::{Surface, Terms};
use pilothouse_rules::tokens::{Bytes4, TokenCounter};
use pilothouse_rules::topic::TopicState;
use pilothouse_rules::topic::transcript::Transcript;
use pilothouse_rules::{Decider, Decision};

use super::head::Used;
use crate::durable::Pictured;
use crate::hub::TopicPicture;
use crate::tasks::caught_now;
use crate::wiring::{TopicPlace, Wiring};

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
const CHECKPOINT_TURNS: u64 = 8;

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
                    | TopicEvent::Nested { news: NestedNews::Sent { .. }, .. }
            )
        };
        let view = (after != before || !events.iter().all(same_view)).then(|| self.state.view());
        TopicPicture { updates, view }
    }
}

/// The pinned surface of a topic, over its turns.
#[derive(Default)]
pub(super) struct Pin {
    surface: Option<Surface>,
    /// What was last said about late tools, and of which table: looked through once for each.
    late: Option<(Arc<ToolTable>, Option<String>)>,
}

impl Pin {
    /// The surface for this step, and what its request says about late tools. It is pinned anew only at the first step
    /// of a turn, and only for a reason.
    pub(super) fn for_step(
        &mut self,
        wiring: &Wiring,
        place: &TopicPlace,
        config: &TopicConfig,
        at: StepRef,
        now: Timestamp,
    ) -> (Surface, Option<String>) {
        let table = wiring.registry.table.load_full();
        let kept = self.surface.take().filter(|surface| {
            at.step != StepId(1)
                || !place.take_repin()
                    && surface
                        .must_repin(&table, config, now, &cold_servers(wiring, config), &wiring.limits)
                        .is_none()
        });
        let mut surface = kept.unwrap_or_else(|| {
            self.late = None;
            pinned(wiring, &table, config, now)
        });
        surface.used(now);
        let late = match &self.late {
            Some((seen, late)) if Arc::ptr_eq(seen, &table) => late.clone(),
            Some(_) | None => surface.late(&table),
        };
        self.late = Some((table, late.clone()));
        self.surface = Some(surface.clone());
        (surface, late)
    }
}

/// What the topic would show if a turn began now.
pub fn surface_now(wiring: &Wiring, config: &TopicConfig, now: Timestamp) -> Surface {
    let model = caught_now(|| wiring.models.resolve(&config.model)).ok().flatten();
    let config = model.map_or_else(|| config.clone(), |model| windowed(config.clone(), model.as_ref()));
    pinned(wiring, &wiring.registry.table.load(), &config, now)
}

/// The configuration with the window of its model, where it names none. A model that panics has none.
pub(super) fn windowed(mut config: TopicConfig, model: &dyn Model) -> TopicConfig {
    config.context_window =
        config.context_window.or_else(|| caught_now(|| model.limits()).unwrap_or_default().context_window);
    config
}

/// A counter of the embedder's that panics counts nothing: the default takes its place.
fn pinned(wiring: &Wiring, table: &ToolTable, config: &TopicConfig, now: Timestamp) -> Surface {
    let cold = cold_servers(wiring, config);
    let pin = |counter: &dyn TokenCounter| {
        let terms = Terms { limits: &wiring.limits, counter, shown: &wiring.shown };
        Surface::pin(table, config, cold.clone(), now, terms)
    };
    caught_now(|| pin(wiring.counter.as_ref())).unwrap_or_else(|words| {
        tracing::warn!(target: "pilothouse", %words, "the token counter panicked: tools are counted by the default");
        pin(&Bytes4)
    })
}

/// The tenant's servers that have never been listed. Looking is a read, so each is listed once in the background.
fn cold_servers(wiring: &Wiring, config: &TopicConfig) -> BTreeSet<ServerId> {
    let places = wiring.servers.places.load();
    let theirs = places
        .values()
        .filter(|place| place.definition.tenant.as_ref().is_none_or(|tenant| *tenant == config.tenant));
    let cold = theirs.filter(|place| match wiring.catalog.read(&place.definition.id) {
        Some(listing) => listing.view.listing.is_none(),
        None => true,
    });
    cold.map(|place| place.definition.id.clone()).collect()
}
