//! Decides how a shape is said in a dialect. What the dialect has no word for goes into the description and the report.

use serde_json::{Map, Value, json};

use super::Dialect;
use super::brief::{brief, listed};
use super::limit::{HINT_BYTES_MAX, VALUES_MAX};
use super::loss::Losses;
use super::shape::{Branch, Form, Forms, List, Object, Rest, Shape};
use super::text::with_hints;
use crate::cut::cut;
use crate::provider::{GEMINI_TEXT_FORMATS, OPENAI_STRICT_FORMATS, is_property_name};

mod scalar;

/// The longest description, hints included.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// What a dialect has words for.
trait Vocabulary: Copy {
    /// Whether it is JSON Schema; else it is a part of OpenAPI 3.0.
    fn is_json_schema(self) -> bool;

    /// Whether it is JSON Schema without any word forbidden.
    fn is_full(self) -> bool;

    fn is_strict(self) -> bool;

    fn takes_name(self, name: &str) -> bool;

    fn takes_format(self, format: &str) -> bool;
}

impl Vocabulary for Dialect {
    fn is_json_schema(self) -> bool {
        match self {
            Self::OpenAi | Self::OpenAiStrict | Self::Anthropic => true,
            Self::Common | Self::Gemini => false,
        }
    }

    fn is_full(self) -> bool {
        match self {
            Self::OpenAi | Self::Anthropic => true,
            Self::Common | Self::Gemini | Self::OpenAiStrict => false,
        }
    }

    fn is_strict(self) -> bool {
        self == Self::OpenAiStrict
    }

    fn takes_name(self, name: &str) -> bool {
        match self {
            Self::Common | Self::Anthropic => is_property_name(name),
            Self::OpenAi | Self::OpenAiStrict | Self::Gemini => true,
        }
    }

    fn takes_format(self, format: &str) -> bool {
        match self {
            Self::OpenAi | Self::Anthropic => true,
            Self::OpenAiStrict => OPENAI_STRICT_FORMATS.contains(&format),
            // The other format of Gemini's belongs to enumerations.
            Self::Common | Self::Gemini => format != "enum" && GEMINI_TEXT_FORMATS.contains(&format),
        }
    }
}

/// What a form came to: its keywords, and the words for the description.
struct Said {
    keywords: Map<String, Value>,
    hints: Vec<String>,
}

/// What stands for a value that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// It is left out.
    Missing,
    /// Null does.
    Null,
}

pub(super) fn root(object: &Object, dialect: Dialect, losses: &mut Losses) -> Value {
    let mut shower = Shower { dialect, losses, at: String::new() };
    let Said { keywords, hints } = shower.object(object);
    Value::Object(described(keywords, object.description.clone(), &hints))
}

struct Shower<'a> {
    dialect: Dialect,
    losses: &'a mut Losses,
    at: String,
}

