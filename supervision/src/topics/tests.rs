use std::time::Duration;

use pilothouse_adapters::model::scripted::{ScriptedModel, Step};
use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_messages::error::AskError;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::{TopicConfig, TopicStatus};
use ractor::ActorStatus;
use tokio::time::{sleep, timeout};

use super::*;
use crate::runtime::Runtime;

/// A runtime with the topic `t`.
struct House {
    runtime: Runtime,
    store: MemoryStore,
}

impl House {
    async fn open(limits: Limits) -> Self {
        let store = MemoryStore::new();
        let model = ScriptedModel::new(vec![Step::text("Yes."), Step::text("No.")]);
        let built = Runtime::builder().store(Arc::new(store.clone())).model("main", model).limits(limits);
        let runtime = built.start().await.expect("it starts");
        let house = Self { runtime, store };
        drop(house.topic().await);
        house
    }

    async fn topic(&self) -> crate::topic::Topic {
        self.runtime.open_topic("t", TopicConfig::new("main")).await.expect("it opens")
    }

    fn place(&self) -> Arc<TopicPlace> {
        self.runtime.0.wiring.topics.place(&t()).expect("it is open")
    }

    fn session(&self) -> Option<ActorId> {
        self.place().slot.current().map(|session| session.get_id())
    }

    /// Tells the supervisor, and waits until it has heard that.
    async fn tell(&self, message: TopicsMsg) {
        self.runtime.0.wiring.topics.slot.inform(message);
        sleep(Duration::from_millis(1)).await;
    }

    fn remove(&self) -> impl Future<Output = Result<(), AskError>> + 'static {
        let wiring = self.runtime.0.wiring.clone();
        async move { wiring.topics.slot.ask(|reply| TopicsMsg::Remove { topic: t(), reply }).await }
    }
}

fn t() -> TopicId {
    TopicId::new("t").expect("it is an id")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(start_paused = true)]
async fn a_late_end_of_an_old_life_starts_no_second_session() {
    let house = House::open(Limits::default()).await;
    let lives = house.session();
    assert_ne!(lives, None);
    house.tell(TopicsMsg::Cleared { topic: t() }).await;
    assert_eq!(house.session(), lives, "the one that lives stays");

    // One that is being restarted does not sleep, so that nobody wakes another one beside its successor.
    let mut events = house.runtime.events();
    house.place().slot.current().expect("it lives").kill();
    let restarted = async { while !matches!(events.next().await, Some(RuntimeEvent::Restarted { .. })) {} };
    timeout(Duration::from_secs(1), restarted).await.expect("its end is noticed");
    house.runtime.0.wiring.topics.slot.inform(TopicsMsg::Asleep { topic: t() });
    house.runtime.0.wiring.topics.slot.inform(TopicsMsg::Wake { topic: t() });
    until("a successor", || house.session().is_some()).await;
    let successor = house.session();
    sleep(Duration::from_secs(60)).await;
    assert_eq!((house.session(), house.place().slot.restarts()), (successor, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_a_session_of_a_topic_that_is_being_removed() {
    let house = House::open(Limits::default()).await;
    house.store.hold();
    let (first, second) = (tokio::spawn(house.remove()), tokio::spawn(house.remove()));
    sleep(Duration::from_millis(1)).await;
    let asks: [fn(TopicId) -> TopicsMsg; 3] = [
        |topic| TopicsMsg::Cleared { topic },
        |topic| TopicsMsg::Wake { topic },
        |topic| TopicsMsg::Asleep { topic },
    ];
    for ask in asks {
        house.tell(ask(t())).await;
        assert_eq!(house.session(), None);
    }
    assert!(!first.is_finished() && !second.is_finished(), "nobody is told before the records are gone");
    house.store.release();
    assert_eq!(first.await.expect("it is answered"), Ok(()));
    assert_eq!(second.await.expect("it is answered"), Ok(()));

    let topic = house.topic().await;
    let lives = house.session();
    house.tell(TopicsMsg::Cleared { topic: t() }).await;
    assert_eq!(house.session(), lives, "what belongs to the old topic starts nobody in the new one");
    topic.send("hello").await.expect("it is taken");
    until("the turn ends", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_supervisor_starts_nobody_who_was_removed_or_has_failed_too_often() {
    let house = House::open(Limits::default()).await;
    let topics = &house.runtime.0.wiring.topics;
    let place = house.place();
    house.store.hold();
    let removal = tokio::spawn(house.remove());
    sleep(Duration::from_millis(1)).await;
    topics.slot.current().expect("it lives").kill();
    until("its successor", || topics.slot.restarts() == 1 && topics.slot.current().is_some()).await;
    house.store.release();
    assert_eq!(removal.await.expect("it is answered"), Err(AskError::Interrupted));
    sleep(Duration::from_secs(60)).await;
    assert!(matches!(place.slot.presence(), Presence::Parked(_)), "{:?}", place.slot.presence());
    assert_eq!((house.session(), place.slot.restarts()), (None, 0));
    assert_eq!(house.remove().await, Ok(()), "whoever was interrupted asks again");
    assert!(topics.place(&t()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_opens_nothing_any_more() {
    let house = House::open(Limits::default()).await;
    let topics = &house.runtime.0.wiring.topics;
    assert_eq!(topics.slot.ask(|reply| TopicsMsg::StopAll { reply }).await, Ok(()));
    let other = TopicId::new("other").expect("it is an id");
    let asked = topics.slot.ask(|reply| TopicsMsg::Open { topic: other.clone(), reply }).await;
    assert_eq!(asked.map(|place| place.topic.clone()), Err(AskError::Interrupted));
    assert!(topics.place(&other).is_none());
}

/// On threads and in real time: the window is the time that a session takes to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_topic_that_is_asked_for_as_it_falls_asleep_has_one_session_at_a_time() {
    let mut limits = Limits::default();
    limits.topic_idle = Duration::from_millis(3);
    let house = House::open(limits).await;
    let place = house.place();
    let wake = || house.runtime.0.wiring.topics.slot.inform(TopicsMsg::Wake { topic: t() });
    for _ in 0..100 {
        let old = loop {
            match place.slot.current() {
                Some(session) => break session,
                None => wake(),
            }
            sleep(Duration::from_millis(1)).await;
        };
        let is_another = || place.slot.current().is_some_and(|session| session.get_id() != old.get_id());
        until("it sleeps", || place.slot.presence() == Presence::Asleep || is_another()).await;
        wake();
        let has_ended = || {
            let another = is_another();
            let status = old.get_status();
            assert!(status == ActorStatus::Stopped || !another, "another lives, and this one is {status:?}");
            status == ActorStatus::Stopped
        };
        until("it ends", has_ended).await;
    }
}
