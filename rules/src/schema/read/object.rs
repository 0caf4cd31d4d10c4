//! Decides what a schema admits within objects and arrays.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::base::count;
use super::{Reader, Remarks, TooLarge, list};
use crate::schema::brief::brief;
use crate::schema::limit::{HINT_BYTES_MAX, NAME_BYTES_MAX};
use crate::schema::meet::unite;
use crate::schema::shape::{List, Object, Rest, Shape};
use crate::schema::text::{clean, is_unseen};

/// How many names of required properties are read.
const REQUIRED_MAX: usize = 1 << 10;
/// How many elements of a tuple are told apart.
const TUPLE_MAX: usize = 16;

impl<'a> Reader<'a> {
    pub(super) fn object(
        &mut self,
        keywords: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<Object, TooLarge> {
        let fields = keywords.get("properties").and_then(Value::as_object);
        let (min, max) = (count(keywords, "minProperties"), count(keywords, "maxProperties"));
        if depth >= self.caps.depth {
            if fields.is_some_and(|fields| !fields.is_empty()) || keywords.contains_key("required") {
                self.lose("nested too deeply, so any object is taken");
            }
            return Ok(Object { min, max, ..Object::default() });
        }
        let mut object = Object { min, max, rest: self.rest(keywords, depth)?, ..Object::default() };
        for (name, schema) in fields.into_iter().flatten() {
            self.step()?;
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(is_unseen) {
                self.lose("a property is left out because of its name");
                object.rest = Rest::Open;
                continue;
            }
            let mut shape = self.part(&["properties", name], schema, depth + 1)?;
            if shape.description.is_none() {
                shape.description = self.title(schema, name);
            }
            object.properties.insert(name.clone(), shape);
        }
        object.required = self.required(keywords);
        Ok(object)
    }

    /// A title that says more than the name does.
    fn title(&self, schema: &Value, name: &str) -> Option<String> {
        let title = clean(schema.get("title")?.as_str()?, self.caps.text)?;
        let bare = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
        };
        (bare(&title) != bare(name)).then_some(title)
    }

    fn required(&mut self, keywords: &Map<String, Value>) -> BTreeSet<String> {
        let names = list(keywords, "required").take(REQUIRED_MAX).filter_map(Value::as_str);
        let plain = |name: &&str| name.len() <= NAME_BYTES_MAX && !name.chars().any(is_unseen);
        names.filter(plain).map(str::to_owned).collect()
    }

    fn rest(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Result<Rest, TooLarge> {
        let mut shapes = Vec::new();
        match keywords.get("additionalProperties") {
            None => return Ok(Rest::Unsaid),
            Some(Value::Bool(true)) => return Ok(Rest::Open),
            Some(Value::Bool(false)) => {}
            Some(schema) => shapes.push(self.part(&["additionalProperties"], schema, depth + 1)?),
        }
        // A name that a pattern admits is none of the additional ones.
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        for (pattern, schema) in patterns.into_iter().flatten() {
            shapes.push(self.part(&["patternProperties", pattern], schema, depth + 1)?);
        }
        if shapes.is_empty() {
            return Ok(Rest::Closed);
        }
        let shape = if shapes.len() == 1 { shapes.swap_remove(0) } else { unite(shapes) };
        Ok(match shape {
            shape if shape.is_any() && shape.description.is_none() => Rest::Open,
            shape if shape.is_never() => Rest::Closed,
            shape => Rest::Of(Box::new(shape)),
        })
    }

    pub(super) fn list(
        &mut self,
        keywords: &'a Map<String, Value>,
        remarks: &mut Remarks,
        depth: usize,
    ) -> Result<List, TooLarge> {
        let (min, max) = (count(keywords, "minItems"), count(keywords, "maxItems"));
        let unique = keywords.get("uniqueItems") == Some(&Value::Bool(true));
        let items = if depth >= self.caps.depth {
            if keywords.contains_key("items") || keywords.contains_key("prefixItems") {
                self.lose("nested too deeply, so any items are taken");
            }
            None
        } else {
            self.items(keywords, remarks, depth + 1)?
        };
        let items =
            items.filter(|items| !items.is_never() && (!items.is_any() || items.description.is_some()));
        Ok(List { items: items.map(Box::new), min, max, unique })
    }

    fn items(
        &mut self,
        keywords: &'a Map<String, Value>,
        remarks: &mut Remarks,
        depth: usize,
    ) -> Result<Option<Shape>, TooLarge> {
        let prefix = keywords.get("prefixItems").filter(|_| self.draft.knows_prefix_items());
        let (word, places, rest) = match (keywords.get("items"), prefix) {
            (rest, Some(Value::Array(places))) => ("prefixItems", places, rest.map(|rest| ("items", rest))),
            (Some(Value::Array(places)), _) => {
                let rest = keywords.get("additionalItems");
                ("items", places, rest.map(|rest| ("additionalItems", rest)))
            }
            (Some(items), _) => return self.part(&["items"], items, depth).map(Some),
            (None, _) => return Ok(None),
        };
        self.lose("a tuple is shown as a list");
        let mut shapes = Vec::new();
        for (index, place) in places.iter().enumerate() {
            shapes.push(self.part(&[word, &index.to_string()], place, depth)?);
        }
        let told = shapes.iter().take(TUPLE_MAX).map(|shape| brief(shape, HINT_BYTES_MAX / 8));
        let mut told = told.collect::<Vec<_>>().join(", ");
        match rest {
            Some((_, Value::Bool(false))) => {}
            Some((word, rest)) => {
                told.push_str(", …");
                shapes.push(self.part(&[word], rest, depth)?);
            }
            None => {
                told.push_str(", …");
                shapes.push(Shape::any());
            }
        }
        remarks.hints.push(format!("in this order: [{told}]"));
        Ok(if shapes.is_empty() { None } else { Some(unite(shapes)) })
    }
}
