//! The life of servers: whether they still answer, and how they rest, change and go.

use pilothouse_actors::servers::ServersMsg;
use pilothouse_messages::connection::ConnectionRejection;
use pilothouse_messages::server::ServerDefinition;
use pilothouse_messages::tool::Effect;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl House {
    async fn edit(&self, server: &str, change: impl FnOnce(&mut ServerDefinition)) {
        let place = self.place(server);
        let (mut definition, connector) = (place.definition.clone(), place.connector.clone());
        change(&mut definition);
        let definition = Box::new(definition);
        let message = |reply| ServersMsg::Edit { definition, connector, reply };
        let edited = self.wiring.servers.slot.ask(message).await.expect("the supervisor answers");
        assert!(edited.is_ok(), "{edited:?}");
    }

    async fn remove(&self, server: &str) -> Result<(), ConnectionRejection> {
        let message = |reply| ServersMsg::Remove { server: server_id(server), reply };
        self.wiring.servers.slot.ask(message).await.expect("the supervisor answers")
    }

    fn reason(&self, server: &str) -> Option<String> {
        self.place(server).phase.borrow().reason.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_ready_no_longer_than_one_interval_and_one_deadline() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    sleep(secs(300)).await;
    assert_eq!((house.state("toy"), toy.probes()), (ServerState::Ready, 10), "one that answers stays");
    let toy = toy.probe(Answers::Never);
    let took = house.until("toy", ServerState::Backoff).await;
    let limits = Limits::default();
    assert!(took <= limits.probe_interval + limits.probe_deadline + ms(10), "{took:?}");
    assert_eq!(house.reason("toy").as_deref(), Some("the server did not answer a probe within 10000 ms"));
    assert_eq!(toy.counts()[3], 1, "and it is killed");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_calls_is_not_asked_whether_it_lives() {
    let toy = Toy::new().probe(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    for _ in 0..20 {
        sleep(secs(20)).await;
        assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
    }
    assert_eq!((house.state("toy"), toy.probes()), (ServerState::Ready, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_that_time_out_in_a_row_end_the_connection_and_it_starts_from_scratch() {
    let toy = Toy::new().call(Answers::Never).probe(Answers::Never);
    let mut limits = Limits::default();
    (limits.call, limits.probe_interval) = (secs(5), secs(3_600));
    let house = House::of(Plan { limits, ..Plan::default() }, &[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    for calls in 1..=3 {
        assert_eq!(house.outcome(house.order("toy")).await, (TimedOut, secs(5)));
        assert_eq!(house.state("toy") == ServerState::Ready, calls < 3, "after {calls}");
        sleep(ms(1)).await;
    }
    let reason = "3 calls in a row were not answered in time, and nothing else was";
    let failure = house.place("toy").phase.borrow().last_failure.clone();
    assert_eq!(failure.map(|failure| failure.reason).as_deref(), Some(reason));
    house.until("toy", ServerState::Ready).await;
    assert_eq!(toy.counts()[0], 2);
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_stopped_and_the_next_call_or_refresh_starts_it() {
    let toy = Toy::new();
    let plan = Plan { idle_stop: Some(secs(60)), ..Plan::default() };
    let house = House::of(plan, &[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let busy = toy.clone().call(Answers::Never);
    let long = house.call(house.order("toy"));
    sleep(secs(59)).await;
    drop(busy.call(Answers::Yes));
    assert_eq!(long.await.expect("no panic").outcome, Succeeded);
    let took = house.until("toy", ServerState::Stopped).await;
    assert!(took >= secs(60) && took <= secs(61), "from its last use on: {took:?}");
    sleep(secs(3_600)).await;
    assert_eq!((toy.counts()[0], house.listed("toy")), (1, Some(ListingState::Warm)), "not stale, not tried");
    assert!(house.reason("toy").is_some_and(|reason| reason.starts_with("idle")));
    let mut impatient = house.order("toy");
    impatient.when_full = WhenFull::Busy;
    assert_eq!(house.outcome(impatient).await.0, Succeeded, "outside a turn, too");
    house.until("toy", ServerState::Stopped).await;
    assert_eq!(house.refresh("toy").await, Ok(Revision(1)));
    assert_eq!(toy.counts()[0], 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_as_an_idle_server_is_stopped_is_answered() {
    let toy = Toy::new().close(Answers::Never);
    let plan = Plan { idle_stop: Some(secs(60)), ..Plan::default() };
    let house = House::of(plan, &[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    house.until("toy", ServerState::Stopped).await;
    assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
    assert_eq!(toy.counts()[0], 2);
}

#[tokio::test(start_paused = true)]
async fn another_policy_is_seen_at_once_and_leaves_the_connection_alone() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    assert_eq!(house.order("toy").tool.effect, Effect::Unknown);
    house
        .edit("toy", |definition| {
            definition.effects.insert("add".to_owned(), Effect::Reads);
        })
        .await;
    let effect = || house.order("toy").tool.effect;
    assert!(house.until_true("the registry has it", || effect() == Effect::Reads).await < ms(10));
    assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
    assert_eq!((toy.counts()[0], toy.counts()[3]), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn another_definition_ends_the_old_connection_and_drops_its_listing_at_once() {
    let (toy, neighbour) = (Toy::new(), Toy::new());
    let house = House::open(&[("toy", &toy), ("neighbour", &neighbour)]).await;
    house.until_confirmed("toy").await;
    house.until_confirmed("neighbour").await;
    let before = house.order("toy");
    house
        .edit("toy", |definition| {
            definition.transport =
                pilothouse_messages::server::Transport::InMemory { label: "other".to_owned() };
        })
        .await;
    assert_eq!(house.outcome(before).await.0, Rejected, "it was allowed for another definition");
    house.until("toy", ServerState::Ready).await;
    house.until_confirmed("toy").await;
    assert_eq!(house.outcome(house.order("toy")).await.0, Succeeded);
    assert_eq!((toy.counts()[0], neighbour.counts()[0]), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_removed_server_answers_its_calls_and_is_found_no_more() {
    let toy = Toy::new().call(Answers::Never);
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let (order, handle) = (house.order("toy"), house.place("toy"));
    let call = house.call(order.clone());
    house.until_true("the call is sent", || toy.counts()[2] == 1).await;
    assert_eq!(house.remove("toy").await, Ok(()));
    assert_eq!(call.await.expect("no panic").outcome, Unknown);
    assert!(handle.ready.borrow().is_none());
    assert_eq!(house.outcome(order).await.0, Rejected);
    let has_tools = || !house.wiring.registry.table.load().entries().is_empty();
    house.until_true("the registry has no tool of it", || !has_tools()).await;
    assert_eq!((house.listed("toy"), toy.counts()[0]), (None, 1));
    assert_eq!(house.remove("toy").await, Err(ConnectionRejection::Removed));
    assert_eq!(house.restart("toy").await, Err(ConnectionRejection::Removed));
}

#[tokio::test(start_paused = true)]
async fn healthy_servers_are_ready_soon_among_many_dead_ones() {
    let dead: Vec<_> = (0..190).map(|_| Toy::new().connect(Answers::No)).collect();
    let healthy: Vec<_> = (0..10).map(|_| Toy::new()).collect();
    let ids: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let servers: Vec<_> = ids.iter().map(String::as_str).zip(dead.iter().chain(&healthy)).collect();
    let house = House::of(Plan::default(), &servers).await;
    let all_ready = || ids[190..].iter().all(|id| house.state(id) == ServerState::Ready);
    let took = house.until_true("the healthy ones are ready", all_ready).await;
    assert!(took <= ms(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_asked_for_again_when_it_is_as_old_as_its_server_allows() {
    let toy = Toy::new();
    toy.fresh_for(secs(1));
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    sleep(secs(29)).await;
    assert_eq!(toy.counts()[1], 1, "never more often than twice a minute");
    sleep(secs(63)).await;
    assert_eq!(toy.counts()[1], 4);
    let revision = house.listing("toy").and_then(|view| view.listing).map(|listing| listing.revision);
    assert_eq!(revision, Some(Revision(1)), "nothing new");
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_notices_costs_a_few_listings() {
    let toy = Toy::new();
    let house = House::open(&[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    for _ in 0..1_000 {
        toy.notify();
        sleep(ms(1)).await;
    }
    toy.offer("adds more");
    toy.notify();
    let revision = || house.listing("toy").and_then(|view| view.listing).map(|listing| listing.revision);
    house.until_true("the last change is seen", || revision() == Some(Revision(2))).await;
    assert!(toy.counts()[1] <= 1 + 3, "{:?}", toy.counts());
}

#[cfg(all(target_os = "linux", feature = "mcp"))]
#[tokio::test]
async fn a_process_that_outlived_a_killed_host_is_gone_before_its_server_starts() {
    use pilothouse_actors::processes::Processes;
    use pilothouse_adapters::process::{mark, runs};
    use pilothouse_adapters::server::ProcessNotes;
    use std::os::unix::process::CommandExt;

    // It ignores the end of its input, and a polite request.
    let stubborn = ["-c", "trap '' TERM; while :; do sleep 1; done"];
    let mut child =
        std::process::Command::new("sh").args(stubborn).process_group(0).spawn().expect("a shell");
    let left = mark(&server_id("toy"), child.id()).expect("a mark");
    let store = MemoryStore::new();
    let earlier = Arc::new(Processes::new(Arc::new(store.clone()), secs(5)));
    earlier.started(left.clone()).await;
    assert_eq!(earlier.left_behind().await, Ok(vec![left.clone()]));

    let (toy, neighbour) = (Toy::new(), Toy::new());
    let mut limits = Limits::default();
    limits.stop_child = ms(300);
    let house =
        House::of(Plan { store, limits, ..Plan::default() }, &[("toy", &toy), ("new", &neighbour)]).await;
    house.until("new", ServerState::Ready).await;
    assert_eq!((house.state("toy"), toy.counts()[0]), (ServerState::Connecting, 0), "it alone waits");
    house.until("toy", ServerState::Ready).await;
    assert!(child.wait().is_ok() && !runs(&left));
    assert_eq!(earlier.left_behind().await, Ok(vec![]), "and the record is gone");
}
