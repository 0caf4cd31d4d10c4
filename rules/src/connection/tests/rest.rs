//! What follows a pause: one try of a parked server, the rest of an unused one, and the start of an edited one.

use super::*;

#[test]
fn a_server_that_is_parked_for_its_failures_is_tried_once_in_a_while() {
    let mut life = flap(3, 999);
    let half_open = limits().half_open;
    for generation in 4..8 {
        let (phase, until) = (life.phase(), life.next_deadline().unwrap());
        let pause = until.since(phase.since);
        assert!(pause >= half_open * 3 / 4 && pause <= half_open * 5 / 4, "{pause:?}");
        assert_eq!((phase.state, phase.retry_at), (ServerState::Failed, Some(until)));
        assert_eq!(life.decide(Timestamp(until.0 - 1), &Tick), Ok(Decision::answer(())));
        perform(&mut life, until.0, &Tick);
        assert_eq!(life.phase().state, ServerState::Connecting);
        perform(&mut life, until.0 + 5, &broke(generation));
        let failures = u32::try_from(generation).unwrap();
        assert_eq!(
            (life.phase().state, life.phase().attempt),
            (ServerState::Failed, failures),
            "one try only"
        );
    }
    let until = life.next_deadline().unwrap().0;
    perform(&mut life, until, &Tick);
    perform(&mut life, until, &connected(8));
    perform(&mut life, until + 1_000, &broke(8));
    assert_eq!(
        (life.phase().state, life.phase().attempt),
        (ServerState::Backoff, 1),
        "one that holds is well again"
    );
}

#[test]
fn a_server_that_nobody_uses_is_looked_at_and_rests_until_somebody_does() {
    let idle = IDLE_STOP.as_millis() as u64;
    let mut life = life_after(&histories().ready);
    assert_eq!(life.next_deadline(), Some(Timestamp(10 + idle)));
    let look = || Decision {
        directives: vec![ConnectionDirective::LookForUse { generation: Generation(1) }],
        ..Decision::answer(())
    };
    assert_eq!(life.decide(Timestamp(9 + idle), &Tick), Ok(Decision::answer(())));
    assert_eq!(life.decide(Timestamp(10 + idle), &Tick), Ok(look()));
    perform(&mut life, 10 + idle, &used(1, 5_000));
    assert_eq!((life.next_deadline(), life.phase().since), (Some(Timestamp(5_000 + idle)), Timestamp(10)));
    perform(&mut life, 5_000 + idle, &unused(1));
    perform(&mut life, 5_001 + idle, &closed(1));
    let phase = life.phase();
    assert_eq!((phase.state, phase.on_demand, phase.retry_at), (ServerState::Stopped, true, None));
    assert!(phase.reason.is_some_and(|reason| reason.starts_with("idle")));
    let forever = life_after(&[&histories().ready[..], &[(20, edit(None, Reach::Same))]].concat());
    assert_eq!(forever.next_deadline(), None);
}

#[test]
fn another_way_to_a_server_ends_its_connection_first_and_the_same_way_touches_nothing() {
    let h = histories();
    let edited = ConnectionEvent::Edited { idle_stop: None };
    let and = |outcome: Result<Outcome, ConnectionRejection>| {
        let mut outcome = outcome.unwrap();
        outcome.events.insert(0, edited.clone());
        Ok(outcome)
    };
    for (history, expected) in [
        (&vec![], Ok(happened(edited.clone()))),
        (&h.connecting, and(stopping(1, Again::Yes, 30))),
        (&h.ready, and(stopping(1, Again::Yes, 30))),
        (&h.stopping, Ok(happened(edited.clone()))),
        (&h.restarting, Ok(happened(edited.clone()))),
        (&h.backoff, and(started(2, 30))),
        (&h.parked, and(started(2, 30))),
        (&h.resting, and(started(2, 30))),
    ] {
        check(history, 30, edit(None, Reach::Other), expected);
        check(history, 30, edit(None, Reach::Same), Ok(happened(edited.clone())));
    }
}

#[test]
fn the_last_failure_is_known_while_the_server_answers_again() {
    let h = histories();
    let until = life_after(&h.backoff).next_deadline().unwrap().0;
    let back = life_after(&[&h.backoff[..], &[(until, Tick), (until, connected(2))]].concat());
    let expected = Failure { reason: "broken pipe".to_owned(), at: Timestamp(10) };
    assert_eq!((back.phase().state, back.phase().last_failure), (ServerState::Ready, Some(expected)));
}