impl Shower<'_> {
    fn lose(&mut self, what: &str) {
        self.losses.add(&self.at, what);
    }

    fn part(&mut self, names: &[&str], shape: &Shape, absence: Absence) -> Value {
        let length = self.at.len();
        for name in names {
            self.at.push('/');
            self.at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        }
        let shown = self.shape(shape, absence);
        self.at.truncate(length);
        shown
    }

    fn shape(&mut self, shape: &Shape, absence: Absence) -> Value {
        let null = shape.null || absence == Absence::Null;
        let keywords = match &shape.forms {
            Forms::Any => self.any(shape),
            Forms::Of(branches) => match branches.as_slice() {
                [] => self.only_null(shape),
                [only] => {
                    let Said { keywords, mut hints } = self.form(&only.form);
                    let keywords = self.nullable(keywords, null);
                    let keywords = self.defaulted(keywords, shape.default.as_ref(), &mut hints);
                    described(keywords, shape.description.clone(), &hints)
                }
                many => self.union(shape, many, null),
            },
        };
        Value::Object(keywords)
    }

    fn any(&mut self, shape: &Shape) -> Map<String, Value> {
        let mut hints = Vec::new();
        if self.dialect.is_json_schema() {
            let keywords = self.defaulted(Map::new(), shape.default.as_ref(), &mut hints);
            return described(keywords, shape.description.clone(), &hints);
        }
        self.lose("any value is shown as one of five types, arrays at most two deep");
        hints.extend(shape.default.as_ref().map(default_hint));
        let mut keywords = union_of_all(2);
        let first = keywords.get_mut("anyOf").and_then(|all| all.get_mut(0)).and_then(Value::as_object_mut);
        if let Some(first) = first {
            *first = described(std::mem::take(first), shape.description.clone(), &hints);
        }
        keywords
    }

    fn only_null(&mut self, shape: &Shape) -> Map<String, Value> {
        let mut hints = Vec::new();
        let mut keywords = Map::new();
        if self.dialect.is_json_schema() {
            keywords.insert("type".to_owned(), json!("null"));
        } else {
            self.lose("a value that is always null is shown as a text that may be null");
            keywords.insert("type".to_owned(), json!("string"));
            keywords.insert("nullable".to_owned(), json!(true));
            hints.push("always null".to_owned());
        }
        described(keywords, shape.description.clone(), &hints)
    }

    fn union(&mut self, shape: &Shape, branches: &[Branch], null: bool) -> Map<String, Value> {
        let mut shown: Vec<Map<String, Value>> = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let length = self.at.len();
            self.at.push_str(&format!("/anyOf/{index}"));
            let Said { keywords, hints } = self.form(&branch.form);
            self.at.truncate(length);
            shown.push(described(keywords, branch.description.clone(), &hints));
        }
        // Two alternatives may have become one, as far as the dialect can say.
        shown = shown.into_iter().fold(Vec::new(), |mut kept, next| {
            let is_said = kept.iter().any(|said| *said == next || is_same_but_described(said, &next));
            if !is_said {
                kept.push(next);
            }
            kept
        });
        let mut hints = Vec::new();
        if !self.dialect.is_json_schema() {
            return self.union_alone(shape, shown, null);
        }
        let keywords = match plain_types(&shown) {
            Some(mut types) if self.dialect.is_full() => {
                types.extend(null.then(|| json!("null")));
                Map::from_iter([("type".to_owned(), Value::Array(types))])
            }
            Some(_) | None if shown.len() == 1 => self.nullable(shown.swap_remove(0), null),
            Some(_) | None => {
                let null = null.then(|| json!({"type": "null"}));
                let all = shown.into_iter().map(Value::Object).chain(null).collect();
                Map::from_iter([("anyOf".to_owned(), Value::Array(all))])
            }
        };
        let keywords = self.defaulted(keywords, shape.default.as_ref(), &mut hints);
        described(keywords, shape.description.clone(), &hints)
    }

    /// Beside `anyOf` nothing may stand, so the first alternative says what is said about the whole.
    fn union_alone(
        &mut self,
        shape: &Shape,
        mut shown: Vec<Map<String, Value>>,
        null: bool,
    ) -> Map<String, Value> {
        let hints: Vec<String> = shape.default.iter().map(default_hint).collect();
        if let Some(first) = shown.first_mut() {
            let own = first.remove("description").and_then(|own| own.as_str().map(str::to_owned));
            let text = super::text::join(shape.description.clone(), own, TEXT_BYTES_MAX);
            let keywords = self.nullable(std::mem::take(first), null);
            *first = described(keywords, text, &hints);
        }
        if shown.len() == 1 {
            return shown.swap_remove(0);
        }
        let all = shown.into_iter().map(Value::Object).collect();
        Map::from_iter([("anyOf".to_owned(), Value::Array(all))])
    }

    fn nullable(&self, mut keywords: Map<String, Value>, null: bool) -> Map<String, Value> {
        if !null {
            return keywords;
        }
        if !self.dialect.is_json_schema() {
            keywords.insert("nullable".to_owned(), json!(true));
            return keywords;
        }
        if let Some(kind) = keywords.get_mut("type") {
            *kind = json!([kind.take(), "null"]);
        }
        if let Some(Value::Array(values)) = keywords.get_mut("enum") {
            values.push(Value::Null);
        }
        keywords
    }

    fn defaulted(
        &self,
        mut keywords: Map<String, Value>,
        default: Option<&Value>,
        hints: &mut Vec<String>,
    ) -> Map<String, Value> {
        match default {
            Some(default) if self.dialect.is_strict() => hints.push(default_hint(default)),
            Some(default) => {
                keywords.insert("default".to_owned(), default.clone());
            }
            None => {}
        }
        keywords
    }

    fn form(&mut self, form: &Form) -> Said {
        match form {
            Form::Flag(only) => self.flag(*only),
            Form::Text(text) => self.text(text),
            Form::Numeral(numeral) => self.numeral(numeral),
            Form::List(list) => self.list(list),
            Form::Object(object) => self.object(object),
        }
    }

    fn list(&mut self, list: &List) -> Said {
        let mut keywords = typed("array");
        let mut hints = Vec::new();
        let any = Shape::any();
        let items = self.part(&["items"], list.items.as_deref().unwrap_or(&any), Absence::Missing);
        keywords.insert("items".to_owned(), items);
        bound(&mut keywords, "minItems", list.min.as_ref());
        bound(&mut keywords, "maxItems", list.max.as_ref());
        if list.unique && self.dialect.is_full() {
            keywords.insert("uniqueItems".to_owned(), json!(true));
        } else if list.unique {
            self.lose("`uniqueItems` is a remark");
            hints.push("no item twice".to_owned());
        }
        Said { keywords, hints }
    }

    fn object(&mut self, object: &Object) -> Said {
        let mut keywords = typed("object");
        let mut hints = Vec::new();
        let mut properties = Map::new();
        let mut unnamed = Vec::new();
        for (name, shape) in object.properties.iter().filter(|(_, shape)| !shape.is_never()) {
            if !self.dialect.takes_name(name) {
                self.lose("a property is a remark because of its name");
                unnamed.push(format!("{}: {}", Value::from(name.as_str()), brief(shape, HINT_BYTES_MAX / 4)));
                continue;
            }
            let is_optional = self.dialect.is_strict() && !object.required.contains(name);
            let absence = if is_optional { Absence::Null } else { Absence::Missing };
            properties.insert(name.clone(), self.part(&["properties", name], shape, absence));
        }
        if !unnamed.is_empty() {
            hints.push(format!("also takes {}", cut(&unnamed.join(", "), HINT_BYTES_MAX)));
        }
        let required = self.required(object, &properties);
        if !required.is_empty() {
            keywords.insert("required".to_owned(), Value::Array(required));
        }
        keywords.insert("properties".to_owned(), Value::Object(properties));
        let has_unnamed = !unnamed.is_empty();
        self.rest(object, &mut keywords, &mut hints, has_unnamed);
        self.counts(object, &mut keywords, &mut hints);
        Said { keywords, hints }
    }

    fn required(&mut self, object: &Object, properties: &Map<String, Value>) -> Vec<Value> {
        if self.dialect.is_strict() {
            return properties.keys().map(|name| json!(name)).collect();
        }
        let mut names = Vec::new();
        for name in &object.required {
            if properties.contains_key(name) || (self.dialect.is_full() && self.dialect.takes_name(name)) {
                names.push(json!(name));
            } else {
                self.lose("a required property that is not shown is not required");
            }
        }
        names
    }

    fn rest(
        &mut self,
        object: &Object,
        keywords: &mut Map<String, Value>,
        hints: &mut Vec<String>,
        has_unnamed: bool,
    ) {
        let word = "additionalProperties".to_owned();
        match &object.rest {
            _ if self.dialect.is_strict() => {
                keywords.insert(word, json!(false));
            }
            Rest::Unsaid => {}
            Rest::Open if self.dialect.is_full() => {
                keywords.insert(word, json!(true));
            }
            Rest::Closed if self.dialect.is_full() && !has_unnamed => {
                keywords.insert(word, json!(false));
            }
            Rest::Of(shape) if self.dialect.is_full() && !has_unnamed => {
                let shown = self.part(&["additionalProperties"], shape, Absence::Missing);
                keywords.insert(word, shown);
            }
            Rest::Open => {}
            Rest::Closed => self.lose("`additionalProperties: false` is left out"),
            Rest::Of(shape) => {
                self.lose("the type of other properties is a remark");
                hints.push(format!("each other property: {}", brief(shape, HINT_BYTES_MAX / 2)));
            }
        }
    }

    fn counts(&mut self, object: &Object, keywords: &mut Map<String, Value>, hints: &mut Vec<String>) {
        for (word, words, number) in
            [("minProperties", "at least", &object.min), ("maxProperties", "at most", &object.max)]
        {
            let Some(number) = number else { continue };
            if self.dialect.is_strict() {
                self.lose(&format!("`{word}` is a remark"));
                hints.push(format!("{words} {number} properties"));
            } else {
                keywords.insert(word.to_owned(), Value::Number(number.clone()));
            }
        }
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!(name))])
}

