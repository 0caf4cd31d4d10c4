//! Decides what of a tool is searched, and how much each part of it weighs.
//!
//! A *document* is a tool's terms, each with the weight that BM25F gives it within that tool: how often it stands in each
//! field, for each field's length, times the field's weight. All of it depends on the tool alone.

use std::sync::Arc;

use pilothouse_messages::registry::Entry;
use serde_json::Value;

use super::terms::{Flow, Side, each_term, is_stop_word, spaced};
use crate::cut::cut;

/// Where a term stands.
struct Field {
    /// What one occurrence counts, in a field of usual length.
    weight: f32,
    /// The usual length, in terms: the median of those of 1 287 tools of 43 published servers that have the field.
    usual: f32,
}

/// A few words, chosen to say what the tool does.
const NAME: Field = Field { weight: 4.0, usual: 3.0 };
/// The same for people, where there is one.
const TITLE: Field = Field { weight: 2.0, usual: 3.0 };
/// The first sentence says what the tool does; what follows says how.
const LEAD: Field = Field { weight: 2.0, usual: 8.0 };
const DESCRIPTION: Field = Field { weight: 1.0, usual: 53.0 };
/// All tools of a server have it, so its words are commoner than the servers that they tell apart: as much as a title.
const LABEL: Field = Field { weight: 2.0, usual: 1.0 };
/// What a tool works on.
const PARAMETERS: Field = Field { weight: 1.0, usual: 6.0 };
/// Values and explanations tell about special cases.
const VALUES: Field = Field { weight: 0.5, usual: 6.0 };
const EXPLANATIONS: Field = Field { weight: 0.5, usual: 27.0 };

/// How much a field's length counts, from 0 to 1: the textbook's figure.
const LENGTH_SHARE: f32 = 0.75;

/// Bytes of a name, label or title; of a first sentence; of a description, as much as is shown by default.
const SHORT_BYTES: usize = 256;
const LEAD_BYTES: usize = 300;
const DESCRIPTION_BYTES: usize = 8 << 10;
/// A schema above this is not read.
const SCHEMA_BYTES: usize = 256 << 10;
/// How deep, and how many parameters, values and explanations of a schema are read.
const SCHEMA_DEPTH: usize = 8;
const SCHEMA_PARTS: usize = 1_000;
/// Terms that one field may have.
const FIELD_TERMS: usize = 2_000;

/// One tool, ready to be searched.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) entry: Arc<Entry>,
    /// Sorted by key, each once.
    pub(super) terms: Arc<[Term]>,
}

/// What a tool has of one term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Term {
    pub(super) key: u64,
    /// All its occurrences, by field and length.
    pub(super) weight: f32,
    /// Which share of the name it is; 0 outside the name.
    pub(super) named: f32,
}

