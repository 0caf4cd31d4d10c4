//! Decides whether a call may run, a person is asked first, or it is denied.
//!
//! ```text
//! a deny list or guard says no? ──yes──▶ Deny
//!      │ no
//!      ▼
//! always asks, or a guard asks? ──yes──▶ Ask
//!      │ no
//!      ▼
//! a grant covers it? ────────────yes──▶ Run          (not in a mode that denies the effect)
//!      │ no
//!      ▼
//! effect × mode ───────────────────────▶ Run | Ask | Deny | what the classifier said
//! ```
//!
//! | effect | Default | AcceptEdits | Plan | Auto | Bypass |
//! |---|---|---|---|---|---|
//! | Reads | run | run | run | run | run |
//! | Edits | ask | run | deny | classifier | run |
//! | Executes, OpenWorld, Unknown | ask | ask | deny | classifier | run |
//!
//! `tool_exec` executes, and runs in every mode: what its script calls is asked about call by call.
//!
//! It is asked at call time, about the tool as it stands then. Of several modes that count together (the turn's, the
//! topic's newest, the runtime's loosest) the strictest word about the effect counts. A mode that denies is a deny
//! from a layer, so a grant does not lift it.

use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{
    Classified, Findings, Headless, PermissionMode, ResolvedTool, RunBasis, TopicConfig,
};

/// What a call needs before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nobody: it may run, and why.
    Run(RunBasis),
    /// A person; why, in plain words for the card.
    Ask(String),
    /// Nothing helps: it does not run; why, in plain words for the model.
    Deny(String),
}

/// What a mode says about an effect, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// It does not run.
    Deny,
    /// A person is asked.
    Ask,
    /// The classifier is asked.
    Classify,
    /// It runs.
    Run,
}

/// The modes that count together about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The one that the turn started with.
    pub turn: PermissionMode,
    /// The topic's newest: what is stricter about it counts at once.
    pub newest: PermissionMode,
    /// The loosest that the runtime allows.
    pub max: PermissionMode,
}

impl Modes {
    /// One mode, within the loosest that the runtime allows.
    pub fn of(mode: PermissionMode, max: PermissionMode) -> Self {
        Self { turn: mode, newest: mode, max }
    }

    /// The strictest word about a call of this tool, and whose it is. A script runs in every mode: it can do nothing but
    /// call tools, and each of its calls is judged by itself.
    pub fn word_about(self, tool: &ResolvedTool) -> (Word, PermissionMode) {
        if is_exec(tool) { (Word::Run, self.turn) } else { self.word(tool.effect) }
    }

    /// Whether a call of this tool may run on this basis.
    ///
    /// # Errors
    /// The mode that does not let it.
    pub fn let_run(self, tool: &ResolvedTool, basis: &RunBasis) -> Result<(), PermissionMode> {
        let (word, mode) = self.word_about(tool);
        let lets = match basis {
            RunBasis::Mode => word == Word::Run,
            RunBasis::Classified => word >= Word::Classify,
            RunBasis::Approved { .. } | RunBasis::Grant { .. } => word > Word::Deny,
        };
        if lets { Ok(()) } else { Err(mode) }
    }

    /// The strictest word, and whose it is.
    pub fn word(self, effect: Effect) -> (Word, PermissionMode) {
        let said = [self.turn, self.newest, self.max].map(|mode| (word(mode, effect), mode));
        said.into_iter().min_by_key(|(word, _)| *word).unwrap_or((Word::Ask, PermissionMode::Default))
    }
}