fn bound(keywords: &mut Map<String, Value>, word: &str, number: Option<&serde_json::Number>) {
    if let Some(number) = number {
        keywords.insert(word.to_owned(), Value::Number(number.clone()));
    }
}

fn default_hint(default: &Value) -> String {
    format!("default: {default}")
}

fn described(mut keywords: Map<String, Value>, text: Option<String>, hints: &[String]) -> Map<String, Value> {
    if let Some(text) = with_hints(text, hints, TEXT_BYTES_MAX) {
        keywords.insert("description".to_owned(), Value::from(text));
    }
    keywords
}

/// Whether the first says of the second what it admits, and more about it.
fn is_same_but_described(said: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let is_there = |(word, value): (&String, &Value)| said.get(word) == Some(value);
    said.len() == next.len() + 1 && said.contains_key("description") && next.iter().all(is_there)
}

/// The types of alternatives of which nothing else is said.
fn plain_types(shown: &[Map<String, Value>]) -> Option<Vec<Value>> {
    let plain = |keywords: &Map<String, Value>| match (keywords.len(), keywords.get("type")) {
        (1, Some(kind @ Value::String(_))) => Some(kind.clone()),
        (_, _) => None,
    };
    let named: Vec<Value> = shown.iter().map(plain).collect::<Option<_>>()?;
    // In the order in which they are read again; every integer is a number.
    let mut kinds = vec!["string", "integer", "number", "boolean"];
    if named.contains(&json!("number")) {
        kinds.retain(|kind| *kind != "integer");
    }
    Some(kinds.into_iter().map(Value::from).filter(|kind| named.contains(kind)).collect())
}

