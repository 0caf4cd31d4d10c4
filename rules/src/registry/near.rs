//! Decides which names a model may have meant.

use std::sync::Arc;

use pilothouse_messages::registry::Entry;

/// How many names are told.
const NEAREST: usize = 3;

/// How much of a name is compared; longer than any wire name, shorter than what a model may write.
const COMPARED: usize = 64;

/// At most [`NEAREST`] names, nearest first, ties in the order given.
///
/// A name is near if the tool's own name is meant, if it begins with what was written, or else by the number of
/// edits from there to its wire name or to its own name; case and separators do not count.
pub(crate) fn nearest<'a>(written: &str, entries: impl Iterator<Item = &'a Arc<Entry>>) -> Vec<&'a str> {
    let written = squeezed(written);
    let mut best: Vec<(usize, &str)> = Vec::with_capacity(NEAREST + 1);
    for entry in entries {
        let bound = best.get(NEAREST - 1).map_or(usize::MAX, |(rank, _)| *rank);
        let rank = rank(&written, entry, bound);
        if rank >= bound {
            continue;
        }
        let place = best.partition_point(|(other, _)| *other <= rank);
        best.insert(place, (rank, &entry.name));
        best.truncate(NEAREST);
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// 0 for the tool's own name, 1 for the beginning of its wire name, else 2 + edits. Ranks of `bound` and above need
/// not be exact.
fn rank(written: &[u8], entry: &Entry, bound: usize) -> usize {
    let (wire, raw) = (squeezed(&entry.name), squeezed(entry.source.raw_name()));
    if raw == written {
        return 0;
    }
    if wire.starts_with(written) {
        return 1;
    }
    let bound = bound.saturating_sub(2);
    2 + edits(written, &raw, bound).min(edits(written, &wire, bound))
}

/// Without ASCII separators, in ASCII lower case; other scripts stay as their UTF-8 bytes.
fn squeezed(name: &str) -> Vec<u8> {
    let plain = name.bytes().filter(|b| !b.is_ascii() || b.is_ascii_alphanumeric());
    plain.take(COMPARED).map(|b| b.to_ascii_lowercase()).collect()
}

/// The edit distance (Levenshtein); gives up with `bound` where it cannot be below that.
fn edits(from: &[u8], to: &[u8], bound: usize) -> usize {
    if from.len().abs_diff(to.len()) >= bound {
        return bound;
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut least = left;
        for (b, cell) in to.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
            least = least.min(left);
        }
        if least >= bound {
            return bound;
        }
    }
    // Without a character to compare the whole other name is one insertion after the other.
    if to.is_empty() { from.len() } else { row.last().copied().unwrap_or(bound) }
}

#[cfg(test)]
mod tests;