/// The table above.
pub fn word(mode: PermissionMode, effect: Effect) -> Word {
    match (mode, effect) {
        (_, Effect::Reads)
        | (PermissionMode::Bypass, Effect::Edits | Effect::Executes | Effect::OpenWorld | Effect::Unknown)
        | (PermissionMode::AcceptEdits, Effect::Edits) => Word::Run,
        (PermissionMode::Auto, Effect::Edits | Effect::Executes | Effect::OpenWorld | Effect::Unknown) => {
            Word::Classify
        }
        (PermissionMode::Default, Effect::Edits | Effect::Executes | Effect::OpenWorld | Effect::Unknown)
        | (PermissionMode::AcceptEdits, Effect::Executes | Effect::OpenWorld | Effect::Unknown) => Word::Ask,
        (PermissionMode::Plan, Effect::Edits | Effect::Executes | Effect::OpenWorld | Effect::Unknown) => {
            Word::Deny
        }
    }
}

/// Whether a mode lets nothing run that the other would not.
pub fn is_within(mode: PermissionMode, max: PermissionMode) -> bool {
    let effects = [Effect::Reads, Effect::Edits, Effect::Executes, Effect::OpenWorld, Effect::Unknown];
    effects.into_iter().all(|effect| word(mode, effect) <= word(max, effect))
}

/// What one call of this tool needs. A classifier that was not heard has a person asked.
pub fn need(tool: &ResolvedTool, findings: &Findings, modes: Modes) -> Need {
    let (word, mode) = modes.word_about(tool);
    if let Some(reason) = &findings.denied {
        return Need::Deny(reason.clone());
    }
    if word == Word::Deny {
        return Need::Deny(format!("{}, and the mode \"{}\" only reads", of_effect(tool.effect), name(mode)));
    }
    if tool.force_prompt {
        return Need::Ask("this tool always asks before it runs".to_owned());
    }
    if let Some(reason) = &findings.asked {
        return Need::Ask(reason.clone());
    }
    if let Some(grant) = findings.grant {
        return Need::Run(RunBasis::Grant { grant });
    }
    match (word, &findings.classified) {
        (Word::Run, _) => Need::Run(RunBasis::Mode),
        (Word::Classify, Some(Classified::Run)) => Need::Run(RunBasis::Classified),
        (Word::Classify, Some(Classified::Deny(reason))) => Need::Deny(reason.clone()),
        (Word::Classify, Some(Classified::Ask(reason))) => Need::Ask(reason.clone()),
        (Word::Deny | Word::Ask | Word::Classify, _) => Need::Ask(of_effect(tool.effect).to_owned()),
    }
}

/// The same for a topic: where nobody is there to be asked, asking is denying.
pub fn need_in(tool: &ResolvedTool, findings: &Findings, modes: Modes, headless: Headless) -> Need {
    match (need(tool, findings, modes), headless) {
        (Need::Ask(reason), Headless::Deny) => {
            Need::Deny(format!("{reason}, and nobody is there to be asked"))
        }
        (need @ (Need::Run(_) | Need::Ask(_) | Need::Deny(_)), Headless::Park | Headless::Deny) => need,
    }
}

/// The stricter of the turn's and the topic's newest word about calls that need a person.
pub fn headless(turn: &TopicConfig, newest: &TopicConfig) -> Headless {
    match (turn.headless, newest.headless) {
        (Headless::Park, Headless::Park) => Headless::Park,
        (Headless::Deny, Headless::Park | Headless::Deny) | (Headless::Park, Headless::Deny) => {
            Headless::Deny
        }
    }
}

/// Whether it is `tool_exec`, whose name no other function has.
pub fn is_exec(tool: &ResolvedTool) -> bool {
    match &tool.source {
        ToolSource::Builtin { name } => MetaTool::of(name) == Some(MetaTool::Exec),
        ToolSource::Mcp { .. } => false,
    }
}

fn of_effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Reads => "this tool reads",
        Effect::Edits => "this tool changes things",
        Effect::Executes => "this tool runs programs",
        Effect::OpenWorld => "this tool talks to the outside world",
        Effect::Unknown => "nobody has said what this tool may do",
    }
}

fn name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "default",
        PermissionMode::AcceptEdits => "acceptEdits",
        PermissionMode::Plan => "plan",
        PermissionMode::Auto => "auto",
        PermissionMode::Bypass => "bypass",
    }
}

#[cfg(test)]
mod tests;
