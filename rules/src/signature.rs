//! Decides how a tool's signature is written for a model: as a JSDoc comment on an empty function.
//!
//! ```text
//! /**
//!  * Reads a file.
//!  *
//!  * @param {Object} params - Parameters
//!  * @param {integer} [params.head=10] - how many lines
//!  * @param {string} params.path - (required)
//!  */
//! function mcp__files__read_0123456789abcdef0123(params) {}
//! ```
//!
//! Properties come in the order of the bytes of their names, five levels deep; `[]` leads into an array's items and
//! `.*` to properties of any other name. Every text of a server stays within its field: whoever knows the few escapes
//! of [`render`] reads the very same texts back.

use pilothouse_messages::limits::Limits;
use pilothouse_messages::tool::ToolDefinition;
use serde_json::Value;

use crate::name::is_wire_name_for_provider;
use crate::schema::outline;
use crate::schema::shape::{Form, Forms, List, Object, Rest, Shape};
use crate::schema::text::{clean, with_hints};

mod escape;
mod kind;

use escape::{in_json, in_text, segment};
use kind::{bounds, kind};

/// How deep properties are listed.
const LEVELS_MAX: usize = 5;
/// The longest text about one property, in bytes.
const TEXT_BYTES_MAX: usize = 512;
/// How many bytes the properties may take together.
const LINES_BYTES_MAX: usize = 32 << 10;

/// Writes the signature of a tool under its wire name.
///
/// The description has at most `limits.description_bytes`, the rest at most 33 KiB, and what is left out says so. In
/// texts, a line break is `\n`, a tab `\t`, a backslash `\\`, a backtick `\u{60}` and the end of a comment `*\/`;
/// unseen characters are taken out. Names that are no identifiers, values and defaults are JSON, in which the same
/// characters are `\u` escapes.
///
/// ```
/// use pilothouse_messages::{json::JsonText, limits::Limits, tool::ToolDefinition};
/// use pilothouse_rules::signature::render;
///
/// let tool = ToolDefinition {
///     name: "read".into(),
///     title: None,
///     description: Some("Reads a file.".into()),
///     input_schema: JsonText::parse(r#"{"type": "object", "properties": {"path": {"type": "string"}}}"#)?,
///     output_schema: None,
///     annotations: None,
/// };
/// let signature = render(&tool, "files_read", &Limits::default());
/// assert!(signature.contains(" * @param {string} [params.path]\n"));
/// assert!(signature.ends_with("function files_read(params) {}"));
/// # Ok::<(), String>(())
/// ```
pub fn render(tool: &ToolDefinition, wire_name: &str, limits: &Limits) -> String {
    let name = plain_name(wire_name);
    let texts = [tool.description.as_deref(), tool.title.as_deref()];
    let text = texts.into_iter().flatten().find_map(|text| clean(text, limits.description_bytes));
    let root = outline(&tool.input_schema.value());
    let mut out = format!("/**\n * {}\n", text.as_deref().map_or_else(|| name.clone(), in_text));
    let lines = lines_of(&root);
    if !lines.is_empty() {
        let about = root.description.as_deref().map_or("Parameters", |text| text);
        let about = clean(about, TEXT_BYTES_MAX * 2).unwrap_or_default();
        out.push_str(&format!(" *\n * @param {{Object}} params - {}\n", in_text(&about)));
        push_lines(&mut out, &lines);
    }
    out.push_str(&format!(" */\nfunction {name}(params) {{}}"));
    out
}

/// A wire name is plain already; whatever else is given becomes so.
fn plain_name(name: &str) -> String {
    if is_wire_name_for_provider(name) {
        return name.to_owned();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    name.chars().take(64).map(plain).collect()
}

fn push_lines(out: &mut String, lines: &[String]) {
    let mut left = LINES_BYTES_MAX;
    for (index, line) in lines.iter().enumerate() {
        let Some(rest) = left.checked_sub(line.len() + 4) else {
            out.push_str(&format!(" * ({} more are left out)\n", lines.len() - index));
            return;
        };
        left = rest;
        out.push_str(&format!(" * {line}\n"));
    }
}

fn lines_of(root: &Object) -> Vec<String> {
    let mut lines = Vec::new();
    fields(root, "params", LEVELS_MAX, &mut lines);
    lines
}

fn fields(object: &Object, path: &str, levels: usize, lines: &mut Vec<String>) {
    let Some(deeper) = levels.checked_sub(1) else { return };
    for (name, shape) in object.properties.iter().filter(|(_, shape)| !shape.is_never()) {
        let path = format!("{path}{}", segment(name));
        let is_required = object.required.contains(name);
        lines.push(line(shape, &path, if is_required { Need::Required } else { Need::Optional }));
        within(shape, &path, deeper, lines);
    }
    for name in object.required.iter().filter(|name| !object.properties.contains_key(*name)) {
        lines.push(line(&Shape::any(), &format!("{path}{}", segment(name)), Need::Required));
    }
    if let Rest::Of(shape) = &object.rest {
        let path = format!("{path}.*");
        lines.push(line(shape, &path, Need::Optional));
        within(shape, &path, deeper, lines);
    }
}

/// The properties of the objects that the value may be, or hold.
fn within(shape: &Shape, path: &str, levels: usize, lines: &mut Vec<String>) {
    let Forms::Of(branches) = &shape.forms else { return };
    let objects = branches.iter().filter_map(|branch| match &branch.form {
        Form::Object(object) => Some(object.clone()),
        Form::Flag(_) | Form::Text(_) | Form::Numeral(_) | Form::List(_) => None,
    });
    let objects: Vec<Object> = objects.collect();
    if !objects.is_empty() {
        fields(&crate::schema::one_object(objects), path, levels, lines);
    }
    for branch in branches {
        if let Form::List(List { items: Some(items), .. }) = &branch.form {
            within(items, &format!("{path}[]"), levels, lines);
        }
    }
}

/// Whether a property may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

fn line(shape: &Shape, path: &str, need: Need) -> String {
    let text = clean(shape.description.as_deref().unwrap_or_default(), TEXT_BYTES_MAX);
    let text = with_hints(text, &bounds(shape), TEXT_BYTES_MAX);
    let text = text.as_deref().map(in_text).unwrap_or_default();
    let kind = kind(shape);
    match (need, &shape.default) {
        (Need::Required, _) => {
            let blank = if text.is_empty() { "" } else { " " };
            format!("@param {{{kind}}} {path} - {text}{blank}(required)")
        }
        (Need::Optional, default) => {
            let default = default.as_ref().map(|value: &Value| format!("={}", in_json(value)));
            let about = if text.is_empty() { String::new() } else { format!(" - {text}") };
            format!("@param {{{kind}}} [{path}{}]{about}", default.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;
