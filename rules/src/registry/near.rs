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
    let written = Written::of(squeezed(written));
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
fn rank(written: &Written, entry: &Entry, bound: usize) -> usize {
    let (wire, raw) = (squeezed(&entry.name), squeezed(entry.source.raw_name()));
    if raw == written.text {
        return 0;
    }
    if wire.starts_with(&written.text) {
        return 1;
    }
    let bound = bound.saturating_sub(2);
    2 + written.edits(&raw, bound).min(written.edits(&wire, bound))
}

/// Without ASCII separators, in ASCII lower case; other scripts stay as their UTF-8 bytes.
fn squeezed(name: &str) -> Vec<u8> {
    let plain = name.bytes().filter(|b| !b.is_ascii() || b.is_ascii_alphanumeric());
    plain.take(COMPARED).map(|b| b.to_ascii_lowercase()).collect()
}

/// What was written, ready to be compared with ten thousand names.
struct Written {
    text: Vec<u8>,
    /// For each byte its places in the text, as bits: what is compared has at most as many bytes as a word has bits.
    places: [u64; 256],
}

impl Written {
    fn of(text: Vec<u8>) -> Self {
        let mut places = [0; 256];
        for (place, byte) in text.iter().take(COMPARED).enumerate() {
            if let Some(places) = places.get_mut(usize::from(*byte)) {
                *places |= 1 << place;
            }
        }
        Self { text, places }
    }

    /// The edit distance (Levenshtein) to another name, at most `bound`: a column of the textbook's table is one word,
    /// each bit a step up or down from the cell above (Myers, "A fast bit-vector algorithm for approximate string
    /// matching", 1999).
    fn edits(&self, to: &[u8], bound: usize) -> usize {
        let length = self.text.len();
        if length.abs_diff(to.len()) >= bound {
            return bound;
        }
        let Some(last) = length.checked_sub(1).map(|last| 1_u64 << last) else { return to.len() };
        let (mut up, mut down) = (u64::MAX, 0_u64);
        let mut edits = length;
        for byte in to {
            let equal = self.places.get(usize::from(*byte)).copied().unwrap_or_default();
            let vertical = equal | down;
            let horizontal = ((equal & up).wrapping_add(up) ^ up) | equal;
            let mut more = down | !(horizontal | up);
            let mut fewer = up & horizontal;
            if more & last != 0 {
                edits += 1;
            } else if fewer & last != 0 {
                edits -= 1;
            }
            more = more << 1 | 1;
            fewer <<= 1;
            up = fewer | !(vertical | more);
            down = more & vertical;
        }
        edits.min(bound)
    }
}

#[cfg(test)]
mod tests;
