//! Decides what two schemas admit together (`allOf`) and between them (`anyOf`), never less than they do.

use std::collections::BTreeSet;

use serde_json::Number;

use super::brief::brief;
use super::limit::{BRANCHES_MAX, HINT_BYTES_MAX, PAIRS_MAX};
use super::shape::{Branch, Form, Forms, List, NumberKind, Numeral, Object, Rest, Shape, Text};
use super::text::{join, with_hints};

/// The longest joined description; the reader's own bound is at most this.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// What both admit, or more.
pub(super) fn meet(first: Shape, second: Shape) -> Shape {
    let description = join(first.description, second.description, TEXT_BYTES_MAX);
    let default = first.default.or(second.default);
    let null = first.null && second.null;
    let forms = match (first.forms, second.forms) {
        (Forms::Any, forms) | (forms, Forms::Any) => forms,
        (Forms::Of(ours), Forms::Of(theirs)) => Forms::Of(meet_all(ours, theirs)),
    };
    settle(Shape { description, default, null, forms })
}

fn meet_all(ours: Vec<Branch>, theirs: Vec<Branch>) -> Vec<Branch> {
    if ours.len().saturating_mul(theirs.len()) > PAIRS_MAX {
        // Either alone admits what both do.
        return if ours.len() <= theirs.len() { ours } else { theirs };
    }
    let mut met = Vec::new();
    for a in &ours {
        for b in &theirs {
            if let Some(form) = meet_form(&a.form, &b.form) {
                let description = join(a.description.clone(), b.description.clone(), TEXT_BYTES_MAX);
                met.push(Branch { description, form });
            }
        }
    }
    merged(met)
}

fn meet_form(a: &Form, b: &Form) -> Option<Form> {
    match (a, b) {
        (Form::Flag(a), Form::Flag(b)) => match (a, b) {
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(Form::Flag(a.or(*b))),
        },
        (Form::Text(a), Form::Text(b)) => Some(Form::Text(Text {
            values: both_values(a.values.as_deref(), b.values.as_deref())?,
            format: a.format.clone().or_else(|| b.format.clone()),
            pattern: a.pattern.clone().or_else(|| b.pattern.clone()),
            min: larger(&a.min, &b.min),
            max: smaller(&a.max, &b.max),
        })),
        (Form::Numeral(a), Form::Numeral(b)) => Some(Form::Numeral(Numeral {
            kind: if a.kind == NumberKind::Integer { a.kind } else { b.kind },
            values: both_values(a.values.as_deref(), b.values.as_deref())?,
            min: larger(&a.min, &b.min),
            max: smaller(&a.max, &b.max),
            above: larger(&a.above, &b.above),
            below: smaller(&a.below, &b.below),
            multiple_of: a.multiple_of.clone().or_else(|| b.multiple_of.clone()),
        })),
        (Form::List(a), Form::List(b)) => Some(Form::List(List {
            items: match (&a.items, &b.items) {
                (Some(a), Some(b)) => Some(Box::new(meet(Shape::clone(a), Shape::clone(b)))),
                (a, b) => a.clone().or_else(|| b.clone()),
            },
            min: larger(&a.min, &b.min),
            max: smaller(&a.max, &b.max),
            unique: a.unique || b.unique,
        })),
        (Form::Object(a), Form::Object(b)) => Some(Form::Object(meet_object(a, b))),
        (
            Form::Flag(_) | Form::Text(_) | Form::Numeral(_) | Form::List(_) | Form::Object(_),
            Form::Flag(_) | Form::Text(_) | Form::Numeral(_) | Form::List(_) | Form::Object(_),
        ) => None,
    }
}

