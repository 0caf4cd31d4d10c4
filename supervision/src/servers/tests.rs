use std::time::Duration;

use pilothouse_actors::call::WhenFull;
use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::tool::{Function, Invocation};
use pilothouse_messages::call::CallOutcome::{
    self, Cancelled, Failed, Rejected, Succeeded, TimedOut, Unavailable, Unknown,
};
use pilothouse_messages::id::Revision;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::ListingState;
use pilothouse_messages::server::ServerState;
use serde_json::json;
use tokio::time::{Instant, sleep};

mod arguments;

use super::toy::{Answers, House, Plan, Toy, server_id};
use super::*;

mod life;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn stale(reason: &str) -> Option<ListingState> {
    Some(ListingState::Stale { reason: reason.to_owned() })
}

impl House {
    fn listed(&self, server: &str) -> Option<ListingState> {
        self.listing(server).map(|view| view.state)
    }

    async fn switch(&self, server: &str, to: Power) -> Result<(), ConnectionRejection> {
        let message = |reply| ServersMsg::Switch { server: server_id(server), to, reply };
        self.wiring.servers.slot.ask(message).await.expect("the supervisor answers")
    }

    async fn restart(&self, server: &str) -> Result<(), ConnectionRejection> {
        let message = |reply| ServersMsg::Restart { server: server_id(server), reply };
        self.wiring.servers.slot.ask(message).await.expect("the supervisor answers")
    }

