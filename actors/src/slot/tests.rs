use std::sync::atomic::{AtomicUsize, Ordering};

use ractor::{Actor, ActorProcessingErr};

use super::*;

/// Does nothing.
struct Idler;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for Idler {
    type Msg = Letter<()>;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Letter<()>>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// A slot whose wakes are counted.
fn slot() -> (Slot<()>, Arc<AtomicUsize>) {
    let woken = Arc::new(AtomicUsize::new(0));
    let bounds = SlotBounds {
        mailbox: 4,
        absent_within: Duration::from_millis(10),
        answer_within: Duration::from_millis(10),
    };
    let count = woken.clone();
    let slot = Slot::new("idler", bounds).that_wakes_by(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    (slot, woken)
}

async fn idler() -> ActorRef<Letter<()>> {
    Actor::spawn(None, Idler, ()).await.expect("it starts").0
}

/// What a slot is after somebody tried to put its actor to sleep, and whether an actor was.
async fn check(before: impl AsyncFnOnce(&Slot<()>), rests: bool, expected: (Presence, bool)) {
    let (slot, woken) = slot();
    before(&slot).await;
    let slept = slot.rest(|| rests);
    assert_eq!((slot.presence(), slept.is_some()), expected);
    assert_eq!(
        slot.take_leaving().is_some(),
        slept.is_some(),
        "who was put to sleep is known until its end is told"
    );
    slot.inform(());
    let asleep = expected.0 == Presence::Asleep;
    assert_eq!(woken.load(Ordering::SeqCst), usize::from(asleep), "only one that sleeps is woken");
}

#[tokio::test(start_paused = true)]
async fn only_an_actor_that_is_there_is_put_to_sleep() {
    let parked = || Presence::Parked("it failed".to_owned());
    check(async |slot| slot.fill(idler().await), true, (Presence::Asleep, true)).await;
    check(async |slot| slot.fill(idler().await), false, (Presence::Here, false)).await;
    check(async |_| {}, true, (Presence::Away, false)).await;
    check(async |slot| slot.park("it failed".to_owned()), true, (parked(), false)).await;
    check(async |slot| slot.close(), true, (Presence::Closed, false)).await;
    let emptied = async |slot: &Slot<()>| {
        slot.fill(idler().await);
        drop(slot.vacate(Some("it failed".to_owned())));
    };
    check(emptied, true, (Presence::Away, false)).await;
}
