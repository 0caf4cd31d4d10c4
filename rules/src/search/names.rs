//! Decides which names are meant when a name is asked for, or nearly one.

use std::cmp::Reverse;
use std::sync::Arc;

use pilothouse_messages::registry::Entry;

use crate::registry::nearest;

/// Bytes of a name that are compared; longer than any wire name.
const COMPARED: usize = 128;

/// How many names are looked at closely.
const SHORTLIST: usize = 64;

/// A name without ASCII separators, in lower case, cut.
pub(super) fn squeezed(name: &str) -> String {
    let mut out = String::with_capacity(name.len().min(COMPARED));
    for c in name.chars().filter(|c| !c.is_ascii() || c.is_ascii_alphanumeric()) {
        if out.len() >= COMPARED {
            break;
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Which pairs of neighbouring bytes a squeezed name has, as 128 bits: names that look alike share most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outline(u128);

impl Outline {
    pub(super) fn of(squeezed: &str) -> Self {
        let pairs = squeezed.as_bytes().windows(2).filter_map(|pair| match pair {
            [a, b] => Some(u32::from(*a).wrapping_mul(31).wrapping_add(u32::from(*b)) % 128),
            _ => None,
        });
        Self(pairs.fold(0, |bits, bit| bits | 1 << bit))
    }

    /// From 0 for nothing in common to 1 000 for the same pairs.
    fn likeness(self, other: Self) -> u32 {
        let all = self.0.count_ones() + other.0.count_ones();
        (2_000 * (self.0 & other.0).count_ones()).checked_div(all).unwrap_or_default()
    }
}

/// The names nearest to what was asked, nearest first, at most three.
///
/// Outlines choose the few that are compared letter by letter: ten thousand names cost no more than a hundred.
pub(super) fn nearest_names(asked: &str, pool: &[(&Arc<Entry>, Outline)]) -> Vec<String> {
    let outline = Outline::of(&squeezed(asked));
    let mut like: Vec<(u32, usize)> = pool
        .iter()
        .enumerate()
        .map(|(place, (_, other))| (outline.likeness(*other), place))
        .filter(|(likeness, _)| *likeness > 0)
        .collect();
    let order = |(likeness, place): &(u32, usize)| (Reverse(*likeness), *place);
    if like.len() > SHORTLIST {
        like.select_nth_unstable_by_key(SHORTLIST, order);
        like.truncate(SHORTLIST);
    }
    like.sort_unstable_by_key(order);
    let entries = like.into_iter().filter_map(|(_, place)| Some(pool.get(place)?.0));
    nearest(asked, entries).into_iter().map(str::to_owned).collect()
}
