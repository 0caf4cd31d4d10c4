//! Reads a topic's past from its records: by pages for people, and as much as fits for a model.
//!
//! ```text
//! records      1 ‥ turn 1 ‥ turn 2 ‥ … ‥ turn 8 │ ‥ turn 9 ‥ … ‥ turn 16 │ ‥ turn 17 ‥ …
//! checkpoints                                   8 ◀────────────────────── 16 ◀── the head
//! ```
//!
//! A page is read from the checkpoint before it, so that its cost does not grow with what came before or after.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use pilothouse_adapters::store::head::Head;
use pilothouse_adapters::store::log::{self, CHECKPOINTS, JOURNAL};
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_messages::call::Content;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::HistoryItem;
use pilothouse_messages::topic::{HistoryCursor, HistoryPage, TopicCheckpoint, TopicEvent, TurnView};
use pilothouse_rules::Decider;
use pilothouse_rules::topic::TopicState;
use pilothouse_rules::topic::transcript::Transcript;

use super::reading::Reading;

/// Turns of one page at most, and their bytes, but for the one turn that every page has.
const PAGE_TURNS: usize = 32;
const PAGE_BYTES: usize = 4 << 20;

/// The turns of a page as they were read, with what a model was told in each.
#[derive(Default)]
struct Stretch {
    turns: VecDeque<ReadTurn>,
    earlier: Option<HistoryCursor>,
}

struct ReadTurn {
    view: Arc<TurnView>,
    items: Vec<HistoryItem>,
    bytes: usize,
}

/// One page of closed turns; the newest one for `None`.
///
/// # Errors
/// The store's own.
pub async fn page(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    cursor: Option<HistoryCursor>,
) -> Result<HistoryPage, StoreError> {
    let cursor = cursor.unwrap_or(HistoryCursor::before(TurnId(u64::MAX)));
    let stretch = stretch(store, topic, limits, cursor).await?;
    let turns = stretch.turns.into_iter().map(|turn| turn.view).collect();
    Ok(HistoryPage::new(turns, stretch.earlier))
}

/// What a model was told in the turns before this one, each by itself, oldest first: the newest whole turns that have
/// at most so many bytes, one at least.
pub(super) async fn told_before(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    turn: TurnId,
    most: usize,
) -> Result<Earlier, StoreError> {
    let mut earlier = Earlier::new(TurnId(turn.0.saturating_sub(1)), most);
    let mut cursor = Some(HistoryCursor::before(turn));
    while let Some(at) = cursor {
        let stretch = stretch(store, topic, limits, at).await?;
        cursor = stretch.earlier;
        for turn in stretch.turns.into_iter().rev() {
            if !earlier.put_before(turn) {
                return Ok(earlier);
            }
        }
    }
    Ok(earlier)
}

/// A checkpoint, if it is kept.
pub(super) async fn checkpoint(
    store: &dyn Store,
    prefix: &[u8],
    turn: TurnId,
) -> Result<Option<TopicCheckpoint>, StoreError> {
    log::read_record(store, Keyspace::Checkpoints, prefix, &CHECKPOINTS, turn.0).await
}

/// Where reading begins.
enum Base {
    /// At the first record.
    Start,
    At(Box<TopicCheckpoint>),
    /// What was there is not kept any more.
    Gone,
}

/// The newest checkpoint with a turn between it and `cursor`.
async fn base(
    store: &dyn Store,
    prefix: &[u8],
    head: &Head,
    cursor: HistoryCursor,
) -> Result<Base, StoreError> {
    let mut at = cursor.checkpoint().unwrap_or(head.checkpoint).min(head.checkpoint);
    while at != TurnId::default() {
        match checkpoint(store, prefix, at).await? {
            Some(found) if found.last_turn.0.saturating_add(1) >= cursor.turn().0 => at = found.previous,
            Some(found) if found.next >= head.kept_from => return Ok(Base::At(Box::new(found))),
            Some(_) | None => return Ok(Base::Gone),
        }
    }
    Ok(if head.kept_from > 1 { Base::Gone } else { Base::Start })
}

async fn stretch(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    cursor: HistoryCursor,
) -> Result<Stretch, StoreError> {
    let prefix = log::topic_prefix(topic);
    let mut reading = Reading::begin(store, &prefix).await?;
    while let Some(kept) = reading {
        match stretch_with_turns(store, topic, limits, (&prefix, &kept.head), cursor).await {
            Err(damage @ StoreError::Damaged { .. }) => reading = kept.again(damage).await?,
            answer => return answer,
        }
    }
    Ok(Stretch::default())
}

async fn stretch_with_turns(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    of: (&[u8], &Head),
    mut cursor: HistoryCursor,
) -> Result<Stretch, StoreError> {
    loop {
        let stretch = stretch_before(store, topic, limits, of, cursor).await?;
        match stretch.earlier {
            // No turn has ended since the newest checkpoint: the page before it is the newest.
            Some(earlier) if stretch.turns.is_empty() => cursor = earlier,
            Some(_) | None => return Ok(stretch),
        }
    }
}

