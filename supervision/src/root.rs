//! The root supervisor: starts the five children in order, and a fresh one when one ends.
//!
//! | Owns | Receives (what, from whom) | Asks of | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the children and their budgets | supervision events from ractor; `Cleared` from its own tasks | nobody | never by itself; when it is killed, ractor kills the children | one restart budget for each child |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::approval::{ApprovalActor, ApprovalArgs};
use pilothouse_actors::catalog::{CatalogActor, CatalogArgs};
use pilothouse_actors::registry::{RegistryActor, RegistryArgs};
use pilothouse_actors::slot::{Letter, Slot};
use pilothouse_actors::tasks::TaskSet;
use pilothouse_actors::watched::Watched;
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::tree::RuntimeEvent;
use pilothouse_rules::restart::{Restarts, Verdict};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use crate::servers::{ServersActor, ServersArgs};
use crate::topics::{TopicsActor, TopicsArgs};

/// How long a child stays parked before it is tried again with a full budget.
const TRY_PARKED_AFTER: Duration = Duration::from_secs(60);

/// The children, in the order in which they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Child {
    Approval,
    Catalog,
    Registry,
    Servers,
    Topics,
}

impl Child {
    const ALL: [Self; 5] = [Self::Approval, Self::Catalog, Self::Registry, Self::Servers, Self::Topics];

    fn name(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Catalog => "catalog",
            Self::Registry => "registry",
            Self::Servers => "servers",
            Self::Topics => "topics",
        }
    }
}

/// What the root is born with.
pub(crate) struct RootArgs {
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) seed: u64,
}

pub(crate) struct RootShell {
    args: RootArgs,
    /// Waits for old lives to end; ends with the root.
    tasks: TaskSet,
    alive: BTreeMap<ActorId, Child>,
    restarts: BTreeMap<Child, Restarts>,
}

/// The whole mailbox.
#[derive(Debug)]
pub(crate) enum RootMsg {
    /// The old life's tasks are gone and the delay is over: start a fresh one.
    Cleared(Child),
}

/// The root supervisor's behaviour.
pub(crate) struct RootActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for RootActor {
    type Msg = Letter<RootMsg>;
    type State = RootShell;
    type Arguments = RootArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: RootArgs,
    ) -> Result<RootShell, ActorProcessingErr> {
        let mut shell =
            RootShell { args, tasks: TaskSet::new(), alive: BTreeMap::new(), restarts: BTreeMap::new() };
        for child in Child::ALL {
            shell.start(child, myself.get_cell()).await?;
        }
        Ok(shell)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut RootShell,
    ) -> Result<(), ActorProcessingErr> {
        match letter.body {
            RootMsg::Cleared(child) => shell.start(child, myself.get_cell()).await?,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        shell: &mut RootShell,
    ) -> Result<(), ActorProcessingErr> {
        if let Some((actor, reason)) = end_of(event) {
            shell.ended(&myself, actor, reason);
        }
        Ok(())
    }
}

impl Drop for RootShell {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl RootShell {
    async fn start(&mut self, child: Child, root: ActorCell) -> Result<(), SpawnErr> {
        let wiring = self.args.wiring.clone();
        let id = match child {
            Child::Approval => {
                let args = ApprovalArgs { wiring: wiring.clone() };
                spawn(&wiring.approval.slot, ApprovalActor, args, (&wiring, root)).await?
            }
            Child::Catalog => {
                let args = CatalogArgs { wiring: wiring.clone() };
                spawn(&wiring.catalog.slot, CatalogActor, args, (&wiring, root)).await?
            }
            Child::Registry => {
                let args = RegistryArgs { wiring: wiring.clone() };
                spawn(&wiring.registry.slot, RegistryActor, args, (&wiring, root)).await?
            }
            Child::Servers => {
                let args = ServersArgs { wiring: wiring.clone(), seed: self.args.seed };
                spawn(&wiring.servers.slot, ServersActor, args, (&wiring, root)).await?
            }
            Child::Topics => {
                let args = TopicsArgs { wiring: wiring.clone() };
                spawn(&wiring.topics.slot, TopicsActor, args, (&wiring, root)).await?
            }
        };
        self.alive.insert(id, child);
        Ok(())
    }

    fn ended(&mut self, myself: &ActorRef<Letter<RootMsg>>, id: ActorId, reason: String) {
        let Some(child) = self.alive.remove(&id) else { return };
        let wiring = &self.args.wiring;
        let verdict = self.restarts.entry(child).or_default().ended(wiring.clock.now());
        let old = match child {
            Child::Approval => vacate(&wiring.approval.slot, &reason, verdict),
            Child::Catalog => vacate(&wiring.catalog.slot, &reason, verdict),
            Child::Registry => vacate(&wiring.registry.slot, &reason, verdict),
            Child::Servers => vacate(&wiring.servers.slot, &reason, verdict),
            Child::Topics => vacate(&wiring.topics.slot, &reason, verdict),
        };
        tracing::warn!(target: "pilothouse", actor = child.name(), %reason, "an actor ended");
        wiring.events.publish(RuntimeEvent::Restarted { actor: child.name().to_owned(), reason });
        let delay = match verdict {
            Verdict::StartAfter(delay) => delay,
            // Nobody else can ask for it: what made it fail may have passed by then.
            Verdict::Park => {
                self.restarts.entry(child).or_default().forgive();
                TRY_PARKED_AFTER
            }
        };
        let (root, within) = (myself.clone(), wiring.limits.stop_child);
        self.tasks.spawn(async move {
            // Whatever is left after the bound ends at its next await.
            let _left = old.end(within).await;
            tokio::time::sleep(delay).await;
            let _gone = root.cast(Letter::inside(RootMsg::Cleared(child)));
        });
    }
}

/// Which actor has ended, and why; ractor's other events are no ends.
pub(crate) fn end_of(event: SupervisionEvent) -> Option<(ActorId, String)> {
    match event {
        SupervisionEvent::ActorTerminated(cell, _state, reason) => {
            Some((cell.get_id(), reason.unwrap_or_else(|| "it stopped".to_owned())))
        }
        SupervisionEvent::ActorFailed(cell, error) => Some((cell.get_id(), error.to_string())),
        _ => None,
    }
}

/// Starts an actor, watched, and puts it into its slot.
pub(crate) async fn spawn<A, M>(
    slot: &Slot<M>,
    actor: A,
    args: A::Arguments,
    (wiring, supervisor): (&Wiring, ActorCell),
) -> Result<ActorId, SpawnErr>
where
    A: Actor<Msg = Letter<M>>,
    M: Send + 'static,
{
    let watched = Watched::new(actor, slot, &wiring.limits);
    let (actor, _join) = Actor::spawn_linked(None, watched, args, supervisor).await?;
    let id = actor.get_id();
    slot.fill(actor);
    Ok(id)
}

/// Empties a slot; the tasks that are left over are returned.
pub(crate) fn vacate<M: Send + 'static>(slot: &Slot<M>, reason: &str, verdict: Verdict) -> TaskSet {
    let old = slot.vacate(Some(reason.to_owned()));
    if verdict == Verdict::Park {
        slot.park(format!("it failed too often, the last time because: {reason}"));
    }
    old
}
