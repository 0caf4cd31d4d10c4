//! The stream on which a server speaks by itself. It may be quiet for days; when it ends it is opened again.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::DropGuard;

use super::answer::{self, Shape};
use super::events::Events;
use super::exchange::retry_of;
use super::fault::{Fault, Sign};
use super::session::Session;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Listens until the connection ends, or the server turns out to have no such stream. Lets go of `opening` as soon as
/// the server has answered for the first time.
pub(in crate::mcp) async fn listen(session: &Session, opening: DropGuard) {
    let mut opening = Some(opening);
    let (mut last, mut retry, mut idle) = (None::<String>, None, 0);
    let mut missed = false;
    loop {
        let answer = session.listen(last.as_deref()).await;
        drop(opening.take());
        match answer {
            Ok(response) if response.status().is_success() => {
                let Ok(Shape::Events) = answer::shape(&response) else {
                    return;
                };
                if missed && last.is_none() {
                    session.missed();
                }
                missed = true;
                let mut events = Events::of(response, &session.budget);
                let heard = hear(session, &mut events).await;
                idle = if heard.any { 0 } else { idle + 1 };
                retry = events.retry().or(retry);
                last = events.last_id().map(str::to_owned).or(last);
                if let Some(fault) = heard.fault {
                    session.conclude(&fault).await;
                }
            }
            Ok(response) if response.status().is_server_error() => idle += 1,
            Ok(response) => {
                // A server without such a stream says 405; whatever else it says, it says it again.
                let _ended = session.is_gone(response.status()).await;
                return;
            }
            Err(fault) => {
                idle += 1;
                session.conclude(&fault).await;
            }
        }
        sleep(pause(retry, idle)).await;
    }
}

/// Doubles from what the server asked for, as long as nothing comes.
fn pause(retry: Option<Duration>, idle: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(idle.saturating_sub(1).min(10));
    retry_of(retry).max(Duration::from_millis(50)).saturating_mul(doubled).min(PAUSE_MAX)
}

struct Heard {
    any: bool,
    fault: Option<Fault>,
}

async fn hear(session: &Session, events: &mut Events) -> Heard {
    let mut any = false;
    loop {
        match events.next().await {
            Ok(Some(event)) if event.is_message() => {
                any = true;
                // What is no message here answers nobody.
                if let Err(fault) = session.delivery.hand_on(event.data, None, |_| {}).await {
                    let reason = session.life().words().reason(fault.words());
                    tracing::debug!(target: "pilothouse", reason, "a server sent an event that is no MCP message");
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return Heard { any, fault: None },
            Err(fault) if fault.sign() == Sign::Alive => return Heard { any, fault: None },
            Err(fault) => return Heard { any, fault: Some(fault) },
        }
    }
}
