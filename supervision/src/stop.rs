//! The end of a runtime: everything in reverse order, each part with its share of the bound.
//!
//! topics (each turn records its end) → servers (processes ended and reaped) → registry → catalog → approval → store.

use std::time::Duration;

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::servers::ServersMsg;
use pilothouse_actors::slot::{Letter, Slot};
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::approval::ApprovalCommand;
use pilothouse_messages::error::AskError;
use pilothouse_messages::id::TopicId;
use ractor::ActorRef;
use tokio::time::timeout;

use crate::root::RootMsg;

/// How a shutdown went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// What did not end in time and was killed, in plain words; empty if all went well.
    pub forced: Vec<String>,
}

impl Shutdown {
    pub(crate) fn forced(forced: Vec<String>) -> Self {
        Self { forced }
    }

    /// `true` if every part ended by itself within its share of the time.
    pub fn is_clean(&self) -> bool {
        self.forced.is_empty()
    }
}

/// Stops everything within the limit.
pub(crate) async fn in_order(wiring: &Wiring, root: &ActorRef<Letter<RootMsg>>) -> Shutdown {
    let bound = wiring.limits.stop;
    let mut forced = Vec::new();
    let mut note = |part: &str, ended: Result<(), String>| {
        if let Err(reason) = ended {
            forced.push(format!("{part}: {reason}"));
        }
    };
    let topics = wiring.topics.slot.ask(|reply| TopicsMsg::StopAll { reply });
    note("topics", within(bound * 3 / 10, topics).await);
    wiring.topics.slot.close();
    close_topics(wiring);
    let servers = wiring.servers.slot.ask(|reply| ServersMsg::StopAll { reply });
    note("servers", within(bound * 4 / 10, servers).await);
    wiring.servers.slot.close();
    close_servers(wiring);
    end(&wiring.registry.slot);
    end(&wiring.catalog.slot);
    note("approval", within(bound / 10, last_decision(wiring)).await);
    end(&wiring.approval.slot);
    // ractor kills whatever is left below the root; guards in the actors' states end what they held.
    root.stop(Some("the runtime shuts down".to_owned()));
    if timeout(bound / 10, root.wait(None)).await.is_err() {
        root.kill();
    }
    let closed = timeout(bound / 10, wiring.store.close()).await;
    note(
        "store",
        closed.map_or_else(|_elapsed| Err(elapsed()), |closed| closed.map_err(|error| error.to_string())),
    );
    Shutdown { forced }
}

fn elapsed() -> String {
    "it did not end in time".to_owned()
}

async fn within<T>(bound: Duration, asked: impl Future<Output = Result<T, AskError>>) -> Result<(), String> {
    match timeout(bound, asked).await {
        Ok(Ok(_answer)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err(elapsed()),
    }
}

/// Answered in order, so that every decision before it has been answered, too; and not before the ledger is read.
pub(crate) async fn last_decision(wiring: &Wiring) -> Result<(), AskError> {
    let topic = TopicId::new("-").map_err(|_never| AskError::ShutDown)?;
    let command = ApprovalCommand::Withdraw { topic, approvals: Vec::new(), reason: String::new() };
    let answer =
        wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await?;
    // An empty withdrawal changes nothing, whatever the ledger says to it.
    drop(answer);
    Ok(())
}

/// Those that the supervisor did not get to.
fn close_topics(wiring: &Wiring) {
    for place in wiring.topics.places.load().values() {
        place.slot.close();
        place.slot.tasks().cancel();
        place.hub.close();
    }
}

fn close_servers(wiring: &Wiring) {
    for place in wiring.servers.places.load().values() {
        end(&place.slot);
    }
}

fn end<M: Send + 'static>(slot: &Slot<M>) {
    slot.close();
    slot.tasks().cancel();
}
