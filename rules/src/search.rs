//! Decides which tools a question finds, and in which order.
//!
//! ```text
//! question ─┬─ is a tool's name ─────▶ Exact  ─┐
//!           ├─ begins a tool's name ─▶ Prefix ─┼─▶ by rank, then score, then bytes of the name; the first `limit`
//!           └─ shares words with it ─▶ Words  ─┘
//! nothing found ─▶ the namespaces there are and the nearest names
//! ```
//!
//! Words are scored by BM25F (Robertson, Zaragoza and Taylor 2004): occurrences are weighted by the field in which they
//! stand, summed, and only then saturated, so that a word in the name and in the description is not counted as two finds.
//! The crate `bm25` was looked at first. It scores one text a document, so a word in a name weighs as much as one in the
//! explanation of a parameter, and its scorer is one mutable index for all, whereas readers here keep a snapshot.
//!
//! What each field weighs follows from what it is for, and stands beside it in `document.rs`; `k1` and the share of length
//! are the textbook's. The usual length of a field is a constant and not the average of what is indexed, so that a
//! tool's terms are weighed once, and no server changes how another one's tools are scored except through how common a
//! word is.
//!
//! The index is a list of *segments*, one for each source. A change of one server replaces its segment and shares all
//! others with the index before: readers keep what they have, and nothing is locked.
//!
//! Nothing from outside is believed to be small: see the bounds in `document.rs` and [`QUESTION_BYTES`].

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::registry::Entry;

use crate::cut::cut;
use crate::registry::{Offered, ToolTable};

mod document;
mod hit;
mod names;
mod segment;
mod stem;
mod terms;

pub use hit::{Hit, Nothing, Question, Rank, SearchAnswer, ToolPool};

use document::key;
use hit::Candidate;
use names::{nearest_names, squeezed};
use segment::Segment;
use terms::{Flow, Side, each_term, is_stop_word};

/// How much of a question is read, in bytes.
pub const QUESTION_BYTES: usize = 4 << 10;

/// How many different terms of a question are looked up, the first ones. A question is about a step, not about a task.
pub const QUESTION_TERMS: usize = 32;

/// The most hits in one answer.
pub const HITS_MAX: usize = 100;

/// The most namespaces that an answer names where nothing was found.
const NAMESPACES_MAX: usize = 64;

/// How soon repetition stops to count: the textbook's figure.
const K1: f32 = 1.2;

/// All tools at one moment, ready to be searched; immutable, cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ToolIndex {
    sources: BTreeMap<Option<ServerId>, Source>,
    tools: usize,
}

#[derive(Debug, Clone)]
struct Source {
    /// What it was made of; the same one again needs no look.
    offered: Option<Offered>,
    segment: Arc<Segment>,
}

impl ToolIndex {
    /// An index of a table's tools.
    pub fn new(table: &ToolTable) -> Self {
        Self::default().updated(table)
    }

    /// The index of a later table. Only servers whose offer is another one are read again, and of those only tools whose
    /// text is.
    #[must_use]
    pub fn updated(&self, table: &ToolTable) -> Self {
        let mut sources = BTreeMap::new();
        for (server, offered) in table.offers() {
            let id = Some(server.clone());
            let before = self.sources.get(&id);
            let is_same =
                |source: &&Source| source.offered.as_ref().is_some_and(|old| Arc::ptr_eq(old, offered));
            let source = before.filter(is_same).cloned().unwrap_or_else(|| {
                let entries: Vec<_> = offered.values().cloned().collect();
                let segment = Segment::new(&entries, before.map(|source| &*source.segment));
                Source { offered: Some(Arc::clone(offered)), segment: Arc::new(segment) }
            });
            sources.insert(id, source);
        }
        let functions: Vec<_> =
            table.entries().iter().filter(|entry| entry.source.server().is_none()).cloned().collect();
        let before = self.sources.get(&None);
        let source = before.filter(|source| source.segment.holds(&functions)).cloned();
        let source = source.unwrap_or_else(|| Source {
            offered: None,
            segment: Arc::new(Segment::new(&functions, before.map(|source| &*source.segment))),
        });
        sources.insert(None, source);
        let tools = sources.values().map(|source| source.segment.documents.len()).sum();
        Self { sources, tools }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tools == 0
    }

