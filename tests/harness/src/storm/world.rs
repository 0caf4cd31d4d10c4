//! Everything that is the same over all lives of one storm: what happened, what must hold, and what the dice said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse::approval::{ApprovalId, Card, CardState, Verdict};
use pilothouse::id::{MessageId, TurnId};
use pilothouse::store::StoreId;
use pilothouse::time::Timestamp;
use pilothouse::topic::TurnView;
use serde_json::Value;
use tokio::time::Instant;

use super::dice::Dice;
use super::plan::Kind;
use super::store::{Blow, Disk, Loss};
use super::wire::{Opening, Twist, Way, Weather};

/// When a storm begins: 2000-01-01.
const BEGINS: u64 = 946_684_800_000;
/// Violations that are kept; the first one is what counts.
const VIOLATIONS_KEPT: usize = 8;

/// A promise that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name in `docs/guarantees.md`.
    pub promise: &'static str,
    /// What was seen instead.
    pub words: String,
    /// When, in virtual milliseconds since the storm began.
    pub at: u64,
}

/// One call that reached a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The server.
    pub server: String,
    /// The raw name of the tool.
    pub tool: String,
    /// The mark that the model put into its arguments.
    pub token: String,
    /// Whether anybody had tried to allow it by then, or a grant may have covered it.
    pub was_allowed: bool,
}

/// What an embedder's own check is shown once a storm is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Every call that reached a server, in order.
    pub ran: Vec<Ran>,
    /// Everything that happened, as in [`Outcome::trace`](super::Outcome::trace).
    pub trace: Vec<String>,
}

/// What happened so far, and what the reference model makes of it.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) trace: Vec<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// Messages that were taken, by topic and key.
    pub(super) taken: BTreeMap<(String, String), MessageId>,
    /// Turns that were seen closed.
    pub(super) closed: BTreeMap<(String, TurnId), Arc<TurnView>>,
    /// Messages that were seen held.
    pub(super) held: BTreeSet<(String, MessageId)>,
    /// Decisions that were applied.
    pub(super) applied: BTreeMap<ApprovalId, (Verdict, String)>,
    /// Last words of cards, as windows were told.
    pub(super) settled: BTreeMap<ApprovalId, CardState>,
    /// Calls that somebody tried to allow: each by its token.
    pub(super) allowed: BTreeSet<String>,
    /// Calls that were denied for good.
    pub(super) denied: BTreeSet<String>,
    /// Topics in which more than one card may have been allowed at once.
    pub(super) granted: BTreeSet<String>,
    /// How often each call reached a server.
    pub(super) reached: BTreeMap<String, u64>,
    /// Calls that reached a server, in order.
    pub(super) ran: Vec<Ran>,
    /// Cards that were shown.
    pub(super) shown: BTreeSet<ApprovalId>,
    /// Servers whose listing was seen.
    pub(super) listed: BTreeSet<String>,
    /// How long each kind of actor was away, in virtual milliseconds.
    pub(super) away: BTreeMap<String, Vec<u64>>,
    /// How often the session of each topic was restarted.
    pub(super) sessions: BTreeMap<String, u64>,
}

/// One storm, over all lives.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) kinds: BTreeSet<Kind>,
    rates: BTreeMap<Kind, u64>,
    storms: AtomicBool,
    facts: Mutex<Facts>,
    /// Virtual milliseconds before this life, and when it began.
    life: Mutex<(u64, Option<Instant>)>,
}

impl World {
    pub(super) fn new(seed: u64, kinds: BTreeSet<Kind>) -> Arc<Self> {
        let rate = |kind: &Kind| (*kind, Dice::new(seed, &format!("rate/{kind}")).between(1, 12));
        let rates = kinds.iter().map(rate).collect();
        let (facts, life) = (Mutex::default(), Mutex::default());
        Arc::new(Self { seed, kinds, rates, storms: AtomicBool::new(true), facts, life })
    }

    pub(super) fn dice(&self, name: &str) -> Dice {
        Dice::new(self.seed, name)
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether this kind of disaster strikes now.
    pub(super) fn strikes(&self, kind: Kind, dice: &mut Dice) -> bool {
        let rate = self.rates.get(&kind).copied().unwrap_or_default();
        // The dice are thrown in any case, so that one kind less moves no other.
        dice.percent(rate) && self.is_stormy()
    }

    pub(super) fn is_stormy(&self) -> bool {
        self.storms.load(Ordering::Acquire)
    }

    pub(super) fn calm(&self) {
        self.storms.store(false, Ordering::Release);
        self.trace("the storm is over");
    }

    pub(super) fn store_id(&self) -> StoreId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.seed.to_be_bytes());
        StoreId(id)
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.facts)
    }

    /// A life begins: its clock goes on where the last one stopped.
    pub(super) fn begin_life(&self) -> Timestamp {
        let mut life = lock(&self.life);
        life.1 = Some(Instant::now());
        Timestamp(BEGINS + life.0)
    }

    /// A life is over; the next one comes this much later.
    pub(super) fn end_life(&self, later: Duration) {
        let now = self.now() + u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        *lock(&self.life) = (now, None);
    }

    /// Virtual milliseconds since the storm began.
    pub(super) fn now(&self) -> u64 {
        let (before, began) = *lock(&self.life);
        let elapsed = began.map(|began| began.elapsed()).unwrap_or_default();
        before + u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn trace(&self, words: impl std::fmt::Display) {
        let line = format!("{} {words}", self.now());
        self.facts().trace.push(line);
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.facts().counts.entry(what).or_default() += 1;
    }

    pub(super) fn violated(&self, promise: &'static str, words: impl Into<String>) {
        let (at, words) = (self.now(), words.into());
        let mut facts = self.facts();
        facts.trace.push(format!("{at} VIOLATED {promise}: {words}"));
        if facts.violations.len() < VIOLATIONS_KEPT {
            facts.violations.push(Violation { promise, words, at });
        }
    }

    /// A person says something about a card; what follows from it may happen from now on.
    pub(super) fn decides(&self, card: &Card, verdict: Verdict) {
        if verdict == Verdict::Allow {
            self.facts().allowed.insert(token_of(&card.arguments.value()));
        }
    }
}

