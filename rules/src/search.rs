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
//! word is. Two things more than words are looked at, for the reasons beside them: words that are taken for one another
//! (`synonyms.rs`), and how much of a tool's name is said (`score.rs`). No weight is fitted to a set of questions.
//!
//! The index is a list of *segments*, one for each source. A change of one server replaces its segment and shares all
//! others with the index before: readers keep what they have, and nothing is locked.
//!
//! Nothing from outside is believed to be small: see the bounds in `document.rs` and [`QUESTION_BYTES`].

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::registry::Entry;

use crate::cut::cut;
use crate::registry::{Offered, SERVER_PREFIX, ToolTable};

mod document;
mod hit;
mod names;
mod score;
mod segment;
mod stem;
mod synonyms;
mod terms;

pub use hit::{Hit, Nothing, Question, Rank, SearchAnswer, ToolPool};

use document::key;
use hit::Candidate;
use names::{nearest_names, squeezed};
use score::scores;
use segment::{Labels, Segment};
use terms::{Flow, Side, each_term, is_stop_word};

/// How much of a question is read, in bytes.
pub const QUESTION_BYTES: usize = 4 << 10;

/// How many different terms of a question are looked up, the first ones. A question is about a step, not about a task.
pub const QUESTION_TERMS: usize = 32;

/// The most hits in one answer.
pub const HITS_MAX: usize = 100;

/// The most namespaces that an answer names where nothing was found.
const NAMESPACES_MAX: usize = 64;

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
        let functions = functions(table);
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
            false => {
                let segments: Vec<_> = self.segments().collect();
                let scores = scores(&segments, self.tools, &question_keys(text));
                best(candidates(&segments, &scores, &ranks(&segments, text)), &admits, limit)
            }
        };
        let hits: Vec<_> = best.into_iter().map(|candidate| candidate.hit(pool)).collect();
        let nothing = hits.is_empty().then(|| self.nothing(text, pool));
        SearchAnswer { hits, matched, nothing }
    }

    /// Whether it was made of the very offers of this table, so that each of its tools is the table's own.
    pub fn is_of(&self, table: &ToolTable) -> bool {
        let mine = self.sources.iter().filter_map(|(server, source)| Some((server.as_ref()?, source)));
        let same = |((server, source), (id, offered)): ((&ServerId, &Source), (&ServerId, &Offered))| {
            server == id && source.offered.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, offered))
        };
        self.tools == table.entries().len() && mine.zip(table.offers()).all(same)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.sources.values().map(|source| &*source.segment)
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.segments().flat_map(|segment| &segment.documents).map(|document| &document.entry)
    }

    fn nothing(&self, text: &str, pool: &dyn ToolPool) -> Nothing {
        let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
        let mut admitted = Vec::with_capacity(self.tools);
        for segment in self.segments() {
            let first = admitted.len();
            let outlined = segment.documents.iter().zip(&segment.outlines);
            let outlined = outlined.map(|(document, outline)| (&document.entry, *outline));
            admitted.extend(outlined.filter(|(entry, _)| pool.admits(entry)));
            let theirs = admitted.get(first..).unwrap_or_default();
            match (segment.labels, theirs) {
                (_, []) => {}
                // Its tools are not looked at one by one: they lie far apart in memory.
                (Labels::One, [(entry, _), ..]) => {
                    *namespaces.entry(entry.namespace_label()).or_default() += theirs.len();
                }
                (Labels::Several, theirs) => {
                    for (entry, _) in theirs {
                        *namespaces.entry(entry.namespace_label()).or_default() += 1;
                    }
                }
            }
        }
        let more = namespaces.len().saturating_sub(NAMESPACES_MAX);
        let named = namespaces.into_iter().take(NAMESPACES_MAX);
        Nothing {
            namespaces: named.map(|(label, tools)| (label.to_owned(), tools)).collect(),
            more,
            nearest: nearest_names(text, &admitted),
        }
    }
}

/// The tools that no server offers. All others stand together: their names begin alike, and nothing else's does.
fn functions(table: &ToolTable) -> Vec<Arc<Entry>> {
    let entries = table.entries();
    let (before, others) =
        entries.split_at(entries.partition_point(|entry| entry.name.as_str() < SERVER_PREFIX));
    let (_, after) = others.split_at(others.partition_point(|entry| entry.name.starts_with(SERVER_PREFIX)));
    before.iter().chain(after).cloned().collect()
}

/// The tools of which the text is a name or begins one, by place.
fn ranks(segments: &[&Segment], text: &str) -> Vec<(usize, Rank)> {
    let name = squeezed(text);
    let mut ranks = Vec::new();
    let mut base = 0;
    for segment in segments {
        for (full, place) in segment.named(&name).filter(|_| !name.is_empty()) {
            let rank = if full == name { Rank::Exact } else { Rank::Prefix };
            ranks.push((base + place as usize, rank));
        }
        base += segment.documents.len();
    }
    // The better one first, and only that one kept.
    ranks.sort_unstable();
    ranks.dedup_by_key(|(place, _)| *place);
    ranks
}

/// Every tool that has something of the text, once.
fn candidates<'a, 'b>(
    segments: &'b [&'a Segment],
    scores: &'b [f32],
    ranks: &'b [(usize, Rank)],
) -> impl Iterator<Item = Candidate<'a>> + use<'a, 'b> {
    let documents = segments.iter().copied().flat_map(|segment| &segment.documents);
    let mut ranks = ranks.iter().peekable();
    documents.zip(scores).enumerate().filter_map(move |(place, (document, score))| {
        let rank = ranks.next_if(|(ranked, _)| *ranked == place).map(|(_, rank)| *rank);
        (rank.is_some() || *score > 0.0)
            .then(|| Candidate::new(&document.entry, rank.unwrap_or(Rank::Words), *score))
    })
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
