//! Decides which arguments of a call its headers repeat: those that the tool's schema marks with `x-mcp-header`.
//!
//! The marks are read off the pages of `tools/list` as they pass. A tool whose marks break the rules is left out of
//! its page, as the protocol wants it (MCP 2026-07-28, "Custom Headers from Tool Parameters").

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderName;
use serde_json::{Map, Value};

/// Tools whose marks are kept.
const TOOLS_MAX: usize = 5_000;
/// Marks of one tool: as many headers stand in one request.
const MARKS_MAX: usize = 32;
/// How deep properties are looked into.
const DEPTH_MAX: usize = 32;
const MARK: &str = "x-mcp-header";

/// One marked property.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    path: Vec<String>,
    header: HeaderName,
}

/// The marks of a server's tools.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Params {
    tools: Mutex<BTreeMap<String, Vec<Mark>>>,
}

impl Params {
    /// Learns the marks of a page, and takes the tools out whose marks are wrong.
    pub(in crate::mcp) fn learn(&self, page: &mut Map<String, Value>) {
        let Some(Value::Array(tools)) = page.get_mut("tools") else {
            return;
        };
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        tools.retain(|tool| {
            let (Some(name), Some(schema)) = (tool.get("name").and_then(Value::as_str), tool.get("inputSchema"))
            else {
                return true;
            };
            match marks(schema) {
                Ok(marks) => {
                    known.remove(name);
                    if !marks.is_empty() && known.len() < TOOLS_MAX {
                        known.insert(name.to_owned(), marks);
                    }
                    true
                }
                Err(reason) => {
                    tracing::warn!(target: "pilothouse", reason, "a tool with a wrong x-mcp-header was left out");
                    false
                }
            }
        });
    }

    /// The headers of a call, with the values that the arguments have.
    pub(in crate::mcp) fn of_call(&self, tool: &str, line: &[u8]) -> Vec<(HeaderName, String)> {
        let marks = {
            let known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(marks) = known.get(tool) else {
                return Vec::new();
            };
            marks.clone()
        };
        let call = serde_json::from_slice::<Value>(line).unwrap_or_default();
        let arguments = call.pointer("/params/arguments").unwrap_or(&Value::Null);
        marks
            .into_iter()
            .filter_map(|mark| {
                let value = mark.path.iter().try_fold(arguments, |value, name| value.get(name))?;
                Some((mark.header, text_of(value)?))
            })
            .collect()
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The marks of a schema, or which rule one of them breaks.
fn marks(schema: &Value) -> Result<Vec<Mark>, &'static str> {
    let Value::Object(schema) = schema else {
        return Ok(Vec::new());
    };
    if schema.contains_key(MARK) {
        return Err("the schema itself is marked");
    }
    let (mut marks, mut seen) = (Vec::new(), HashSet::new());
    search(schema, Place::OnPath(&mut Vec::new()), DEPTH_MAX, &mut |path, property| {
        let mark = mark(path, property)?;
        if !seen.insert(mark.header.clone()) {
            return Err("two properties have one header");
        }
        marks.push(mark);
        if marks.len() > MARKS_MAX { Err("it marks too many properties") } else { Ok(()) }
    })?;
    Ok(marks)
}

fn mark(path: &[String], property: &Map<String, Value>) -> Result<Mark, &'static str> {
    let Some(name) = property.get(MARK).and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Err("a mark is no name");
    };
    let Ok(header) = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()) else {
        return Err("a mark is no header's name");
    };
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(Mark { path: path.to_vec(), header }),
        Some(_) | None => Err("a marked property is no string, integer or boolean"),
    }
}

/// Whether a schema is reached from the root by properties alone.
enum Place<'a> {
    OnPath(&'a mut Vec<String>),
    Elsewhere,
}

type Found<'a> = dyn FnMut(&[String], &Map<String, Value>) -> Result<(), &'static str> + 'a;

/// Tells every mark on the path of properties; one elsewhere is wrong.
fn search(
    schema: &Map<String, Value>,
    mut place: Place<'_>,
    depth: usize,
    found: &mut Found<'_>,
) -> Result<(), &'static str> {
    if depth == 0 {
        return Ok(());
    }
    for (key, value) in schema {
        match (key.as_str(), value) {
            (MARK, _) => match place {
                Place::OnPath(_) => {}
                Place::Elsewhere => return Err("a mark is not on a path of properties"),
            },
            ("default" | "const" | "enum" | "examples" | "dependentRequired", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let Value::Object(property) = property else { continue };
                    match &mut place {
                        Place::OnPath(path) => {
                            path.push(name.clone());
                            if property.contains_key(MARK) {
                                found(path, property)?;
                            }
                            search(property, Place::OnPath(path), depth - 1, found)?;
                            path.pop();
                        }
                        Place::Elsewhere => search(property, Place::Elsewhere, depth - 1, found)?,
                    }
                }
            }
            (
                "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties",
                Value::Object(map),
            ) => {
                for schema in map.values().filter_map(Value::as_object) {
                    search(schema, Place::Elsewhere, depth - 1, found)?;
                }
            }
            (_, Value::Object(schema)) => search(schema, Place::Elsewhere, depth - 1, found)?,
            (_, Value::Array(schemas)) => {
                for schema in schemas.iter().filter_map(Value::as_object) {
                    search(schema, Place::Elsewhere, depth - 1, found)?;
                }
            }
            (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
