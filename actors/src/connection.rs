//! A connection actor: one connection's life. It connects, serves and ends; it never tries again.
//!
//! | Owns | Receives (what, from whom) | Asks of (whom, with what deadline) | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | one connection and its published [`Ready`] | `Stop` from the servers' supervisor; reports of its own tasks | the connector: the server's connect deadline, counted from its place among those that connect; a silent server, whether it still answers: `probe_deadline`; the connection's close: `stop_child` | it never fails by itself: every end is told to the supervisor as `Ended` | one place of `connects_at_once`; 16 notices, 64 late answers; one refresh a quiet time and one a second |
//!
//! Whatever way it ends, also by a kill or a panic, its `Serving` is dropped: the connection is killed, every pending
//! call is answered, and the readers see no connection any more.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::server::{Connection, LateReplies, LateReply, Notice, Notices};
use pilothouse_messages::connection::{Again, EndReason, Generation};
use pilothouse_messages::error::ConnectError;
use pilothouse_messages::listing::{CatalogCommand, RefreshCause};
use pilothouse_messages::topic::TopicCommand;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{SemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::catalog::CatalogMsg;
use crate::protocol::terms;
use crate::pulse;
use crate::servers::ServersMsg;
use crate::session::SessionMsg;
use crate::slot::Letter;
use crate::tasks::{TaskSet, caught, caught_now};
use crate::wiring::{Ready, ServerPlace, Wiring};

/// Notices that wait; one that waits says the same as many.
const NOTICES: usize = 16;
/// A storm of notices is listed once in this many quiet times, even if it never ends.
const STORM: u32 = 10;
/// Late answers that wait for their topics; more of them at once are only counted.
const LATE_REPLIES: usize = 64;
/// The least time between two listings that notices bring about: each real change is a write of the whole listing.
const SPACING: Duration = Duration::from_secs(1);

/// What the actor is born with.
pub struct ConnectionArgs {
    /// The runtime's wiring.
    pub wiring: Arc<Wiring>,
    /// The server.
    pub place: Arc<ServerPlace>,
    /// Which of the server's connections this is.
    pub generation: Generation,
    /// The supervisor that starts it. Reports go to this one and to no successor of it, whose generations are others.
    pub supervisor: ActorRef<Letter<ServersMsg>>,
}

/// What changes during its life.
pub struct ConnectionShell {
    /// What it was born with.
    args: ConnectionArgs,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// What it is doing.
    doing: Doing,
}

enum Doing {
    /// Its task waits for a place, or for the handshake.
    Connecting,
    /// It answers.
    Serving(Serving),
    /// Its task closes it.
    Closing(Serving),
    /// The supervisor was told the end, and stops the actor: ractor tells a supervisor that a child has ended before
    /// it delivers what the child last said, so one that stopped itself would be taken for a failure.
    Over,
}

/// The whole mailbox.
pub enum ConnectionMsg {
    /// End the connection politely; from the supervisor.
    Stop(Again),
    /// What the actor sends itself.
    Own(Own),
}

/// What the actor sends itself.
pub struct Own(Report);

enum Report {
    Connected(Serving),
    NotConnected(EndReason),
    Ended(String),
    Closed,
}

/// The connection actor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for ConnectionActor {
    type Msg = Letter<ConnectionMsg>;
    type State = ConnectionShell;
    type Arguments = ConnectionArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: ConnectionArgs,
    ) -> Result<ConnectionShell, ActorProcessingErr> {
        let tasks = args.place.slot.tasks();
        let (notices, notes) = mpsc::channel(NOTICES);
        let (late, replies) = mpsc::channel(LATE_REPLIES);
        let (wiring, place, generation) = (args.wiring.clone(), args.place.clone(), args.generation);
        tasks.spawn(async move {
            let report = match connect(&wiring, &place, notices, late).await {
                Ok(connection) => Report::Connected(Serving::new(&wiring, &place, connection, generation)),
                Err(reason) => Report::NotConnected(reason),
            };
            tell(&myself, report);
        });
        tasks.spawn(watch_notices(args.wiring.clone(), args.place.clone(), notes));
        tasks.spawn(keep_late(args.wiring.clone(), replies));
        Ok(ConnectionShell { args, tasks, doing: Doing::Connecting })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut ConnectionShell,
    ) -> Result<(), ActorProcessingErr> {
        match letter.body {
            ConnectionMsg::Stop(again) => shell.stop(&myself, again),
            ConnectionMsg::Own(Own(Report::Connected(serving))) => shell.connected(&myself, serving),
            ConnectionMsg::Own(Own(Report::NotConnected(reason))) => shell.not_connected(reason),
            ConnectionMsg::Own(Own(Report::Ended(reason))) => shell.ended(reason),
            ConnectionMsg::Own(Own(Report::Closed)) => shell.closed(),
        }
        Ok(())
    }
}

