//! The load of a soak: topics that talk and call, people who decide, and faults all the while.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pilothouse::approval::Decision;
use pilothouse::limits::Limits;
use pilothouse::model::scripted::{ScriptedCall, ScriptedModel, Step, ToolRef};
use pilothouse::model::{HistoryItem, Model, ModelRequest, ModelStream};
use pilothouse::prelude::*;
use pilothouse::topic::TopicStatus;
use pilothouse::tree::TreeNode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::held::children;
use crate::peer::{Peer, Script};

/// Topics that work side by side.
const TOPICS: usize = 8;
/// Turns after which a topic is removed and begun anew.
const TURNS: u64 = 40;
/// Between two turns of a topic.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two faults.
const FAULTS: Duration = Duration::from_millis(300);
/// Within which a turn has ended, whatever befalls it.
const REST: Duration = Duration::from_secs(60);

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) turns: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) decisions: AtomicU64,
    pub(super) faults: AtomicU64,
    /// Turns that did not end in time.
    pub(super) stuck: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Calls two or three tools in its first step, and says a word in its second.
struct Talker(Arc<Done>);

impl Model for Talker {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let asked = matches!(request.history.last(), Some(HistoryItem::User { .. }));
        let step = if asked {
            let turns = self.0.turns.load(Ordering::Relaxed);
            let call = |server: &str, tool: &str| ScriptedCall {
                tool: ToolRef::of_server(server, tool),
                arguments: json!({"n": turns, "text": "x".repeat(200)}),
            };
            let mut calls = vec![call("steady", "look"), call("near", "look")];
            if turns.is_multiple_of(3) {
                calls.push(call("frail", "add_note"));
            }
            self.0.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
            Step { calls, ..Step::default() }
        } else {
            Step::text("Done.")
        };
        ScriptedModel::new(vec![step]).run(request)
    }
}

/// A runtime under load.
pub(super) struct Load {
    runtime: Arc<Runtime>,
    done: Arc<Done>,
    stops: Arc<AtomicBool>,
}

fn script(faults: &Value) -> Value {
    let tools = json!([{"name": "look", "echo": true}, {"name": "add_note", "echo": true}]);
    json!({"tools": tools, "faults": faults})
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    // Servers come back while the load goes on, and a past that nobody asks for goes.
    (limits.backoff_first, limits.backoff_max) = (Duration::from_millis(50), Duration::from_millis(500));
    limits.restart_budget = u32::MAX;
    limits.keep_turns = Some(20);
    limits.topic_idle = Duration::from_secs(2);
    limits
}

impl Load {
    /// Two servers that are processes, one of which dies every so often, one in memory, and what is kept in `data`.
    pub(super) async fn start(data: &Path) -> Result<Self, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
        let program = program.to_string_lossy().into_owned();
        let stdio = |id: &str, faults: &Value| {
            Server::stdio(id, &program).args(["peer".to_owned(), script(faults).to_string()])
        };
        let near = Script::try_from(script(&json!([]))).map_err(|error| error.to_string())?;
        let (done, stops) = (Arc::new(Done::default()), Arc::new(AtomicBool::new(false)));
        let runtime = Runtime::builder()
            .data_dir(data)
            .limits(limits())
            .server(stdio("steady", &json!([])).effect("look", Effect::Reads))
            .server(stdio("frail", &json!([{"exit_after": 60}])).effect("add_note", Effect::Edits))
            .server(Server::in_memory("near", Peer::new(near)).effect("look", Effect::Reads))
            .model("talker", Talker(done.clone()))
            .start()
            .await
            .map_err(|error| error.to_string())?;
        runtime.warm(Duration::from_secs(30)).await;
        Ok(Self { runtime: Arc::new(runtime), done, stops })
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    pub(super) fn done(&self) -> &Done {
        &self.done
    }

