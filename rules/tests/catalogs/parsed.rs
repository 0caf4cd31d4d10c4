//! Reads a signature back, as strictly as it is written.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Signature {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) about: Option<String>,
    pub(crate) params: Vec<Param>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Param {
    /// Values as JSON, types as their names.
    pub(crate) kinds: Vec<String>,
    pub(crate) path: Vec<String>,
    pub(crate) is_required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) text: String,
}

pub(crate) fn parse(signature: &str) -> Option<Signature> {
    let is_unseen =
        |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_plain = |c: char| c == '\n' || !(c.is_control() || c == '`' || is_unseen(c));
    if !signature.chars().all(is_plain) || signature.matches("*/").count() != 1 {
        return None;
    }
    let mut lines = signature.strip_prefix("/**\n")?.lines();
    let text = unescaped(lines.next()?.strip_prefix(" * ")?)?;
    let mut params = Vec::new();
    let mut about = None;
    let mut line = lines.next()?;
    if line == " *" {
        about = Some(unescaped(lines.next()?.strip_prefix(" * @param {Object} params - ")?)?);
        line = lines.next()?;
        while let Some(rest) = line.strip_prefix(" * @param {") {
            params.push(param(rest)?);
            line = lines.next()?;
        }
        if line.starts_with(" * (") && line.ends_with(" more are left out)") {
            line = lines.next()?;
        }
    }
    let name = lines.next()?.strip_prefix("function ")?.strip_suffix("(params) {}")?;
    (line == " */" && lines.next().is_none()).then(|| Signature {
        name: name.to_owned(),
        text,
        about,
        params,
    })
}

fn param(line: &str) -> Option<Param> {
    let end = unquoted(line, |c| c == '}')?;
    let kinds = split(&line[..end], '|');
    let rest = line[end..].strip_prefix("} ")?;
    let (inner, is_required) = match rest.strip_prefix('[') {
        Some(inner) => (inner, false),
        None => (rest, true),
    };
    let inner = inner.strip_prefix("params")?;
    let (path, rest) = path(inner)?;
    if is_required {
        let text = rest.strip_prefix(" - ")?.strip_suffix("(required)")?;
        let text = unescaped(text.strip_suffix(' ').unwrap_or(text))?;
        return Some(Param { kinds, path, is_required, default: None, text });
    }
    let (default, rest) = match rest.strip_prefix('=') {
        Some(json) => {
            let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
            let default = values.next()?.ok()?;
            (Some(default), &json[values.byte_offset()..])
        }
        None => (None, rest),
    };
    let text = match rest.strip_prefix(']')? {
        "" => String::new(),
        text => unescaped(text.strip_prefix(" - ")?)?,
    };
    Some(Param { kinds, path, is_required, default, text })
}

fn path(mut rest: &str) -> Option<(Vec<String>, &str)> {
    let mut path = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix("[]") {
            path.push("[]".to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".*") {
            path.push("*".to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("[\"") {
            let end = 1 + unquoted(&rest[1..], |c| c == ']')?;
            path.push(serde_json::from_str(&rest[1..end]).ok()?);
            rest = &rest[end + 1..];
            debug_assert!(!after.is_empty());
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after
                .find(|c: char| !(c.is_ascii_alphanumeric() || "_$-".contains(c)))
                .unwrap_or(after.len());
            path.push(after[..end].to_owned());
            rest = &after[end..];
        } else {
            return Some((path, rest));
        }
    }
}

/// Where the character stands outside of JSON's quotes.
fn unquoted(text: &str, is_it: impl Fn(char) -> bool) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted && is_it(c) => return Some(index),
            _ => {}
        }
    }
    None
}

fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(index) = unquoted(rest, |c| c == separator) {
        parts.push(rest[..index].to_owned());
        rest = &rest[index + separator.len_utf8()..];
    }
    parts.push(rest.to_owned());
    parts
        .into_iter()
        .map(|part| serde_json::from_str::<String>(&part).map_or(part, |text| format!("{text:?}")))
        .collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            '\\' => out.push('\\'),
            '/' => out.push('/'),
            'u' => {
                let code: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                out.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
            }
            _ => return None,
        }
    }
    Some(out)
}