fn meet_object(a: &Object, b: &Object) -> Object {
    let mut properties = a.properties.clone();
    for (name, theirs) in &b.properties {
        let shape = match properties.remove(name) {
            Some(ours) => meet(ours, theirs.clone()),
            None => theirs.clone(),
        };
        properties.insert(name.clone(), shape);
    }
    Object {
        description: join(a.description.clone(), b.description.clone(), TEXT_BYTES_MAX),
        properties,
        required: a.required.union(&b.required).cloned().collect(),
        rest: match (&a.rest, &b.rest) {
            (Rest::Closed, _) | (_, Rest::Closed) => Rest::Closed,
            (Rest::Of(shape), _) | (_, Rest::Of(shape)) => Rest::Of(shape.clone()),
            (Rest::Open, _) | (_, Rest::Open) => Rest::Open,
            (Rest::Unsaid, Rest::Unsaid) => Rest::Unsaid,
        },
        min: larger(&a.min, &b.min),
        max: smaller(&a.max, &b.max),
    }
}

/// None if no value is left; the inner none if every value is.
fn both_values<T: PartialEq + Clone>(a: Option<&[T]>, b: Option<&[T]>) -> Option<Option<Vec<T>>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let left: Vec<T> = a.iter().filter(|value| b.contains(value)).cloned().collect();
            (!left.is_empty()).then_some(Some(left))
        }
        (a, b) => Some(a.or(b).map(<[T]>::to_vec)),
    }
}

fn larger(a: &Option<Number>, b: &Option<Number>) -> Option<Number> {
    chosen(a, b, |a, b| a >= b)
}

fn smaller(a: &Option<Number>, b: &Option<Number>) -> Option<Number> {
    chosen(a, b, |a, b| a <= b)
}

fn chosen(a: &Option<Number>, b: &Option<Number>, first: fn(f64, f64) -> bool) -> Option<Number> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let (x, y) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            Some(if first(x, y) { a.clone() } else { b.clone() })
        }
        (a, b) => a.clone().or_else(|| b.clone()),
    }
}

/// What any of them admits, or more.
pub(super) fn unite(shapes: Vec<Shape>) -> Shape {
    let null = shapes.iter().any(|shape| shape.null);
    if shapes.iter().any(Shape::is_any) {
        return unite_with_any(shapes);
    }
    let mut branches: Vec<Branch> = Vec::new();
    for shape in shapes {
        let Forms::Of(mut own) = shape.forms else { continue };
        if let Some(first) = own.first_mut() {
            first.description = join(shape.description, first.description.take(), TEXT_BYTES_MAX);
        }
        branches.extend(own);
    }
    let branches = merged(branches);
    if branches.len() > BRANCHES_MAX {
        return Shape { null, ..Shape::any() };
    }
    settle(Shape { description: None, default: None, null, forms: Forms::Of(branches) })
}

/// Anything goes; the description says what the typed ones among them look like.
fn unite_with_any(shapes: Vec<Shape>) -> Shape {
    let typed: Vec<String> =
        shapes.iter().filter(|shape| !shape.is_any()).map(|shape| brief(shape, HINT_BYTES_MAX / 2)).collect();
    let description =
        shapes.into_iter().fold(None, |all, shape| join(all, shape.description, TEXT_BYTES_MAX));
    let hints: Vec<String> =
        if typed.is_empty() { Vec::new() } else { vec![format!("such as {}", typed.join(" | "))] };
    Shape { description: with_hints(description, &hints, TEXT_BYTES_MAX), ..Shape::any() }
}

/// Equal alternatives once, and enumerations that nothing is said about as one.
fn merged(branches: Vec<Branch>) -> Vec<Branch> {
    let mut kept: Vec<Branch> = Vec::new();
    for branch in branches {
        if kept.contains(&branch) || kept.iter_mut().any(|other| absorbed(other, &branch)) {
            continue;
        }
        kept.push(branch);
    }
    kept
}

fn absorbed(into: &mut Branch, branch: &Branch) -> bool {
    if into.description.is_some() || branch.description.is_some() {
        return into.form == branch.form && branch.description.is_none();
    }
    match (&mut into.form, &branch.form) {
        (Form::Text(into), Form::Text(from)) => {
            let bare = Text { values: into.values.clone(), ..Text::default() };
            let same = *into == bare && *from == Text { values: from.values.clone(), ..Text::default() };
            same && extend(&mut into.values, &from.values)
        }
        (Form::Numeral(into), Form::Numeral(from)) => {
            let bare =
                |n: &Numeral| *n == Numeral { values: n.values.clone(), kind: n.kind, ..Numeral::default() };
            bare(into) && bare(from) && into.kind == from.kind && extend(&mut into.values, &from.values)
        }
        (Form::Flag(into), Form::Flag(_)) => {
            *into = None;
            true
        }
        (into, from) => into == from,
    }
}

