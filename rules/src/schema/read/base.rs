//! Decides what a schema's own type, values and bounds admit.

use serde_json::{Map, Number, Value};

use super::{Read, Reader, Remarks};
use crate::cut::cut;
use crate::schema::brief::listed;
use crate::schema::limit::{PATTERN_BYTES_MAX, VALUES_BYTES_MAX, VALUES_MAX};
use crate::schema::shape::{Branch, Form, Forms, NumberKind, Numeral, Shape, Text};
use crate::schema::text::is_unseen;

/// Keywords that narrow one type only. A schema without `type` that has one of them admits every other type.
const NARROWING: [&str; 20] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "format",
];

/// The types that a schema names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Types {
    null: bool,
    flag: bool,
    text: bool,
    numeral: Option<NumberKind>,
    list: bool,
    object: bool,
}

const EVERY: Types =
    Types { null: true, flag: true, text: true, numeral: Some(NumberKind::Real), list: true, object: true };
const NONE: Types =
    Types { null: false, flag: false, text: false, numeral: None, list: false, object: false };

/// The values that a schema names, by type.
#[derive(Default)]
struct Values {
    null: bool,
    flags: Vec<bool>,
    texts: Vec<String>,
    numbers: Vec<Number>,
    list: bool,
    object: bool,
    count: usize,
    bytes: usize,
}

impl Values {
    fn add(&mut self, value: &Value) {
        self.count += 1;
        let has_room = self.count <= VALUES_MAX;
        match value {
            Value::Null => self.null = true,
            Value::Bool(flag) if self.flags.contains(flag) => {}
            Value::Bool(flag) => self.flags.push(*flag),
            Value::Number(number) => {
                if self.numbers.is_empty() || has_room {
                    self.numbers.push(number.clone());
                }
            }
            Value::String(text) => {
                self.bytes = self.bytes.saturating_add(text.len());
                if self.texts.is_empty() || (has_room && self.bytes <= VALUES_BYTES_MAX) {
                    self.texts.push(cut(text, VALUES_BYTES_MAX).to_owned());
                }
            }
            Value::Array(_) => self.list = true,
            Value::Object(_) => self.object = true,
        }
    }

    fn are_too_many(&self) -> bool {
        self.count > VALUES_MAX || self.bytes > VALUES_BYTES_MAX
    }

    fn examples(&self) -> String {
        let texts = self.texts.iter().map(|text| Value::from(cut(text, 64)).to_string());
        listed(texts.chain(self.numbers.iter().map(ToString::to_string)).take(8))
    }
}

impl<'a> Reader<'a> {
    pub(super) fn base(
        &mut self,
        keywords: &'a Map<String, Value>,
        remarks: &mut Remarks,
        depth: usize,
    ) -> Read {
        let values = self.values(keywords);
        let types = self.types(keywords, remarks);
        let narrows = NARROWING.iter().any(|word| keywords.contains_key(*word) && *word != "format");
        if types == EVERY && values.is_none() && !narrows {
            if let Some(format) = keywords.get("format").and_then(Value::as_str) {
                remarks.hints.push(format!("format: {}", cut(format, 64)));
                self.lose("a `format` without a type is a remark");
            }
            return Ok(Shape::any());
        }
        let null = types.null && values.as_ref().is_none_or(|values| values.null);
        let forms = self.forms(types, values.as_ref(), keywords, remarks, depth)?;
        let branches = forms.into_iter().map(Branch::from).collect();
        Ok(Shape { null, forms: Forms::Of(branches), ..Shape::any() })
    }

    fn forms(
        &mut self,
        types: Types,
        values: Option<&Values>,
        keywords: &'a Map<String, Value>,
        remarks: &mut Remarks,
        depth: usize,
    ) -> Result<Vec<Form>, super::TooLarge> {
        let too_many = values.filter(|values| values.are_too_many());
        if let Some(values) = too_many {
            self.lose("the values are too many to be listed");
            remarks.hints.push(format!("one of {} values, such as {}", values.count, values.examples()));
        }
        let mut forms = Vec::new();
        if types.text && values.is_none_or(|values| !values.texts.is_empty()) {
            let only = values.filter(|_| too_many.is_none()).map(|values| values.texts.clone());
            forms.push(Form::Text(Text { values: only, ..self.text(keywords, remarks) }));
        }
        if let Some(kind) = types.numeral
            && values.is_none_or(|values| !values.numbers.is_empty())
        {
            let only = values.filter(|_| too_many.is_none()).map(|values| values.numbers.clone());
            forms.push(Form::Numeral(Numeral { values: only, ..self.numeral(kind, keywords) }));
        }
        if types.flag {
            match values.map(|values| values.flags.as_slice()) {
                None | Some([_, _, ..]) => forms.push(Form::Flag(None)),
                Some([only]) => forms.push(Form::Flag(Some(*only))),
                Some([]) => {}
            }
        }
        if types.object && values.is_none_or(|values| values.object) {
            forms.push(Form::Object(self.object(keywords, depth)?));
        }
        if types.list && values.is_none_or(|values| values.list) {
            forms.push(Form::List(self.list(keywords, remarks, depth)?));
        }
        if values.is_some_and(|values| values.list || values.object) {
            self.lose("values that are objects or arrays are not listed");
        }
        Ok(forms)
    }

