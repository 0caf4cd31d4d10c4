use std::fmt;

use pilothouse_adapters::clock::TokioClock;
use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::store::{Keyspace, Store};
use pilothouse_messages::time::Timestamp;

use super::*;

/// Counts up to 10.
#[derive(Debug, Default)]
struct Counter(u64);

#[derive(Debug, Clone, Copy)]
enum Tell {
    /// Counts and stores.
    Add(u64),
    /// Is an event that nobody stores.
    Blink,
    /// Changes nothing.
    Look,
}

#[derive(Debug, Clone, Copy)]
enum Told {
    Added(u64),
    Blinked,
}

impl Decider for Counter {
    type Command = Tell;
    type Event = Told;
    type Directive = &'static str;
    type Answer = u64;
    type Rejection = &'static str;

    fn decide(
        &self,
        _now: Timestamp,
        command: &Tell,
    ) -> Result<Decision<Told, &'static str, u64>, &'static str> {
        match command {
            Tell::Add(more) if self.0 + more > 10 => Err("full"),
            Tell::Add(more) => {
                let events = vec![Told::Added(*more)];
                Ok(Decision { answer: self.0 + more, events, directives: vec!["ring"] })
            }
            Tell::Blink => Ok(Decision { events: vec![Told::Blinked], ..Decision::answer(self.0) }),
            Tell::Look => Ok(Decision::answer(self.0)),
        }
    }

    fn apply(&mut self, event: &Told) {
        match event {
            Told::Added(more) => self.0 += more,
            Told::Blinked => {}
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn resume(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Pictured for Counter {
    type Picture = u64;

    fn take(&mut self, events: &[Told]) -> u64 {
        events.iter().for_each(|event| self.apply(event));
        self.0
    }
}

struct Totals;

impl Journal<Counter> for Totals {
    fn stage(&mut self, events: &[Told], state: &Counter) -> Result<Vec<Batch>, StoreError> {
        let stored = events.iter().filter(|event| matches!(event, Told::Added(_)));
        let batch = |_event| {
            let mut batch = Batch::new();
            batch.put(Keyspace::Meta, *b"total", state.0.to_be_bytes());
            batch
        };
        Ok(stored.map(batch).collect())
    }
}

/// What a released batch shows: answer, picture, directives.
#[derive(PartialEq, Eq)]
struct Seen(Option<Result<u64, &'static str>>, Option<u64>, Vec<&'static str>);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:?}, {:?}, {:?})", self.0, self.1, self.2)
    }
}

enum Do {
    Commit(Tell),
    Hold,
    Release,
    /// The report of the nth wait arrives.
    Report(usize),
}

struct Rig {
    store: MemoryStore,
    counter: Durable<Counter, Totals>,
    waits: Vec<Option<Waiting>>,
}

impl Rig {
    fn new() -> Self {
        let store = MemoryStore::new();
        let clock = Arc::new(TokioClock::starting_at(Timestamp(1)));
        let ground = Ground { lane: Some(store.lane()), clock, within: Duration::from_secs(5) };
        let counter = Durable::new(Counter::default(), Totals, ground, Timestamp(0));
        Self { store, counter, waits: Vec::new() }
    }

    fn step(
        &mut self,
        step: Result<Step<Counter>, StoreError>,
    ) -> Result<Vec<Released<Counter>>, StoreError> {
        match step? {
            Step::Now(released) => Ok(released),
            Step::Later => Ok(Vec::new()),
            Step::Wait(waiting) => {
                self.waits.push(Some(waiting));
                Ok(Vec::new())
            }
        }
    }

    async fn run(&mut self, what: Do) -> Result<Vec<Released<Counter>>, StoreError> {
        match what {
            Do::Commit(command) => {
                let (reply, _asker) = Reply::pair();
                let step = self.counter.commit(&command, Some(reply));
                self.step(step)
            }
            Do::Hold => {
                self.store.hold();
                Ok(Vec::new())
            }
            Do::Release => {
                self.store.release();
                Ok(Vec::new())
            }
            Do::Report(wait) => {
                let waiting = self.waits.get_mut(wait).and_then(Option::take).expect("nothing waits there");
                self.counter.acknowledged(waiting.outcome().await)
            }
        }
    }
}

/// Runs the script; each row says what is seen right after it.
async fn check(script: Vec<(Do, Vec<Seen>)>) {
    let mut rig = Rig::new();
    for (row, (what, expected)) in script.into_iter().enumerate() {
        let released = rig.run(what).await.expect("no commit fails here");
        let seen: Vec<_> = released
            .into_iter()
            .map(|one| Seen(one.reply.map(|(_, answer)| answer), one.picture, one.directives))
            .collect();
        assert_eq!(seen, expected, "row {row}");
    }
}

