use std::time::Duration;

use pilothouse_messages::time::Timestamp;

use super::{Restarts, Verdict};

fn after(ms: u64) -> Verdict {
    Verdict::StartAfter(Duration::from_millis(ms))
}

/// Ends at these milliseconds are answered with these verdicts.
fn check(ends: &[(u64, Verdict)]) {
    let mut restarts = Restarts::default();
    for (at, verdict) in ends {
        assert_eq!(restarts.ended(Timestamp(*at)), *verdict, "at {at}");
    }
}

#[test]
fn delays_double_and_the_ninth_end_in_a_minute_parks() {
    check(&[
        (0, after(0)),
        (1, after(50)),
        (2, after(100)),
        (3, after(200)),
        (4, after(400)),
        (5, after(800)),
        (6, after(1600)),
        (7, after(3200)),
        (8, Verdict::Park),
        (9, Verdict::Park),
    ]);
}

#[test]
fn an_end_is_forgotten_after_a_minute() {
    check(&[(0, after(0)), (59_999, after(50)), (60_000, after(50)), (200_000, after(0))]);
}

#[test]
fn a_forgiven_child_starts_with_a_full_budget() {
    let mut restarts = Restarts::default();
    for at in 0..20 {
        restarts.ended(Timestamp(at));
    }
    restarts.forgive();
    assert_eq!(restarts.ended(Timestamp(21)), after(0));
}
