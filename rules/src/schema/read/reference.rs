//! Decides what a `$ref` stands for. Only the document itself is looked into; nothing is fetched.

use serde_json::{Map, Value};

use super::{Read, Reader, TooLarge};
use crate::cut::cut;
use crate::schema::shape::{Form, Forms, Shape};

/// The longest reference that is followed, in bytes.
const REFERENCE_BYTES_MAX: usize = 1 << 10;
/// How many definitions are searched for an anchor.
const ANCHORS_MAX: usize = 256;

impl<'a> Reader<'a> {
    /// What the schema's reference admits; none if it has no reference.
    pub(super) fn referred(
        &mut self,
        keywords: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Shape>, TooLarge> {
        let words = ["$ref", "$dynamicRef", "$recursiveRef"];
        let Some(reference) = words.iter().find_map(|word| keywords.get(*word)) else { return Ok(None) };
        let text = reference.as_str().unwrap_or_default();
        let Some(target) = self.target(text) else {
            self.lose(&format!("the reference `{}` leads nowhere, so anything is taken", cut(text, 128)));
            return Ok(Some(Shape::any()));
        };
        if self.followed.iter().any(|followed| std::ptr::eq(*followed, target)) {
            self.lose("the reference leads back to itself, so only the type is shown");
            return Ok(Some(only_type(target)));
        }
        self.followed.push(target);
        let shape: Read = self.shape(target, depth);
        self.followed.pop();
        shape.map(Some)
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        if self.rebased > 0 || reference.is_empty() || reference.len() > REFERENCE_BYTES_MAX {
            return None;
        }
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own = self.document.get("$id").or_else(|| self.document.get("id")).and_then(Value::as_str);
        if !base.is_empty() && own.map(|own| own.trim_end_matches('#')) != Some(base) {
            return None;
        }
        if fragment.is_empty() {
            return Some(self.document);
        }
        let fragment = percent_decoded(fragment)?;
        if fragment.starts_with('/') {
            return self.document.pointer(&fragment);
        }
        self.anchored(&fragment)
    }

    fn anchored(&self, name: &str) -> Option<&'a Value> {
        let homes = ["$defs", "definitions"];
        let homes = homes.iter().filter_map(|home| self.document.get(*home)?.as_object());
        let mut definitions = homes.flat_map(Map::values).take(ANCHORS_MAX);
        definitions.find(|definition| {
            let says = |word: &str| definition.get(word).and_then(Value::as_str);
            let anchors = [says("$anchor"), says("$dynamicAnchor")];
            let ids = [says("$id"), says("id")];
            anchors.contains(&Some(name)) || ids.iter().flatten().any(|id| id.strip_prefix('#') == Some(name))
        })
    }
}

/// What the `type` of a schema alone admits.
fn only_type(schema: &Value) -> Shape {
    let Some(name) = schema.get("type").and_then(Value::as_str) else { return Shape::any() };
    let form = Form::every().into_iter().find(|form| form.name() == name);
    match form {
        Some(form) => Shape::of(form),
        None => Shape { forms: Forms::Any, ..Shape::any() },
    }
}

impl Form {
    /// The type's name; integers are numbers.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Flag(_) => "boolean",
            Self::Text(_) => "string",
            Self::Numeral(_) => "number",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