    /// The tools of the pool that the question finds, best first. A question without text lists them by name.
    ///
    /// The same index, question and pool always give the same answer.
    pub fn search(&self, question: &Question<'_>, pool: &dyn ToolPool) -> SearchAnswer {
        let text = cut(question.text, QUESTION_BYTES).trim();
        let admits = |entry: &Entry| {
            question
                .namespace
                .is_none_or(|asked| asked == entry.namespace_label() || asked == entry.namespace)
                && pool.admits(entry)
        };
        let limit = question.limit.clamp(1, HITS_MAX);
        let (best, matched) = match text.is_empty() {
            true => best(self.entries().map(Candidate::listed), &admits, limit),
            false => best(self.candidates(text).into_iter(), &admits, limit),
        };
        let hits: Vec<_> = best.into_iter().map(|candidate| candidate.hit(pool)).collect();
        let nothing = hits.is_empty().then(|| self.nothing(text, pool));
        SearchAnswer { hits, matched, nothing }
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.sources.values().map(|source| &*source.segment)
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.segments().flat_map(|segment| &segment.documents).map(|document| &document.entry)
    }

    /// Every tool that has something of the text, once.
    fn candidates(&self, text: &str) -> Vec<Candidate<'_>> {
        let mut scores = self.scores(text);
        let name = squeezed(text);
        let mut ranks = HashMap::new();
        let mut base = 0;
        for segment in self.segments() {
            for (full, place) in segment.named(&name).filter(|_| !name.is_empty()) {
                let rank = if full == name { Rank::Exact } else { Rank::Prefix };
                let known = ranks.entry(base + place as usize).or_insert(rank);
                *known = rank.min(*known);
            }
            base += segment.documents.len();
        }
        let scored = self.entries().enumerate().zip(scores.drain(..));
        scored
            .filter_map(|((place, entry), score)| {
                let rank = ranks.get(&place).copied();
                (rank.is_some() || score > 0.0)
                    .then(|| Candidate::new(entry, rank.unwrap_or(Rank::Words), score))
            })
            .collect()
    }

    /// Every tool's score, in the order of the segments; 0 where it has no term of the text.
    fn scores(&self, text: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.tools];
        let all = self.tools as f32;
        for key in question_keys(text) {
            let found: Vec<_> = self.segments().map(|segment| segment.postings(key)).collect();
            let count = found.iter().map(|postings| postings.len()).sum::<usize>() as f32;
            let rarity = (1.0 + (all - count + 0.5) / (count + 0.5)).ln();
            let mut base = 0;
            for (segment, postings) in self.segments().zip(found) {
                for (place, weight) in postings {
                    if let Some(score) = scores.get_mut(base + *place as usize) {
                        *score += rarity * weight / (K1 + weight);
                    }
                }
                base += segment.documents.len();
            }
        }
        scores
    }

    fn nothing(&self, text: &str, pool: &dyn ToolPool) -> Nothing {
        let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
        let mut admitted = Vec::new();
        for segment in self.segments() {
            for (document, outline) in segment.documents.iter().zip(&segment.outlines) {
                if pool.admits(&document.entry) {
                    *namespaces.entry(document.entry.namespace_label()).or_default() += 1;
                    admitted.push((&document.entry, *outline));
                }
            }
        }
        let more = namespaces.len().saturating_sub(NAMESPACES_MAX);
        let named = namespaces.into_iter().take(NAMESPACES_MAX);
        Nothing {
            namespaces: named.map(|(label, tools)| (label.to_owned(), tools)).collect(),
            more,
            nearest: nearest_names(text, admitted.into_iter()),
        }
    }
}

/// The keys of the question's different terms, the first [`QUESTION_TERMS`]; without words that tell nothing, unless
/// there are no others.
fn question_keys(text: &str) -> Vec<u64> {
    let (mut telling, mut others) = (Vec::new(), Vec::new());
    each_term(text, Side::Question, |term| {
        let keys = if is_stop_word(term) { &mut others } else { &mut telling };
        let key = key(term);
        if !keys.contains(&key) && keys.len() < QUESTION_TERMS {
            keys.push(key);
        }
        if telling.len() < QUESTION_TERMS { Flow::More } else { Flow::Stop }
    });
    if telling.is_empty() { others } else { telling }
}

/// The first `limit` of those admitted, in order, and how many were.
fn best<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    admits: &dyn Fn(&Entry) -> bool,
    limit: usize,
) -> (Vec<Candidate<'a>>, usize) {
    let mut heap = BinaryHeap::with_capacity(limit + 1);
    let mut matched = 0;
    for candidate in candidates.filter(|candidate| admits(candidate.entry)) {
        matched += 1;
        if heap.len() < limit {
            heap.push(candidate);
        } else if let Some(mut worst) = heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }
    (heap.into_sorted_vec(), matched)
}

#[cfg(test)]
mod tests;
