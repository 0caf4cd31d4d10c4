//! Decides what happens in one topic: which message starts a turn, which call runs, what a turn's end means.
//!
//! ```text
//!             Send              a reply with calls
//!   NO TURN ────────▶ MODEL ──────────────────────────▶ CALLS
//!      ▲              ▲ ▲ │                             │ │
//!      │              │ └─┼──────── the next step ──────┘ │ a steer waits, the step limit,
//!      │   the head of│   │ a reply without calls, or cut │ an expired card
//!      │   the queue  │   ▼ off, or refused; a failure    ▼
//!      └──────────────┴─ END ◀─────────────────────────────
//!                         ▲
//!                         └ Stop, Recover, ShutDown, in MODEL and in CALLS
//!
//!   one call:  Planned ──────────────▶ Running ──▶ Finished
//!              Awaiting ── allowed ───▶ Running ──▶ Finished
//!              Awaiting ── denied, expired, refused, stopped ──▶ Finished
//!              Planned ─── rejected ────────────────────────────▶ Finished
//! ```
//!
//! Illegal steps, refused as [`TopicRejection::Stale`]: text, a reply or a failure for any step but the one whose
//! model runs; a result for a call that does not run in that attempt. News about a card whose call is over changes
//! nothing and is answered with what became of the card.
//!
//! A message is always in exactly one place: a turn, the queue, held, or refused. A call gets exactly one result.
//! A turn that ends, what it leaves behind and what starts next are one batch.

mod apply;
mod boundary;
mod calls;
pub mod checkpoint;
mod continuing;
mod draft;
mod ending;
mod inbox;
mod nested;
mod open_turn;
mod progress;
mod queue;
mod reply;
mod settings;
pub mod transcript;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pilothouse_messages::approval::Card;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, Attempt, CallId, MessageId, StepRef, TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    Directive, HoldReason, Level, Receipt, StopReason, TopicAnswer, TopicCommand, TopicConfig, TopicEvent,
    TopicRejection, TopicStatus, TurnView,
};

use crate::decider::{Decider, Decision};
use draft::Draft;
use open_turn::OpenTurn;

type Ruling = Result<Decision<TopicEvent, Directive, TopicAnswer>, TopicRejection>;

/// One topic, as its events made it.
///
/// It holds the open turn, the queue, what is held, the last closed turns and one digest for each client key; older
/// turns are in the store only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicState {
    topic: TopicId,
    limits: Arc<Limits>,
    /// `None` until the topic is opened for the first time.
    config: Option<TopicConfig>,
    /// The newest ids, so that none is given twice.
    last_message: MessageId,
    last_turn: TurnId,
    /// By the digest of the sender's key. Those of closed turns that are not shown any more, and of all but the last
    /// dropped messages, are in the store only.
    keys: BTreeMap<Digest, Keyed>,
    /// Whether the store alone knows keys of dropped messages.
    dropped: DroppedKeys,
    /// Messages that wait, head first.
    queue: VecDeque<Message>,
    held: Vec<Held>,
    open: Option<OpenTurn>,
    /// The last closed turns, oldest first; at most `limits.view_turns`.
    closed: VecDeque<Closed>,
    /// How many closed turns there were before those.
    earlier_turns: u64,
    last_stop: Option<StopReason>,
}

/// A person's message while the state holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    id: MessageId,
    text: String,
    /// Digest of the sender's key.
    key: Option<Digest>,
    at: Timestamp,
    level: Level,
}

/// Where the keys of dropped messages are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DroppedKeys {
    /// All of them here.
    #[default]
    Here,
    /// The older ones in the store only.
    Stored,
}

/// What a client key stands for; lives as long as the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Keyed {
    message: MessageId,
    /// Digest of the message's text.
    text: Digest,
    /// Where it is; `None` while it waits, since its place in the queue moves.
    receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    message: Message,
    reason: HoldReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Closed {
    view: Arc<TurnView>,
    /// Cards whose decision or expiry was recorded in it, for a ledger that tells again.
    settled: Vec<ApprovalId>,
}

