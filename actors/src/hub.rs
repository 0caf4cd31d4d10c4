//! A topic's hub: its published view, and its subscribers.
//!
//! The hub belongs to the topic's slot and outlives every session actor. Attaching takes the view at sequence *n* and
//! everything after *n* in one step; its cost is the size of the view. A subscriber that does not keep up is cut off
//! and told so; nobody else notices.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_messages::id::{Sequence, StepId, TurnId};
use pilothouse_messages::topic::{LiveInput, LiveStep, TopicEventOut, TopicUpdate, TopicView};
use tokio::sync::mpsc;

/// What one durable batch shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPicture {
    /// What changed, in order.
    pub updates: Vec<TopicUpdate>,
    /// The view after it; `None` if only text was added, which the hub adds by itself.
    pub view: Option<TopicView>,
}

/// One update on its way to every window.
type Event = (Sequence, Arc<TopicUpdate>);

/// What a view keeps of one step that its model shows beside its text (1 MiB); more is told to windows only.
const LIVE_BYTES: usize = 1 << 20;

#[derive(Default)]
struct State {
    view: Option<Arc<TopicView>>,
    sequence: Sequence,
    next_subscriber: u64,
    subscribers: BTreeMap<u64, mpsc::Sender<Event>>,
    over: Over,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Over {
    #[default]
    No,
    Yes,
}

/// The published side of one topic.
#[derive(Default)]
pub struct TopicHub(Mutex<State>);

impl fmt::Debug for TopicHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TopicHub")
    }
}

impl TopicHub {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics; a poisoned lock would only say that a subscriber's thread did.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session was loaded: a new epoch begins with this view. Windows on an earlier one are told that they lag.
    pub fn open(&self, epoch: u64, view: TopicView) {
        let mut state = self.state();
        // What an earlier life made durable but did not tell is in the view only: windows have to attach again.
        state.subscribers.clear();
        state.sequence = Sequence { epoch, n: 0 };
        state.view = Some(stamped(view, state.sequence));
    }

    /// Publishes one durable batch.
    pub fn publish(&self, picture: TopicPicture) {
        let mut state = self.state();
        for update in picture.updates {
            state.sequence.n += 1;
            let sequence = state.sequence;
            if let Some(view) = &mut state.view {
                show(view, &update);
            }
            let update = Arc::new(update);
            state.subscribers.retain(|_, subscriber| subscriber.try_send((sequence, update.clone())).is_ok());
        }
        let sequence = state.sequence;
        if let Some(mut view) = picture.view {
            view.live = state.view.take().and_then(still_live).filter(|live| runs(&view, live));
            state.view = Some(stamped(view, sequence));
        } else if let Some(view) = &mut state.view {
            Arc::make_mut(view).sequence = sequence;
        }
    }

    /// The view as it is; `None` if the topic was never opened in this process.
    pub fn view(&self) -> Option<Arc<TopicView>> {
        self.state().view.clone()
    }

    /// Attaches a subscriber with room for `buffer` events: the view at *n*, and the events after *n*.
    pub fn attach(self: &Arc<Self>, buffer: usize) -> Option<Subscription> {
        let mut state = self.state();
        let view = state.view.clone()?;
        let (sender, events) = mpsc::channel(buffer.max(1));
        let id = state.next_subscriber;
        state.next_subscriber += 1;
        if state.over == Over::No {
            state.subscribers.insert(id, sender);
        }
        let last = view.sequence;
        Some(Subscription { view, events, last, id, hub: self.clone(), over: Over::No })
    }

    /// How many windows are attached.
    pub fn windows(&self) -> usize {
        self.state().subscribers.len()
    }

    /// The runtime has shut down: subscribers get what they have, then the end.
    pub fn close(&self) {
        let mut state = self.state();
        state.over = Over::Yes;
        state.subscribers.clear();
    }
}

fn stamped(mut view: TopicView, sequence: Sequence) -> Arc<TopicView> {
    view.sequence = sequence;
    Arc::new(view)
}

