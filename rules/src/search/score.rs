//! Decides what each tool scores for the words of a question.
//!
//! For each word of the question a tool gets what the best sign of it is worth: the word itself, or one that is
//! [taken for it](super::synonyms), at a share. A sign is worth its rarity times its saturated weight in the tool. A tool's
//! sum is raised by as much of its *name* as the question says: a name is what its author found enough to say, so a tool
//! whose name is said whole is likelier meant than one of which a word is.

use super::segment::{Posting, Segment};
use super::synonyms::{SHARE, alike};

/// How soon repetition stops to count: the textbook's figure.
const K1: f32 = 1.2;

/// What a name that is said whole adds, as a share of what the words score.
const NAMED: f32 = 0.5;

/// What one tool has of the word that is looked at.
#[derive(Clone, Copy, Default)]
struct Sign {
    score: f32,
    named: f32,
}

/// Every tool's score, in the order of the segments; 0 where it has no term of the question.
pub(super) fn scores(segments: &[&Segment], tools: usize, question: &[u64]) -> Vec<f32> {
    let mut scores = vec![0.0_f32; tools];
    let mut named = vec![0.0_f32; tools];
    let mut signs = vec![Sign::default(); tools];
    let mut signed: Vec<usize> = Vec::new();
    let mut found: Vec<(usize, &[Posting])> = Vec::with_capacity(segments.len());
    for own in question {
        let mut most = f32::INFINITY;
        let others = alike(*own).iter().filter(|other| !question.contains(other));
        for (key, share) in std::iter::once((own, 1.0)).chain(others.map(|other| (other, SHARE))) {
            let count = find(segments, *key, &mut found);
            if count == 0 {
                continue;
            }
            // A rare word is no better a sign of a common one than that is of itself.
            let rarity = rarity(tools, count).min(most);
            if key == own {
                most = rarity;
            }
            for (base, postings) in &found {
                for posting in *postings {
                    let place = base + posting.place as usize;
                    let Some(sign) = signs.get_mut(place) else { continue };
                    if sign.score == 0.0 {
                        signed.push(place);
                    }
                    sign.score = sign.score.max(share * rarity * posting.weight / (K1 + posting.weight));
                    sign.named = sign.named.max(share * posting.named);
                }
            }
        }
        for place in signed.drain(..) {
            if let (Some(score), Some(named), Some(sign)) =
                (scores.get_mut(place), named.get_mut(place), signs.get_mut(place))
            {
                *score += sign.score;
                *named += sign.named;
                *sign = Sign::default();
            }
        }
    }
    scores.iter_mut().zip(named).for_each(|(score, named)| *score *= 1.0 + NAMED * named);
    scores
}

/// How rare a term is that `count` of the tools have; never less than nothing.
fn rarity(tools: usize, count: usize) -> f32 {
    let (all, count) = (tools as f32, count as f32);
    (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
}

/// Puts the postings of a term, with the first place of their segment, and counts them.
fn find<'a>(segments: &[&'a Segment], key: u64, found: &mut Vec<(usize, &'a [Posting])>) -> usize {
    found.clear();
    let (mut base, mut count) = (0, 0);
    for segment in segments {
        let postings = segment.postings(key);
        if !postings.is_empty() {
            count += postings.len();
            found.push((base, postings));
        }
        base += segment.documents.len();
    }
    count
}