/// The mark by which a call is known again.
pub(super) fn token_of(arguments: &Value) -> String {
    arguments.get("token").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The weather of one server.
pub(super) struct ServerWeather {
    pub(super) world: Arc<World>,
    pub(super) server: String,
}

impl Weather for ServerWeather {
    fn opening(&self, dice: &mut Dice) -> Opening {
        let world = &self.world;
        // A server that is dead is so for a while: nearly every connection fails.
        let dead = dice.percent(70) && world.strikes_often(Kind::Dead);
        let silent = world.strikes(Kind::Silent, dice);
        if dead {
            world.count("a connection was dead");
            Opening::Dead
        } else if silent {
            world.count("a connection was silent");
            Opening::Silent
        } else {
            Opening::Sound
        }
    }

    fn twist(&self, way: Way, dice: &mut Dice) -> Option<Twist> {
        let (delay, stall) = (dice.between(1, 800), dice.between(11, 45));
        let back = way == Way::Back;
        let twists = [
            (Kind::Delay, Twist::Delay(Duration::from_millis(delay)), true),
            (Kind::Split, Twist::Split, true),
            (Kind::Drop, Twist::Drop, true),
            (Kind::Duplicate, Twist::Duplicate, back),
            (Kind::Junk, Twist::Junk, back),
            (Kind::Liar, if delay % 2 == 0 { Twist::Stray } else { Twist::Misshape }, back),
            (Kind::Cut, Twist::Cut, true),
            (Kind::Stall, Twist::Delay(Duration::from_secs(stall)), true),
            (Kind::Late, Twist::Late, back),
            (Kind::Notices, Twist::Notices, back),
        ];
        let mut drawn = None;
        for (kind, twist, applies) in twists {
            // Every die is thrown, so that one kind less moves no other.
            if self.world.strikes(kind, dice) && applies && drawn.is_none() {
                drawn = Some(twist);
            }
        }
        drawn
    }

    fn called(&self, call: &Value) {
        let token = token_of(call.get("arguments").unwrap_or(&Value::Null));
        let tool = call.get("name").and_then(Value::as_str).unwrap_or_default();
        self.world.trace(format!("{} runs {tool} {token}", self.server));
        self.world.reached(&self.server, tool, &token);
    }
}

impl World {
    /// A kind whose every throw counts.
    fn strikes_often(&self, kind: Kind) -> bool {
        self.has(kind) && self.is_stormy()
    }
}

/// The disk of one life.
pub(super) struct StormDisk {
    world: Arc<World>,
    dice: Dice,
    batches: u64,
    crash_at: Option<(u64, Blow)>,
}

impl StormDisk {
    pub(super) fn new(world: Arc<World>, life: u64) -> Self {
        let mut dice = world.dice(&format!("disk/{life}"));
        let (at, kind) = (dice.between(1, 70), dice.below(4));
        let blow = match kind {
            0 => Blow::CrashBefore(Loss::PowerCut),
            1 => Blow::CrashBefore(Loss::Killed),
            2 => Blow::CrashAfter(Loss::PowerCut),
            _ => Blow::CrashAfter(Loss::Killed),
        };
        let crashes = world.has(Kind::CrashAtRecord) && life < 3;
        Self { world, dice, batches: 0, crash_at: crashes.then_some((at, blow)) }
    }
}

impl Disk for StormDisk {
    fn latency(&mut self) -> Duration {
        let (base, slow) = (self.dice.below(3), self.dice.below(1_500));
        let is_slow = self.dice.percent(25) && self.world.strikes_often(Kind::SlowDisk);
        Duration::from_millis(if is_slow { slow } else { base })
    }

    fn blow(&mut self, _batch: &pilothouse::store::Batch) -> Option<Blow> {
        self.batches += 1;
        let (stall, denies) = (self.dice.between(3, 15), self.dice.percent(50));
        let stuck = self.dice.percent(20) && self.world.strikes(Kind::StuckDisk, &mut self.dice);
        let bad = self.dice.percent(25) && self.world.strikes(Kind::BadDisk, &mut self.dice);
        if let Some((at, blow)) = self.crash_at
            && at == self.batches
            && self.world.is_stormy()
        {
            self.world.count("the process ended at a record");
            return Some(blow);
        }
        if bad {
            self.world.count("a batch failed");
            return Some(if denies { Blow::Deny } else { Blow::Refuse });
        }
        if stuck {
            self.world.count("the disk stood still");
            return Some(Blow::Stall(Duration::from_secs(stall)));
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a check ends the seed with its words; what it left is still what happened.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
