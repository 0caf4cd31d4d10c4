use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::connection::{
    Again, ConnectionCommand, ConnectionDirective, ConnectionEvent, ConnectionPhase, ConnectionRejection,
    EndReason, Failure, Generation, Reach,
};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::server::ServerState;
use pilothouse_messages::time::Timestamp;
use proptest::prelude::*;

use super::{ConnectionLife, Outcome, State, backoff};
use crate::{Decider, Decision};

use ConnectionCommand::{Demand, Disable, Enable, Restart, Tick};

mod rest;

const SEED: u64 = 7;
/// Longer than any other wait of these tests.
const IDLE_STOP: Duration = Duration::from_secs(60);

/// Two failures in a row are forgiven, the third parks; delays of 100 ms to 1 s.
fn limits() -> Arc<Limits> {
    let mut limits = Limits::default();
    limits.backoff_first = Duration::from_millis(100);
    limits.backoff_max = Duration::from_secs(1);
    limits.restart_budget = 2;
    Arc::new(limits)
}

fn connected(generation: u64) -> ConnectionCommand {
    ConnectionCommand::Connected { generation: Generation(generation) }
}

fn ended(generation: u64, reason: EndReason) -> ConnectionCommand {
    ConnectionCommand::Ended { generation: Generation(generation), reason }
}

fn broke(generation: u64) -> ConnectionCommand {
    ended(generation, EndReason::Failed("broken pipe".to_owned()))
}

fn missing(generation: u64) -> ConnectionCommand {
    ended(generation, EndReason::Permanent("no such program".to_owned()))
}

fn closed(generation: u64) -> ConnectionCommand {
    ended(generation, EndReason::Closed)
}

fn unused(generation: u64) -> ConnectionCommand {
    ConnectionCommand::Unused { generation: Generation(generation) }
}

fn used(generation: u64, at: u64) -> ConnectionCommand {
    ConnectionCommand::Used { generation: Generation(generation), at: Timestamp(at) }
}

fn edit(idle_stop: Option<Duration>, reach: Reach) -> ConnectionCommand {
    ConnectionCommand::Edit { idle_stop, reach }
}

fn perform(life: &mut ConnectionLife, now: u64, command: &ConnectionCommand) {
    let decision = life.decide(Timestamp(now), command).unwrap();
    decision.events.iter().for_each(|event| life.apply(event));
}

/// The life after these commands, each at its time.
fn life_after(history: &[(u64, ConnectionCommand)]) -> ConnectionLife {
    let mut life = ConnectionLife::new(SEED, limits(), Some(IDLE_STOP));
    history.iter().for_each(|(now, command)| perform(&mut life, *now, command));
    life
}

fn started(generation: u64, at: u64) -> Result<Outcome, ConnectionRejection> {
    let generation = Generation(generation);
    Ok(Decision {
        answer: (),
        events: vec![ConnectionEvent::Started { generation, at: Timestamp(at) }],
        directives: vec![ConnectionDirective::Start { generation }],
    })
}

fn stopping(generation: u64, again: Again, at: u64) -> Result<Outcome, ConnectionRejection> {
    let generation = Generation(generation);
    Ok(Decision {
        directives: vec![ConnectionDirective::Stop { generation, again }],
        ..happened(ConnectionEvent::Ending { again, at: Timestamp(at) })
    })
}

fn happened(event: ConnectionEvent) -> Outcome {
    Decision { events: vec![event], ..Decision::answer(()) }
}

fn backed_off(reason: &str, generation: u64, failures: u32, at: u64) -> Outcome {
    let delay = backoff::delay(SEED, Generation(generation), failures, &limits());
    let (reason, at) = (reason.to_owned(), Timestamp(at));
    happened(ConnectionEvent::BackedOff { reason, until: at.after(delay), at })
}

fn parked(reason: &str, at: u64) -> Outcome {
    happened(ConnectionEvent::Parked { reason: reason.to_owned(), until: None, at: Timestamp(at) })
}

/// Histories that end in each state; the connection there is number 1.
struct Histories {
    connecting: Vec<(u64, ConnectionCommand)>,
    ready: Vec<(u64, ConnectionCommand)>,
    stopping: Vec<(u64, ConnectionCommand)>,
    restarting: Vec<(u64, ConnectionCommand)>,
    backoff: Vec<(u64, ConnectionCommand)>,
    parked: Vec<(u64, ConnectionCommand)>,
    /// Ending for want of use.
    retiring: Vec<(u64, ConnectionCommand)>,
    resting: Vec<(u64, ConnectionCommand)>,
}

