//! The end of a runtime: everything in reverse order, each part with its share of the bound.
//!
//! topics (each turn records its end) → servers (processes ended and reaped) → registry → catalog → approval → store.

use std::time::Duration;

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::durable::Told;
use pilothouse_actors::servers::ServersMsg;
use pilothouse_actors::slot::{Letter, Reply, Slot};
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::approval::ApprovalCommand;
use pilothouse_messages::error::AskError;
use pilothouse_rules::approval::Ledger;
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
    let topics = wiring.topics.slot.ask_last(|reply| TopicsMsg::StopAll { reply });
    note("topics", within(bound * 3 / 10, topics).await);
    end(&wiring.topics.slot);
    close_topics(wiring);
    let servers = wiring.servers.slot.ask_last(|reply| ServersMsg::StopAll { reply });
    note("servers", within(bound * 4 / 10, servers).await);
    end(&wiring.servers.slot);
    close_servers(wiring);
    end(&wiring.registry.slot);
    end(&wiring.catalog.slot);
    note("approval", within(bound / 10, wiring.approval.slot.ask_last(in_turn)).await);
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

/// An errand that at most expires what is due, and is answered in order: when it is, the ledger has been read, and
/// every decision before it has been answered, too.
pub(crate) fn in_turn(reply: Reply<Told<Ledger>>) -> ApprovalMsg {
    let command = ApprovalCommand::Tick;
    ApprovalMsg::Command { command, reply: Some(reply) }
}

/// Those that the supervisor did not get to.
fn close_topics(wiring: &Wiring) {
    for place in wiring.topics.places.all() {
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