impl ConnectionShell {
    fn stop(&mut self, myself: &ActorRef<Letter<ConnectionMsg>>, again: Again) {
        match std::mem::replace(&mut self.doing, Doing::Over) {
            Doing::Connecting => {
                // Drops the connector's future, and with it whatever it had started.
                self.tasks.cancel();
                self.finish(EndReason::Closed);
            }
            Doing::Serving(mut serving) => {
                serving.leaves = match again {
                    Again::Yes | Again::No => Leaves::Stale(words(&EndReason::Closed)),
                    Again::OnDemand => Leaves::AsItIs,
                };
                serving.withdraw();
                self.close(myself, serving.ready.connection.clone());
                self.doing = Doing::Closing(serving);
            }
            Doing::Closing(serving) => self.doing = Doing::Closing(serving),
            Doing::Over => {}
        }
    }

    fn close(&self, myself: &ActorRef<Letter<ConnectionMsg>>, connection: Arc<dyn Connection>) {
        let (grace, myself) = (self.args.wiring.limits.stop_child, myself.clone());
        self.tasks.spawn(async move {
            // Closed, too late or panicked: `Serving` kills whatever is left.
            let _closed = timeout(grace, caught(async { connection.close(grace).await })).await;
            tell(&myself, Report::Closed);
        });
    }

    fn connected(&mut self, myself: &ActorRef<Letter<ConnectionMsg>>, serving: Serving) {
        match &self.doing {
            Doing::Connecting => serving.publish(),
            // Stopped in the meantime: dropping the connection kills it.
            Doing::Serving(_) | Doing::Closing(_) | Doing::Over => return,
        }
        let ready = serving.ready.clone();
        self.watch_end(myself, ready.clone());
        self.doing = Doing::Serving(serving);
        let server = self.args.place.definition.id.clone();
        self.report(ServersMsg::Connected { server: server.clone(), ready });
        let command = CatalogCommand::Refresh { server, cause: RefreshCause::Connected };
        inform(&self.args.wiring, command);
    }

    fn watch_end(&self, myself: &ActorRef<Letter<ConnectionMsg>>, ready: Arc<Ready>) {
        let (myself, limits) = (myself.clone(), self.args.wiring.limits.clone());
        let interval = self.args.place.definition.probe_interval.unwrap_or(limits.probe_interval);
        self.tasks.spawn(async move {
            let reason = tokio::select! {
                biased;
                reason = caught(async { ready.connection.ended().await }) => reason.unwrap_or_else(|panic| panic),
                reason = pulse::lost(&ready, &limits, interval) => reason,
            };
            // At once, not only when the mailbox comes to it: callers wait for this.
            ready.ended.cancel();
            tell(&myself, Report::Ended(reason));
        });
    }

    fn not_connected(&mut self, reason: EndReason) {
        match std::mem::replace(&mut self.doing, Doing::Over) {
            Doing::Connecting => {
                disconnected(&self.args.wiring, &self.args.place, words(&reason));
                self.finish(reason);
            }
            other @ (Doing::Serving(_) | Doing::Closing(_) | Doing::Over) => self.doing = other,
        }
    }

    fn ended(&mut self, reason: String) {
        match std::mem::replace(&mut self.doing, Doing::Over) {
            Doing::Serving(mut serving) => {
                serving.leaves = Leaves::Stale(reason.clone());
                drop(serving);
                self.finish(EndReason::Failed(reason));
            }
            // The process is not reaped before the close has returned.
            other @ (Doing::Connecting | Doing::Closing(_) | Doing::Over) => self.doing = other,
        }
    }