fn histories() -> Histories {
    let connecting = vec![(0, Enable)];
    let then = |last: ConnectionCommand| vec![(0, Enable), (10, last)];
    let ready = then(connected(1));
    Histories {
        stopping: [ready.clone(), vec![(20, Disable)]].concat(),
        restarting: [ready.clone(), vec![(20, Restart)]].concat(),
        backoff: then(broke(1)),
        parked: then(missing(1)),
        retiring: [ready.clone(), vec![(20, unused(1))]].concat(),
        resting: [ready.clone(), vec![(20, unused(1)), (21, closed(1))]].concat(),
        connecting,
        ready,
    }
}

#[track_caller]
fn check(
    history: &[(u64, ConnectionCommand)],
    now: u64,
    command: ConnectionCommand,
    expected: Result<Outcome, ConnectionRejection>,
) {
    let life = life_after(history);
    assert_eq!(life.decide(Timestamp(now), &command), expected, "{command:?} after {history:?}");
}

#[test]
fn a_server_is_switched_on_and_off_in_every_state() {
    let h = histories();
    let nothing = || Ok(Decision::answer(()));
    let ending = |again| Ok(happened(ConnectionEvent::Ending { again, at: Timestamp(30) }));
    let stopped = || Ok(happened(ConnectionEvent::Stopped { at: Timestamp(30) }));
    for (history, command, expected) in [
        (&vec![], Enable, started(1, 30)),
        (&h.connecting, Enable, nothing()),
        (&h.ready, Enable, nothing()),
        (&h.stopping, Enable, ending(Again::Yes)),
        (&h.restarting, Enable, nothing()),
        (&h.backoff, Enable, started(2, 30)),
        (&h.parked, Enable, started(2, 30)),
        (&h.retiring, Enable, ending(Again::Yes)),
        (&h.resting, Enable, started(2, 30)),
        (&vec![], Disable, nothing()),
        (&h.connecting, Disable, stopping(1, Again::No, 30)),
        (&h.ready, Disable, stopping(1, Again::No, 30)),
        (&h.stopping, Disable, nothing()),
        (&h.restarting, Disable, ending(Again::No)),
        (&h.backoff, Disable, stopped()),
        (&h.parked, Disable, stopped()),
        (&h.retiring, Disable, ending(Again::No)),
        (&h.resting, Disable, stopped()),
        (&vec![], Restart, Err(ConnectionRejection::Disabled)),
        (&h.connecting, Restart, stopping(1, Again::Yes, 30)),
        (&h.ready, Restart, stopping(1, Again::Yes, 30)),
        (&h.stopping, Restart, Err(ConnectionRejection::Disabled)),
        (&h.restarting, Restart, nothing()),
        (&h.backoff, Restart, started(2, 30)),
        (&h.parked, Restart, started(2, 30)),
        (&h.retiring, Restart, ending(Again::Yes)),
        (&h.resting, Restart, started(2, 30)),
        (&vec![], Demand, nothing()),
        (&h.connecting, Demand, nothing()),
        (&h.ready, Demand, nothing()),
        (&h.stopping, Demand, nothing()),
        (&h.restarting, Demand, nothing()),
        (&h.backoff, Demand, nothing()),
        (&h.parked, Demand, nothing()),
        (&h.retiring, Demand, ending(Again::Yes)),
        (&h.resting, Demand, started(2, 30)),
    ] {
        check(history, 30, command, expected);
    }
}

#[test]
fn a_connection_reports_in_every_state() {
    let h = histories();
    let nothing = || Ok(Decision::answer(()));
    let stale = || Err(ConnectionRejection::Stale);
    let stopped = || Ok(happened(ConnectionEvent::Stopped { at: Timestamp(30) }));
    let became_ready = ConnectionEvent::BecameReady { at: Timestamp(30) };
    for (history, command, expected) in [
        (&vec![], connected(0), stale()),
        (&h.connecting, connected(1), Ok(happened(became_ready))),
        (&h.connecting, connected(2), stale()),
        (&h.ready, connected(1), nothing()),
        (&h.stopping, connected(1), nothing()),
        (&h.restarting, connected(1), nothing()),
        (&h.backoff, connected(1), stale()),
        (&h.parked, connected(1), stale()),
        (&vec![], broke(0), stale()),
        (&h.connecting, broke(1), Ok(backed_off("broken pipe", 1, 1, 30))),
        (&h.connecting, broke(0), stale()),
        (&h.connecting, closed(1), Ok(backed_off("the connection was closed", 1, 1, 30))),
        (&h.connecting, missing(1), Ok(parked("no such program", 30))),
        (&h.ready, broke(1), Ok(backed_off("broken pipe", 1, 1, 30))),
        (&h.ready, closed(1), Ok(backed_off("the connection was closed", 1, 1, 30))),
        (&h.ready, missing(1), Ok(parked("no such program", 30))),
        (&h.stopping, closed(1), stopped()),
        (&h.stopping, broke(1), stopped()),
        (&h.stopping, closed(2), stale()),
        (&h.restarting, closed(1), started(2, 30)),
        (&h.restarting, missing(1), started(2, 30)),
        (&h.retiring, closed(1), Ok(happened(ConnectionEvent::Rested { at: Timestamp(30) }))),
        (&h.retiring, connected(1), nothing()),
        (&h.resting, closed(1), stale()),
        (&h.ready, unused(1), stopping(1, Again::OnDemand, 30)),
        (&h.ready, unused(2), stale()),
        (&h.retiring, unused(1), stale()),
        (&h.ready, used(1, 25), Ok(happened(ConnectionEvent::Used { at: Timestamp(25) }))),
        (&h.stopping, used(1, 25), stale()),
        (&h.backoff, broke(1), stale()),
        (&h.parked, broke(1), stale()),
    ] {
        check(history, 30, command, expected);
    }
}

