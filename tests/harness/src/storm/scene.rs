//! Who is on stage in a storm, and one storm as it is played.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse::tool::Effect;
use pilothouse::{Builder, Server};
use serde_json::json;

use super::dice::Dice;
use super::plan::{Kind, StormError};
use super::step::{Cast, Step, draw};
use super::wire::FaultyWire;
use super::world::{ServerWeather, Story, World};
use crate::line::{TransportFields, Verb, parse};
use crate::peer::{Peer, Script};

type Build = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;
type Check = Arc<dyn Fn(&Story) -> Result<(), String> + Send + Sync>;

/// Who is on stage: servers, topics, and what an embedder adds to the runtime.
///
/// The scene without more has three servers, each with a tool that reads (`look`), one that edits (`edit`) and one
/// that always needs a person (`drop`), and two topics. What models say is drawn; they call whatever tools there are.
#[derive(Clone)]
pub struct Scene {
    servers: Vec<(String, Script)>,
    topics: Vec<String>,
    build: Build,
    checks: Vec<Check>,
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl Default for Scene {
    fn default() -> Self {
        let tool = |name: &str| format!(r#"{{"name":"{name}","echo":true}}"#);
        let tools = ["look", "edit", "drop"].map(tool).join(",");
        let servers = ["a", "b", "c"].into_iter().filter_map(|id| {
            let script: Script = format!(r#"{{"tools":[{tools}]}}"#).parse().ok()?;
            Some((id.to_owned(), script))
        });
        let topics = vec!["t0".to_owned(), "t1".to_owned()];
        Self { servers: servers.collect(), topics, build: Arc::new(|builder| builder), checks: Vec::new() }
    }
}

impl Scene {
    /// Reads a scene: `server` lines with a `peer`, and `topic` lines, of which the name counts.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, StormError> {
        let (mut servers, mut topics) = (Vec::new(), Vec::new());
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let wrong = |reason: &str| StormError::Verb { line, reason: reason.to_owned() };
            match parse(line, text)? {
                None => {}
                Some(Verb::Server(server)) => match server.transport {
                    TransportFields::Peer(script) => servers.push((server.id.to_string(), *script)),
                    TransportFields::Stdio(_) | TransportFields::Http(_) | TransportFields::Sse(_) => {
                        return Err(wrong("a storm has servers in memory only: write a `peer`"));
                    }
                },
                Some(Verb::Topic(topic)) => topics.push(topic.topic.to_string()),
                Some(_) => return Err(wrong("a scene has `server` and `topic` lines only")),
            }
        }
        if topics.is_empty() {
            return Err(StormError::Verb {
                line: text.lines().count(),
                reason: "a scene has at least one topic".into(),
            });
        }
        Ok(Self { servers, topics, ..Self::default() })
    }

    /// Lets the embedder add what is theirs to each runtime: policies, guards, functions, limits.
    #[must_use]
    pub fn with(mut self, build: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.build = Arc::new(build);
        self
    }

    /// Adds a check of the embedder's own over everything that happened; what it says against it is a broken promise.
    #[must_use]
    pub fn holds(mut self, check: impl Fn(&Story) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.checks.push(Arc::new(check));
        self
    }

    /// What the embedder's checks have against a storm.
    pub(super) fn objections(&self, story: &Story) -> Vec<String> {
        self.checks.iter().filter_map(|check| check(story).err()).collect()
    }

    pub(super) fn build(&self, builder: Builder) -> Builder {
        (self.build)(builder)
    }

    fn cast(&self) -> (Vec<String>, Vec<String>) {
        (self.servers.iter().map(|(id, _)| id.clone()).collect(), self.topics.clone())
    }

    /// Draws what is done in a storm of this seed.
    pub(super) fn draw(&self, seed: u64, kinds: &BTreeSet<Kind>) -> Vec<Step> {
        let (servers, topics) = self.cast();
        draw(seed, kinds, Cast { servers: &servers, topics: &topics })
    }
}

/// One storm that is played.
pub(super) struct Play {
    pub(super) world: Arc<World>,
    pub(super) scene: Scene,
    pub(super) steps: Vec<Step>,
    pub(super) topics: Vec<String>,
    /// Every tool with its server.
    pub(super) tools: Vec<(String, String)>,
    pub(super) peers: BTreeMap<String, Arc<Peer>>,
    wires: Vec<(String, Arc<FaultyWire>)>,
    begun: Mutex<BTreeSet<u64>>,
}

impl Play {
    pub(super) fn new(world: Arc<World>, scene: &Scene, steps: Vec<Step>) -> Arc<Self> {
        let (mut tools, mut peers, mut wires) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (id, script) in &scene.servers {
            tools.extend(script.tools.iter().map(|tool| (id.clone(), tool.name.clone())));
            let peer = Peer::new(script.clone());
            let weather = ServerWeather { world: world.clone(), server: id.clone() };
            let wire = FaultyWire::new(peer.clone(), Arc::new(weather), world.seed, id.clone());
            peers.insert(id.clone(), peer);
            wires.push((id.clone(), wire));
        }
        let (scene, topics) = (scene.clone(), scene.topics.clone());
        Arc::new(Self { world, scene, steps, topics, tools, peers, wires, begun: Mutex::default() })
    }

    /// The servers as a runtime is given them.
    pub(super) fn servers(&self) -> Vec<Server> {
        let server = |(id, _): &(String, _)| self.server(id);
        self.wires.iter().filter_map(server).collect()
    }

    /// One server as a runtime is given it.
    pub(super) fn server(&self, id: &str) -> Option<Server> {
        let (_, wire) = self.wires.iter().find(|(other, _)| other == id)?;
        let server = Server::in_memory(id, wire.clone());
        Some(server.effect("look", Effect::Reads).effect("edit", Effect::Edits))
    }

    /// What is still to be done.
    pub(super) fn steps_left(&self) -> Vec<Step> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        self.steps.iter().filter(|step| !begun.contains(&step.number)).cloned().collect()
    }

    pub(super) fn begin(&self, step: &Step) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(step.number);
    }

    /// Has a server offer a changed tool.
    pub(super) fn swap(&self, server: &str, dice: &mut Dice) {
        let (Some(peer), Some((_, script))) =
            (self.peers.get(server), self.scene.servers.iter().find(|(id, _)| id == server))
        else {
            return;
        };
        let mut script = script.clone();
        let (which, words) = (dice.below(script.tools.len() as u64), dice.below(3));
        if let Some(tool) = script.tools.get_mut(usize::try_from(which).unwrap_or_default()) {
            tool.description = Some(format!("Another one, number {words}."));
            tool.schema = json!({"type": "object", "properties": {"token": {"type": "string"}}});
        }
        peer.set_script(script);
        peer.announce_tools();
    }
}
