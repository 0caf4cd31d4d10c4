//! The runtime under test, over its restarts: what it is started with, and what a run holds of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::clock::{Clock, SystemClock};
use pilothouse::id::{ServerId, TopicId};
use pilothouse::secret::Secret;
use pilothouse::{Builder, Runtime, Server, Topic};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::models::Models;
use super::news::News;
use super::out::{Fields, Out};
use super::refusal::Refusal;
use super::show;
use super::virtual_time::{self, VirtualTime};
use super::windows::{Kept, Windows};
use crate::line::{ServerFields, TransportFields, Verb};
use crate::peer::Peer;

/// How long tasks have for their last lines, once the runtime has shut down.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Everything that a run has on stage.
pub(super) struct Stage {
    pub(super) out: Arc<Out>,
    pub(super) models: Models,
    pub(super) windows: BTreeMap<TopicId, Arc<Windows>>,
    /// Calls whose replies are still owed.
    pub(super) calls: JoinSet<()>,
    data: Data,
    seed: u64,
    servers: BTreeMap<ServerId, Server>,
    runtime: Option<Runtime>,
    /// Whether the last start failed.
    pub(super) unstarted: bool,
    news: JoinSet<()>,
}

/// Where the data is kept.
pub(super) enum Data {
    /// Where the caller says; it stays.
    Given(PathBuf),
    /// In a directory that goes with the run.
    Scratch(TempDir),
    /// In memory, in virtual time.
    Virtual(VirtualTime),
}

/// A run in real time: only the end of the whole process is a crash.
pub(super) struct RealTime;

impl Data {
    /// The clock of who keeps it here.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Given(_) | Self::Scratch(_) => Arc::new(SystemClock),
            Self::Virtual(time) => Arc::new(time.clock()),
        }
    }

    /// Has a runtime keep its data here.
    fn prepare(&mut self, builder: Builder, seed: u64) -> Builder {
        match self {
            Self::Given(path) => builder.data_dir(path.as_path()),
            Self::Scratch(directory) => builder.data_dir(directory.path()),
            Self::Virtual(time) => time.prepare(builder, seed),
        }
    }
}

impl Stage {
    pub(super) fn new(out: Arc<Out>, data: Data, seed: u64) -> Self {
        Self {
            out,
            models: Models::new(),
            windows: BTreeMap::new(),
            calls: JoinSet::new(),
            data,
            seed,
            servers: BTreeMap::new(),
            runtime: None,
            unstarted: false,
            news: JoinSet::new(),
        }
    }

    /// Defines a server: for the start, or while the runtime runs.
    pub(super) async fn define(&mut self, fields: ServerFields) -> Result<Fields, Refusal> {
        let id = fields.id.clone();
        if self.servers.contains_key(&id) {
            let words = format!("two servers have the id \"{id}\": give each its own");
            return Err(Refusal::new("duplicate_server", words));
        }
        let server = server(fields);
        if let Some(runtime) = &self.runtime {
            runtime.add_server(server.clone()).await?;
        }
        self.servers.insert(id.clone(), server);
        Ok(show::fields(json!({"server": id})))
    }

    /// The runtime, started if it does not run.
    pub(super) async fn runtime(&mut self) -> Result<Runtime, Refusal> {
        if let Some(runtime) = &self.runtime {
            return Ok(runtime.clone());
        }
        let builder = Runtime::builder().seed(self.seed).models(self.models.clone());
        let mut builder = self.data.prepare(builder, self.seed);
        for server in self.servers.values() {
            builder = builder.server(server.clone());
        }
        let started = builder.start().await;
        self.unstarted = started.is_err();
        let runtime = started?;
        self.news.spawn(News::begin(&runtime, self.out.clone()).follow());
        self.runtime = Some(runtime.clone());
        Ok(runtime)
    }

    /// A topic that was opened before, in this run or an earlier one.
    pub(super) async fn topic(&mut self, topic: &TopicId) -> Result<Topic, Refusal> {
        match self.windows.get(topic) {
            Some(windows) => Ok(windows.topic().clone()),
            None => Ok(self.runtime().await?.topic(topic.as_str()).await?),
        }
    }

    /// The windows on a topic that was opened before, in this run or an earlier one.
    pub(super) async fn windows(&mut self, topic: &TopicId) -> Result<Arc<Windows>, Refusal> {
        if let Some(windows) = self.windows.get(topic) {
            return Ok(windows.clone());
        }
        let opened = self.topic(topic).await?;
        self.open_windows(topic, opened, Kept::default()).await
    }

