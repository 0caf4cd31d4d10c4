//! The windows on one topic, and what they print.
//!
//! The driver has a window of its own as long as nobody attaches by name. A window is opened and another one is cut off
//! in one step, at one place in the topic's events, so that each event is printed once: once in all, or once for each
//! name if there are several.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse::id::{ApprovalId, MessageId, Sequence, TurnId};
use pilothouse::topic::{Receipt, StopReason, TopicEventOut, TopicStatus, TopicUpdate, TopicView};
use pilothouse::{Runtime, Subscription, Topic};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::out::{Fields, Out};
use super::refusal::Refusal;
use super::show;

/// Events kept for the driver's own window, which is to see everything.
const OWN_BUFFER: usize = 1 << 16;

/// How long a stored topic may take to be read, and windows to print their last events.
const PATIENCE: Duration = Duration::from_secs(5);

/// The windows on one topic.
pub(super) struct Windows {
    topic: Topic,
    /// Knows what has changed about a card's tool.
    runtime: Runtime,
    out: Arc<Out>,
    state: Mutex<State>,
}

/// What a run remembers of a topic over restarts.
#[derive(Default)]
pub(super) struct Kept {
    /// The attached names, with their buffers.
    names: Vec<(String, Option<usize>)>,
    printed: Printed,
}

/// What was printed of a topic, so that a topic which is opened again repeats nothing.
#[derive(Default)]
struct Printed {
    finished: BTreeSet<TurnId>,
    receipts: BTreeMap<MessageId, Receipt>,
}

#[derive(Default)]
struct State {
    /// Numbers the windows.
    last: u64,
    own: Option<u64>,
    named: BTreeMap<String, Named>,
    /// Where windows end that are cut off.
    cuts: BTreeMap<u64, Sequence>,
    printed: Printed,
    /// Cards that were open when the topic was opened: their session announces them once more.
    open_before: BTreeSet<ApprovalId>,
    pumps: Vec<JoinHandle<()>>,
}

/// An attached name.
struct Named {
    /// Its window; `None` after it lagged.
    window: Option<u64>,
    buffer: Option<usize>,
}

/// One window, as its pump knows it.
struct Window {
    id: u64,
    name: Option<String>,
}

#[derive(PartialEq, Eq)]
enum Place {
    Before,
    Past,
}

impl Windows {
    /// Opens the driver's own window, or those that were attached by name before a restart, and prints how the topic
    /// stands.
    pub(super) async fn open(
        topic: Topic,
        runtime: Runtime,
        out: Arc<Out>,
        kept: Kept,
    ) -> Result<Arc<Self>, Refusal> {
        let view = loaded(&topic).await?;
        let state = State { printed: kept.printed, ..State::default() };
        let windows = Arc::new(Self { topic, runtime, out, state: Mutex::new(state) });
        let mut state = windows.state();
        windows.print_standing(&mut state, &view);
        if kept.names.is_empty() {
            windows.open_own(&mut state);
        }
        for (name, buffer) in kept.names {
            // The topic is loaded, so that it can be attached to.
            drop(windows.open_named(&mut state, name, buffer));
        }
        drop(state);
        Ok(windows)
    }

    /// Prints nothing more, whatever happens.
    pub(super) fn abandon(&self) {
        self.state().pumps.drain(..).for_each(|pump| pump.abort());
    }

    /// The topic itself.
    pub(super) fn topic(&self) -> &Topic {
        &self.topic
    }

    /// A poisoned lock still holds whole windows: each is opened and cut in one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches a name.
    pub(super) fn attach(self: &Arc<Self>, name: &str, buffer: Option<usize>) -> Result<Fields, Refusal> {
        let mut state = self.state();
        if state.named.get(name).is_some_and(|named| named.window.is_some()) {
            return Err(Refusal::new(
                "already_attached",
                format!("\"{name}\" is attached already: detach it first"),
            ));
        }
        let view = self.open_named(&mut state, name.to_owned(), buffer).ok_or_else(not_loaded)?;
        state.cut_own(view.sequence);
        Ok(show::fields(json!({
            "topic": self.topic.id(), "as": name, "sequence": show::sequence(view.sequence), "view": show::view(&view),
        })))
    }

