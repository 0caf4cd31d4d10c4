//! One round of mending for the calls of a reply whose arguments their tools would refuse.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::repair::BrokenCall;
use pilothouse_rules::arguments::{Settled, settle};
use pilothouse_rules::meta::{Asked, Mismatch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::tasks::caught;
use crate::wiring::Wiring;

/// How long all calls of one reply may take together.
const REPAIR_WITHIN: Duration = Duration::from_secs(10);

/// Puts calls in order whose arguments the embedder's repair mends; the others stay refused.
pub(super) async fn mended<T>(wiring: &Arc<Wiring>, calls: &mut [(T, Asked)]) {
    let Some(repair) = &wiring.repair else { return };
    let mut asking = JoinSet::new();
    for (place, (_, asked)) in calls.iter().enumerate() {
        if let Asked::Mismatch(mismatch) = asked {
            let (repair, mismatch) = (repair.clone(), mismatch.clone());
            asking.spawn(async move {
                let Mismatch { entry, written, reason, words: _ } = &mismatch;
                let definition = entry.definition.as_ref().clone();
                let broken = BrokenCall::new(entry.name.clone(), definition, written.clone(), reason.clone());
                // The closure may panic before there is a future.
                let text = caught(async move { repair.repair(broken).await }).await;
                (place, mismatch, text.ok().flatten())
            });
        }
    }
    let deadline = Instant::now() + REPAIR_WITHIN;
    // What has not come by then is dropped with the set.
    while let Ok(Some(joined)) = timeout_at(deadline, asking.join_next()).await {
        // A task that was ended has mended nothing.
        let Ok((place, mismatch, Some(text))) = joined else { continue };
        if text.len() > wiring.limits.reply_bytes {
            continue;
        }
        let validator = wiring.validators.of(&mismatch.entry.definition, mismatch.entry.fingerprint);
        if let (Settled::Arguments { arguments, fixes, .. }, Some((_, asked))) =
            (settle(&text, &validator), calls.get_mut(place))
        {
            let tool = &mismatch.entry.name;
            tracing::debug!(target: "pilothouse", %tool, "a call's arguments were repaired");
            *asked = Asked::Run { entry: mismatch.entry, arguments, fixes };
        }
    }
}
