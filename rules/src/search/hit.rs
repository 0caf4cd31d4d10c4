//! What is asked and what is answered.

use std::cmp::Ordering;
use std::sync::Arc;

use pilothouse_messages::registry::Entry;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'a> {
    /// A name, the beginning of one, or words; empty to list everything.
    pub text: &'a str,
    /// Only tools of this namespace: its label or its key, exactly.
    pub namespace: Option<&'a str>,
    /// How many hits, from 1 to [`HITS_MAX`](super::HITS_MAX).
    pub limit: usize,
}

/// Among which tools, as they are now.
pub trait ToolPool {
    /// Whether the tool is among them.
    fn admits(&self, entry: &Entry) -> bool;

    /// Whether its server can be called. A tool whose server cannot is found nevertheless, and marked.
    fn is_up(&self, entry: &Entry) -> bool;
}

/// How a tool was found; the order is the order of the hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The question is its wire name or its raw name; case and separators do not count.
    Exact,
    /// The question begins one of its names.
    Prefix,
    /// The question shares words with it, or asks for all.
    Words,
}

/// One tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The tool.
    pub entry: Arc<Entry>,
    /// How it was found.
    pub rank: Rank,
    /// What its words score; comparable within one answer only.
    pub score: f32,
    /// Whether its server can be called now.
    pub is_up: bool,
}

/// What a question found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchAnswer {
    /// The best, in order.
    pub hits: Vec<Hit>,
    /// How many there were in all.
    pub matched: usize,
    /// What to try instead; there if nothing was found.
    pub nothing: Option<Nothing>,
}

/// What helps to ask better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nothing {
    /// The labels of the pool's namespaces with the number of their tools, by bytes, the first 64.
    pub namespaces: Vec<(String, usize)>,
    /// How many namespaces are not named.
    pub more: usize,
    /// The wire names nearest to the text, at most three.
    pub nearest: Vec<String>,
}

/// A tool that may become a hit; a better one is less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) entry: &'a Arc<Entry>,
    rank: Rank,
    score: f32,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(entry: &'a Arc<Entry>, rank: Rank, score: f32) -> Self {
        Self { entry, rank, score }
    }

    pub(super) fn listed(entry: &'a Arc<Entry>) -> Self {
        Self::new(entry, Rank::Words, 0.0)
    }

    pub(super) fn hit(self, pool: &dyn ToolPool) -> Hit {
        let is_up = pool.is_up(self.entry);
        Hit { entry: Arc::clone(self.entry), rank: self.rank, score: self.score, is_up }
    }
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = || other.score.total_cmp(&self.score);
        self.rank.cmp(&other.rank).then_with(by_score).then_with(|| self.entry.name.cmp(&other.entry.name))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate<'_> {}
