//! Decides what a JSON Schema of any draft admits, at least.
//!
//! Every keyword that is left out only makes the result admit more, so whatever is unknown, too deep or not
//! expressible is reported and skipped.

use serde_json::{Map, Value};

use super::limit::{Caps, DEFAULT_BYTES_MAX, LEVELS_MAX, STEPS_MAX};
use super::loss::Losses;
use super::meet::{meet, unite, unite_objects};
use super::shape::{Branch, Form, Forms, Object, Shape};
use super::show::any_as_union;
use super::text::{clean, join, with_hints};
use crate::cut::cut;

mod base;
mod object;
mod reference;

/// The schema is larger than one reading may be.
struct TooLarge;

type Read = Result<Shape, TooLarge>;

/// Reads a tool's schema; a value that is no object is admitted by no tool. None if it is too large for these caps.
pub(super) fn root(schema: &Value, caps: Caps, losses: &mut Losses) -> Option<Object> {
    let mut reader = Reader::new(schema, caps, losses);
    let shape = reader.shape(schema, 0).ok()?;
    let shape = meet(shape, Shape::of(Form::Object(Object::default())));
    let Forms::Of(branches) = shape.forms else { return Some(Object::default()) };
    let mut objects: Vec<Object> = branches.into_iter().filter_map(into_object).collect();
    if objects.is_empty() {
        losses.add("", "the schema admits no object, so any object is shown");
        objects.push(Object::default());
    }
    if objects.len() > 1 {
        losses.add("", "alternatives at the root are shown as one object");
    }
    let mut object = unite_objects(objects);
    object.description = join(shape.description, object.description, caps.text);
    object.properties.retain(|_, shape| !shape.is_never());
    Some(object)
}

fn into_object(branch: Branch) -> Option<Object> {
    match branch.form {
        Form::Object(object) => {
            let description = join(branch.description, object.description.clone(), usize::MAX);
            Some(Object { description, ..object })
        }
        Form::Flag(_) | Form::Text(_) | Form::Numeral(_) | Form::List(_) => None,
    }
}

/// Which draft of JSON Schema a schema says that it keeps to; the newest if it says none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Up4,
    Up7,
    From2019,
    From2020,
}

impl Draft {
    fn of(schema: &Value) -> Self {
        let uri = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        if uri.contains("draft-03") || uri.contains("draft-04") {
            Self::Up4
        } else if uri.contains("draft-06") || uri.contains("draft-07") {
            Self::Up7
        } else if uri.contains("2019-09") {
            Self::From2019
        } else {
            Self::From2020
        }
    }

    /// Whether what stands beside a `$ref` is ignored.
    fn reference_stands_alone(self) -> bool {
        self <= Self::Up7
    }

    fn knows_const(self) -> bool {
        self >= Self::Up7
    }

    fn knows_prefix_items(self) -> bool {
        self >= Self::From2020
    }
}

struct Reader<'a> {
    document: &'a Value,
    draft: Draft,
    caps: Caps,
    losses: &'a mut Losses,
    at: String,
    /// The references that are being followed.
    followed: Vec<&'a Value>,
    /// Open schemas that have an `$id` of their own, which moves what `#` means.
    rebased: usize,
    steps: usize,
    levels: usize,
}

/// What a schema says about itself, beside what it admits.
#[derive(Default)]
struct Remarks {
    description: Option<String>,
    hints: Vec<String>,
    default: Option<Value>,
}

/// Keywords that only narrow, and that no shape can say.
const UNSAID: [&str; 14] = [
    "not",
    "if",
    "contains",
    "propertyNames",
    "patternProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "extends",
    "disallow",
    "contentSchema",
    "divisibleBy",
];

impl<'a> Reader<'a> {
    fn new(document: &'a Value, caps: Caps, losses: &'a mut Losses) -> Self {
        Self {
            document,
            draft: Draft::of(document),
            caps,
            losses,
            at: String::new(),
            followed: Vec::new(),
            rebased: 0,
            steps: 0,
            levels: 0,
        }
    }

    fn lose(&mut self, what: &str) {
        self.losses.add(&self.at, what);
    }

    fn step(&mut self) -> Result<(), TooLarge> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Reads a part of the schema that stands under these names.
    fn part(&mut self, names: &[&str], schema: &'a Value, depth: usize) -> Read {
        let length = self.at.len();
        for name in names {
            self.at.push('/');
            // A pointer is for people; only its length has a bound.
            self.at.push_str(&cut(name, DEFAULT_BYTES_MAX).replace('~', "~0").replace('/', "~1"));
        }
        let shape = self.shape(schema, depth);
        self.at.truncate(length);
        shape
    }