async fn stretch_before(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    (prefix, head): (&[u8], &Head),
    cursor: HistoryCursor,
) -> Result<Stretch, StoreError> {
    let from = match base(store, prefix, head, cursor).await? {
        Base::Start => None,
        Base::At(checkpoint) => Some(checkpoint),
        Base::Gone => return Ok(Stretch::default()),
    };
    let mut fold = Fold::from(topic, limits, from.as_deref());
    let first = from.as_ref().map_or(1, |from| from.next);
    let until = cursor.turn();
    log::read_log_from(store, Keyspace::Journal, prefix, &JOURNAL, first, |record| {
        fold.take(&record.payload, until)
    })
    .await?;
    let oldest = fold.turns.front().map(|turn| turn.view.turn);
    let begin = from.as_ref().map_or(TurnId::default(), |from| from.last_turn);
    let earlier = match from {
        _ if fold.cut => oldest.map(|oldest| HistoryCursor::before(oldest).from_checkpoint(begin)),
        Some(from) if is_kept(store, prefix, head, from.previous).await? => {
            Some(HistoryCursor::before(begin.next()).from_checkpoint(from.previous))
        }
        Some(_) | None => None,
    };
    Ok(Stretch { turns: fold.turns, earlier })
}

async fn is_kept(
    store: &dyn Store,
    prefix: &[u8],
    head: &Head,
    previous: TurnId,
) -> Result<bool, StoreError> {
    if previous == TurnId::default() {
        return Ok(head.kept_from <= 1);
    }
    let found = checkpoint(store, prefix, previous).await?;
    Ok(found.is_some_and(|found| found.next >= head.kept_from))
}

/// Turns, as events make them.
struct Fold {
    state: TopicState,
    transcript: Transcript,
    turns: VecDeque<ReadTurn>,
    bytes: usize,
    /// Whether turns were left out to keep the page's bounds.
    cut: bool,
}

impl Fold {
    fn from(topic: &TopicId, limits: &Limits, checkpoint: Option<&TopicCheckpoint>) -> Self {
        // Each turn is taken as soon as it is closed.
        let mut limits = limits.clone();
        limits.view_turns = 1;
        let limits = Arc::new(limits);
        let (state, transcript) = match checkpoint {
            Some(from) => (TopicState::resumed(topic.clone(), limits, from), Transcript::resumed(from)),
            None => (TopicState::new(topic.clone(), limits), Transcript::default()),
        };
        Self { state, transcript, turns: VecDeque::new(), bytes: 0, cut: false }
    }

    fn take(&mut self, event: &TopicEvent, until: TurnId) -> ControlFlow<()> {
        if let TopicEvent::TurnStarted { turn, .. } = event
            && *turn >= until
        {
            return ControlFlow::Break(());
        }
        self.state.apply(event);
        self.transcript.apply(event);
        if let TopicEvent::TurnFinished { turn, .. } = event {
            self.close(*turn);
        }
        ControlFlow::Continue(())
    }

    fn close(&mut self, turn: TurnId) {
        let items = self.transcript.items_of(turn);
        self.transcript.forget_before(turn);
        let Some(view) = self.state.closed_views().next_back().filter(|view| view.turn == turn) else {
            return;
        };
        let bytes = items.iter().map(bytes_of).sum();
        self.bytes += bytes;
        self.turns.push_back(ReadTurn { view: view.clone(), items, bytes });
        while self.turns.len() > PAGE_TURNS || (self.bytes > PAGE_BYTES && self.turns.len() > 1) {
            self.bytes -= self.turns.pop_front().map_or(0, |left_out| left_out.bytes);
            self.cut = true;
        }
    }
}

/// What a model was told in closed turns, kept while a topic is busy.
#[derive(Debug)]
pub(super) struct Earlier {
    /// The last turn of which it knows.
    through: TurnId,
    /// Whole turns, oldest first.
    turns: VecDeque<(Vec<HistoryItem>, usize)>,
    bytes: usize,
    most: usize,
}

impl Earlier {
    /// Nothing, up to and with this turn.
    pub(super) fn new(through: TurnId, most: usize) -> Self {
        Self { through, turns: VecDeque::new(), bytes: 0, most }
    }

    /// Puts a turn in front; `false` if it has no place any more.
    fn put_before(&mut self, turn: ReadTurn) -> bool {
        if !self.turns.is_empty() && self.bytes + turn.bytes > self.most {
            return false;
        }
        self.bytes += turn.bytes;
        self.turns.push_front((turn.items, turn.bytes));
        true
    }

    pub(super) fn through(&self) -> TurnId {
        self.through
    }

    /// Takes in the turn that was closed after the last one.
    pub(super) fn follow(&mut self, turn: TurnId, items: Vec<HistoryItem>) {
        let bytes = items.iter().map(bytes_of).sum();
        self.through = turn;
        self.bytes += bytes;
        self.turns.push_back((items, bytes));
        while self.bytes > self.most && self.turns.len() > 1 {
            self.bytes -= self.turns.pop_front().map_or(0, |(_, bytes)| bytes);
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &HistoryItem> {
        self.turns.iter().flat_map(|(items, _)| items)
    }
}

fn bytes_of(item: &HistoryItem) -> usize {
    match item {
        HistoryItem::User { text } => text.len(),
        HistoryItem::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.as_str().len());
            text.len() + calls.sum::<usize>()
        }
        HistoryItem::Tool { call: _, result } => {
            let pieces = result.content.iter().map(|piece| match piece {
                Content::Text(text) => text.len(),
                Content::Other(json) | Content::Structured(json) => json.as_str().len(),
            });
            pieces.sum()
        }
    }
}
