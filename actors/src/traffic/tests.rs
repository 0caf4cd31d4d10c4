use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance, timeout};

use super::{Traffic, Use};

const IDLE: Duration = Duration::from_secs(60);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_unused_only_after_its_last_use_and_takes_nobody_after_that() {
    let traffic = Arc::new(Traffic::default());
    advance(secs(59)).await;
    assert_eq!(traffic.close_if_unused(IDLE), Use::Ago(secs(59)));
    let passage = traffic.enter().expect("the door is open");
    advance(secs(600)).await;
    assert_eq!((traffic.under_way(), traffic.close_if_unused(IDLE)), (1, Use::Ago(secs(0))));
    drop(passage);
    advance(secs(10)).await;
    assert_eq!((traffic.under_way(), traffic.close_if_unused(IDLE)), (0, Use::Ago(secs(10))));
    advance(secs(50)).await;
    assert_eq!(traffic.close_if_unused(IDLE), Use::None);
    assert!(traffic.enter().is_none());
}

/// What happens to one call after another: `true` for an answer to somebody in between.
async fn reaches(calls: u32, answers: &[bool]) -> bool {
    let traffic = Arc::new(Traffic::default());
    for answered in answers {
        let (passage, asked) = (traffic.enter().expect("the door is open"), Instant::now());
        advance(secs(1)).await;
        if *answered {
            traffic.hear();
        }
        passage.timed_out(asked);
    }
    timeout(secs(1), traffic.until_unanswered(calls)).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn time_outs_count_only_in_a_row_and_of_a_silent_server() {
    for (answers, expected) in [
        (&[false, false, false][..], true),
        (&[false, false], false),
        (&[false, false, true, false, false], false),
        (&[true, true, true, true], false),
        (&[true, false, false, false], true),
    ] {
        assert_eq!(reaches(3, answers).await, expected, "{answers:?}");
    }
}