#[test]
fn a_tick_starts_the_next_connection_when_its_time_has_come_and_nothing_else() {
    let h = histories();
    let until = life_after(&h.backoff).next_deadline().unwrap().0;
    let nothing = || Ok(Decision::answer(()));
    for (history, now, expected) in [
        (&h.backoff, until - 1, nothing()),
        (&h.backoff, until, started(2, until)),
        (&h.backoff, until + 9, started(2, until + 9)),
        (&vec![], until, nothing()),
        (&h.connecting, until, nothing()),
        (&h.ready, until, nothing()),
        (&h.stopping, until, nothing()),
        (&h.restarting, until, nothing()),
        (&h.parked, until, nothing()),
    ] {
        check(history, now, Tick, expected);
    }
}

/// Failures in a row after the history, each connection ready for `held` ms and tried again by its back-off.
fn flap(times: u64, held: u64) -> ConnectionLife {
    let mut life = life_after(&[(0, Enable)]);
    let mut now = 0;
    for generation in 1..=times {
        perform(&mut life, now, &connected(generation));
        now += held;
        perform(&mut life, now, &broke(generation));
        if life.phase().state == ServerState::Backoff {
            now = life.next_deadline().map_or(now, |until| until.0);
            perform(&mut life, now, &Tick);
        }
    }
    life
}

#[test]
fn a_server_that_connects_and_dies_at_once_runs_out_of_its_budget() {
    let phase = flap(3, 999).phase();
    assert_eq!((phase.state, phase.attempt), (ServerState::Failed, 3));
    let words = "failed 3 times in a row, so it is only tried now and then: broken pipe";
    assert_eq!(phase.reason.as_deref(), Some(words));
}

#[test]
fn a_connection_that_held_makes_the_failures_before_it_forgotten() {
    let phase = flap(9, 1_000).phase();
    assert_eq!((phase.state, phase.attempt, phase.restarts), (ServerState::Connecting, 1, 9));
}

#[test]
fn a_start_that_somebody_asked_for_begins_without_failures() {
    let h = histories();
    let until = life_after(&h.backoff).next_deadline().unwrap().0;
    let then = |history: &[_], rest: &[_]| life_after(&[history, rest].concat()).phase().attempt;
    for (attempt, expected) in [
        (then(&h.backoff, &[(until, Tick)]), 1),
        (then(&h.backoff, &[(until - 1, Restart)]), 0),
        (then(&h.backoff, &[(until - 1, Enable)]), 0),
        (then(&h.backoff, &[(until, Tick), (until, Restart), (until, closed(2))]), 0),
        (then(&h.parked, &[(30, Restart)]), 0),
        (then(&h.parked, &[(30, Disable)]), 0),
        (then(&h.parked, &[(30, Disable), (30, Enable)]), 0),
    ] {
        assert_eq!(attempt, expected);
    }
}

#[test]
fn readers_see_what_the_server_is_doing() {
    let h = histories();
    let until = life_after(&h.backoff).next_deadline();
    for (history, state, since, reason, attempt, retry_at, stops) in [
        (&vec![], ServerState::Stopped, 0, None, 0, None, false),
        (&h.connecting, ServerState::Connecting, 0, None, 0, None, false),
        (&h.ready, ServerState::Ready, 10, None, 0, None, false),
        (&h.stopping, ServerState::Stopped, 20, Some("the connection is being ended"), 0, None, true),
        (
            &h.restarting,
            ServerState::Connecting,
            20,
            Some("the last connection is being ended first"),
            0,
            None,
            true,
        ),
        (&h.backoff, ServerState::Backoff, 10, Some("broken pipe"), 1, until, false),
        (&h.parked, ServerState::Failed, 10, Some("no such program"), 1, None, false),
    ] {
        let life = life_after(history);
        let (since, reason) = (Timestamp(since), reason.map(str::to_owned));
        let failed = matches!(state, ServerState::Backoff | ServerState::Failed);
        let last_failure = failed.then(|| Failure { reason: reason.clone().unwrap_or_default(), at: since });
        let expected = ConnectionPhase {
            state,
            since,
            reason,
            attempt,
            retry_at,
            restarts: 0,
            last_failure,
            on_demand: false,
        };
        assert_eq!(life.phase(), expected);
        assert_eq!(matches!(life.state, State::Ending(_)), stops, "{history:?}");
        assert_eq!(life.generation(), Generation(u64::from(!history.is_empty())));
    }
}

