//! Decides whether a call's arguments are what its tool's schema asks for, and mends what can be mended without guessing.
//!
//! ```text
//! text of a model ──settle──▶ arguments (as they came, or mended)  |  words that help the model to repair its call
//! schema ──compile──▶ Validator ──check──▶ Valid | Invalid(faults) | Unchecked(why)
//! ```
//!
//! A schema is data from outside. Nothing that it refers to is fetched, its patterns run in linear time, and what a check
//! costs is counted before the check begins: a schema that is no schema, or one that would take too long, is not checked
//! at all, and says so. It never keeps its tool from being called.
//!
//! The original schema is the measure, in the draft that it names (2020-12 if it names none). Formats are annotations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::PatternOptions;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::tool::ToolDefinition;
use serde_json::Value;

pub use cost::{Cost, cost};
pub use fault::Faults;
pub use repair::{Fix, Settled, settle};

mod cost;
mod fault;
mod repair;

/// The longest schema that is compiled, in bytes of its text; real ones stay below 64 KiB.
const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// How large the program of one pattern may become, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// How many validators one half of the cache holds.
const GENERATION: usize = 512;

/// One tool's schema, ready to judge arguments. Made once for each fingerprint; see [`Validators`].
#[derive(Debug)]
pub struct Validator {
    root: Value,
    weight: cost::Weight,
    schema: Result<jsonschema::Validator, String>,
}

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The arguments are what the schema asks for.
    Valid,
    /// They are not.
    Invalid(Faults),
    /// Nothing was checked, and why; the tool may be called.
    Unchecked(String),
}

impl Validator {
    /// Compiles a schema. One that is none gives a validator that checks nothing and says why: see
    /// [`gap`](Self::gap).
    pub fn new(schema: &JsonText) -> Self {
        if schema.as_str().len() > SCHEMA_BYTES_MAX {
            let why = format!("the schema is longer than {SCHEMA_BYTES_MAX} bytes");
            return Self { root: Value::Null, weight: cost::Weight::default(), schema: Err(why) };
        }
        let root = schema.value();
        let weight = cost::Weight::of(&root);
        let schema = match weight.fault() {
            Some(why) => Err(why.to_owned()),
            None => compiled(&root),
        };
        Self { root, weight, schema }
    }

    /// Why nothing is checked, if nothing is: a diagnostic for whoever owns the tool.
    pub fn gap(&self) -> Option<&str> {
        self.schema.as_ref().err().map(String::as_str)
    }

    /// Judges the arguments. Takes a bounded time whatever the schema and the arguments are.
    pub fn check(&self, arguments: &Value) -> Verdict {
        let schema = match &self.schema {
            Ok(schema) => schema,
            Err(why) => return Verdict::Unchecked(why.clone()),
        };
        let Some(steps) = self.weight.steps(&self.root, arguments) else {
            return Verdict::Unchecked("checking these arguments would take too long".to_owned());
        };
        if schema.is_valid(arguments) {
            return Verdict::Valid;
        }
        Verdict::Invalid(match steps {
            // Errors hold the errors of every branch that failed, so only a small check may list them.
            steps if steps <= cost::DETAILED_MAX => Faults::of(schema.iter_errors(arguments), &self.root),
            _ => Faults::whole(),
        })
    }
}

fn compiled(root: &Value) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX));
    options.build(root).map_err(|error| fault::cut(&format!("the schema cannot be used: {error}")))
}

/// Compiled validators, by fingerprint of their tools. Bounded: what was not asked for lately is compiled again.
///
/// Shared by everybody who checks arguments. Nobody waits for a compilation but who asked for it.
#[derive(Debug, Default)]
pub struct Validators(Mutex<Generations>);

/// Two halves: what is asked for moves to the young one, and a full young one replaces the old one.
#[derive(Debug, Default)]
struct Generations {
    young: BTreeMap<Digest, Arc<Validator>>,
    old: BTreeMap<Digest, Arc<Validator>>,
}

impl Validators {
    /// The validator of this tool, whose fingerprint this is.
    pub fn of(&self, tool: &ToolDefinition, fingerprint: Digest) -> Arc<Validator> {
        self.of_schema(&tool.input_schema, fingerprint)
    }

    /// The validator of this schema, which `fingerprint` stands for.
    pub fn of_schema(&self, schema: &JsonText, fingerprint: Digest) -> Arc<Validator> {
        if let Some(known) = self.lock().find(fingerprint) {
            return known;
        }
        // Outside the lock: a large schema keeps nobody else waiting.
        let validator = Arc::new(Validator::new(schema));
        self.lock().keep(fingerprint, validator.clone());
        validator
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        // Nothing that runs under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, fingerprint: Digest) -> Option<Arc<Validator>> {
        if let Some(known) = self.young.get(&fingerprint) {
            return Some(known.clone());
        }
        let known = self.old.remove(&fingerprint)?;
        self.keep(fingerprint, known.clone());
        Some(known)
    }

    fn keep(&mut self, fingerprint: Digest, validator: Arc<Validator>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(fingerprint, validator);
    }
}

#[cfg(test)]
mod tests;