    fn shape(&mut self, schema: &'a Value, depth: usize) -> Read {
        self.step()?;
        if self.levels >= LEVELS_MAX {
            self.lose("nested too deeply, so anything is taken");
            return Ok(Shape::any());
        }
        match schema {
            Value::Bool(true) => Ok(Shape::any()),
            Value::Bool(false) => Ok(Shape::never()),
            Value::Object(keywords) => {
                self.levels += 1;
                let moves = self.levels > 1 && moves_base(keywords);
                self.rebased += usize::from(moves);
                let shape = self.keywords(keywords, depth);
                self.rebased -= usize::from(moves);
                self.levels -= 1;
                shape
            }
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.lose("this is no schema, so anything is taken");
                Ok(Shape::any())
            }
        }
    }

    fn keywords(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Read {
        let mut remarks = self.remarks(keywords);
        if let Some(description) = any_as_union(keywords) {
            let description = join(remarks.description, description, self.caps.text);
            return Ok(Shape { description, default: remarks.default, ..Shape::any() });
        }
        let referred = self.referred(keywords, depth)?;
        let is_alone = referred.is_some() && self.draft.reference_stands_alone();
        let mut shape = match &referred {
            Some(_) if is_alone => Shape::any(),
            Some(_) | None => self.base(keywords, &mut remarks, depth)?,
        };
        if let Some(referred) = referred {
            shape = meet(shape, referred);
        }
        if !is_alone {
            shape = self.combined(shape, keywords, depth)?;
        }
        let said = with_hints(remarks.description, &remarks.hints, self.caps.text);
        shape.description = join(said, shape.description, self.caps.text);
        shape.default = remarks.default.or(shape.default);
        Ok(shape)
    }

    /// With what `allOf`, `anyOf` and `oneOf` ask for; with whatever else asks for more, reported.
    fn combined(&mut self, mut shape: Shape, keywords: &'a Map<String, Value>, depth: usize) -> Read {
        for (index, part) in list(keywords, "allOf").enumerate() {
            shape = meet(shape, self.part(&["allOf", &index.to_string()], part, depth)?);
        }
        for keyword in ["anyOf", "oneOf"] {
            let mut branches = Vec::new();
            for (index, part) in list(keywords, keyword).enumerate() {
                branches.push(self.part(&[keyword, &index.to_string()], part, depth)?);
            }
            if branches.is_empty() {
                continue;
            }
            if keyword == "oneOf" && branches.len() > 1 {
                self.lose("exactly one of the alternatives is shown as any of them");
            }
            shape = meet(shape, unite(branches));
        }
        for keyword in UNSAID {
            if keywords.contains_key(keyword) {
                self.lose(&format!("`{keyword}` is left out"));
            }
        }
        Ok(shape)
    }

    fn remarks(&self, keywords: &Map<String, Value>) -> Remarks {
        let text = |name: &str| keywords.get(name).and_then(Value::as_str);
        let hints = match keywords.get("deprecated") {
            Some(Value::Bool(true)) => vec!["deprecated".to_owned()],
            Some(_) | None => Vec::new(),
        };
        Remarks {
            description: text("description").and_then(|text| clean(text, self.caps.text)),
            hints,
            default: keywords.get("default").filter(|value| !value.is_null() && is_small(value)).cloned(),
        }
    }
}

fn list<'a>(keywords: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    keywords.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn moves_base(keywords: &Map<String, Value>) -> bool {
    let id = keywords.get("$id").or_else(|| keywords.get("id")).and_then(Value::as_str);
    id.is_some_and(|id| !id.starts_with('#'))
}

/// Whether a default value is worth its bytes.
fn is_small(value: &Value) -> bool {
    fn cost(value: &Value, depth: usize, left: &mut usize) -> bool {
        let own = match value {
            Value::String(text) => text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 4,
        };
        let Some(rest) = left.checked_sub(own) else { return false };
        *left = rest;
        let deeper = depth.checked_sub(1);
        match (value, deeper) {
            (Value::Array(items), Some(depth)) => items.iter().all(|item| cost(item, depth, left)),
            (Value::Object(fields), Some(depth)) => {
                fields.iter().all(|(name, field)| name.len() <= *left && cost(field, depth, left))
            }
            (Value::Array(_) | Value::Object(_), None) => false,
            (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => true,
        }
    }
    cost(value, 4, &mut { DEFAULT_BYTES_MAX })
}