    /// Detaches a name.
    pub(super) fn detach(self: &Arc<Self>, name: &str) -> Result<Fields, Refusal> {
        let mut state = self.state();
        let Some(named) = state.named.remove(name) else {
            return Err(Refusal::new(
                "not_attached",
                format!("nothing is attached as \"{name}\": attach it first"),
            ));
        };
        let now = if state.is_blind() { self.open_own(&mut state) } else { None };
        let now = now.or_else(|| self.topic.view().map(|view| view.sequence));
        if let (Some(window), Some(now)) = (named.window, now) {
            state.cuts.insert(window, now);
        }
        Ok(show::fields(json!({"topic": self.topic.id(), "as": name})))
    }

    /// Waits until every window has printed its last event, once the runtime has shut down.
    pub(super) async fn close(&self) -> Kept {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(pump) = self.state().pumps.pop() else { break };
            // A pump that does not end has nothing left to say; its window goes with the topic.
            let _late = timeout_at(deadline, pump).await;
        }
        let mut state = self.state();
        let named = std::mem::take(&mut state.named);
        let names = named.into_iter().map(|(name, named)| (name, named.buffer)).collect();
        Kept { names, printed: std::mem::take(&mut state.printed) }
    }

    fn open_own(self: &Arc<Self>, state: &mut State) -> Option<Sequence> {
        if state.own.is_some() {
            return None;
        }
        let (id, view) = self.open_window(state, None, OWN_BUFFER)?;
        state.own = Some(id);
        Some(view.sequence)
    }

    fn open_named(
        self: &Arc<Self>,
        state: &mut State,
        name: String,
        buffer: Option<usize>,
    ) -> Option<Arc<TopicView>> {
        let (id, view) = self.open_window(state, Some(name.clone()), buffer.unwrap_or(OWN_BUFFER))?;
        state.named.insert(name, Named { window: Some(id), buffer });
        Some(view)
    }

    fn open_window(
        self: &Arc<Self>,
        state: &mut State,
        name: Option<String>,
        buffer: usize,
    ) -> Option<(u64, Arc<TopicView>)> {
        let subscription = self.topic.attach_with(buffer)?;
        let view = subscription.view.clone();
        state.last += 1;
        let window = Window { id: state.last, name };
        let pump = self.clone().pump(window, subscription);
        state.pumps.retain(|pump| !pump.is_finished());
        state.pumps.push(tokio::spawn(pump));
        Some((state.last, view))
    }

    async fn pump(self: Arc<Self>, window: Window, mut subscription: Subscription) {
        while let Some(event) = subscription.next().await {
            match event {
                TopicEventOut::Update { sequence, update } => {
                    if self.print(&window, sequence, &update) == Place::Past {
                        return;
                    }
                }
                TopicEventOut::Lagged { missed, resume_from } => {
                    return self.lagged(&window, missed, resume_from);
                }
                TopicEventOut::Closed => return,
            }
        }
    }

    fn print(&self, window: &Window, sequence: Sequence, update: &TopicUpdate) -> Place {
        let mut state = self.state();
        if state.cuts.get(&window.id).is_some_and(|cut| sequence > *cut) {
            return Place::Past;
        }
        if let TopicUpdate::ApprovalRequested(card) = update
            && state.open_before.contains(&card.approval)
        {
            return Place::Before;
        }
        let name = window.name.as_ref().filter(|_| state.named.len() > 1);
        self.print_update(&mut state.printed, name, update);
        Place::Before
    }

    fn print_update(&self, printed: &mut Printed, name: Option<&String>, update: &TopicUpdate) {
        match update {
            TopicUpdate::TurnFinished { turn, .. } => {
                printed.finished.insert(*turn);
            }
            TopicUpdate::Receipt { message, receipt } => {
                printed.receipts.insert(*message, receipt.clone());
            }
            TopicUpdate::ApprovalRequested(card) => self.out.note_card(card.approval),
            TopicUpdate::Status(_)
            | TopicUpdate::TurnStarted { .. }
            | TopicUpdate::Text { .. }
            | TopicUpdate::StepFinished { .. }
            | TopicUpdate::ToolStarted { .. }
            | TopicUpdate::ToolFinished { .. }
            | TopicUpdate::ApprovalSettled { .. }
            | TopicUpdate::Reasoning { .. }
            | TopicUpdate::ToolInput { .. }
            | TopicUpdate::MessageChanged { .. }
            | TopicUpdate::HistoryShortened { .. }
            | TopicUpdate::NestedStarted { .. }
            | TopicUpdate::NestedFinished { .. } => {}
        }
        let (kind, mut fields) = show::update(update);
        fields.insert("topic".into(), json!(self.topic.id()));
        if let TopicUpdate::ApprovalRequested(card) = update
            && let Some(change) = self.runtime.change_of(card.approval)
        {
            fields.insert("change".into(), show::change(&change));
        }
        if let Some(name) = name {
            fields.insert("as".into(), json!(name));
        }
        self.out.event(kind, fields);
    }

    /// A name stays attached, without a window, until it is attached again; the driver's own window replaces itself.
    fn lagged(self: &Arc<Self>, window: &Window, missed: u64, resume_from: Sequence) {
        let mut state = self.state();
        if state.cuts.contains_key(&window.id) {
            return;
        }
        let told = json!({
            "topic": self.topic.id(), "as": window.name, "missed": missed,
            "resume_from": show::sequence(resume_from),
        });
        self.out.event("lagged", show::fields(told));
        match &window.name {
            None => state.own = None,
            Some(name) => {
                if let Some(named) = state.named.get_mut(name).filter(|named| named.window == Some(window.id))
                {
                    named.window = None;
                }
            }
        }
        if state.is_blind() {
            self.open_own(&mut state);
        }
    }

    /// Prints what nobody saw happen: the end of a turn that was interrupted, messages that wait or are held, what the
    /// topic is doing, and the cards that are open.
    fn print_standing(&self, state: &mut State, view: &TopicView) {
        let mut news = Vec::new();
        if let Some(turn) = view.turns.last()
            && let Some(stop @ StopReason::Interrupted(_)) = &turn.stop
            && !state.printed.finished.contains(&turn.turn)
        {
            news.push(TopicUpdate::TurnFinished { turn: turn.turn, stop: stop.clone() });
        }
        for message in view.queue.iter().chain(&view.held) {
            if state.printed.receipts.get(&message.message) != Some(&message.receipt) {
                news.push(TopicUpdate::Receipt {
                    message: message.message,
                    receipt: message.receipt.clone(),
                });
            }
        }
        if view.status != TopicStatus::Idle {
            news.push(TopicUpdate::Status(view.status));
        }
        state.open_before = view.cards.iter().map(|card| card.approval).collect();
        news.extend(view.cards.iter().map(|card| TopicUpdate::ApprovalRequested(Box::new(card.clone()))));
        news.iter().for_each(|update| self.print_update(&mut state.printed, None, update));
    }
}

impl State {
    /// Whether no attached name has a window.
    fn is_blind(&self) -> bool {
        self.named.values().all(|named| named.window.is_none())
    }

    fn cut_own(&mut self, now: Sequence) {
        if let Some(own) = self.own.take() {
            self.cuts.insert(own, now);
        }
    }
}

/// The topic's view, once its session has read it.
pub(super) async fn loaded(topic: &Topic) -> Result<Arc<TopicView>, Refusal> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match topic.view() {
            Some(view) => return Ok(view),
            None if Instant::now() > deadline => return Err(not_loaded()),
            None => sleep(Duration::from_millis(5)).await,
        }
    }
}

fn not_loaded() -> Refusal {
    Refusal::new("not_loaded", "the topic's records were not read in time: look at the tree for the reason")
}