/// An untyped value for a dialect in which every value has a type. Only arrays need an end.
fn union_of_all(arrays: usize) -> Map<String, Value> {
    let mut all = vec![
        json!({"type": "string", "nullable": true}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": "object", "properties": {}}),
    ];
    if let Some(fewer) = arrays.checked_sub(1) {
        all.push(json!({"type": "array", "items": Value::Object(union_of_all(fewer))}));
    }
    Map::from_iter([("anyOf".to_owned(), Value::Array(all))])
}

/// The description of an untyped value that was shown as a union; none if the schema is something else.
pub(super) fn any_as_union(keywords: &Map<String, Value>) -> Option<Option<String>> {
    let [first, rest @ ..] = keywords.get("anyOf")?.as_array()?.as_slice() else { return None };
    let shown = union_of_all(2);
    let [_, others @ ..] = shown.get("anyOf")?.as_array()?.as_slice() else { return None };
    if keywords.len() != 1
        || rest != others
        || first.get("type")? != "string"
        || first.get("nullable")? != true
    {
        return None;
    }
    let description = first.get("description").and_then(Value::as_str).map(str::to_owned);
    (first.as_object()?.len() == 2 + usize::from(description.is_some())).then_some(description)
}

/// An enumeration that may be shown.
fn values<T: Clone + Into<Value>>(values: Option<&Vec<T>>) -> Option<Vec<Value>> {
    let values = values.filter(|values| values.len() <= VALUES_MAX)?;
    Some(values.iter().cloned().map(Into::into).collect())
}

fn one_of<T: Clone + Into<Value>>(values: &[T]) -> String {
    let words = listed(values.iter().take(VALUES_MAX).map(|value| value.clone().into().to_string()));
    format!("one of {}", cut(&words, HINT_BYTES_MAX))
}
