//! Says of a change of a topic's configuration what counts at once and what waits for the next turn.
//!
//! While no turn is open everything counts at once. While one is, what becomes stricter about tools does, also for cards
//! that wait, and all else waits.

use std::collections::BTreeSet;

use pilothouse_messages::tool::ToolLists;
use pilothouse_messages::topic::{Configured, Headless, Setting, TopicConfig};

use crate::gate::is_within;

/// In which way a setting changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Change {
    stricter: bool,
    looser: bool,
}

/// What changed from one configuration to the next.
pub(super) fn changed(from: &TopicConfig, to: &TopicConfig, turn: Turn) -> Configured {
    let mut told = Configured::default();
    let changes = [
        (Setting::Model, later(&from.model, &to.model)),
        (
            Setting::Mode,
            Change { stricter: !is_within(from.mode, to.mode), looser: !is_within(to.mode, from.mode) },
        ),
        (Setting::MaxSteps, later(&from.max_steps, &to.max_steps)),
        (Setting::Servers, chosen(from.servers.as_deref(), to.servers.as_deref())),
        (Setting::Builtins, chosen(from.builtins.as_deref(), to.builtins.as_deref())),
        (Setting::SurfaceTtl, later(&from.surface_ttl_ms, &to.surface_ttl_ms)),
        (Setting::ApprovalTtl, later(&from.approval_ttl_ms, &to.approval_ttl_ms)),
        (Setting::Headless, headless(from.headless, to.headless)),
        (Setting::Tools, lists(&from.tools, &to.tools)),
        (Setting::ContextWindow, later(&from.context_window, &to.context_window)),
        (Setting::Steering, later(&from.turns.steering, &to.turns.steering)),
        (Setting::Claim, later(&from.turns.claim, &to.turns.claim)),
        (Setting::AfterCrash, later(&from.turns.after_crash, &to.turns.after_crash)),
        (Setting::Budget, later(&from.turns.budget, &to.turns.budget)),
    ];
    for (setting, change) in changes {
        let (now, next_turn) = match turn {
            Turn::Closed => (change.stricter || change.looser, false),
            Turn::Open => (change.stricter, change.looser),
        };
        if now {
            told.now.push(setting);
        }
        if next_turn {
            told.next_turn.push(setting);
        }
    }
    told
}

/// Whether a turn is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Open,
    Closed,
}

/// A setting of which nothing is stricter: it waits.
fn later<T: PartialEq>(from: &T, to: &T) -> Change {
    Change { stricter: false, looser: from != to }
}

/// A choice; `None` is everything.
fn chosen<T: Ord>(from: Option<&[T]>, to: Option<&[T]>) -> Change {
    match (from, to) {
        (None, None) => Change { stricter: false, looser: false },
        (None, Some(_)) => Change { stricter: true, looser: false },
        (Some(_), None) => Change { stricter: false, looser: true },
        (Some(from), Some(to)) => {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = (from.iter().collect(), to.iter().collect());
            Change { stricter: !from.is_subset(&to), looser: !to.is_subset(&from) }
        }
    }
}

fn lists(from: &ToolLists, to: &ToolLists) -> Change {
    let allowed = chosen(from.allow.as_deref(), to.allow.as_deref());
    let denied = chosen(Some(&from.deny), Some(&to.deny));
    Change { stricter: allowed.stricter || denied.looser, looser: allowed.looser || denied.stricter }
}

fn headless(from: Headless, to: Headless) -> Change {
    Change {
        stricter: (from, to) == (Headless::Park, Headless::Deny),
        looser: (from, to) == (Headless::Deny, Headless::Park),
    }
}

#[cfg(test)]
mod tests;
