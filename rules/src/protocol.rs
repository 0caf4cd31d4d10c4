//! Decides which MCP version a server is spoken to in: what it spoke last time first.
//!
//! ```text
//! nothing known, modern ──▶ discover ──its versions──▶ speak modern
//!                             │ └─ −32022: once more, or initialize if it names legacy versions only
//!                             └─ another error, another shape, 400/404/405, silence ──▶ initialize ──▶ speak legacy
//! legacy, ended when discovered ──▶ initialize ──answered──▶ speak legacy
//!                                     └─ an error ──▶ discover, as above
//! ```
//!
//! A server that nobody knows is asked `server/discover` first, although most servers are legacy: only that tells the
//! generations apart, a legacy server refuses it within one round trip, and one that is silent costs its share of the
//! deadline once, since it is remembered. The reverse order would speak legacy for ever to a server that does both.
//!
//! A server that was modern is never initialized: whoever sits between could else talk it down.

use pilothouse_messages::protocol::{Era, Heard, LEGACY, MODERN, Patience, ProtocolStep, Remembered};

/// The server speaks none of the versions that the client asked for (MCP 2026-07-28).
const UNSUPPORTED_VERSION: i64 = -32022;
/// Errors that only a modern server has: a header that contradicts the body, a capability that the client lacks.
const MODERN_ERRORS: [i64; 2] = [-32020, -32021];

/// One agreement with one server.
#[derive(Debug, Clone)]
pub struct Negotiation {
    remembered: Remembered,
    asking: Asking,
    discovered: u32,
    initialized: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Nothing,
    Discover,
    Initialize,
}

impl Negotiation {
    /// With what is known of the server.
    pub fn new(remembered: Remembered) -> Self {
        Self { remembered, asking: Asking::Nothing, discovered: 0, initialized: false }
    }

    /// What is known now, for the next connection.
    pub fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// How to begin.
    pub fn first(&mut self) -> ProtocolStep {
        match self.remembered {
            Remembered::Nothing | Remembered::Modern(_) => self.discover(),
            Remembered::Legacy(_) | Remembered::EndedWhenDiscovered => self.initialize(),
        }
    }

    /// How to go on after what was heard.
    pub fn heard(&mut self, heard: Heard) -> ProtocolStep {
        match (self.asking, heard) {
            (Asking::Discover, heard) => self.discover_heard(heard),
            (Asking::Initialize, heard) => self.initialize_heard(heard),
            (Asking::Nothing, _) => give_up("it answered before it was asked"),
        }
    }

    fn discover_heard(&mut self, heard: Heard) -> ProtocolStep {
        match heard {
            Heard::Supported(versions) => match best(&MODERN, &versions) {
                Some(version) => self.speak(Era::Modern, version),
                None => self.other_version(&versions),
            },
            Heard::Error { code: UNSUPPORTED_VERSION, supported, .. } => {
                // Named as supported and refused all the same: asked once more, then it makes no sense.
                if best(&MODERN, &supported).is_some() && self.discovered < 2 {
                    return self.discover();
                }
                self.other_version(&supported)
            }
            Heard::Error { code, message, .. } if MODERN_ERRORS.contains(&code) => refused(code, &message),
            Heard::Error { code, message, .. } => self.legacy_or(&refusal(code, &message)),
            Heard::Misshapen(what) => {
                self.legacy_or(&format!("its answer to `server/discover` is malformed: {what}"))
            }
            Heard::Answered(_) => self.legacy_or("it answered `server/discover` as if it were `initialize`"),
            Heard::Status { status: 400 | 404 | 405, reason } => self.legacy_or(&reason),
            Heard::Status { reason, .. } => give_up(reason),
            // It says nothing about the server.
            Heard::Unreached(reason) => give_up(reason),
            Heard::Silence => self.legacy_or("it did not answer `server/discover`"),
            Heard::Ended(reason) => {
                if self.remembered == Remembered::Nothing {
                    self.remembered = Remembered::EndedWhenDiscovered;
                }
                give_up(reason)
            }
        }
    }