    /// Opens the first window on a topic.
    pub(super) async fn open_windows(
        &mut self,
        id: &TopicId,
        topic: Topic,
        kept: Kept,
    ) -> Result<Arc<Windows>, Refusal> {
        let runtime = self.runtime().await?;
        let windows = Windows::open(topic, runtime, self.out.clone(), kept).await?;
        self.windows.insert(id.clone(), windows.clone());
        Ok(windows)
    }

    /// Stops gracefully and starts again on the same data; the topics that were open are open again.
    pub(super) async fn restart(&mut self) -> Result<Fields, Refusal> {
        let (forced, kept) = self.close().await;
        let runtime = self.runtime().await?;
        for (topic, kept) in kept {
            let opened = runtime.topic(topic.as_str()).await?;
            self.open_windows(&topic, opened, kept).await?;
        }
        Ok(show::fields(json!({"forced": forced})))
    }

    /// Stops gracefully; everything that happens until then is printed. What did not end in time, and what is to be
    /// remembered of the topics.
    pub(super) async fn close(&mut self) -> (Vec<String>, BTreeMap<TopicId, Kept>) {
        let mut kept = BTreeMap::new();
        let Some(runtime) = self.runtime.take() else { return (Vec::new(), kept) };
        let ended = runtime.shutdown().await;
        for (topic, windows) in std::mem::take(&mut self.windows) {
            kept.insert(topic, windows.close().await);
        }
        drop(runtime);
        drain(&mut self.calls).await;
        // The runtime's events end with its last handle, which is gone.
        drain(&mut self.news).await;
        if let Data::Virtual(time) = &mut self.data {
            time.rest();
        }
        (ended.forced, kept)
    }

    /// Which field of a line this run has no place for, and why.
    pub(super) fn unfit(&self, verb: &Verb) -> Option<(&'static str, &'static str)> {
        match self.data {
            Data::Virtual(_) => virtual_time::unfit(verb),
            Data::Given(_) | Data::Scratch(_) => None,
        }
    }

    /// Ends the process in virtual time: nothing more of it is printed, and the next line that needs a runtime starts
    /// one on what was durable. As in another process, topics are opened and scripts are given anew.
    ///
    /// # Errors
    /// In real time there is no such thing.
    pub(super) fn crash(&mut self) -> Result<(), RealTime> {
        let Data::Virtual(time) = &mut self.data else { return Err(RealTime) };
        time.crash();
        for windows in std::mem::take(&mut self.windows).values() {
            windows.abandon();
        }
        // What is dropped here prints nothing any more; nobody answers the runtime any more.
        (self.news, self.calls) = (JoinSet::new(), JoinSet::new());
        (self.models, self.runtime) = (Models::new(), None);
        Ok(())
    }
}

/// Lets tasks end by themselves, within a bound.
async fn drain(tasks: &mut JoinSet<()>) {
    let ended = timeout(LAST_LINES, async { while tasks.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tasks.abort_all();
    }
}

fn with_headers(server: Server, headers: BTreeMap<String, Secret>) -> Server {
    headers.into_iter().fold(server, |server, (name, value)| server.header(name, value.expose()))
}

/// A server as the builder takes it.
fn server(fields: ServerFields) -> Server {
    let id = fields.id.as_str();
    let mut server = match fields.transport {
        TransportFields::Stdio(stdio) => {
            let started = Server::stdio(id, stdio.command).args(stdio.args);
            stdio.env.into_iter().fold(started, |server, (name, value)| server.env(name, value.expose()))
        }
        TransportFields::Http(http) => with_headers(Server::http(id, http.url.expose()), http.headers),
        TransportFields::Sse(sse) => with_headers(Server::sse(id, sse.url.expose()), sse.headers),
        TransportFields::Peer(script) => Server::in_memory(id, Peer::new(*script)),
    };
    if let Some(name) = fields.name {
        server = server.name(name);
    }
    if let Some(tenant) = fields.tenant {
        server = server.tenant(tenant);
    }
    if let Some(within) = fields.connect_timeout_ms {
        server = server.connect_timeout(Duration::from_millis(within));
    }
    if let Some(within) = fields.call_timeout_ms {
        server = server.call_timeout(Duration::from_millis(within));
    }
    if let Some(idle) = fields.idle_stop_ms {
        server = server.idle_stop(Duration::from_millis(idle));
    }
    if fields.trust_annotations {
        server = server.trust_annotations();
    }
    server = fields.effects.into_iter().fold(server, |server, (tool, effect)| server.effect(tool, effect));
    server = fields.force_prompt.into_iter().fold(server, Server::force_prompt);
    server = fields.interruptible.into_iter().fold(server, Server::interruptible);
    server = fields.tools.allow.into_iter().flatten().fold(server, Server::allow);
    server = fields.tools.deny.into_iter().fold(server, Server::deny);
    fields.disabled.into_iter().fold(server, Server::hide)
}