    /// Begins the load; it ends with what is returned.
    pub(super) fn work(&self) -> Workers {
        let mut all = JoinSet::new();
        for n in 0..TOPICS {
            all.spawn(talk(self.runtime.clone(), self.done.clone(), self.stops.clone(), n));
        }
        all.spawn(decide(self.runtime.clone(), self.done.clone()));
        all.spawn(strike(self.runtime.clone(), self.done.clone(), self.stops.clone()));
        Workers(all)
    }

    /// Lets what runs come to its end.
    pub(super) async fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(2)).await;
    }
}

/// The tasks of the load.
pub(super) struct Workers(JoinSet<()>);

impl Workers {
    pub(super) fn abort(mut self) {
        self.0.abort_all();
    }
}

async fn talk(runtime: Arc<Runtime>, done: Arc<Done>, stops: Arc<AtomicBool>, n: usize) {
    let name = format!("topic {n}");
    let mut turn = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        turn += 1;
        sleep(PAUSE).await;
        // Whoever asks while an actor is being restarted asks again.
        let Ok(topic) = runtime.open_topic(name.as_str(), TopicConfig::new("talker")).await else { continue };
        let window = topic.attach();
        if topic.send_with_key("Go on.", format!("{turn}")).await.is_err() {
            continue;
        }
        if rests(&topic).await {
            count(&done.turns);
        } else {
            count(&done.stuck);
        }
        drop(window);
        if turn.is_multiple_of(TURNS) && runtime.delete_topic(name.as_str()).await.is_ok() {
            turn = 0;
        }
    }
}

async fn rests(topic: &Topic) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < REST {
        let status = topic.view().map(|view| view.status);
        if matches!(status, Some(TopicStatus::Done | TopicStatus::Error | TopicStatus::Aborted)) {
            return true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    false
}

async fn decide(runtime: Arc<Runtime>, done: Arc<Done>) {
    loop {
        sleep(Duration::from_millis(10)).await;
        for card in runtime.approvals() {
            let decided = done.decisions.load(Ordering::Relaxed);
            let decision = if decided.is_multiple_of(4) {
                Decision::deny("ann", "not now")
            } else {
                Decision::allow("ann")
            };
            if runtime.decide(card.approval, decision.of(&card)).await.is_ok() {
                count(&done.decisions);
            }
        }
    }
}

async fn strike(runtime: Arc<Runtime>, done: Arc<Done>, stops: Arc<AtomicBool>) {
    let mut n = 0_usize;
    while !stops.load(Ordering::Relaxed) {
        sleep(FAULTS).await;
        n += 1;
        count(&done.faults);
        match n % 4 {
            0 => {
                let servers = runtime.servers();
                if let Some(server) = servers.get(n / 4 % servers.len().max(1)) {
                    // One that is away is not restarted.
                    drop(server.restart().await);
                }
            }
            1 => kill_one(n / 4),
            2 => {
                let names = names(&runtime.tree());
                if let Some(name) = names.get(n / 4 * 7 % names.len().max(1)) {
                    // One that is away just now is spared.
                    let _killed = runtime.kill_actor(name);
                }
            }
            _ => windows(&runtime).await,
        }
    }
}

/// Many windows come and go.
async fn windows(runtime: &Runtime) {
    for n in 0..TOPICS {
        if let Ok(topic) = runtime.topic(format!("topic {n}")).await {
            let windows: Vec<_> = (0..20).filter_map(|_| topic.attach_with(8)).collect();
            drop(windows);
        }
    }
}

fn names(node: &TreeNode) -> Vec<String> {
    let below = node.children.iter().flat_map(names);
    node.children.iter().map(|child| child.name.clone()).chain(below).collect()
}

#[cfg(unix)]
fn kill_one(n: usize) {
    use nix::sys::signal::{Signal, kill};
    let children = children();
    if let Some(pid) = children.get(n % children.len().max(1)) {
        // It may have ended a moment ago.
        let _gone = kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

#[cfg(not(unix))]
fn kill_one(_n: usize) {}
