//! Reads a file of variables, with bounds, and never one outside the directory that the embedder names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The variables of a file below `base`. The error shows no line.
pub(super) fn read(base: Option<&Path>, file: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(base) = base else {
        return Err(
            "a file is read only below a directory of yours: name it with `ConfigOptions::base_dir`".into()
        );
    };
    let unread = |error: std::io::Error| format!("it cannot be read: {error}");
    let base = base.canonicalize().map_err(|error| format!("the base directory cannot be read: {error}"))?;
    let path = base.join(file).canonicalize().map_err(unread)?;
    if !path.starts_with(&base) {
        return Err("it lies outside the base directory: move it there".into());
    }
    if !path.metadata().map_err(unread)?.is_file() {
        return Err("it is no file".into());
    }
    let mut bytes = Vec::new();
    File::open(&path).map_err(unread)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes: shorten it"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is no text: save it as UTF-8".to_owned())?;
    variables(&text)
}

/// `KEY=VALUE` lines: blank ones and those that begin with `#` say nothing, `export` may stand before a key, and a
/// value may stand in quotes (in double ones, `\n`, `\"` and `\\` are understood). The last of a key holds.
pub(super) fn variables(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for (number, line) in (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (key, value) =
            line.split_once('=').ok_or_else(|| format!("line {number} is not KEY=VALUE: correct it"))?;
        let key = key.trim();
        let is_name = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-');
        if !is_name {
            return Err(format!("line {number} has no name before `=`: correct it"));
        }
        let value = unquoted(value.trim())
            .ok_or_else(|| format!("line {number} has a quote that does not end: close it"))?;
        if value.contains('\0') {
            return Err(format!("line {number} has a NUL character: remove it"));
        }
        variables.insert(key.to_owned(), value);
    }
    Ok(variables)
}

fn unquoted(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.split_once('\'').map(|(value, _)| value.to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = value.find(" #").unwrap_or(value.len());
        return value.get(..end).map(|value| value.trim_end().to_owned());
    };
    let mut plain = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(plain),
            '\\' => match chars.next()? {
                'n' => plain.push('\n'),
                'r' => plain.push('\r'),
                't' => plain.push('\t'),
                quoted @ ('"' | '\\') => plain.push(quoted),
                other => plain.extend(['\\', other]),
            },
            other => plain.push(other),
        }
    }
}