    fn types(&mut self, keywords: &Map<String, Value>, remarks: &mut Remarks) -> Types {
        let mut types = NONE;
        let mut named = false;
        let mut add = |name: &str| {
            named = true;
            match name {
                "null" => types.null = true,
                "boolean" => types.flag = true,
                "string" => types.text = true,
                "number" => types.numeral = Some(NumberKind::Real),
                "integer" => types.numeral = types.numeral.or(Some(NumberKind::Integer)),
                "array" => types.list = true,
                "object" => types.object = true,
                "any" => types = EVERY,
                unknown => return Some(cut(unknown, 32).to_owned()),
            }
            None
        };
        let unknown = match keywords.get("type") {
            Some(Value::String(name)) => add(name),
            // There are eight names; a longer list repeats itself.
            Some(Value::Array(names)) => {
                names.iter().take(64).filter_map(Value::as_str).filter_map(&mut add).next_back()
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Some("?".to_owned()),
            None => None,
        };
        if let Some(unknown) = unknown {
            self.lose("no such type, so any is taken");
            let plain: String = unknown.chars().filter(|c| !is_unseen(*c)).collect();
            remarks.hints.push(format!("type: {plain}"));
            return EVERY;
        }
        if !named {
            return EVERY;
        }
        // OpenAPI's word for it; JSON Schema does not know it.
        types.null |= keywords.get("nullable") == Some(&Value::Bool(true));
        types
    }

    fn values(&self, keywords: &Map<String, Value>) -> Option<Values> {
        let mut values = Values::default();
        let single = keywords.get("const").filter(|_| self.draft.knows_const());
        let listed = keywords.get("enum").and_then(Value::as_array);
        if single.is_none() && listed.is_none() {
            return None;
        }
        match single {
            Some(value) => values.add(value),
            None => listed.into_iter().flatten().for_each(|value| values.add(value)),
        }
        if keywords.get("nullable") == Some(&Value::Bool(true)) {
            values.null = true;
        }
        Some(values)
    }

    fn text(&mut self, keywords: &Map<String, Value>, remarks: &mut Remarks) -> Text {
        let short = |name: &str, bytes: usize| {
            let text = keywords.get(name).and_then(Value::as_str);
            text.filter(|text| text.len() <= bytes && !text.chars().any(is_unseen)).map(str::to_owned)
        };
        let pattern = short("pattern", PATTERN_BYTES_MAX);
        if pattern.is_none() && keywords.contains_key("pattern") {
            self.lose("the pattern is too long to be shown");
        }
        let format = short("format", 64);
        for (word, name) in [("contentEncoding", "encoding"), ("contentMediaType", "content")] {
            if let Some(value) = short(word, 64) {
                remarks.hints.push(format!("{name}: {value}"));
            }
        }
        Text {
            values: None,
            format,
            pattern,
            min: count(keywords, "minLength"),
            max: count(keywords, "maxLength"),
        }
    }

    fn numeral(&self, kind: NumberKind, keywords: &Map<String, Value>) -> Numeral {
        let number = |name: &str| keywords.get(name).and_then(Value::as_number).cloned();
        // Draft 4 says whether `minimum` itself is excluded.
        let excluded = |name: &str| keywords.get(name) == Some(&Value::Bool(true));
        let (mut min, mut above) = (number("minimum"), number("exclusiveMinimum"));
        let (mut max, mut below) = (number("maximum"), number("exclusiveMaximum"));
        if excluded("exclusiveMinimum") {
            above = min.take();
        }
        if excluded("exclusiveMaximum") {
            below = max.take();
        }
        if kind == NumberKind::Integer {
            (min, above) = inclusive(min, above, 1);
            (max, below) = inclusive(max, below, -1);
        }
        let multiple_of = number("multipleOf").filter(|step| step.as_f64().is_some_and(|step| step > 0.0));
        Numeral { kind, values: None, min, max, above, below, multiple_of }
    }
}

/// For integers, more than 4 is at least 5.
fn inclusive(limit: Option<Number>, excluded: Option<Number>, step: i64) -> (Option<Number>, Option<Number>) {
    let moved = excluded.as_ref().and_then(Number::as_i64).and_then(|number| number.checked_add(step));
    match (limit, moved) {
        (None, Some(moved)) => (Some(moved.into()), None),
        (limit, _) => (limit, excluded),
    }
}

/// A count that is not negative; any other one bounds nothing.
pub(super) fn count(keywords: &Map<String, Value>, name: &str) -> Option<Number> {
    let number = keywords.get(name)?.as_number()?;
    match number.as_u64() {
        Some(_) => Some(number.clone()),
        None => {
            // Drafts allow `3.0` for 3.
            let real = number.as_f64().filter(|real| real.fract() == 0.0 && (0.0..9e15).contains(real))?;
            Some(Number::from(real as u64))
        }
    }
}