/// What a term is kept under: the same in every segment. Two terms with one key are one term: likely never, and harmless.
pub(super) fn key(term: &str) -> u64 {
    // FNV-1a, then mixed: its low bits alone are poor.
    let hash = term.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Document {
    pub(super) fn new(entry: &Arc<Entry>) -> Self {
        let mut terms = Terms::default();
        let definition = &entry.definition;
        let name = cut(entry.source.raw_name(), SHORT_BYTES);
        terms.add(&NAME, &[name]);
        terms.add_name(name);
        terms.add(&LABEL, &[cut(entry.namespace_label(), SHORT_BYTES)]);
        terms.add(&TITLE, &[cut(definition.title.as_deref().unwrap_or_default(), SHORT_BYTES)]);
        let description = cut(definition.description.as_deref().unwrap_or_default(), DESCRIPTION_BYTES);
        let (lead, rest) = description.split_at(lead_end(description));
        terms.add(&LEAD, &[lead]);
        terms.add(&DESCRIPTION, &[rest]);
        let schema = definition.input_schema.as_str();
        if schema.len() <= SCHEMA_BYTES {
            let schema = definition.input_schema.value();
            let mut parts = Parts::default();
            parts.read(&schema, 0);
            terms.add(&PARAMETERS, &parts.names);
            terms.add(&VALUES, &parts.values);
            terms.add(&EXPLANATIONS, &parts.explanations);
        }
        Self { entry: Arc::clone(entry), terms: terms.merged() }
    }

    /// Whether the other entry would make the same terms.
    pub(super) fn fits(&self, entry: &Entry) -> bool {
        let mine = &self.entry;
        mine.fingerprint == entry.fingerprint
            && mine.source == entry.source
            && mine.namespace_label() == entry.namespace_label()
    }

    /// The same terms for an entry that [`fits`](Self::fits).
    pub(super) fn of_same_text(&self, entry: &Arc<Entry>) -> Self {
        Self { entry: Arc::clone(entry), terms: Arc::clone(&self.terms) }
    }
}

/// Where the first sentence or line ends.
fn lead_end(text: &str) -> usize {
    let text = cut(text, LEAD_BYTES);
    let ends = |(at, c): (usize, char)| {
        let behind = text.get(at + c.len_utf8()..).unwrap_or_default();
        let is_end = match c {
            '\n' => at > 0,
            '.' | '!' | '?' => behind.starts_with(char::is_whitespace),
            '。' | '！' | '？' => true,
            _ => false,
        };
        is_end.then_some(at + c.len_utf8())
    };
    text.char_indices().find_map(ends).unwrap_or(text.len())
}

/// Terms, one for each occurrence.
#[derive(Default)]
struct Terms {
    all: Vec<Term>,
}

impl Terms {
    fn add(&mut self, field: &Field, texts: &[&str]) {
        let first = self.all.len();
        let mut length = 0;
        for text in texts {
            each_term(text, Side::Tool, |term| {
                self.all.push(Term { key: key(term), weight: 0.0, named: 0.0 });
                length += 1;
                if length < FIELD_TERMS { Flow::More } else { Flow::Stop }
            });
            if length >= FIELD_TERMS {
                break;
            }
        }
        // At most FIELD_TERMS, which an f32 holds exactly.
        let one = field.weight / (1.0 - LENGTH_SHARE + LENGTH_SHARE * length as f32 / field.usual);
        self.all.iter_mut().skip(first).for_each(|term| term.weight = one);
    }

    /// The shares of a name's parts in it; words that tell nothing are no part.
    fn add_name(&mut self, name: &str) {
        let first = self.all.len();
        each_term(&spaced(name), Side::Question, |term| {
            if !is_stop_word(term) {
                self.all.push(Term { key: key(term), weight: 0.0, named: 0.0 });
            }
            Flow::More
        });
        let share = 1.0 / (self.all.len() - first).max(1) as f32;
        self.all.iter_mut().skip(first).for_each(|term| term.named = share);
    }

    fn merged(mut self) -> Arc<[Term]> {
        self.all.sort_unstable_by_key(|term| term.key);
        self.all.dedup_by(|term, kept| {
            let is_same = term.key == kept.key;
            if is_same {
                kept.weight += term.weight;
                kept.named += term.named;
            }
            is_same
        });
        self.all.into()
    }
}

/// What a schema says, in its own order.
#[derive(Default)]
struct Parts<'a> {
    names: Vec<&'a str>,
    values: Vec<&'a str>,
    explanations: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn is_full(&self) -> bool {
        self.names.len() + self.values.len() + self.explanations.len() >= SCHEMA_PARTS
    }

    fn read(&mut self, schema: &'a Value, depth: usize) {
        let Value::Object(schema) = schema else { return };
        if depth > SCHEMA_DEPTH {
            return;
        }
        for (keyword, value) in schema {
            if self.is_full() {
                return;
            }
            match (keyword.as_str(), value) {
                ("properties" | "$defs" | "definitions", Value::Object(members)) => {
                    self.members(members, keyword == "properties", depth);
                }
                ("description" | "title", Value::String(text)) => self.explanations.push(text),
                ("const", Value::String(text)) => self.values.push(text),
                ("enum", Value::Array(values)) => {
                    let room = SCHEMA_PARTS.saturating_sub(self.values.len());
                    self.values.extend(values.iter().filter_map(Value::as_str).take(room));
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    schemas.iter().for_each(|schema| self.read(schema, depth + 1));
                }
                ("items" | "additionalProperties", schema) => self.read(schema, depth + 1),
                (_, _) => {}
            }
        }
    }

    fn members(&mut self, members: &'a serde_json::Map<String, Value>, are_named: bool, depth: usize) {
        for (name, schema) in members {
            if self.is_full() {
                return;
            }
            if are_named {
                self.names.push(name);
            }
            self.read(schema, depth + 1);
        }
    }
}