#[test]
fn delays_double_to_a_cap_and_differ_between_servers() {
    let caps: Vec<u64> = (1..=6).map(|failures| backoff::cap_ms(failures, &limits())).collect();
    assert_eq!(caps, [100, 200, 400, 800, 1_000, 1_000]);
    assert_eq!(backoff::cap_ms(u32::MAX, &limits()), 1_000);
    let mut none = Limits::default();
    (none.backoff_first, none.backoff_max) = (Duration::ZERO, Duration::ZERO);
    assert_eq!(backoff::delay(SEED, Generation(1), 1, &none), Duration::from_millis(1));

    let delays = |seed| {
        let of = move |generation| backoff::delay(seed, Generation(generation), 9, &limits());
        (1..=64).map(of).collect::<Vec<_>>()
    };
    assert_eq!(delays(SEED), delays(SEED));
    let distinct: BTreeSet<_> = (0..64).map(delays).collect();
    assert_eq!(distinct.len(), 64);
    let all: Vec<Duration> = distinct.into_iter().flatten().collect();
    let mean = all.iter().sum::<Duration>().as_millis() / all.len() as u128;
    assert!((450..=550).contains(&mean), "the jitter is not spread over its range: {mean} ms");
}

proptest! {
    #[test]
    fn every_delay_is_within_its_bounds(
        seed: u64, generation: u64, failures: u32, first in 0..90_000u64, max in 0..90_000u64,
    ) {
        let mut limits = Limits::default();
        limits.backoff_first = Duration::from_millis(first);
        limits.backoff_max = Duration::from_millis(max);
        let delay = backoff::delay(seed, Generation(generation), failures, &limits).as_millis();
        let cap = backoff::cap_ms(failures, &limits);
        prop_assert!(cap <= max);
        prop_assert!((1..=u128::from(cap.max(1))).contains(&delay), "{} of {}", delay, cap);
    }

    #[test]
    fn there_are_never_two_connections_and_every_back_off_ends(
        script in prop::collection::vec((0..300u64, 0..13u8, 0..4u64), 0..120),
    ) {
        let mut life = ConnectionLife::new(SEED, limits(), Some(IDLE_STOP));
        let (mut log, mut running, mut now) = (Vec::new(), None, Timestamp(0));
        for (wait, kind, back) in script {
            now = now.after(Duration::from_millis(wait));
            let generation = life.generation().0.saturating_sub(back);
            let command = match kind {
                0 => Enable,
                1 => Disable,
                2 => Restart,
                3 | 4 => connected(generation),
                5 | 6 => broke(generation),
                7 => closed(generation),
                8 => missing(generation),
                9 => unused(generation),
                10 => Demand,
                11 => edit(Some(IDLE_STOP), Reach::Other),
                _ => Tick,
            };
            let Ok(decision) = life.decide(now, &command) else { continue };
            if let ConnectionCommand::Ended { generation, .. } = command {
                prop_assert_eq!(running.take(), Some(generation));
            }
            for directive in decision.directives {
                match directive {
                    ConnectionDirective::Start { generation } => {
                        prop_assert_eq!(running.replace(generation), None);
                    }
                    ConnectionDirective::Stop { generation, .. }
                    | ConnectionDirective::LookForUse { generation } => {
                        prop_assert_eq!(running, Some(generation));
                    }
                }
            }
            decision.events.iter().for_each(|event| life.apply(event));
            log.extend(decision.events);

            let phase = life.phase();
            let ready = phase.state == ServerState::Ready;
            prop_assert!(phase.state != ServerState::Backoff || phase.retry_at.is_some());
            prop_assert_eq!(phase.retry_at.filter(|_| !ready), life.next_deadline().filter(|_| !ready));
            let serves = matches!(phase.state, ServerState::Connecting | ServerState::Ready);
            prop_assert_eq!(running.is_some(), serves || matches!(life.state, State::Ending(_)));
            if let Some(until) = life.next_deadline().filter(|_| !ready) {
                // Nobody's wish is no tick: it leaves a pause that is over as it is.
                prop_assert!(until > now || command == Demand);
                prop_assert!(!life.decide(until, &Tick).unwrap().directives.is_empty());
            }
        }
        let mut replayed = ConnectionLife::new(SEED, limits(), Some(IDLE_STOP));
        log.iter().for_each(|event| replayed.apply(event));
        prop_assert_eq!(replayed, life);
    }
}
