//! Decides whether a call may run, or a person is asked first.
//!
//! ```text
//! always asks? ──yes──▶ Ask
//!      │ no
//!      ▼
//! effect × mode ──────▶ Run | Ask
//! ```
//!
//! | effect | Default |
//! |---|---|
//! | Reads | run |
//! | Edits, Executes, OpenWorld, Unknown | ask |
//!
//! It is asked at call time, about the tool as it stands then.

use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{PermissionMode, ResolvedTool, RunBasis};

/// What a call needs before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nobody: it may run, and why.
    Run(RunBasis),
    /// A person; why, in plain words for the card.
    Ask(String),
}

/// What one call of this tool needs in this mode. A tool that always asks asks in every mode, whatever its effect.
pub fn need(tool: &ResolvedTool, mode: PermissionMode) -> Need {
    if tool.force_prompt {
        return Need::Ask("this tool always asks before it runs".to_owned());
    }
    match mode {
        PermissionMode::Default => by_default(tool.effect),
    }
}

fn by_default(effect: Effect) -> Need {
    let reason = match effect {
        Effect::Reads => return Need::Run(RunBasis::Mode),
        Effect::Edits => "this tool changes things",
        Effect::Executes => "this tool runs programs",
        Effect::OpenWorld => "this tool talks to the outside world",
        Effect::Unknown => "nobody has said what this tool may do",
    };
    Need::Ask(reason.to_owned())
}

#[cfg(test)]
mod tests;
