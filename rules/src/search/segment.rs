//! One source's part of the index: a server's tools, or all functions. Never changed, only replaced.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use pilothouse_messages::registry::Entry;

use super::document::Document;
use super::names::{Outline, squeezed};

/// The place of a tool in its segment. A listing has at most some thousand.
pub(super) type Place = u32;

/// One tool that has a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub(super) place: Place,
    /// As in [`Term`](super::document::Term).
    pub(super) weight: f32,
    pub(super) named: f32,
}

/// A source's tools and where their terms stand.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) documents: Vec<Document>,
    pub(super) outlines: Vec<Outline>,
    places: HashMap<u64, Range<Place>, BuildHasherDefault<AsIs>>,
    postings: Vec<Posting>,
    /// Wire names and raw names, squeezed, sorted.
    names: Vec<(Box<str>, Place)>,
    /// Bytes of the longest of them; what is longer begins none.
    longest: usize,
    pub(super) labels: Labels,
}

/// Whether a source's tools stand under one label, as a server's do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labels {
    One,
    Several,
}

impl Segment {
    /// Tools whose text is as in `before` are not read again.
    pub(super) fn new(entries: &[Arc<Entry>], before: Option<&Self>) -> Self {
        let known: HashMap<&str, &Document> = before
            .into_iter()
            .flat_map(|segment| &segment.documents)
            .map(|document| (document.entry.name.as_str(), document))
            .collect();
        let document = |entry: &Arc<Entry>| match known.get(entry.name.as_str()) {
            Some(document) if document.fits(entry) => document.of_same_text(entry),
            Some(_) | None => Document::new(entry),
        };
        Self::of(entries.iter().map(document).collect())
    }

    fn of(documents: Vec<Document>) -> Self {
        let mut all = Vec::with_capacity(documents.iter().map(|document| document.terms.len()).sum());
        let mut names = Vec::with_capacity(documents.len() * 2);
        let mut outlines = Vec::with_capacity(documents.len());
        for (document, place) in documents.iter().zip(0..) {
            all.extend(
                document
                    .terms
                    .iter()
                    .map(|term| (term.key, Posting { place, weight: term.weight, named: term.named })),
            );
            let raw = squeezed(document.entry.source.raw_name());
            outlines.push(Outline::of(&raw));
            names.push((squeezed(&document.entry.name).into_boxed_str(), place));
            names.push((raw.into_boxed_str(), place));
        }
        names.sort_unstable();
        let longest = names.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        all.sort_unstable_by_key(|(key, posting)| (*key, posting.place));
        // A server's tools share most of their words.
        let mut places: HashMap<_, Range<Place>, _> =
            HashMap::with_capacity_and_hasher(all.len() / 4, BuildHasherDefault::default());
        for ((key, _), at) in all.iter().zip(0..) {
            places.entry(*key).or_insert(at..at).end = at + 1;
        }
        let postings = all.into_iter().map(|(_, posting)| posting).collect();
        let mut labelled = documents.iter().map(|document| document.entry.namespace_label());
        let first = labelled.next();
        let labels = match labelled.all(|label| Some(label) == first) {
            true => Labels::One,
            false => Labels::Several,
        };
        Self { documents, outlines, places, postings, names, longest, labels }
    }

    /// Whether it was made of these very entries.
    pub(super) fn holds(&self, entries: &[Arc<Entry>]) -> bool {
        let mine = self.documents.iter().map(|document| &document.entry);
        mine.len() == entries.len() && mine.zip(entries).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The tools with this term, and its weight in each.
    pub(super) fn postings(&self, key: u64) -> &[Posting] {
        let range = self.places.get(&key).map(|range| range.start as usize..range.end as usize);
        range.and_then(|range| self.postings.get(range)).unwrap_or_default()
    }

    /// The names that begin with a squeezed text, with their tools.
    pub(super) fn named(&self, start: &str) -> impl Iterator<Item = (&str, Place)> {
        let from = match start.len() > self.longest {
            true => self.names.len(),
            false => self.names.partition_point(|(name, _)| &**name < start),
        };
        let behind = self.names.get(from..).unwrap_or_default();
        behind
            .iter()
            .map(|(name, place)| (&**name, *place))
            .take_while(move |(name, _)| name.starts_with(start))
    }
}

/// Keys are digests already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