    fn closed(&mut self) {
        match std::mem::replace(&mut self.doing, Doing::Over) {
            Doing::Closing(serving) => {
                drop(serving);
                self.finish(EndReason::Closed);
            }
            other @ (Doing::Connecting | Doing::Serving(_) | Doing::Over) => self.doing = other,
        }
    }

    fn finish(&self, reason: EndReason) {
        let (server, generation) = (self.args.place.definition.id.clone(), self.args.generation);
        self.report(ServersMsg::Ended { server, generation, reason });
    }

    fn report(&self, message: ServersMsg) {
        // A supervisor that has gone kills this actor, too.
        let _gone = self.args.supervisor.cast(Letter::inside(message));
    }
}

/// An open connection; dropped in whatever way, it leaves nothing behind.
struct Serving {
    wiring: Arc<Wiring>,
    place: Arc<ServerPlace>,
    ready: Arc<Ready>,
    /// What becomes of the listing.
    leaves: Leaves,
}

/// What the end of a connection leaves of its server's listing.
enum Leaves {
    /// The last known good one, for this reason.
    Stale(String),
    /// Nothing has happened to it: the server is only stopped until somebody uses it.
    AsItIs,
}

impl Serving {
    fn new(
        wiring: &Arc<Wiring>,
        place: &Arc<ServerPlace>,
        connection: Arc<dyn Connection>,
        of: Generation,
    ) -> Self {
        let (confirmed, ended) = (watch::Sender::new(None), CancellationToken::new());
        // A connection of the embedder that panics here speaks no version that we could show.
        let protocol = caught_now(|| connection.protocol()).unwrap_or_default();
        let ready = Arc::new(Ready {
            connection,
            protocol,
            generation: of,
            definition: place.fingerprint,
            connector: place.connector.clone(),
            traffic: Arc::default(),
            confirmed,
            ended,
        });
        let leaves = Leaves::Stale("the connection's actor failed".to_owned());
        Self { wiring: wiring.clone(), place: place.clone(), ready, leaves }
    }

    fn publish(&self) {
        self.place.ready.send_replace(Some(self.ready.clone()));
    }

    /// New calls find no connection; those that are under way may still be answered.
    fn withdraw(&self) {
        self.place.ready.send_if_modified(|published| {
            // A successor may have published its own already.
            let is_ours = published.as_ref().is_some_and(|ready| Arc::ptr_eq(ready, &self.ready));
            if is_ours {
                *published = None;
            }
            is_ours
        });
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.withdraw();
        self.ready.ended.cancel();
        // A connection of the embedder that panics here must not turn a panic that drops us into an abort.
        let _panicked = caught_now(|| self.ready.connection.kill());
        match std::mem::replace(&mut self.leaves, Leaves::AsItIs) {
            Leaves::Stale(reason) => disconnected(&self.wiring, &self.place, reason),
            Leaves::AsItIs => {
                let server = self.place.definition.id.clone();
                inform(&self.wiring, CatalogCommand::Rested { server });
            }
        }
    }
}

/// Waits for a place, then connects; the place is free again when the handshake is over, or has taken too long.
async fn connect(
    wiring: &Wiring,
    place: &ServerPlace,
    notices: Notices,
    late: LateReplies,
) -> Result<Arc<dyn Connection>, EndReason> {
    let turn = place_to_connect(wiring).await;
    let within = place.definition.connect_timeout.unwrap_or(wiring.limits.connect);
    let mut terms = terms(wiring, place, notices);
    terms.late = Some(late);
    let connecting = caught(async { place.connector.connect(terms).await });
    // Places are for a burst of starts: a silent server gives its place to the next long before its deadline.
    let keep_place = async {
        place_is_kept(wiring).await;
        drop(turn);
        std::future::pending::<std::convert::Infallible>().await
    };
    let bounded = async {
        tokio::select! {
            biased;
            connected = timeout(within, connecting) => connected,
            never = keep_place => match never {},
        }
    };
    match bounded.await {
        Ok(Ok(Ok(connection))) => Ok(connection),
        Ok(Ok(Err(error))) => Err(reason_of(&error)),
        Ok(Err(panic)) => Err(EndReason::Failed(format!("the connector panicked: {panic}"))),
        Err(_elapsed) => {
            let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            Err(reason_of(&ConnectError::TimedOut { within_ms }))
        }
    }
}

