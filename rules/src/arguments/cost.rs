//! Decides what a check against a schema costs, before it is made.
//!
//! JSON Schema has no bound of its own: 26 levels of `allOf` with two references each to the next are 2²⁶ visits. The
//! schema is weighed once (how many subschemas one place of the arguments can meet, how deep they nest); where that says
//! too little, the very visits are counted with the arguments in hand, up to a budget.

use std::collections::BTreeMap;
use std::ptr::from_ref;

use serde_json::Value;

/// Visits that a check may take; above that it is not made. A visit takes some 50 ns.
const STEPS_MAX: u64 = 100_000;
/// Visits up to which every fault is listed.
pub(super) const DETAILED_MAX: u64 = 20_000;
/// How deep subschemas may nest, references followed; real ones stay below 20.
const DEPTH_MAX: usize = 128;
/// How deep a check may go, the depth of schema and arguments taken together: it is a recursion on the caller's stack.
const DESCENT_MAX: usize = 512;
/// Subschemas that one place may meet in a cheap schema.
const CHEAP_MAX: u64 = 4_096;
/// Bytes of text that count as one visit: a pattern reads all of it.
const TEXT_STEP: usize = 256;
/// What a keyword that looks at what others have evaluated multiplies: their subschemas are judged again, and at most
/// so often.
const UNEVALUATED: u64 = 3;

/// Keywords whose subschemas judge the same place as their own schema.
const SAME_PLACE: [&str; 7] = ["not", "if", "then", "else", "allOf", "anyOf", "oneOf"];
/// Keywords with subschemas by name that judge the same place.
const SAME_PLACE_NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords that stand for another schema, at the same place.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose subschemas judge what is inside.
const INSIDE: [&str; 8] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
];
/// Keywords with subschemas by name that judge what is inside.
const INSIDE_NAMED: [&str; 2] = ["properties", "patternProperties"];

/// What checking against a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A few microseconds for arguments of usual size.
    Cheap,
    /// Recursive or wide: each check counts its visits first, and may take some ten milliseconds.
    Dear,
}

/// What checking against this schema costs. The same at any time, and cheap itself.
pub fn cost(schema: &Value) -> Cost {
    match Weight::of(schema) {
        Weight { shape: Shape::Finite, visits, .. } if visits <= CHEAP_MAX => Cost::Cheap,
        Weight { shape: Shape::Finite | Shape::Recursive | Shape::TooDeep, .. } => Cost::Dear,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shape {
    #[default]
    Finite,
    /// Leads back to itself, or to where this module does not follow.
    Recursive,
    TooDeep,
}

/// A schema, weighed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    visits: u64,
    shape: Shape,
}

impl Weight {
    pub(super) fn of(schema: &Value) -> Self {
        let mut scale = Scale { root: schema, known: BTreeMap::new(), shape: Shape::Finite };
        let (visits, depth) = scale.weigh(schema, 0);
        let shape = if depth > DEPTH_MAX { Shape::TooDeep } else { scale.shape };
        Self { visits, shape }
    }

    /// Why the schema is not even compiled.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self.shape {
            Shape::TooDeep => Some("the schema nests too deep, references followed"),
            Shape::Finite | Shape::Recursive => None,
        }
    }

    /// No more visits than this are made for these arguments; `None` if they are too many, or too deep.
    pub(super) fn steps(&self, root: &Value, arguments: &Value) -> Option<u64> {
        if self.shape == Shape::Finite && self.visits <= CHEAP_MAX {
            let bound = self.visits.saturating_mul(places(arguments, DETAILED_MAX / self.visits.max(1) + 1));
            if bound <= DETAILED_MAX {
                return Some(bound);
            }
        }
        let mut walk = Walk { root, steps: 0 };
        walk.visit(root, arguments, 1, 0)?;
        Some(walk.steps)
    }
}

/// How many values there are, long texts counted as several; gives up at `most`.
fn places(value: &Value, most: u64) -> u64 {
    let inside: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(fields) => &mut fields.values(),
        Value::String(text) => return 1 + u64::try_from(text.len() / TEXT_STEP).unwrap_or(u64::MAX - 1),
        Value::Null | Value::Bool(_) | Value::Number(_) => return 1,
    };
    inside.fold(
        1,
        |sum: u64, item| {
            if sum >= most { sum } else { sum.saturating_add(places(item, most - sum)) }
        },
    )
}

/// Weighs each subschema once.
struct Scale<'a> {
    root: &'a Value,
    /// By address, which names a subschema as long as the schema is borrowed; `None` while it is being weighed.
    known: BTreeMap<usize, Option<(u64, usize)>>,
    shape: Shape,
}

impl<'a> Scale<'a> {
    fn weigh(&mut self, schema: &'a Value, depth: usize) -> (u64, usize) {
        // The recursion ends here as well: what is deeper is never compiled.
        if depth > DEPTH_MAX {
            return (1, DEPTH_MAX + 1);
        }
        let address = from_ref(schema).addr();
        match self.known.get(&address) {
            Some(Some(known)) => return *known,
            Some(None) => {
                self.shape = Shape::Recursive;
                return (1, 1);
            }
            None => {}
        }
        self.known.insert(address, None);
        let again = again(schema);
        let (mut visits, mut deepest) = (own(schema), 0);
        let inside = inside(schema).map(|next| (1, Some(next)));
        for (times, next) in same_place(schema, self.root).into_iter().map(|next| (again, next)).chain(inside)
        {
            let Some(next) = next else {
                self.shape = Shape::Recursive;
                continue;
            };
            let (more, deep) = self.weigh(next, depth + 1);
            visits = visits.saturating_add(more.saturating_mul(times));
            deepest = deepest.max(deep);
        }
        let weight = (visits, deepest + 1);
        self.known.insert(address, Some(weight));
        weight
    }
}