fn key_digest(key: &str) -> Digest {
    Digest::of_parts("pilothouse/client-key/1", &[key.as_bytes()])
}

fn text_digest(text: &str) -> Digest {
    Digest::of_parts("pilothouse/message-text/1", &[text.as_bytes()])
}

impl TopicState {
    /// A topic in which nothing has happened; it takes only [`TopicCommand::Open`].
    pub fn new(topic: TopicId, limits: Arc<Limits>) -> Self {
        Self {
            topic,
            limits,
            config: None,
            last_message: MessageId::default(),
            last_turn: TurnId::default(),
            keys: BTreeMap::new(),
            dropped: DroppedKeys::default(),
            queue: VecDeque::new(),
            held: Vec::new(),
            open: None,
            closed: VecDeque::new(),
            earlier_turns: 0,
            last_stop: None,
        }
    }

    /// Which topic this is.
    pub fn topic(&self) -> &TopicId {
        &self.topic
    }

    /// The newest configuration, which applies from the next turn on; `None` if the topic was never opened.
    pub fn config(&self) -> Option<&TopicConfig> {
        self.config.as_ref()
    }

    /// The configuration that the open turn started with; `None` while no turn is open.
    pub fn turn_config(&self) -> Option<&TopicConfig> {
        self.open.as_ref().map(|turn| &turn.config)
    }

    /// Whether the model is to run for this step in this attempt: what came to nothing since needs no effect.
    pub fn runs_model(&self, at: StepRef) -> bool {
        self.open.as_ref().is_some_and(|turn| turn.model_runs(at))
    }

    /// Whether this call is to run in this attempt.
    pub fn runs_call(&self, call: CallId, attempt: Attempt) -> bool {
        let held =
            self.open.as_ref().and_then(|turn| turn.calls().iter().find(|held| held.planned.call == call));
        held.is_some_and(|held| attempt > Attempt::default() && held.attempt() == attempt)
    }

    /// What the topic is doing.
    pub fn status(&self) -> TopicStatus {
        match (&self.open, &self.last_stop) {
            (Some(turn), _) => turn.status(),
            // The head of the queue starts its turn in the batch that these events belong to.
            (None, None | Some(StopReason::Completed | StopReason::Yielded)) if !self.queue.is_empty() => {
                TopicStatus::Pending
            }
            (None, None) => TopicStatus::Idle,
            (None, Some(stop)) => status_after(stop),
        }
    }

    /// `true` if a turn is open or messages wait: what a start of the process has to look at.
    pub fn is_open(&self) -> bool {
        self.open.is_some() || !self.queue.is_empty()
    }

    /// `true` if [`TopicCommand::Recover`] has something to settle: messages wait, or the open turn waits for
    /// anything but people. A turn that waits for people only goes on by [`resume`](Decider::resume).
    pub fn needs_recovery(&self) -> bool {
        !self.queue.is_empty() || self.open.as_ref().is_some_and(|turn| !turn.waits_for_people_only())
    }

    /// The cards of the open turn's calls that are wanted.
    fn cards(&self, wanted: impl Fn(&open_turn::Call) -> bool) -> Vec<Card> {
        let Some(turn) = &self.open else { return Vec::new() };
        let calls = turn.calls().iter().filter(|call| wanted(call));
        calls.filter_map(|call| call.card(&self.topic, &turn.config.tenant)).collect()
    }
}

/// Where a message of this level goes in a queue of these levels: what is for the next turn waits behind all else.
fn place_for(level: Level, queue: impl Iterator<Item = Level>) -> usize {
    match level {
        Level::Now | Level::NextStep => queue.take_while(|before| before.steers()).count(),
        Level::NextTurn => queue.count(),
    }
}

fn status_after(stop: &StopReason) -> TopicStatus {
    match stop {
        StopReason::Completed
        | StopReason::Yielded
        | StopReason::StepLimit
        | StopReason::OutputTruncated
        | StopReason::BudgetExhausted
        | StopReason::BudgetSpent(_)
        | StopReason::ApprovalExpired => TopicStatus::Done,
        StopReason::Failed(_) | StopReason::Refused | StopReason::Interrupted(_) => TopicStatus::Error,
        StopReason::Aborted => TopicStatus::Aborted,
    }
}

