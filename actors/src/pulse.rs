//! Watches whether a server still answers, so that `ready` is true.

use std::time::Duration;

use pilothouse_messages::error::RequestError;
use pilothouse_messages::limits::Limits;
use tokio::time::{Instant, sleep_until, timeout};

use crate::tasks::caught;
use crate::wiring::Ready;

/// Returns why the server counts as dead: a silence of `interval` was followed by a probe without an answer, or calls
/// timed out in a row. Whatever the server says in the meantime, to whomever, is a sign of life.
pub(crate) async fn lost(ready: &Ready, limits: &Limits, interval: Duration) -> String {
    let calls = limits.timeouts_in_a_row.max(1);
    tokio::select! {
        reason = silence(ready, limits.probe_deadline, interval) => reason,
        () = ready.traffic.until_unanswered(calls) => {
            format!("{calls} calls in a row were not answered in time, and nothing else was")
        }
    }
}

async fn silence(ready: &Ready, deadline: Duration, interval: Duration) -> String {
    // Nothing divides a time by it, but a probe must never follow a probe at once.
    let interval = interval.max(Duration::from_millis(1));
    loop {
        sleep_until(ready.traffic.heard() + interval).await;
        let asked = Instant::now();
        if ready.traffic.heard() + interval > asked {
            continue;
        }
        match timeout(deadline, caught(async { ready.connection.probe().await })).await {
            Ok(Ok(Err(RequestError::Ended { reason }))) => return reason,
            // Any answer will do.
            Ok(Ok(Ok(()) | Err(_))) => ready.traffic.hear(),
            Ok(Err(panic)) => return format!("asking whether it still answers panicked: {panic}"),
            Err(_elapsed) if ready.traffic.heard() > asked => {}
            Err(_elapsed) => {
                return format!("the server did not answer a probe within {} ms", deadline.as_millis());
            }
        }
    }
}