fn extend<T: PartialEq + Clone>(into: &mut Option<Vec<T>>, from: &Option<Vec<T>>) -> bool {
    let (Some(into), Some(from)) = (into.as_mut(), from.as_ref()) else {
        return false;
    };
    for value in from {
        if !into.contains(value) {
            into.push(value.clone());
        }
    }
    true
}

/// What is said about the only alternative is said about the whole.
fn settle(mut shape: Shape) -> Shape {
    if let Forms::Of(branches) = &mut shape.forms
        && let [only] = branches.as_mut_slice()
    {
        shape.description = join(shape.description, only.description.take(), TEXT_BYTES_MAX);
    }
    shape
}

/// One object that admits what any of them does: providers take no alternatives at the root.
///
/// A property that only some of them know may be anything where another one is open.
pub(crate) fn unite_objects(objects: Vec<Object>) -> Object {
    let mut objects = objects;
    if objects.len() == 1
        && let Some(only) = objects.pop()
    {
        return only;
    }
    let names: BTreeSet<String> =
        objects.iter().flat_map(|object| object.properties.keys().cloned()).collect();
    let properties = names.into_iter().map(|name| {
        let shapes = objects.iter().filter_map(|object| match (object.properties.get(&name), &object.rest) {
            (Some(shape), _) => Some(shape.clone()),
            (None, Rest::Open | Rest::Unsaid) => Some(Shape::any()),
            (None, Rest::Closed) => None,
            (None, Rest::Of(shape)) => Some(Shape::clone(shape)),
        });
        let mut shapes: Vec<Shape> = shapes.collect();
        shapes.dedup();
        let default = shapes.iter().find_map(|shape| shape.default.clone());
        let shape = if shapes.len() == 1 { shapes.swap_remove(0) } else { unite(shapes) };
        (name, Shape { default: shape.default.clone().or(default), ..shape })
    });
    let properties = properties.collect();
    let required = objects.iter().map(|object| object.required.clone());
    let required = required.reduce(|all, own| &all & &own).unwrap_or_default();
    let mins = objects.iter().map(|object| object.min.clone()).collect::<Option<Vec<_>>>();
    let maxs = objects.iter().map(|object| object.max.clone()).collect::<Option<Vec<_>>>();
    Object {
        description: alternatives(&objects),
        properties,
        required,
        rest: unite_rest(&objects),
        min: mins
            .and_then(|all| all.into_iter().reduce(|a, b| smaller(&Some(a.clone()), &Some(b)).unwrap_or(a))),
        max: maxs
            .and_then(|all| all.into_iter().reduce(|a, b| larger(&Some(a.clone()), &Some(b)).unwrap_or(a))),
    }
}

fn unite_rest(objects: &[Object]) -> Rest {
    let mut shapes = Vec::new();
    for object in objects {
        match &object.rest {
            Rest::Open | Rest::Unsaid => return object.rest.clone(),
            Rest::Closed => {}
            Rest::Of(shape) => shapes.push(Shape::clone(shape)),
        }
    }
    if shapes.is_empty() { Rest::Closed } else { Rest::Of(Box::new(unite(shapes))) }
}

/// What the alternatives were, for the description.
fn alternatives(objects: &[Object]) -> Option<String> {
    let said = objects.iter().fold(None, |all, object| join(all, object.description.clone(), TEXT_BYTES_MAX));
    let mut forms: Vec<String> = Vec::new();
    for object in objects {
        let form = brief(&Shape::of(Form::Object(object.clone())), HINT_BYTES_MAX / 2);
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let text = crate::cut::cut(&forms.join(" | "), HINT_BYTES_MAX * 2).to_owned();
    with_hints(said, &[format!("one of {text}")], TEXT_BYTES_MAX)
}
