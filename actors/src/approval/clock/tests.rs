use std::time::Duration;

use pilothouse_messages::time::Timestamp;
use tokio::time::advance;

use super::ClockWatch;

/// Minutes that pass, and where the clock stands then, in minutes; what is said about it.
type Look = (u64, u64, Option<(u64, u64)>);

async fn check(newest: u64, looks: &[Look]) {
    let at = |minutes: u64| Timestamp(minutes * 60_000);
    let mut watch = ClockWatch::default();
    watch.begin(at(newest));
    for (pass, stands, expected) in looks {
        advance(Duration::from_secs(pass * 60)).await;
        let jump = watch.look(at(*stands));
        assert_eq!(jump, expected.map(|(from, to)| (at(from), at(to))), "{newest}, {looks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_jumps_if_it_does_not_go_on_as_time_does_or_stands_before_the_newest_stamp() {
    check(0, &[(0, 100, None), (5, 105, None), (5, 170, Some((110, 170))), (1, 171, None)]).await;
    check(0, &[(0, 100, None), (5, 60, Some((105, 60))), (5, 65, None)]).await;
    check(0, &[(0, 100, None), (5, 104, None), (5, 110, None)]).await;
    // Nobody looked while no process ran.
    check(50, &[(0, 900, None), (1, 901, None)]).await;
    check(50, &[(0, 20, Some((50, 20))), (1, 21, None)]).await;
}
