//! Seeded disasters in virtual time: a whole runtime over servers, disks, models and people that misbehave, held to the
//! promises of `docs/guarantees.md` while it storms and after.
//!
//! ```
//! use pilothouse_harness::storm::{Plan, Storm};
//!
//! let storm = Storm::new("flapping-servers".parse::<Plan>()?);
//! let outcome = storm.run(7);
//! assert_eq!(outcome.violations, []);
//! # Ok::<(), pilothouse_harness::storm::StormError>(())
//! ```
//!
//! One seed is one storm: it draws which [kinds](Kind) of disaster there are and how often, what is done and when. Every
//! actor is the real one, and so is the MCP client; only wires, disk, models, people and the clock are made up. It
//! runs on a thread of its own and in virtual time, so minutes of it take milliseconds.
//!
//! - [`Storm`]: plan and [`Scene`]; runs a seed, and makes what it found small.
//! - [`FaultyWire`] with a [`Weather`], [`FaultyStore`] with a [`Disk`]: the parts, for tests that want no whole storm.
//! - [`batch`]: many seeds on several threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub mod batch;
mod calm;
mod check;
mod dice;
mod life;
mod mind;
mod people;
mod plan;
mod promise;
mod scene;
mod shrink;
mod step;
mod store;
mod watch;
mod wire;
mod world;

pub use dice::Dice;
pub use plan::{Kind, PLANS, Plan, Seeds, StormError};
pub use promise::PROMISES;
pub use scene::Scene;
pub use shrink::Shrunk;
pub use step::{Act, Step};
pub use store::{Blow, Disk, FaultyStore, Loss, SoundDisk};
pub use wire::{FaultyWire, Opening, Twist, Way, Weather};
pub use world::{Ran, Story, Violation};

use life::{End, Phase, live};
use scene::Play;
use world::World;

/// Lives of one storm, at most; then it is over in any case.
const LIVES_MAX: u64 = 12;

/// Storms of one plan.
#[derive(Debug, Clone)]
pub struct Storm {
    plan: Plan,
    scene: Scene,
}

/// What came of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Promises that were broken, the first one first.
    pub violations: Vec<Violation>,
    /// How often what happened that a storm is to reach.
    pub counts: BTreeMap<&'static str, u64>,
    /// Everything that happened, in order, each with its virtual milliseconds.
    pub trace: Vec<String>,
    /// For how many virtual milliseconds actors of each kind were away, after they were killed.
    pub away: BTreeMap<String, Vec<u64>>,
    /// Virtual milliseconds in all.
    pub lasted: u64,
}

/// One storm as it is to be played: what a seed draws, or less of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The seed of all dice.
    pub seed: u64,
    /// The kinds of disaster that there are.
    pub kinds: BTreeSet<Kind>,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Storm {
    /// Storms of this plan, over the default scene.
    pub fn new(plan: Plan) -> Self {
        Self { plan, scene: Scene::default() }
    }

    /// Over this scene.
    #[must_use]
    pub fn over(mut self, scene: Scene) -> Self {
        self.scene = scene;
        self
    }

    /// Its plan.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// What a seed draws.
    pub fn case(&self, seed: u64) -> Case {
        let kinds = self.plan.swarm(seed);
        let steps = self.scene.draw(seed, &kinds);
        Case { seed, kinds, steps }
    }

    /// Plays one seed, on a thread of its own, for which it waits.
    pub fn run(&self, seed: u64) -> Outcome {
        self.play(&self.case(seed))
    }

    /// Plays one case, on a thread of its own, for which it waits.
    ///
    /// # Panics
    /// If a check or a runtime does.
    pub fn play(&self, case: &Case) -> Outcome {
        // The order of a hash map follows from what its thread has drawn before.
        let played = std::thread::scope(|scope| scope.spawn(|| self.play_here(case)).join());
        played.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn play_here(&self, case: &Case) -> Outcome {
        let world = World::new(case.seed, case.kinds.clone());
        let play = Play::new(world.clone(), &self.scene, case.steps.clone());
        self.lives(&play);
        let lasted = world.now();
        let story = {
            let facts = world.facts();
            Story { ran: facts.ran.clone(), trace: facts.trace.clone() }
        };
        for objection in self.scene.objections(&story) {
            world.violated(promise::OWN, objection);
        }
        let mut facts = world.facts();
        let facts = std::mem::take(&mut *facts);
        let (violations, counts, trace, away) = (facts.violations, facts.counts, facts.trace, facts.away);
        Outcome { violations, counts, trace, away, lasted }
    }

    fn lives(&self, play: &Arc<Play>) {
        let (mut memory, mut phase) = (pilothouse::store::memory::MemoryStore::new(), Phase::Storm);
        for number in 0..LIVES_MAX {
            // Enough is enough: what still crashes must become well now.
            if number + 3 >= LIVES_MAX && phase == Phase::Storm {
                phase = Phase::Calm;
            }
            let later = play.world.dice(&format!("later/{number}")).below(30_000);
            let ended = match paused(play.world.seed) {
                Ok(tokio) => tokio.block_on(async {
                    let ended = live(play.clone(), memory, number, phase).await;
                    // In here, where the clock is the virtual one.
                    play.world.end_life(Duration::from_millis(later));
                    ended
                }),
                Err(error) => {
                    play.world.violated(promise::OWN, format!("no Tokio runtime can be made: {error}"));
                    return;
                }
            };
            match ended {
                End::Again(left) => memory = left,
                End::GoesCalm(left) => (memory, phase) = (left, Phase::Calm),
                End::Well(left) => (memory, phase) = (left, Phase::Epilogue),
                End::Over => return,
            }
        }
        play.world.violated(promise::HEALS, format!("after {LIVES_MAX} lives it is not well"));
    }
}

/// A runtime of one thread whose clock stands still but for sleeps.
pub(crate) fn paused(seed: u64) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    // rmcp's loop takes what is ready in the order of Tokio's dice; only the simulation build can load them.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    #[cfg(not(tokio_unstable))]
    let _unseeded = seed;
    builder.build()
}

#[cfg(test)]
mod tests;
