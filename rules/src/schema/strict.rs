//! Decides what OpenAI's strict mode can say, and takes out of a model's arguments what it made the model put in.

use serde_json::{Map, Value};

use super::shape::{Form, Forms, Object, Rest, Shape};
use super::{Dialect, settle};

/// Values of all enumerations of one schema (OpenAI, "Structured model outputs": limits).
const ENUM_VALUES_MAX: usize = 1_000;

/// Something that strict mode has no words for.
pub(super) struct Obstacle {
    pub(super) at: String,
    pub(super) why: &'static str,
}

/// Whether every object may be closed and every value has a type.
pub(super) fn expressible(root: &Object) -> Result<(), Obstacle> {
    let mut survey = Survey { at: String::new(), values: 0 };
    survey.fields(root)
}

struct Survey {
    at: String,
    values: usize,
}

impl Survey {
    fn obstacle(&self, why: &'static str) -> Result<(), Obstacle> {
        Err(Obstacle { at: self.at.clone(), why })
    }

    fn shape(&mut self, shape: &Shape) -> Result<(), Obstacle> {
        let Forms::Of(branches) = &shape.forms else { return self.obstacle("a value of any type") };
        branches.iter().try_for_each(|branch| self.form(&branch.form))
    }

    fn form(&mut self, form: &Form) -> Result<(), Obstacle> {
        match form {
            Form::Flag(only) => self.count(usize::from(only.is_some())),
            Form::Text(text) => self.count(text.values.as_ref().map_or(0, Vec::len)),
            Form::Numeral(numeral) => self.count(numeral.values.as_ref().map_or(0, Vec::len)),
            Form::List(list) => match &list.items {
                Some(items) => self.within("/items", |survey| survey.shape(items)),
                None => self.obstacle("an array of anything"),
            },
            Form::Object(object) if object.properties.is_empty() && object.rest != Rest::Closed => {
                self.obstacle("an object with free keys")
            }
            Form::Object(object) => self.fields(object),
        }
    }

    fn fields(&mut self, object: &Object) -> Result<(), Obstacle> {
        match &object.rest {
            Rest::Unsaid | Rest::Closed => {}
            Rest::Open | Rest::Of(_) => return self.obstacle("an object with free keys"),
        }
        if object.required.iter().any(|name| !object.properties.contains_key(name)) {
            return self.obstacle("a required property of any type");
        }
        for (name, shape) in &object.properties {
            let name = name.replace('~', "~0").replace('/', "~1");
            self.within(&format!("/properties/{name}"), |survey| survey.shape(shape))?;
        }
        Ok(())
    }

    fn count(&mut self, values: usize) -> Result<(), Obstacle> {
        self.values += values;
        if self.values > ENUM_VALUES_MAX { self.obstacle("more than 1000 listed values") } else { Ok(()) }
    }

    fn within(
        &mut self,
        name: &str,
        look: impl FnOnce(&mut Self) -> Result<(), Obstacle>,
    ) -> Result<(), Obstacle> {
        let length = self.at.len();
        self.at.push_str(name);
        look(self)?;
        self.at.truncate(length);
        Ok(())
    }
}

/// Takes out the nulls that stand for left-out properties, so that the arguments fit the server's own `schema` again.
///
/// A null is taken out wherever the property is optional, also if it may be null: leaving a property alone is safer
/// than clearing it. Arguments for a schema that was not shown in strict mode stay as they are.
///
/// ```
/// use pilothouse_rules::schema::strict::undo;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"path": {"type": "string"}, "head": {"type": "integer"}},
///     "required": ["path"],
/// });
/// assert_eq!(undo(&schema, json!({"path": "a", "head": null})), json!({"path": "a"}));
/// ```
pub fn undo(schema: &Value, arguments: Value) -> Value {
    let (root, ready) = settle(schema, Dialect::OpenAiStrict);
    match (ready.dialect, arguments) {
        (Dialect::OpenAiStrict, Value::Object(fields)) => Value::Object(undo_fields(&root, fields)),
        (_, arguments) => arguments,
    }
}

fn undo_fields(object: &Object, fields: Map<String, Value>) -> Map<String, Value> {
    let undone = fields.into_iter().filter_map(|(name, value)| match object.properties.get(&name) {
        Some(_) if value.is_null() && !object.required.contains(&name) => None,
        Some(shape) => Some((name, undo_value(shape, value))),
        None => Some((name, value)),
    });
    undone.collect()
}

fn undo_value(shape: &Shape, value: Value) -> Value {
    let Forms::Of(branches) = &shape.forms else { return value };
    let form = branches.iter().map(|branch| &branch.form).find(|form| fits(form, &value));
    match (form, value) {
        (Some(Form::Object(object)), Value::Object(fields)) => Value::Object(undo_fields(object, fields)),
        (Some(Form::List(list)), Value::Array(items)) => match &list.items {
            Some(shape) => Value::Array(items.into_iter().map(|item| undo_value(shape, item)).collect()),
            None => Value::Array(items),
        },
        (_, value) => value,
    }
}

/// Whether a value was made for this alternative: in strict mode an object has exactly the properties that are listed.
fn fits(form: &Form, value: &Value) -> bool {
    match (form, value) {
        (Form::Object(object), Value::Object(fields)) => {
            let listed = object.properties.iter().filter(|(_, shape)| !shape.is_never());
            fields.keys().all(|name| object.properties.contains_key(name))
                && listed.into_iter().all(|(name, shape)| {
                    let is_optional = !object.required.contains(name);
                    fields
                        .get(name)
                        .is_some_and(|value| admits(shape, value) || (is_optional && value.is_null()))
                })
        }
        (Form::List(list), Value::Array(items)) => {
            list.items.as_ref().is_none_or(|shape| items.iter().all(|item| admits(shape, item)))
        }
        (Form::Text(text), Value::String(value)) => {
            text.values.as_ref().is_none_or(|values| values.contains(value))
        }
        (Form::Numeral(numeral), Value::Number(value)) => {
            numeral.values.as_ref().is_none_or(|values| values.contains(value))
        }
        (Form::Flag(only), Value::Bool(value)) => only.is_none_or(|only| only == *value),
        (Form::Object(_) | Form::List(_) | Form::Text(_) | Form::Numeral(_) | Form::Flag(_), _) => false,
    }
}

fn admits(shape: &Shape, value: &Value) -> bool {
    match &shape.forms {
        Forms::Any => true,
        Forms::Of(_) if value.is_null() => shape.null,
        Forms::Of(branches) => branches.iter().any(|branch| fits(&branch.form, value)),
    }
}
