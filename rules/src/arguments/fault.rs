//! What is wrong with arguments, in words with which a model can repair its call.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{ErrorIterator, ValidationError};
use serde_json::Value;

/// How many faults are told.
const TOLD_MAX: usize = 8;
/// How much of a value, or of a list of allowed ones, is told, in bytes.
const VALUE_BYTES: usize = 120;
/// How long the words about one fault may be, in bytes.
const FAULT_BYTES: usize = 400;
/// How many branches of a failed alternative are told.
const BRANCHES_MAX: usize = 4;

/// What is wrong with one call's arguments: at most eight faults, each with its place, what was expected there and what
/// was found. Bounded, whatever the schema and the arguments are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    told: Vec<String>,
    more: usize,
}

impl Faults {
    pub(super) fn of(errors: ErrorIterator<'_>, root: &Value) -> Self {
        let mut faults = Self { told: Vec::new(), more: 0 };
        for error in errors {
            let words = words(&error, root);
            if faults.told.contains(&words) {
                continue;
            }
            if faults.told.len() < TOLD_MAX {
                faults.told.push(words);
            } else {
                faults.more += 1;
            }
        }
        faults
    }

    /// A fault somewhere, where looking for the place would take too long.
    pub(super) fn whole() -> Self {
        Self { told: vec!["the arguments do not match the schema".to_owned()], more: 0 }
    }

    /// The faults that are told.
    pub fn told(&self) -> &[String] {
        &self.told
    }
}

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, fault) in self.told.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}- {fault}")?;
        }
        if self.more > 0 {
            write!(f, "\n- and {} more", self.more)?;
        }
        Ok(())
    }
}

fn words(error: &ValidationError<'_>, root: &Value) -> String {
    let place = place(error.instance_path().as_str());
    cut_to(&format!("{place}: {}", complaint(error, root)), FAULT_BYTES)
}

/// Where in the arguments: a JSON pointer's steps as a model would write them.
fn place(pointer: &str) -> String {
    let mut out = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{step}]"));
        } else {
            out.push_str(if out.is_empty() { "" } else { "." });
            out.push_str(&shown(&step));
        }
    }
    if out.is_empty() { "arguments".to_owned() } else { cut_to(&out, VALUE_BYTES) }
}

fn complaint(error: &ValidationError<'_>, root: &Value) -> String {
    let found = || found(error.instance());
    match error.kind() {
        Kind::Type { .. } => {
            format!("expected {}, found {}", expected_type(error, root), found())
        }
        Kind::Required { property } => format!("{} is required and missing", value(property)),
        Kind::Enum { options } => format!("expected one of {}, found {}", options_of(options), found()),
        Kind::Constant { expected_value } => format!("expected {}, found {}", value(expected_value), found()),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unknown_names(unexpected, error, root)
        }
        Kind::Minimum { limit } => format!("expected at least {limit}, found {}", found()),
        Kind::Maximum { limit } => format!("expected at most {limit}, found {}", found()),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, found {}", found()),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, found {}", found()),
        Kind::MinLength { limit } => format!("expected at least {limit} characters, found {}", found()),
        Kind::MaxLength { limit } => format!("expected at most {limit} characters, found {}", found()),
        Kind::MinItems { limit } => format!("expected at least {limit} items, found {}", found()),
        Kind::MaxItems { limit } => format!("expected at most {limit} items, found {}", found()),
        Kind::Pattern { pattern } => format!("expected a text like {}, found {}", shown(pattern), found()),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let branches = context.iter().filter_map(|branch| branch.first()).take(BRANCHES_MAX);
            let branches: Vec<_> = branches.map(|error| words(error, root)).collect();
            format!("expected one of several shapes, found {}; {}", found(), branches.join("; or "))
        }
        Kind::OneOfMultipleValid { .. } => "fits several shapes of which exactly one is allowed".to_owned(),
        Kind::FalseSchema => format!("nothing is allowed here, found {}", found()),
        // The rest is rare, and its own words are good enough.
        _ => error.to_string(),
    }
}

fn expected_type(error: &ValidationError<'_>, root: &Value) -> String {
    match root.pointer(error.schema_path().as_str()) {
        Some(Value::String(kind)) => article(kind),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).map(article).collect();
            kinds.join(" or ")
        }
        // Behind a reference the place in the schema is another one.
        Some(_) | None => {
            let words = error.to_string();
            words
                .rsplit_once(" is not of type")
                .map_or("another type", |(_, kind)| kind.trim())
                .replace('"', "")
        }
    }
}

fn article(kind: &str) -> String {
    match kind {
        "array" | "integer" | "object" => format!("an {kind}"),
        "null" => kind.to_owned(),
        _ => format!("a {}", shown(kind)),
    }
}

fn unknown_names(names: &[String], error: &ValidationError<'_>, root: &Value) -> String {
    let quoted: Vec<_> = names.iter().take(TOLD_MAX).map(|name| format!("\"{}\"", shown(name))).collect();
    let unknown = cut_to(&quoted.join(", "), VALUE_BYTES);
    let schema = error.schema_path().as_str().rsplit_once('/').and_then(|(schema, _)| root.pointer(schema));
    let known = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let known: Vec<_> = known.into_iter().flatten().map(|(name, _)| shown(name)).collect();
    if known.is_empty() {
        return format!("there is no {unknown}");
    }
    format!("there is no {unknown}; there are {}", cut_to(&known.join(", "), VALUE_BYTES))
}

fn options_of(options: &Value) -> String {
    let Value::Array(options) = options else { return value(options) };
    let listed: Vec<_> = options.iter().take(32).map(Value::to_string).collect();
    cut(&listed.join(", "))
}

fn found(instance: &Value) -> String {
    match instance {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {instance}"),
        Value::Number(_) => format!("the number {instance}"),
        Value::String(_) => format!("the string {}", value(instance)),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => format!("the object {}", value(instance)),
    }
}

fn value(value: &Value) -> String {
    cut(&value.to_string())
}

/// A name or pattern of a server, on one line.
fn shown(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    cut(&plain)
}

/// The text, bounded like every value that is told.
pub(super) fn cut(text: &str) -> String {
    cut_to(text, VALUE_BYTES)
}

fn cut_to(text: &str, bytes: usize) -> String {
    let kept = crate::cut::cut(text, bytes);
    if kept.len() < text.len() { format!("{kept}…") } else { kept.to_owned() }
}
