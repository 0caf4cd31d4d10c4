use std::ops::Range;

use pilothouse_messages::id::{Attempt, StepId, TurnId};

use super::*;

const STEP: StepRef = StepRef { turn: TurnId(3), step: StepId(2), attempt: Attempt(1) };

fn wait_of(topic: &str, failed: FailedTry) -> Option<Duration> {
    next_try(&TopicId::new(topic).expect("an id"), STEP, failed, &Limits::default())
}

/// The wait is within these milliseconds, for any topic.
fn check(number: u32, said: Said, fault: Fault, expected: Option<Range<u64>>) {
    for topic in ["a", "b", "harbour", "w"] {
        let wait = wait_of(topic, FailedTry { number, said, fault });
        let fits = match (&expected, wait) {
            (Some(range), Some(wait)) => {
                range.contains(&u64::try_from(wait.as_millis()).expect("it is short"))
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(fits, "try {number}, {said:?}, {fault:?}: {wait:?} instead of {expected:?}");
    }
}

#[test]
fn a_step_is_tried_again_only_before_its_first_word_and_three_times_in_all() {
    let (nothing, passing) = (Said::Nothing, Fault::Passing(None));
    let asks = |seconds| Fault::Passing(Some(Duration::from_secs(seconds)));
    check(1, nothing, passing, Some(500..1000));
    check(2, nothing, passing, Some(1000..2000));
    check(3, nothing, passing, None);
    check(1, Said::Something, passing, None);
    check(1, nothing, Fault::Lasting, None);
    check(1, nothing, asks(0), Some(0..500));
    check(1, nothing, asks(20), Some(20_000..20_500));
    check(2, nothing, asks(60), Some(60_000..61_000));
    check(1, nothing, asks(61), None);
    check(1, nothing, asks(u64::MAX), None);
    check(1, Said::Something, asks(1), None);
}

#[test]
fn topics_that_failed_together_come_back_one_by_one() {
    let failed = FailedTry { number: 1, said: Said::Nothing, fault: Fault::Passing(None) };
    let waits = ["a", "b", "c", "d"].map(|topic| wait_of(topic, failed));
    let again = ["a", "b", "c", "d"].map(|topic| wait_of(topic, failed));
    assert_eq!(waits, again, "the same try waits the same time");
    let different: std::collections::BTreeSet<_> = waits.iter().collect();
    assert_eq!(different.len(), 4, "{waits:?}");
}

#[test]
fn no_limit_makes_a_wait_overflow() {
    let mut limits = Limits::default();
    limits.model_tries = u32::MAX;
    (limits.model_backoff, limits.model_retry_after) = (Duration::MAX, Duration::MAX);
    let limits = limits.clamped();
    for number in [1, 31, 32, 33, u32::MAX - 1] {
        let failed = FailedTry { number, said: Said::Nothing, fault: Fault::Passing(None) };
        let wait = next_try(&TopicId::new("t").expect("an id"), STEP, failed, &limits);
        assert!(wait.is_some_and(|wait| wait <= limits.model_retry_after), "{number}: {wait:?}");
    }
}