    fn initialize_heard(&mut self, heard: Heard) -> ProtocolStep {
        match heard {
            Heard::Answered(version) if LEGACY.contains(&version.as_str()) => {
                self.speak(Era::Legacy, version)
            }
            Heard::Answered(version) => {
                let understood: Vec<_> = LEGACY.iter().rev().copied().collect();
                give_up(format!("it speaks MCP {version:?}, understood are {}", understood.join(", ")))
            }
            // Only a modern server says so: it was slow to answer, and is given all the time that there is.
            Heard::Error { code: UNSUPPORTED_VERSION, .. } if self.discovered < 3 => {
                self.ask_again(Patience::Whole)
            }
            Heard::Error { code, message, .. } if self.discovered > 0 => refused(code, &message),
            // It may have become modern since it was spoken to last.
            Heard::Error { .. } => self.discover(),
            Heard::Misshapen(what) => give_up(format!("its answer to `initialize` is malformed: {what}")),
            Heard::Supported(_) => give_up("it answered `initialize` as if it were `server/discover`"),
            Heard::Status { reason, .. } | Heard::Unreached(reason) | Heard::Ended(reason) => give_up(reason),
            Heard::Silence => give_up("it did not answer `initialize`"),
        }
    }

    /// It names versions, and none of ours that is modern.
    fn other_version(&mut self, versions: &[String]) -> ProtocolStep {
        let named: Vec<_> = versions.iter().take(8).map(|version| format!("{version:?}")).collect();
        let ours = MODERN.iter().chain(&LEGACY).rev().copied().collect::<Vec<_>>().join(", ");
        let words = format!("it speaks MCP {}, understood are {ours}", named.join(", "));
        match best(&LEGACY, versions) {
            Some(_) => self.legacy_or(&words),
            None => give_up(words),
        }
    }

    /// It is legacy, unless it was modern.
    fn legacy_or(&mut self, words: &str) -> ProtocolStep {
        match &self.remembered {
            Remembered::Modern(version) => give_up(format!(
                "it spoke MCP {version} before, and now: {words}; change its definition to start afresh"
            )),
            Remembered::Nothing | Remembered::Legacy(_) | Remembered::EndedWhenDiscovered => {
                if self.initialized { give_up(words) } else { self.initialize() }
            }
        }
    }

    fn discover(&mut self) -> ProtocolStep {
        self.ask_again(match self.remembered {
            Remembered::Modern(_) => Patience::Whole,
            Remembered::Nothing | Remembered::Legacy(_) | Remembered::EndedWhenDiscovered => Patience::Share,
        })
    }

    fn ask_again(&mut self, patience: Patience) -> ProtocolStep {
        self.asking = Asking::Discover;
        self.discovered += 1;
        ProtocolStep::Discover { version: MODERN[0].to_owned(), patience }
    }

    fn initialize(&mut self) -> ProtocolStep {
        self.asking = Asking::Initialize;
        self.initialized = true;
        ProtocolStep::Initialize { version: LEGACY[0].to_owned() }
    }

    fn speak(&mut self, era: Era, version: String) -> ProtocolStep {
        self.asking = Asking::Nothing;
        self.remembered = match era {
            Era::Legacy => Remembered::Legacy(version.clone()),
            Era::Modern => Remembered::Modern(version.clone()),
        };
        ProtocolStep::Speak { era, version }
    }
}

/// The first of ours that is among theirs.
fn best(ours: &[&str], theirs: &[String]) -> Option<String> {
    ours.iter()
        .find(|version| theirs.iter().any(|their| their == *version))
        .map(|version| (*version).to_owned())
}

fn refusal(code: i64, message: &str) -> String {
    format!("the server answered error {code}: {message}")
}

fn refused(code: i64, message: &str) -> ProtocolStep {
    give_up(refusal(code, message))
}

fn give_up(words: impl Into<String>) -> ProtocolStep {
    ProtocolStep::GiveUp(words.into())
}

#[cfg(test)]
mod tests;
