//! What a topic keeps of its past, where the embedder sets a bound: old turns go once they are neither shown nor young.

use pilothouse_adapters::store::head::Head;
use pilothouse_adapters::store::log::topic_prefix;
use pilothouse_adapters::store::{Batch, Keyspace, Store};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{TopicId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;

use super::history::checkpoint;
use super::removal::delete_range;
use super::{Own, OwnMsg, SessionMsg, SessionShell};
use crate::phase::Phase;
use crate::slot::Letter;

/// Where a topic's kept past begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The last turn that goes.
    turn: TurnId,
    /// The first record that stays.
    pub(super) kept_from: u64,
}

impl SessionShell {
    /// Looks whether old turns are to go. Whatever goes wrong costs space only; the next look is with the next
    /// checkpoint.
    pub(super) fn look_back(&mut self) {
        let limits = self.wiring.limits.clone();
        if limits.keep_turns.is_none() && limits.keep_for.is_none() {
            return;
        }
        let Phase::Live(topic) = &mut self.phase else { return };
        let now = topic.now();
        let (wiring, place, myself) = (self.wiring.clone(), self.place.clone(), self.myself.clone());
        self.tasks.spawn(async move {
            if let Ok(Some(cut)) = find(wiring.store.as_ref(), &place.topic, &limits, now).await {
                // One that has ended looks again in its next life.
                let _gone = myself.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::Cut(cut)))));
            }
        });
    }

    /// The head says from where records are kept, then those before it go.
    pub(super) fn cut(&mut self, cut: Cut) -> Result<(), StoreError> {
        let Phase::Live(topic) = &mut self.phase else { return Ok(()) };
        let step = topic.write(|journal, _topic| Ok(vec![journal.keep_from(cut.kept_from)]))?;
        self.follow(step);
        let (wiring, place) = (self.wiring.clone(), self.place.clone());
        self.tasks.spawn(async move {
            if let Err(error) = delete(wiring.store.as_ref(), &place.topic, cut).await {
                tracing::warn!(target: "pilothouse", topic = %place.topic, %error, "old turns could not be deleted");
            }
        });
        Ok(())
    }
}

/// The newest checkpoint all of whose turns are over the bounds; the view is always kept.
async fn find(
    store: &dyn Store,
    topic: &TopicId,
    limits: &Limits,
    now: Timestamp,
) -> Result<Option<Cut>, StoreError> {
    let prefix = topic_prefix(topic);
    let Some(head) = Head::read(store, &prefix).await? else { return Ok(None) };
    let (mut at, mut newest) = (head.checkpoint, None);
    while at != TurnId::default() {
        let Some(found) = checkpoint(store, &prefix, at).await?.filter(|found| found.next > head.kept_from)
        else {
            break;
        };
        let since = newest.get_or_insert(found.turns).saturating_sub(found.turns);
        let shown = since < limits.view_turns as u64;
        let many = limits.keep_turns.is_some_and(|keep| since >= keep);
        let old = limits.keep_for.is_some_and(|keep| found.at.after(keep) <= now);
        if !shown && (many || old) {
            return Ok(Some(Cut { turn: found.last_turn, kept_from: found.next }));
        }
        at = found.previous;
    }
    Ok(None)
}

async fn delete(store: &dyn Store, topic: &TopicId, cut: Cut) -> Result<(), StoreError> {
    let prefix = topic_prefix(topic);
    let lane = store.lane();
    // The head is durable after this, or never will be.
    lane.append(Batch::new()).await?;
    if Head::read(store, &prefix).await?.is_none_or(|head| head.kept_from < cut.kept_from) {
        return Ok(());
    }
    let before = |number: u64| [prefix.as_slice(), &number.to_be_bytes()].concat();
    let (records, checkpoints) = (before(cut.kept_from), before(cut.turn.0));
    delete_range(store, lane.as_ref(), Keyspace::Journal, &prefix, Some(&records)).await?;
    delete_range(store, lane.as_ref(), Keyspace::Checkpoints, &prefix, Some(&checkpoints)).await
}
