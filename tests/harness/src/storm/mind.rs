//! The models of a storm: what they say and call is drawn, and what they are shown is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pilothouse::digest::Digest;
use pilothouse::model::scripted::{ScriptedCall, ScriptedError, ScriptedModel, Step, ToolRef};
use pilothouse::model::{FinishReason, HistoryItem, Model, ModelRequest, ModelStream};
use pilothouse::tool::identity_digits;
use serde_json::json;

use super::dice::Dice;
use super::plan::Kind;
use super::promise::SURFACE;
use super::world::World;

/// What is asked of a topic once all is calm; its model answers in one step.
pub(super) const PING: &str = "ping";

/// The model of one topic, over one life.
pub(super) struct Mind {
    world: Arc<World>,
    topic: String,
    life: u64,
    /// What it may call: servers and their tools.
    tools: Vec<(String, String)>,
    asked: AtomicU64,
    /// Which turn of which session was last, and the block of tools that came with it.
    shown: Mutex<Option<((usize, u64), Digest)>>,
}

impl Mind {
    pub(super) fn new(world: Arc<World>, topic: &str, life: u64, tools: Vec<(String, String)>) -> Self {
        let (asked, shown) = (AtomicU64::new(0), Mutex::default());
        Self { world, topic: topic.to_owned(), life, tools, asked, shown }
    }

    /// Within a turn of one session the tools that it is shown stay as they are.
    fn look_at_surface(&self, request: &ModelRequest) {
        let is_user = |item: &&HistoryItem| matches!(item, HistoryItem::User { .. });
        let users = request.history.iter().filter(is_user).count();
        let session = self.world.facts().sessions.get(&self.topic).copied().unwrap_or_default();
        let now = ((users, session), request.surface.hash);
        let before = self.shown.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if let Some((turn, hash)) = before
            && turn == now.0
            && hash != now.1
        {
            self.world.violated(SURFACE, format!("{} was shown other tools within one turn", self.topic));
        }
    }

    fn step(&self, request: &ModelRequest, asked: u64) -> Step {
        let mut dice = self.world.dice(&format!("model/{}/{}/{asked}", self.topic, self.life));
        let since = request.history.iter().rev().take_while(|item| !matches!(item, HistoryItem::User { .. }));
        let steps = since.filter(|item| matches!(item, HistoryItem::Assistant { .. })).count() as u64;
        let pinged = request.history.iter().rev().find_map(|item| match item {
            HistoryItem::User { text } => Some(text.starts_with(PING)),
            HistoryItem::Assistant { .. } | HistoryItem::Tool { .. } => None,
        });
        let (delay, pace) = (dice.below(1_500), dice.below(300));
        let fate = dice.below(100);
        let mut step =
            Step { delay_ms: Some(delay), ..Step::text(format!("Step {steps} of {}.", self.topic)) };
        if pinged == Some(true) {
            return step;
        }
        if dice.percent(20) {
            step.chunk_ms = Some(pace);
        }
        if dice.percent(if steps < 3 { 70 } else { 30 }) {
            step.calls = self.calls(request, asked, &mut dice);
        }
        self.fail(&mut step, fate, &mut dice);
        step
    }

    fn calls(&self, request: &ModelRequest, asked: u64, dice: &mut Dice) -> Vec<ScriptedCall> {
        let shown = |(server, tool): &&(String, String)| {
            let digits = identity_digits(server, tool);
            request.surface.tools.iter().any(|shown| shown.name.ends_with(&digits))
        };
        let tools: Vec<_> = self.tools.iter().filter(shown).collect();
        let drawn = (0..dice.between(1, 3)).filter_map(|index| {
            let (server, tool) = dice.pick(&tools)?;
            let token = format!("{}-{}-{asked}-{index}", self.topic, self.life);
            Some(ScriptedCall { tool: ToolRef::of_server(server, tool), arguments: json!({"token": token}) })
        });
        drawn.collect()
    }

    fn fail(&self, step: &mut Step, fate: u64, dice: &mut Dice) {
        let errs = self.world.strikes(Kind::ModelError, dice);
        let hangs = self.world.strikes(Kind::ModelHang, dice);
        if errs {
            match fate % 3 {
                0 => {
                    let (status, message) = (500, "overloaded".to_owned());
                    step.error = Some(ScriptedError { status, message, retry_after_ms: None });
                }
                1 => step.finish = Some(FinishReason::Length),
                _ => step.finish = Some(FinishReason::Refused),
            }
            self.world.count("a model failed, refused or was cut short");
        } else if hangs {
            step.hang = true;
            self.world.count("a model fell silent");
        }
    }
}

impl Model for Mind {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.world.saw_history(&self.topic, &request.history);
        self.look_at_surface(&request);
        let step = self.step(&request, asked);
        self.world.trace(format!("{} thinks: {} calls", self.topic, step.calls.len()));
        ScriptedModel::new(vec![step]).run(request)
    }
}
