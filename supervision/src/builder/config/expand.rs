//! Puts variables into texts: only those that the embedder allows.

use super::ConfigOptions;

/// The longest text after its variables were put in.
const TEXT_BYTES_MAX: usize = 128 << 10;

/// Words in the name of a variable whose value is nobody's business.
const SECRET_NAMES: [&str; 8] = ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "CREDENTIAL", "AUTH", "COOKIE"];

/// A text with its variables.
#[derive(Debug)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// The values that were put in under a name of a secret.
    pub(super) secrets: Vec<String>,
}

/// `${NAME}`, `${env:NAME}` and `${NAME:-default}` in a text; what is put in is not looked through again.
///
/// The error says what to do, and shows no value.
pub(super) fn expanded(text: &str, options: &ConfigOptions) -> Result<Expanded, String> {
    let (mut expanded, mut secrets) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err("a `${` has no `}`: close it".to_owned());
        };
        let value = value(inside, options)?;
        let name = inside.split(":-").next().unwrap_or_default().to_ascii_uppercase();
        if SECRET_NAMES.iter().any(|word| name.contains(word)) {
            secrets.push(value.clone());
        }
        expanded.push_str(&value);
        if expanded.len() > TEXT_BYTES_MAX {
            return Err(format!("with its variables it is longer than {TEXT_BYTES_MAX} bytes: shorten it"));
        }
        rest = after;
    }
    expanded.push_str(rest);
    if expanded.contains('\0') {
        return Err("it has a NUL character: remove it".to_owned());
    }
    Ok(Expanded { text: expanded, secrets })
}

fn value(inside: &str, options: &ConfigOptions) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    if let Some(question) = name.strip_prefix("input:") {
        let given = options.given(name);
        return given.map(str::to_owned).ok_or_else(|| {
            format!("it asks a person for \"{question}\": ask yourself, and give the answer with `ConfigOptions::variable(\"{name}\", …)`")
        });
    }
    if let Some(given) = options.given(name) {
        return Ok(given.to_owned());
    }
    if !options.allows(name) {
        return Err(format!(
            "the variable {name} is not allowed: allow it with `ConfigOptions::allow_variable(\"{name}\")`, or give it with `ConfigOptions::variable`"
        ));
    }
    match (std::env::var(name), default) {
        // As in a shell, the default stands also for an empty value.
        (Ok(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Ok(value), _) => Ok(value),
        (Err(_), Some(default)) => Ok(default.to_owned()),
        (Err(std::env::VarError::NotPresent), None) => {
            Err(format!("the variable {name} is not set: set it, or write ${{{name}:-default}}"))
        }
        (Err(std::env::VarError::NotUnicode(_)), None) => {
            Err(format!("the variable {name} is no text: set it to UTF-8"))
        }
    }
}
