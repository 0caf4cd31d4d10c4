use std::time::Duration;

use tokio::time::Instant;

use super::CallClock;

#[derive(Debug, Clone, Copy)]
enum Sign {
    Alive(u64),
    Questions(u64, usize),
}
use Sign::{Alive, Questions};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A clock of 60 s, 200 s with progress, stopped for 100 s at most; in seconds after its start.
fn check(signs: &[Sign], ends_at: u64, whole: u64) {
    let start = Instant::now();
    let mut clock = CallClock::new(start, seconds(60), seconds(200), seconds(100));
    for sign in signs {
        match *sign {
            Alive(at) => clock.alive(start + seconds(at)),
            Questions(at, open) => clock.questions(start + seconds(at), open),
        }
    }
    assert_eq!((clock.ends_at() - start, clock.whole()), (seconds(ends_at), seconds(whole)), "{signs:?}");
}

#[test]
fn progress_makes_a_call_longer_up_to_the_cap() {
    check(&[], 60, 60);
    check(&[Alive(0)], 60, 60);
    check(&[Alive(50)], 110, 110);
    check(&[Alive(50), Alive(100), Alive(40)], 160, 160);
    check(&[Alive(50), Alive(100), Alive(150), Alive(199)], 200, 200);
}

#[test]
fn an_open_question_stops_the_clock_within_its_bound() {
    check(&[Questions(10, 1)], 160, 60);
    check(&[Questions(10, 1), Questions(40, 0)], 90, 60);
    check(&[Questions(10, 1), Questions(20, 2), Questions(30, 1), Questions(40, 0)], 90, 60);
    check(&[Questions(10, 1), Questions(500, 0)], 160, 60);
    check(&[Questions(10, 1), Questions(70, 0), Questions(80, 1), Questions(200, 0)], 160, 60);
    check(&[Questions(10, 0)], 60, 60);
    check(&[Questions(10, 1), Questions(40, 0), Alive(50)], 110, 80);
}