async fn place_to_connect(wiring: &Wiring) -> Option<SemaphorePermit<'_>> {
    let places = &wiring.servers.connecting;
    if let Ok(turn) = places.try_acquire() {
        return Some(turn);
    }
    let _waiting = Waiting::new(&wiring.servers.waiting);
    // Nobody closes this semaphore; if somebody did, everybody would have a place.
    places.acquire().await.ok()
}

/// As long as one that connects may keep its place: not long while others wait for one.
async fn place_is_kept(wiring: &Wiring) {
    let limits = &wiring.limits;
    let wanted = async {
        sleep(limits.connect_place_wanted).await;
        let mut waiting = wiring.servers.waiting.subscribe();
        // The sender lives as long as the wiring, so this only ends by coming true.
        drop(waiting.wait_for(|waiting| *waiting > 0).await);
    };
    // Whichever comes first ends it.
    let _elapsed = timeout(limits.connect_place, wanted).await;
}

/// Counts one that waits for a place.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

fn reason_of(error: &ConnectError) -> EndReason {
    let words = error.to_string();
    if error.is_permanent() { EndReason::Permanent(words) } else { EndReason::Failed(words) }
}

fn words(reason: &EndReason) -> String {
    match reason {
        EndReason::Failed(words) | EndReason::Permanent(words) => words.clone(),
        EndReason::Closed => "the connection was closed".to_owned(),
    }
}

fn disconnected(wiring: &Wiring, place: &ServerPlace, reason: String) {
    let server = place.definition.id.clone();
    inform(wiring, CatalogCommand::Disconnected { server, reason });
}

fn inform(wiring: &Wiring, command: CatalogCommand) {
    wiring.catalog.slot.inform(CatalogMsg::Command { command });
}

/// Lists the server again when its notices have been quiet for a while, or have been loud for too long; never again
/// within [`SPACING`], however often its tools really change.
async fn watch_notices(wiring: Arc<Wiring>, place: Arc<ServerPlace>, mut notices: mpsc::Receiver<Notice>) {
    let quiet = wiring.limits.list_changed_debounce;
    let mut not_before = Instant::now();
    while let Some(Notice::ToolsChanged) = notices.recv().await {
        let latest = Instant::now() + quiet * STORM;
        while let Ok(Some(Notice::ToolsChanged)) =
            timeout_at(latest.min(Instant::now() + quiet), notices.recv()).await
        {}
        // What is said meanwhile waits in the channel, or is what has just been waited for.
        sleep_until(not_before).await;
        not_before = Instant::now() + SPACING;
        let server = place.definition.id.clone();
        inform(&wiring, CatalogCommand::Refresh { server, cause: RefreshCause::ToolsChanged });
    }
}

/// Late answers that topics are told of at a time.
const LATE_AT_ONCE: usize = 64;

/// Has topics record what servers answered to their calls too late.
async fn keep_late(wiring: Arc<Wiring>, mut replies: mpsc::Receiver<LateReply>) {
    // Side by side: a topic that does not answer keeps no other's.
    let mut told = JoinSet::new();
    while let Some(LateReply { origin, answer }) = replies.recv().await {
        while told.try_join_next().is_some() {}
        if told.len() >= LATE_AT_ONCE {
            told.join_next().await;
        }
        let (Some(topic), Some(call)) = (origin.topic, origin.call) else { continue };
        let Some(place) = wiring.topics.place(&topic) else { continue };
        let command = Box::new(TopicCommand::CallAnsweredLate { call, answer });
        told.spawn(async move {
            // A topic that is gone, or does not take it, has nothing to keep it in; the answer is counted.
            drop(place.slot.ask(|reply| SessionMsg::Command { command, reply: Some(reply) }).await);
        });
    }
}

fn tell(myself: &ActorRef<Letter<ConnectionMsg>>, report: Report) {
    // An actor that has ended has been cleaned up.
    let _gone = myself.cast(Letter::inside(ConnectionMsg::Own(Own(report))));
}