    /// The outcome of a call and how long it took.
    async fn outcome(&self, order: pilothouse_actors::call::CallOrder) -> (CallOutcome, Duration) {
        let began = Instant::now();
        let result = self.call(order).await.expect("a call never panics");
        (result.outcome, began.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_delays_no_other() {
    let (silent, quick) = (Toy::new().connect(Answers::Never), Toy::new());
    let house = House::open(&[("a silent one", &silent), ("quick", &quick)]).await;
    assert!(house.until("quick", ServerState::Ready).await < ms(10));
    house.until_confirmed("quick").await;
    assert_eq!(house.outcome(house.order("quick")).await.0, Succeeded);
    assert_eq!(house.state("a silent one"), ServerState::Connecting);

    let connected_within = house.until("a silent one", ServerState::Backoff).await;
    assert!(connected_within <= Limits::default().connect + ms(10), "{connected_within:?}");
    let reason = house.place("a silent one").phase.borrow().reason.clone();
    assert_eq!(reason.as_deref(), Some("no answer to the handshake within 30000 ms"));
    assert_eq!(house.state("quick"), ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_gives_its_place_to_the_next_long_before_its_deadline() {
    let (silent, quick) = (Toy::new().connect(Answers::Never), Toy::new());
    let mut limits = Limits::default();
    limits.connects_at_once = 1;
    let place = limits.connect_place_wanted;
    let house = House::of(Plan { limits, ..Plan::default() }, &[("1", &silent), ("2", &quick)]).await;
    let waited = house.until("2", ServerState::Ready).await;
    assert!(waited >= place && waited <= place + ms(10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_answers_its_calls_at_once_and_the_next_one_follows() {
    let toy = Toy::new().call(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let actor = house.place("toy").slot.current().expect("a connection");
    let calls: Vec<_> = (0..3).map(|_| house.call(house.order("toy"))).collect();
    house.until_true("three calls are sent", || toy.counts()[2] == 3).await;

    let died = Instant::now();
    toy.die();
    for call in calls {
        assert_eq!(call.await.expect("no panic").outcome, Unknown);
    }
    assert_eq!(died.elapsed(), ms(0));
    house.until("toy", ServerState::Backoff).await;
    assert_eq!(house.listed("toy"), stale("the toy died"));
    assert_eq!(house.outcome(house.order("toy")).await.0, Unavailable);

    house.until("toy", ServerState::Ready).await;
    house.until_confirmed("toy").await;
    house.until_true("it is fresh again", || house.listed("toy") == Some(ListingState::Warm)).await;
    assert_eq!((toy.counts()[0], house.place("toy").slot.restarts()), (2, 1));
    assert_eq!(actor.get_status(), ractor::ActorStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_killed_connection_actor_leaves_nothing_behind_and_comes_again() {
    let toy = Toy::new().call(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    let ready = house.until_confirmed("toy").await;
    let call = house.call(house.order("toy"));
    house.until_true("the call is sent", || toy.counts()[2] == 1).await;
    house.place("toy").slot.current().expect("a connection").kill();
    assert_eq!(call.await.expect("no panic").outcome, Unknown);
    assert!(ready.ended.is_cancelled());
    house.until("toy", ServerState::Backoff).await;
    assert!(house.place("toy").ready.borrow().is_none());
    assert_eq!(toy.counts()[3], 1, "killed once");
    house.until("toy", ServerState::Ready).await;
    house.until_confirmed("toy").await;
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_panics_is_a_failure_like_any_other() {
    let toy = Toy::new().connect(Answers::Panics);
    let house = House::open(&[("toy", &toy)]).await;
    house.until("toy", ServerState::Backoff).await;
    let reason = house.place("toy").phase.borrow().reason.clone();
    assert_eq!(reason.as_deref(), Some("the connector panicked: the toy breaks"));
    let toy = toy.connect(Answers::Yes);
    house.until("toy", ServerState::Ready).await;
    assert!(toy.counts()[0] > 1);
}

#[tokio::test(start_paused = true)]
async fn refreshes_that_meet_are_one() {
    let toy = Toy::new().list(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_true("it is being listed", || toy.counts()[1] == 1).await;
    let both = async { tokio::join!(house.refresh("toy"), house.refresh("toy")) };
    let answer = async {
        sleep(ms(50)).await;
        drop(toy.clone().list(Answers::Yes));
    };
    let ((first, second), ()) = tokio::join!(both, answer);
    assert_eq!((first, second, toy.counts()[1]), (Ok(Revision(1)), Ok(Revision(1)), 1));
    assert_eq!(house.refresh("toy").await, Ok(Revision(1)), "nothing new, so no new revision");
    assert_eq!(toy.counts()[1], 2);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_says_why_it_failed_and_the_last_known_good_listing_stays() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let why = "the server answered error -32603: the toy says no";
    let toy = toy.list(Answers::No);
    assert_eq!(house.refresh("toy").await, Err(why.to_owned()));
    assert_eq!(
        (house.listed("toy"), house.listing("toy").map(|view| view.tools().len())),
        (stale(why), Some(1))
    );
    let toy = toy.list(Answers::Panics);
    assert_eq!(house.refresh("toy").await, Err("listing the tools panicked: the toy breaks".to_owned()));
    let _toy = toy.list(Answers::Never);
    assert_eq!(
        house.refresh("toy").await,
        Err("the server did not list its tools within 30000 ms".to_owned())
    );
    assert_eq!(house.refresh("nobody").await, Err("there is no server \"nobody\"".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_until_this_connections_own_listing_has_confirmed_the_tool() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let toy = toy.list(Answers::Never);
    toy.die();
    house.until("toy", ServerState::Backoff).await;
    house.until("toy", ServerState::Ready).await;
    let call = house.call(house.order("toy"));
    sleep(ms(5_000)).await;
    assert_eq!((call.is_finished(), toy.counts()[2]), (false, 0));
    let toy = toy.list(Answers::Yes);
    assert_eq!(call.await.expect("no panic").outcome, Succeeded);
    assert_eq!(toy.counts()[2], 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_never_confirmed_is_not_called_and_the_caller_is_told_in_time() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let toy = toy.list(Answers::No);
    toy.die();
    house.until("toy", ServerState::Backoff).await;
    house.until("toy", ServerState::Ready).await;
    let (outcome, took) = house.outcome(house.order("toy")).await;
    assert_eq!((outcome, toy.counts()[2]), (Unavailable, 0));
    assert!(took <= Limits::default().call + ms(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_has_changed_or_gone_is_not_called() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let before = house.order("toy");
    toy.offer("adds and tells everybody");
    assert_eq!(house.refresh("toy").await, Ok(Revision(2)));
    assert_eq!(house.outcome(before.clone()).await.0, Rejected);
    let mut gone = before.clone();
    let tool = "subtract".to_owned();
    gone.tool.source = pilothouse_messages::tool::ToolSource::Mcp { server: server_id("toy"), tool };
    assert_eq!(house.outcome(gone).await.0, Rejected);
    let mut elsewhere = house.order("toy");
    elsewhere.tool.definition = before.tool.fingerprint;
    assert_eq!(house.outcome(elsewhere).await.0, Rejected, "the server is another one now");
    assert_eq!(toy.counts()[2], 0);
    house.until_true("the registry has the new one", || house.order("toy").tool != before.tool).await;
    assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_answers_to_a_call_becomes_its_last_word() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let mut order = house.order("toy");
    order.idempotency_key = Some("k".to_owned());
    let rows = [
        (Answers::Yes, Succeeded, ms(0)),
        (Answers::No, Rejected, ms(0)),
        (Answers::Panics, Unknown, ms(0)),
        (Answers::Never, TimedOut, Limits::default().call),
    ];
    for (answers, outcome, after) in rows {
        drop(toy.clone().call(answers));
        assert_eq!(house.outcome(order.clone()).await, (outcome, after), "{answers:?}");
    }
    assert_eq!(toy.last_meta(), json!({"pilothouse/idempotency-key": "k"}));
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_cancelled_before_and_after_it_was_sent() {
    let toy = Toy::new().call(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let order = house.order("toy");
    let call = house.call(order.clone());
    house.until_true("the call is sent", || toy.counts()[2] == 1).await;
    order.cancel.cancel();
    assert_eq!(call.await.expect("no panic").outcome, Cancelled);
    assert_eq!(house.outcome(order).await.0, Cancelled);
    assert_eq!(toy.counts()[2], 1, "the second was not sent");
}

#[tokio::test(start_paused = true)]
async fn a_full_server_is_busy_for_those_who_do_not_wait() {
    let toy = Toy::new().call(Answers::Never);
    let mut limits = Limits::default();
    limits.calls_per_server = 1;
    let house = House::of(Plan { limits, ..Plan::default() }, &[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let first = house.call(house.order("toy"));
    house.until_true("the call is sent", || toy.counts()[2] == 1).await;
    let mut impatient = house.order("toy");
    impatient.when_full = WhenFull::Busy;
    assert_eq!(house.outcome(impatient).await, (Unavailable, ms(0)));
    let patient = house.call(house.order("toy"));
    sleep(ms(100)).await;
    assert_eq!(toy.counts()[2], 1);
    let _toy = toy.call(Answers::Yes);
    assert_eq!(first.await.expect("no panic").outcome, Succeeded);
    assert_eq!(patient.await.expect("no panic").outcome, Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_or_hangs_ends_its_own_call_only() {
    let run = |invocation: Invocation| async move {
        match invocation.arguments["a"].as_u64() {
            Some(0) => panic!("the function breaks"),
            Some(1) => std::future::pending().await,
            Some(2) => Err("no".to_owned()),
            _ => Ok("yes".to_owned()),
        }
    };
    let function = Function::new("try", "Tries.", &json!({"type": "object"}), run);
    let house = House::of(Plan { functions: vec![function], ..Plan::default() }, &[]).await;
    let rows = [
        (0, Failed, ms(0)),
        (1, TimedOut, Limits::default().call),
        (2, Failed, ms(0)),
        (3, Succeeded, ms(0)),
    ];
    for (a, outcome, after) in rows {
        let mut order = house.function("try");
        order.arguments = (&json!({"a": a})).into();
        assert_eq!(house.outcome(order).await, (outcome, after), "{a}");
    }
    let mut no_object = house.function("try");
    no_object.arguments = (&json!([1])).into();
    assert_eq!(house.outcome(no_object).await.0, Rejected);
}

#[tokio::test(start_paused = true)]
async fn a_restart_has_tools_under_the_same_names_before_any_server_has_answered() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let before = house.order("toy");
    let store = house.leave().await;

    let silent = Toy::new().connect(Answers::Never);
    let house =
        House::of(Plan { store, name: Some("renamed"), ..Plan::default() }, &[("toy", &silent)]).await;
    let has_tool = || house.wiring.registry.table.load().get(&before.tool.name).is_some();
    assert!(house.until_true("the tool is back", has_tool).await < ms(10));
    let after = house.order("toy").tool;
    assert_eq!((after.name, after.fingerprint), (before.tool.name.clone(), before.tool.fingerprint));
    assert_eq!(house.listed("toy"), stale("read from the store; the server has not answered yet"));
    let mut impatient = before.clone();
    impatient.when_full = WhenFull::Busy;
    assert_eq!(house.outcome(impatient).await, (Unavailable, ms(0)));
    let (outcome, took) = house.outcome(before).await;
    assert_eq!(outcome, Unavailable, "inside a turn it waits while the server connects");
    assert!(took <= Limits::default().connect + ms(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_edited_definition_has_no_listing_of_the_old_one() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let store = house.leave().await;

    let silent = Toy::new().connect(Answers::Never);
    store.hold();
    let house = House::of(Plan { store, label: "edited", ..Plan::default() }, &[("toy", &silent)]).await;
    house.until_true("it is being dropped", || house.store.held() > 0).await;
    sleep(ms(100)).await;
    let has_tools = || !house.wiring.registry.table.load().entries().is_empty();
    assert_eq!((house.listed("toy"), has_tools()), (None, false), "not even before that is durable");
    house.store.release();
    house.until_true("it is defined", || house.listed("toy") == Some(ListingState::Cold)).await;
    assert!(!has_tools());
    let store = house.leave().await;

    let house = House::of(Plan { store, ..Plan::default() }, &[("toy", &silent)]).await;
    house.until_true("it is defined", || house.listed("toy").is_some()).await;
    assert_eq!(house.listed("toy"), Some(ListingState::Cold), "the old one is not on the disk either");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_registry_has_what_was_offered_before_it_was_there() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let before = house.order("toy").tool;
    house.wiring.registry.table.store(Arc::default());
    house.restart_registry().await;
    let tool = || house.wiring.registry.table.load().get(&before.name).map(|entry| entry.fingerprint);
    house.until_true("the tool is back", || tool() == Some(before.fingerprint)).await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_not_seen_before_it_is_durable() {
    let toy = Toy::new();
    let store = MemoryStore::new();
    store.hold();
    let house = House::of(Plan { store, ..Plan::default() }, &[("toy", &toy)]).await;
    house.until_true("it has been listed", || house.store.held() > 0).await;
    sleep(ms(1_000)).await;
    assert_eq!(house.listed("toy"), Some(ListingState::Cold));
    house.store.release();
    house.until_confirmed("toy").await;
    assert_eq!(house.listed("toy"), Some(ListingState::Warm));
}

#[tokio::test(start_paused = true)]
async fn the_first_read_of_a_cold_listing_has_the_server_listed_once() {
    let toy = Toy::new().list(Answers::No);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_true("its own listing failed", || toy.counts()[1] == 1).await;
    for _ in 0..3 {
        assert!(house.wiring.catalog.read(&server_id("toy")).is_some());
        sleep(ms(10)).await;
    }
    assert_eq!(toy.counts()[1], 2);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_catalog_lists_what_is_connected() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    toy.offer("adds more");
    house.restart_catalog().await;
    let tools = || house.listing("toy").map(|view| view.tools().to_vec()).unwrap_or_default();
    let is_new = || tools().iter().any(|tool| tool.description.as_deref() == Some("adds more"));
    house.until_true("the change is seen", is_new).await;
    assert_eq!((house.listed("toy"), toy.counts()), (Some(ListingState::Warm), [1, 2, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_supervisor_ends_the_old_connections_and_starts_every_server_anew() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    let ready = house.until_confirmed("toy").await;
    let slot = &house.wiring.servers.slot;
    slot.current().expect("a supervisor").kill();
    ready.ended.cancelled().await;
    slot.vacate(Some("killed".to_owned())).end(ms(100)).await;
    house.start_servers().await;
    house.until_true("it is connected again", || toy.counts()[0] == 2).await;
    house.until("toy", ServerState::Ready).await;
    let again = house.until_confirmed("toy").await;
    assert!(!again.ended.is_cancelled());
    assert_eq!(toy.counts()[3], 1, "the old one was killed");
    assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_the_connection_before_the_next_one_starts() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    let ready = house.until_confirmed("toy").await;
    assert_eq!(house.restart("toy").await, Ok(()));
    ready.ended.cancelled().await;
    house.until_true("it is connected again", || toy.counts()[0] == 2).await;
    house.until_confirmed("toy").await;
    assert_eq!((house.state("toy"), toy.counts()[3]), (ServerState::Ready, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_being_ended_takes_no_new_call_and_may_answer_the_old_ones() {
    let toy = Toy::new().call(Answers::Never).close(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let old = house.call(house.order("toy"));
    house.until_true("the call is sent", || toy.counts()[2] == 1).await;
    assert_eq!(house.switch("toy", Power::Off).await, Ok(()));
    let closing = || house.place("toy").ready.borrow().is_none();
    assert!(house.until_true("it is being ended", closing).await < ms(10));
    assert_eq!(house.outcome(house.order("toy")).await, (Unavailable, ms(0)));
    let toy = toy.call(Answers::Yes);
    assert_eq!((old.await.expect("no panic").outcome, toy.counts()[2]), (Succeeded, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_can_be_switched_off_while_it_connects_and_on_again() {
    let toy = Toy::new().connect(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_true("it connects", || toy.counts()[0] == 1).await;
    assert_eq!(house.switch("toy", Power::Off).await, Ok(()));
    assert!(house.until("toy", ServerState::Stopped).await < ms(10));
    assert_eq!(house.restart("toy").await, Err(ConnectionRejection::Disabled));
    let _toy = toy.connect(Answers::Yes);
    assert_eq!(house.switch("toy", Power::On).await, Ok(()));
    house.until("toy", ServerState::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn switched_on_and_off_and_on_in_one_breath_it_runs() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    for to in [Power::Off, Power::On, Power::Off, Power::On] {
        assert_eq!(house.switch("toy", to).await, Ok(()));
    }
    house.until_confirmed("toy").await;
    house.until("toy", ServerState::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn all_end_within_a_bound_and_nothing_starts_after_that() {
    let (polite, stuck) = (Toy::new(), Toy::new().close(Answers::Never));
    let (silent, broken) = (Toy::new().connect(Answers::Never), Toy::new().connect(Answers::No));
    let servers = [("polite", &polite), ("stuck", &stuck), ("silent", &silent), ("broken", &broken)];
    let house = House::open(&servers).await;
    house.until_confirmed("polite").await;
    house.until_confirmed("stuck").await;
    house.until("broken", ServerState::Backoff).await;

    let began = Instant::now();
    let stopped = house.wiring.servers.slot.ask(|reply| ServersMsg::StopAll { reply }).await;
    assert_eq!((stopped, began.elapsed()), (Ok(()), Limits::default().stop_child));
    assert_eq!((polite.counts()[3], stuck.counts()[3]), (0, 1), "only the stuck one was killed");
    assert_eq!(house.restart("polite").await, Err(ConnectionRejection::Disabled));
    assert_eq!(house.switch("polite", Power::On).await, Err(ConnectionRejection::Disabled));
    let before = broken.counts();
    sleep(ms(300_000)).await;
    assert_eq!(broken.counts(), before);
    for (server, _) in servers {
        assert_eq!(house.state(server), ServerState::Stopped, "{server}");
    }
}
