//! Decides how a tool reads in the block, once for each definition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_messages::digest::Digest;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::Dialect;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::{Loosened, ShownTool};

use crate::schema::{ProviderSchema, shown_schema};

/// How many tools one half of the cache holds; a block has rarely more than some hundred.
const GENERATION: usize = 1024;

/// What a model is shown of a tool, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// What it does, bounded.
    pub(super) description: String,
    /// The schema that the provider takes.
    pub(super) schema: JsonText,
    /// The rules that it keeps.
    pub(super) dialect: Dialect,
    /// What that lost.
    pub(super) loosened: Vec<Loosened>,
}

/// Tools as they are shown, by fingerprint and dialect. Bounded: what was not asked for lately is made again.
///
/// Shared by all topics of a runtime. Nobody waits for a schema but who asked for it.
#[derive(Debug, Default)]
pub struct ShownTools(Mutex<Generations>);

/// Two halves: what is asked for moves to the young one, and a full young one replaces the old one.
#[derive(Debug, Default)]
struct Generations {
    young: BTreeMap<Key, Arc<Shown>>,
    old: BTreeMap<Key, Arc<Shown>>,
}

/// A definition, and whose rules its schema is to keep.
type Key = (Digest, Dialect);

impl ShownTools {
    /// `bytes` bounds the description; the same for every tool of a runtime.
    pub(super) fn of(&self, entry: &Entry, bytes: usize, dialect: Dialect) -> Arc<Shown> {
        let key = (entry.fingerprint, dialect);
        if let Some(known) = self.lock().find(key) {
            return known;
        }
        // Outside the lock: a large schema keeps nobody else waiting.
        let ProviderSchema { schema, dialect, loosened } = shown_schema(&entry.definition, dialect);
        let (description, schema) = (description(entry, bytes), JsonText::from(schema));
        let shown = Arc::new(Shown { description, schema, dialect, loosened });
        self.lock().keep(key, shown.clone());
        shown
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Nothing that runs under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, key: Key) -> Option<Arc<Shown>> {
        if let Some(known) = self.young.get(&key) {
            return Some(known.clone());
        }
        let known = self.old.remove(&key)?;
        self.keep(key, known.clone());
        Some(known)
    }

    fn keep(&mut self, key: Key, shown: Arc<Shown>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, shown);
    }
}

/// The tool with its owner's own schema: what a decision about deferral reckons with, since the schemas of tools that
/// are not shown need not be made ready for providers.
pub(crate) fn as_owned(entry: &Entry, bytes: usize) -> ShownTool {
    ShownTool {
        name: entry.name.clone(),
        description: description(entry, bytes),
        input_schema: entry.definition.input_schema.clone(),
    }
}

fn description(entry: &Entry, bytes: usize) -> String {
    let definition = &entry.definition;
    let texts = [definition.description.as_deref(), definition.title.as_deref()];
    let text =
        texts.into_iter().flatten().map(|text| shown_text(text, bytes)).find(|text| !text.trim().is_empty());
    text.unwrap_or_else(|| shown_text(definition.name.as_str(), bytes))
}

/// The text without control characters (line breaks and tabs stay), cut to `bytes` at a character boundary.
fn shown_text(text: &str, bytes: usize) -> String {
    let is_dropped = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.len() <= bytes && !text.contains(is_dropped) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars().filter(|c| !is_dropped(*c)) {
        if out.len() + c.len_utf8() > bytes {
            break;
        }
        out.push(c);
    }
    out
}