fn again(schema: &Value) -> u64 {
    let looks_back =
        ["unevaluatedProperties", "unevaluatedItems"].iter().any(|key| schema.get(key).is_some());
    if looks_back { UNEVALUATED } else { 1 }
}

/// What one visit costs by itself: large lists and maps of names count.
fn own(schema: &Value) -> u64 {
    let Value::Object(keywords) = schema else { return 1 };
    let lists = ["properties", "required", "enum"].map(|keyword| match keywords.get(keyword) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => 0,
    });
    let names = keywords.len() + lists.iter().sum::<usize>();
    1 + u64::try_from(names / 16).unwrap_or(u64::MAX)
}

/// The subschemas for the same place; `None` for a reference that is not followed here.
fn same_place<'a>(schema: &'a Value, root: &'a Value) -> Vec<Option<&'a Value>> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut out = Vec::new();
    let of = |keyword: &&str| keywords.get(*keyword);
    out.extend(SAME_PLACE.iter().filter_map(of).flat_map(one_or_many).map(Some));
    out.extend(SAME_PLACE_NAMED.iter().filter_map(of).flat_map(named).map(Some));
    let references = REFERENCES.iter().filter_map(of);
    out.extend(references.map(|to| to.as_str().and_then(|to| target(to, root))));
    // A document within the document: references in it mean something else.
    let is_document = ["$id", "id"].iter().filter_map(of).any(Value::is_string);
    if is_document && !std::ptr::eq(schema, root) {
        out.push(None);
    }
    out
}

fn inside(schema: &Value) -> impl Iterator<Item = &Value> {
    let of = |keyword: &&str| schema.get(*keyword);
    let plain = INSIDE.iter().filter_map(of).flat_map(one_or_many);
    plain.chain(INSIDE_NAMED.iter().filter_map(of).flat_map(named))
}

fn one_or_many(value: &Value) -> impl Iterator<Item = &Value> {
    let (many, one) = match value {
        Value::Array(many) => (many.as_slice(), None),
        one => (&[][..], Some(one)),
    };
    many.iter().chain(one)
}

fn named(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_object().into_iter().flat_map(serde_json::Map::values)
}

/// The schema that a reference within the document means; anchors and other documents are not followed.
fn target<'a>(reference: &str, root: &'a Value) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}

/// Goes the way that a check would go, and counts.
struct Walk<'a> {
    root: &'a Value,
    steps: u64,
}

impl<'a> Walk<'a> {
    /// `None` as soon as it is too much, or leads where nothing can be counted.
    fn visit(&mut self, schema: &'a Value, value: &Value, times: u64, depth: usize) -> Option<()> {
        let length = value.as_str().map_or(0, |text| text.len() / TEXT_STEP);
        let cost = own(schema).saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        self.steps = self.steps.saturating_add(cost.saturating_mul(times));
        if self.steps > STEPS_MAX || depth > DESCENT_MAX {
            return None;
        }
        let Value::Object(keywords) = schema else { return Some(()) };
        let again = times.saturating_mul(again(schema));
        for next in same_place(schema, self.root) {
            self.visit(next?, value, again, depth + 1)?;
        }
        match value {
            Value::Array(items) => self.visit_items(keywords, items, times, depth),
            Value::Object(fields) => self.visit_fields(keywords, fields, times, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(()),
        }
    }

    fn visit_items(&mut self, keywords: &'a Fields, items: &[Value], times: u64, depth: usize) -> Option<()> {
        for keyword in ["items", "additionalItems", "unevaluatedItems", "contains"] {
            if let Some(schema @ Value::Object(_)) = keywords.get(keyword) {
                items.iter().try_for_each(|item| self.visit(schema, item, times, depth + 1))?;
            }
        }
        for keyword in ["prefixItems", "items"] {
            if let Some(Value::Array(schemas)) = keywords.get(keyword) {
                let mut pairs = schemas.iter().zip(items);
                pairs.try_for_each(|(schema, item)| self.visit(schema, item, times, depth + 1))?;
            }
        }
        Some(())
    }

    fn visit_fields(
        &mut self,
        keywords: &'a Fields,
        fields: &Fields,
        times: u64,
        depth: usize,
    ) -> Option<()> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        for (name, field) in fields {
            let own = properties.and_then(|properties| properties.get(name));
            let others =
                ["additionalProperties", "unevaluatedProperties"].map(|keyword| keywords.get(keyword));
            let patterns = keywords.get("patternProperties").into_iter().flat_map(named);
            for schema in own.into_iter().chain(others.into_iter().flatten()).chain(patterns) {
                self.visit(schema, field, times, depth + 1)?;
            }
            if let Some(schema) = keywords.get("propertyNames") {
                self.visit(schema, &Value::Null, times, depth + 1)?;
            }
        }
        Some(())
    }
}

type Fields = serde_json::Map<String, Value>;

#[cfg(test)]
mod tests;