impl Decider for TopicState {
    type Command = TopicCommand;
    type Event = TopicEvent;
    type Directive = Directive;
    type Answer = TopicAnswer;
    type Rejection = TopicRejection;

    fn decide(&self, now: Timestamp, command: &TopicCommand) -> Ruling {
        let draft = Draft::new(self, now);
        match (&self.config, command) {
            (_, TopicCommand::Sleep) => draft.sleep(),
            (None, TopicCommand::Open { config }) => draft.create(config),
            (
                None,
                TopicCommand::Configure { .. }
                | TopicCommand::Send { .. }
                | TopicCommand::Stop { .. }
                | TopicCommand::ModelText { .. }
                | TopicCommand::ModelReplied { .. }
                | TopicCommand::ModelFailed { .. }
                | TopicCommand::CallSent { .. }
                | TopicCommand::CallReturned { .. }
                | TopicCommand::Card { .. }
                | TopicCommand::Recover { .. }
                | TopicCommand::ShutDown
                | TopicCommand::CallReceipted { .. }
                | TopicCommand::ModelShowed { .. }
                | TopicCommand::Queue(_)
                | TopicCommand::Continue
                | TopicCommand::Tick
                | TopicCommand::Nested { .. }
                | TopicCommand::CallAnsweredLate { .. },
            ) => Err(TopicRejection::NotOpen),
            (Some(current), TopicCommand::Open { config }) => draft.open(current, config),
            (Some(current), TopicCommand::Configure { patch }) => draft.configure(current, patch),
            (Some(_), TopicCommand::Send { text, key, level }) => draft.send(text, key.as_deref(), *level),
            (Some(_), TopicCommand::Stop { by }) => draft.stop(by),
            (Some(_), TopicCommand::ModelText { at, delta }) => draft.model_text(*at, delta),
            (Some(_), TopicCommand::ModelReplied { at, reply }) => draft.model_replied(*at, reply),
            (Some(_), TopicCommand::ModelFailed { at, message }) => draft.model_failed(*at, message),
            (Some(_), TopicCommand::CallSent { call, attempt }) => draft.call_sent(*call, *attempt),
            (Some(_), TopicCommand::CallReturned { call, attempt, result }) => {
                draft.call_returned(*call, *attempt, result)
            }
            (Some(_), TopicCommand::Card { approval, news }) => draft.card_news(*approval, news),
            (Some(_), TopicCommand::Recover { cause }) => draft.recover(*cause),
            (Some(_), TopicCommand::ShutDown) => draft.shut_down(),
            (Some(_), TopicCommand::CallReceipted { call, attempt, receipt }) => {
                draft.call_receipted(*call, *attempt, receipt)
            }
            (Some(_), TopicCommand::ModelShowed { at, shown }) => draft.model_showed(*at, shown),
            (Some(_), TopicCommand::Queue(command)) => draft.queue_command(command),
            (Some(_), TopicCommand::Continue) => draft.continue_turn(),
            (Some(_), TopicCommand::Tick) => draft.tick(),
            (Some(_), TopicCommand::Nested { call, attempt, news }) => draft.nested(*call, *attempt, news),
            (Some(_), TopicCommand::CallAnsweredLate { call, answer }) => draft.answered_late(*call, *answer),
        }
    }

    fn apply(&mut self, event: &TopicEvent) {
        self.apply_told(event);
    }

    /// When the time of the open turn is over.
    fn next_deadline(&self) -> Option<Timestamp> {
        self.open.as_ref().and_then(OpenTurn::ends_at)
    }

    /// Asks for every card that a call waits for. Models and calls are not run again: [`TopicCommand::Recover`] has
    /// settled those.
    fn resume(&self) -> Vec<Directive> {
        let cards = self.cards(open_turn::Call::is_awaiting);
        cards.into_iter().map(|card| Directive::OpenCard(Box::new(card))).collect()
    }
}

#[cfg(test)]
mod tests;