fn added(total: u64) -> Seen {
    Seen(Some(Ok(total)), Some(total), vec!["ring"])
}

fn looked(total: u64) -> Seen {
    Seen(Some(Ok(total)), None, Vec::new())
}

#[tokio::test(start_paused = true)]
async fn what_the_store_acknowledges_at_once_goes_out_at_once() {
    check(vec![
        (Do::Commit(Tell::Add(1)), vec![added(1)]),
        (Do::Commit(Tell::Look), vec![looked(1)]),
        (Do::Commit(Tell::Add(10)), vec![Seen(Some(Err("full")), None, vec![])]),
        (Do::Commit(Tell::Blink), vec![Seen(Some(Ok(1)), Some(1), vec![])]),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_out_before_it_is_durable_and_then_all_in_order() {
    check(vec![
        (Do::Hold, vec![]),
        (Do::Commit(Tell::Add(1)), vec![]),
        (Do::Commit(Tell::Add(2)), vec![]),
        (Do::Commit(Tell::Add(3)), vec![]),
        (Do::Release, vec![]),
        // The report of the second says that the first is durable, too.
        (Do::Report(1), vec![added(1), added(3)]),
        (Do::Report(0), vec![]),
        (Do::Report(2), vec![added(6)]),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_rests_on_what_is_not_durable_waits_for_it() {
    check(vec![
        (Do::Hold, vec![]),
        (Do::Commit(Tell::Add(8)), vec![]),
        (Do::Commit(Tell::Add(8)), vec![]),
        (Do::Release, vec![]),
        (Do::Report(0), vec![added(8), Seen(Some(Err("full")), None, vec![])]),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_stores_nothing_goes_out_with_the_batch_before_it() {
    check(vec![
        (Do::Hold, vec![]),
        (Do::Commit(Tell::Add(1)), vec![]),
        (Do::Commit(Tell::Blink), vec![]),
        (Do::Commit(Tell::Look), vec![]),
        (Do::Commit(Tell::Add(1)), vec![]),
        (Do::Release, vec![]),
        (Do::Report(0), vec![added(1), Seen(Some(Ok(1)), Some(1), vec![]), looked(1)]),
        (Do::Report(1), vec![added(2)]),
    ])
    .await;
}

/// Two askers wait for held batches when the store fails; both are told, and so is whoever runs the actor.
async fn check_failure(rig: &mut Rig, failure: impl FnOnce(&MemoryStore), expected: StoreError) {
    rig.store.hold();
    let (first, mut first_told) = Reply::pair();
    let (second, mut second_told) = Reply::pair();
    let step = rig.counter.commit(&Tell::Add(1), Some(first));
    assert_eq!(rig.step(step).expect("held").len(), 0);
    let step = rig.counter.commit(&Tell::Add(2), Some(second));
    assert_eq!(rig.step(step).expect("held").len(), 0);
    failure(&rig.store);
    assert_eq!(rig.run(Do::Report(0)).await.err(), Some(expected.clone()));
    assert_eq!(
        (first_told.try_recv(), second_told.try_recv()),
        (Ok(Err(expected.clone())), Ok(Err(expected)))
    );
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_gives_every_held_asker_its_error() {
    let full = StoreError::Io { reason: "the disk is full".to_owned() };
    let fail = |store: &MemoryStore| {
        store.fail_next(StoreError::Io { reason: "the disk is full".to_owned() });
        store.release();
    };
    check_failure(&mut Rig::new(), fail, full).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_takes_too_long_fails() {
    check_failure(&mut Rig::new(), |_store| {}, StoreError::TimedOut).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_at_once_gives_its_asker_the_error() {
    let mut rig = Rig::new();
    rig.store.fail_next(StoreError::Closed);
    let (reply, mut told) = Reply::pair();
    assert_eq!(rig.counter.commit(&Tell::Add(1), Some(reply)).err(), Some(StoreError::Closed));
    assert_eq!(told.try_recv(), Ok(Err(StoreError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn the_time_never_falls_below_the_newest_stored_stamp() {
    let clock = Arc::new(TokioClock::starting_at(Timestamp(100)));
    let ground = Ground { lane: None, clock, within: Duration::from_secs(5) };
    let mut counter = Durable::new(Counter::default(), Unstored, ground, Timestamp(5_000));
    assert_eq!(counter.now(), Timestamp(5_000));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(counter.now(), Timestamp(10_100));
}
