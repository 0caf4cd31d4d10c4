//! Which disasters a storm may draw.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::dice::Dice;

/// One kind of disaster. Each seed draws which ones it has, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A connection that ends as it is opened.
    Dead,
    /// A connection on which nothing is ever said.
    Silent,
    /// Lines that come late.
    Delay,
    /// Lines that come in pieces.
    Split,
    /// Lines that are lost.
    Drop,
    /// Lines that come twice.
    Duplicate,
    /// Lines that are no messages.
    Junk,
    /// Errors without an id, answers to nobody, answers of a wrong shape.
    Liar,
    /// A connection that ends in the middle of a line.
    Cut,
    /// A connection that says nothing for a while.
    Stall,
    /// Answers that come after their caller has given up.
    Late,
    /// Notices by the dozen.
    Notices,
    /// Servers that die, and come back.
    Flap,
    /// Servers whose tools change.
    Swap,
    /// A disk that is slow.
    SlowDisk,
    /// A disk that stands still for longer than a commit may take.
    StuckDisk,
    /// A disk that refuses, or writes and says that it did not.
    BadDisk,
    /// The end of the process, at some moment.
    Crash,
    /// The end of the process, at some record.
    CrashAtRecord,
    /// A graceful restart.
    Restart,
    /// An actor of the tree that ends.
    Strike,
    /// A model that fails, refuses or is cut short.
    ModelError,
    /// A model that falls silent.
    ModelHang,
    /// Servers and topics that are configured while they work.
    Reconfigure,
    /// Many windows, slow ones among them.
    Windows,
    /// Messages by the dozen, and again under the same key.
    Steer,
    /// Stops.
    Stop,
    /// Several people who decide about one card.
    Conflict,
    /// Grants, and their end.
    Grant,
    /// Calls outside any turn.
    Direct,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 30] = [
        Self::Dead,
        Self::Silent,
        Self::Delay,
        Self::Split,
        Self::Drop,
        Self::Duplicate,
        Self::Junk,
        Self::Liar,
        Self::Cut,
        Self::Stall,
        Self::Late,
        Self::Notices,
        Self::Flap,
        Self::Swap,
        Self::SlowDisk,
        Self::StuckDisk,
        Self::BadDisk,
        Self::Crash,
        Self::CrashAtRecord,
        Self::Restart,
        Self::Strike,
        Self::ModelError,
        Self::ModelHang,
        Self::Reconfigure,
        Self::Windows,
        Self::Steer,
        Self::Stop,
        Self::Conflict,
        Self::Grant,
        Self::Direct,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        f.write_str(&name)
    }
}

/// A named set of disasters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Its name, as `--plan` takes it.
    pub name: &'static str,
    /// Kinds that every seed has.
    pub always: &'static [Kind],
    /// Kinds that each seed has or has not.
    pub maybe: &'static [Kind],
}

/// Every plan.
pub const PLANS: [Plan; 12] = [
    Plan {
        name: "dead-servers",
        always: &[Kind::Dead],
        maybe: &[Kind::Silent, Kind::Stall, Kind::Direct, Kind::Steer],
    },
    Plan {
        name: "flapping-servers",
        always: &[Kind::Flap],
        maybe: &[Kind::Cut, Kind::Dead, Kind::Notices, Kind::Delay, Kind::Direct, Kind::Swap],
    },
    Plan {
        name: "lying-servers",
        always: &[Kind::Liar],
        maybe: &[Kind::Junk, Kind::Duplicate, Kind::Drop, Kind::Split, Kind::Late, Kind::Swap, Kind::Direct],
    },
    Plan {
        name: "slow-disk",
        always: &[Kind::SlowDisk],
        maybe: &[Kind::StuckDisk, Kind::Steer, Kind::Stop, Kind::Conflict],
    },
    Plan {
        name: "failing-disk",
        always: &[Kind::BadDisk],
        maybe: &[Kind::SlowDisk, Kind::StuckDisk, Kind::Restart, Kind::Steer, Kind::Stop, Kind::Conflict],
    },
    Plan {
        name: "crash-restart",
        always: &[Kind::CrashAtRecord],
        maybe: &[
            Kind::Crash,
            Kind::Restart,
            Kind::SlowDisk,
            Kind::Steer,
            Kind::Stop,
            Kind::Conflict,
            Kind::Grant,
        ],
    },
    Plan {
        name: "reconfigure",
        always: &[Kind::Reconfigure],
        maybe: &[Kind::Steer, Kind::Restart, Kind::Flap, Kind::Swap, Kind::Grant, Kind::Direct],
    },
    Plan {
        name: "windows",
        always: &[Kind::Windows],
        maybe: &[Kind::Steer, Kind::Stop, Kind::Strike, Kind::SlowDisk],
    },
    Plan {
        name: "steering",
        always: &[Kind::Steer],
        maybe: &[Kind::Stop, Kind::SlowDisk, Kind::Crash, Kind::Windows],
    },
    Plan {
        name: "approvals",
        always: &[Kind::Conflict],
        maybe: &[Kind::Grant, Kind::Stop, Kind::Crash, Kind::CrashAtRecord, Kind::SlowDisk, Kind::Flap],
    },
    Plan {
        name: "actors",
        always: &[Kind::Strike],
        maybe: &[
            Kind::Steer,
            Kind::Stop,
            Kind::Conflict,
            Kind::SlowDisk,
            Kind::Windows,
            Kind::Direct,
            Kind::Reconfigure,
        ],
    },
    Plan { name: "all", always: &[], maybe: &Kind::ALL },
];

impl Plan {
    /// The kinds that this seed has: all that always are, and each other one with even odds.
    pub fn swarm(&self, seed: u64) -> BTreeSet<Kind> {
        let drawn = self.maybe.iter().filter(|kind| Dice::new(seed, &format!("swarm/{kind}")).percent(50));
        self.always.iter().chain(drawn).copied().collect()
    }
}

/// Why something is not a plan, a range of seeds or a scene.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StormError {
    /// No such plan.
    #[error("there is no plan \"{name}\": use one of {}", PLANS.map(|plan| plan.name).join(", "))]
    Plan {
        /// What was asked for.
        name: String,
    },
    /// Not a range.
    #[error("\"{text}\" is no range of seeds: write FROM..TO, two numbers of which the second is larger")]
    Seeds {
        /// What was asked for.
        text: String,
    },
    /// A line of the scene.
    #[error("the scene is wrong in {0}")]
    Scene(#[from] crate::line::LineError),
    /// A line of the scene that sets no scene.
    #[error("the scene is wrong in line {line}: {reason}")]
    Verb {
        /// Which.
        line: usize,
        /// What would be right.
        reason: String,
    },
}

impl FromStr for Plan {
    type Err = StormError;

    fn from_str(text: &str) -> Result<Self, StormError> {
        let found = PLANS.into_iter().find(|plan| plan.name == text);
        found.ok_or_else(|| StormError::Plan { name: text.to_owned() })
    }
}

/// The seeds from `from` up to `to`, without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub from: u64,
    /// The first that is not meant any more.
    pub to: u64,
}

impl FromStr for Seeds {
    type Err = StormError;

    fn from_str(text: &str) -> Result<Self, StormError> {
        let wrong = || StormError::Seeds { text: text.to_owned() };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
        if from < to { Ok(Self { from, to }) } else { Err(wrong()) }
    }
}
