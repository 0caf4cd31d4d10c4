//! What people, operators and accidents do in a storm, and when.

use std::collections::BTreeSet;
use std::fmt;

use pilothouse::topic::PermissionMode;

use super::dice::Dice;
use super::plan::Kind;
use super::store::Loss;

/// One thing that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends a message; its text is its key.
    Send {
        /// To which topic.
        topic: String,
        /// What.
        text: String,
    },
    /// Ends what the topic does.
    StopTopic {
        /// Which.
        topic: String,
    },
    /// Sets a topic's mode.
    Mode {
        /// Which topic.
        topic: String,
        /// To what.
        mode: PermissionMode,
    },
    /// Has the surface pinned anew.
    Repin {
        /// Which topic.
        topic: String,
    },
    /// Looks at a topic through a window of this size, and takes so long over each event.
    Window {
        /// Which topic.
        topic: String,
        /// Events that it has room for.
        buffer: usize,
        /// Milliseconds for each.
        pace: u64,
    },
    /// Calls a tool outside any turn.
    Call {
        /// Whose.
        server: String,
        /// Which.
        tool: String,
    },
    /// Takes every grant back.
    Revoke,
    /// Lists a server again.
    Refresh {
        /// Which.
        server: String,
    },
    /// Restarts a server.
    RestartServer {
        /// Which.
        server: String,
    },
    /// Switches a server off, and on again later.
    Switch {
        /// Which.
        server: String,
        /// Milliseconds in between.
        off: u64,
    },
    /// Gives a server another name.
    Rename {
        /// Which.
        server: String,
    },
    /// The server dies.
    Kill {
        /// Which.
        server: String,
    },
    /// The server offers a changed tool, and says so.
    Swap {
        /// Which.
        server: String,
    },
    /// An actor ends.
    Strike {
        /// Which, by its place in the tree.
        actor: u64,
    },
    /// The process ends.
    Crash {
        /// What it takes with it.
        loss: Loss,
    },
    /// The process is restarted as it should be.
    Restart,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { topic, text } => {
                write!(f, r#"{{"send":{{"topic":"{topic}","text":"{text}","key":"{text}"}}}}"#)
            }
            Self::StopTopic { topic } => write!(f, r#"{{"stop":{{"topic":"{topic}"}}}}"#),
            Self::Mode { topic, mode } => {
                let mode = serde_json::to_string(mode).unwrap_or_default();
                write!(f, r#"{{"configure":{{"topic":"{topic}","mode":{mode}}}}}"#)
            }
            Self::Repin { topic } => write!(f, r#"{{"repin":{{"topic":"{topic}"}}}}"#),
            Self::Window { topic, buffer, pace } => {
                write!(f, r#"{{"attach":{{"topic":"{topic}","buffer":{buffer},"pace_ms":{pace}}}}}"#)
            }
            Self::Call { server, tool } => {
                write!(f, r#"{{"call":{{"tool":{{"server":"{server}","tool":"{tool}"}}}}}}"#)
            }
            Self::Revoke => f.write_str(r#"{"revoke":{"grant":"all"}}"#),
            Self::Refresh { server } => write!(f, r#"{{"refresh":{{"server":"{server}"}}}}"#),
            Self::RestartServer { server } => write!(f, r#"{{"server_restart":{{"id":"{server}"}}}}"#),
            Self::Switch { server, off } => {
                write!(f, r#"{{"server_enable":{{"id":"{server}","enabled":false,"again_after_ms":{off}}}}}"#)
            }
            Self::Rename { server } => write!(f, r#"{{"server_edit":{{"id":"{server}"}}}}"#),
            Self::Kill { server } => write!(f, r#"{{"server_kill":{{"id":"{server}"}}}}"#),
            Self::Swap { server } => write!(f, r#"{{"server_swap":{{"id":"{server}"}}}}"#),
            Self::Strike { actor } => write!(f, r#"{{"strike":{{"actor":{actor}}}}}"#),
            Self::Crash { loss: Loss::Killed } => f.write_str(r#"{"crash":{}}"#),
            Self::Crash { loss: Loss::PowerCut } => f.write_str(r#"{"crash":{"loss":"power_cut"}}"#),
            Self::Restart => f.write_str(r#"{"restart":{}}"#),
        }
    }
}

/// Something that is done at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number, which it keeps when others are left out.
    pub number: u64,
    /// Virtual milliseconds after the storm began.
    pub at: u64,
    /// What.
    pub act: Act,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7} ms  {}", self.at, self.act)
    }
}

/// Who is on stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cast<'a> {
    pub(super) servers: &'a [String],
    pub(super) topics: &'a [String],
}

/// Draws what is done in one storm, in the order of time.
pub(super) fn draw(seed: u64, kinds: &BTreeSet<Kind>, cast: Cast<'_>) -> Vec<Step> {
    let span = Dice::new(seed, "span").between(10, 90) * 1_000;
    let mut steps = Vec::new();
    let mut number = 0;
    let mut add = |kind: &str, times: u64, act: &mut dyn FnMut(&mut Dice, u64) -> Option<Act>| {
        for index in 0..times {
            let mut dice = Dice::new(seed, &format!("step/{kind}/{index}"));
            let at = dice.below(span);
            if let Some(act) = act(&mut dice, index) {
                number += 1;
                steps.push(Step { number, at, act });
            }
        }
    };
    let many = |name: &str, low, high| Dice::new(seed, &format!("many/{name}")).between(low, high);
    let topic = |dice: &mut Dice| dice.pick(cast.topics).cloned();
    let server = |dice: &mut Dice| dice.pick(cast.servers).cloned();
    add("send", many("send", 2, 6), &mut |dice, index| {
        Some(Act::Send { topic: topic(dice)?, text: format!("message {index}") })
    });
    let has = |kind| kinds.contains(&kind);
    if has(Kind::Steer) {
        // Fewer texts than messages: some come again under their key.
        add("steer", many("steer", 3, 20), &mut |dice, _| {
            let text = format!("steer {}", dice.below(12));
            // The same text goes to the same topic.
            let topic = Dice::new(seed, &text).pick(cast.topics).cloned()?;
            Some(Act::Send { topic, text })
        });
    }
    if has(Kind::Stop) {
        add("stop", many("stop", 1, 3), &mut |dice, _| Some(Act::StopTopic { topic: topic(dice)? }));
    }
    if has(Kind::Reconfigure) {
        let modes = [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan];
        add("reconfigure", many("reconfigure", 2, 8), &mut |dice, _| match dice.below(6) {
            0 | 1 => Some(Act::Mode { topic: topic(dice)?, mode: *dice.pick(&modes)? }),
            2 => Some(Act::Repin { topic: topic(dice)? }),
            3 => Some(Act::Rename { server: server(dice)? }),
            4 => Some(Act::Switch { server: server(dice)?, off: dice.between(1, 20_000) }),
            _ => Some(Act::Refresh { server: server(dice)? }),
        });
    }
    if has(Kind::Windows) {
        add("window", many("window", 2, 6), &mut |dice, _| {
            let (buffer, pace) = (dice.between(1, 6), dice.below(2_000));
            Some(Act::Window { topic: topic(dice)?, buffer: usize::try_from(buffer).unwrap_or(1), pace })
        });
    }
    if has(Kind::Direct) {
        add("call", many("call", 2, 8), &mut |dice, _| {
            let tool = if dice.percent(75) { "look" } else { "drop" };
            Some(Act::Call { server: server(dice)?, tool: tool.to_owned() })
        });
    }
    if has(Kind::Grant) {
        add("revoke", many("revoke", 0, 2), &mut |_, _| Some(Act::Revoke));
    }
    if has(Kind::Flap) {
        add("flap", many("flap", 2, 8), &mut |dice, _| match dice.below(4) {
            0 => Some(Act::RestartServer { server: server(dice)? }),
            _ => Some(Act::Kill { server: server(dice)? }),
        });
    }
    if has(Kind::Swap) {
        add("swap", many("swap", 1, 3), &mut |dice, _| Some(Act::Swap { server: server(dice)? }));
    }
    if has(Kind::Strike) {
        add("strike", many("strike", 1, 5), &mut |dice, _| Some(Act::Strike { actor: dice.throw() }));
    }
    if has(Kind::Crash) {
        add("crash", many("crash", 1, 2), &mut |dice, _| {
            let loss = if dice.percent(50) { Loss::PowerCut } else { Loss::Killed };
            Some(Act::Crash { loss })
        });
    }
    if has(Kind::Restart) {
        add("restart", many("restart", 1, 2), &mut |_, _| Some(Act::Restart));
    }
    steps.sort_by_key(|step| (step.at, step.number));
    steps
}