/// Adds to the view what a model writes, which no picture brings.
fn show(view: &mut Arc<TopicView>, update: &TopicUpdate) {
    match update {
        TopicUpdate::Text { turn, delta } => add_text(Arc::make_mut(view), *turn, delta),
        TopicUpdate::Reasoning { turn, step, delta } => {
            if let Some(live) = room(Arc::make_mut(view), *turn, *step, delta.len()) {
                live.reasoning.push_str(delta);
            }
        }
        TopicUpdate::ToolInput { turn, step, index, tool, delta } => {
            if let Some(live) = room(Arc::make_mut(view), *turn, *step, tool.len() + delta.len()) {
                match live.inputs.iter_mut().find(|input| input.index == *index) {
                    Some(input) => input.arguments.push_str(delta),
                    None => live.inputs.push(LiveInput {
                        index: *index,
                        tool: tool.clone(),
                        arguments: delta.clone(),
                    }),
                }
            }
        }
        TopicUpdate::Status(_)
        | TopicUpdate::Receipt { .. }
        | TopicUpdate::TurnStarted { .. }
        | TopicUpdate::StepFinished { .. }
        | TopicUpdate::ToolStarted { .. }
        | TopicUpdate::ToolFinished { .. }
        | TopicUpdate::ApprovalRequested(_)
        | TopicUpdate::ApprovalSettled { .. }
        | TopicUpdate::TurnFinished { .. }
        | TopicUpdate::MessageChanged { .. }
        | TopicUpdate::HistoryShortened { .. }
        | TopicUpdate::NestedStarted { .. }
        | TopicUpdate::NestedFinished { .. } => {}
    }
}

fn add_text(view: &mut TopicView, turn: TurnId, delta: &str) {
    let open = view.turns.iter_mut().rev().find(|open| open.turn == turn);
    if let Some(step) = open.and_then(|open| Arc::make_mut(open).steps.last_mut()) {
        step.text.push_str(delta);
    }
}

/// What this step has shown, if so much more has a place there.
fn room(view: &mut TopicView, turn: TurnId, step: StepId, bytes: usize) -> Option<&mut LiveStep> {
    if view.live.as_ref().is_none_or(|live| (live.turn, live.step) != (turn, step)) {
        view.live = Some(LiveStep::new(turn, step));
    }
    let live = view.live.as_mut()?;
    let inputs = live.inputs.iter().map(|input| input.tool.len() + input.arguments.len());
    let so_far = live.reasoning.len() + inputs.sum::<usize>();
    (so_far + bytes <= LIVE_BYTES).then_some(live)
}

fn still_live(view: Arc<TopicView>) -> Option<LiveStep> {
    match Arc::try_unwrap(view) {
        Ok(view) => view.live,
        Err(shared) => shared.live.clone(),
    }
}

/// Whether this step's model still writes: its calls, and the end of its turn, take the place of what it showed.
fn runs(view: &TopicView, live: &LiveStep) -> bool {
    let open = view.turns.last().filter(|turn| turn.turn == live.turn && turn.stop.is_none());
    open.and_then(|turn| turn.steps.last())
        .is_some_and(|step| step.step == live.step && step.calls.is_empty())
}

/// One window on a topic. Dropping it detaches; that stops nothing.
pub struct Subscription {
    /// The topic as it was when this window attached.
    pub view: Arc<TopicView>,
    events: mpsc::Receiver<Event>,
    last: Sequence,
    id: u64,
    hub: Arc<TopicHub>,
    over: Over,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("last", &self.last).finish()
    }
}

impl Subscription {
    /// The next event after the view. After [`TopicEventOut::Lagged`] and [`TopicEventOut::Closed`] nothing follows:
    /// attach again.
    ///
    /// # Cancel safety
    /// Safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<TopicEventOut> {
        if self.over == Over::Yes {
            return None;
        }
        if let Some((sequence, update)) = self.events.recv().await {
            self.last = sequence;
            return Some(TopicEventOut::Update { sequence, update: Arc::unwrap_or_clone(update) });
        }
        self.over = Over::Yes;
        Some(self.farewell())
    }

    /// The next event if one is already there.
    pub fn try_next(&mut self) -> Option<TopicEventOut> {
        let (sequence, update) = self.events.try_recv().ok()?;
        self.last = sequence;
        Some(TopicEventOut::Update { sequence, update: Arc::unwrap_or_clone(update) })
    }

    fn farewell(&self) -> TopicEventOut {
        let state = self.hub.state();
        if state.over == Over::Yes {
            return TopicEventOut::Closed;
        }
        let now = state.sequence;
        let missed = if now.epoch == self.last.epoch { now.n.saturating_sub(self.last.n) } else { now.n };
        TopicEventOut::Lagged { missed, resume_from: now }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.state().subscribers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
