//! Servers from the configuration files that people already have: Claude Desktop, VS Code, Cursor, Cline and others.
//!
//! ```text
//! text ─▶ jsonc (comments, commas) ─▶ section (servers, every key) ─▶ entry (one server) ─▶ Server
//!                                                                       ├─ expand (variables that are allowed)
//!                                                                       └─ env_file (below one directory)
//! ```
//!
//! A file is somebody else's: it starts programs and sends secrets. So it reads no variable and no file that the
//! embedder did not name, and nothing in it makes a tool run without being asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use pilothouse_messages::id::{ID_BYTES_MAX, ServerId};
use serde_json::Value;

use super::Server;
use section::{Root, Section};

mod entry;
mod env_file;
mod expand;
mod jsonc;
mod section;

/// The longest file.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What a file may reach, and what becomes of mistakes in it.
#[derive(Clone, Default)]
pub struct ConfigOptions {
    allowed: BTreeSet<String>,
    given: BTreeMap<String, String>,
    base: Option<PathBuf>,
    mistakes: OnMistake,
}

/// What becomes of the other servers when one is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnMistake {
    /// None is taken.
    #[default]
    RefuseAll,
    /// The others are taken; the mistakes stand in [`ImportedServers::mistakes`].
    KeepOthers,
}

/// Names only: values may be secrets.
impl fmt::Debug for ConfigOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigOptions")
            .field("allowed", &self.allowed)
            .field("given", &self.given.keys())
            .field("base", &self.base)
            .field("mistakes", &self.mistakes)
            .finish()
    }
}

impl ConfigOptions {
    /// Allows no variable and no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a file use this variable of the process's environment.
    #[must_use]
    pub fn allow_variable(mut self, name: impl Into<String>) -> Self {
        self.allowed.insert(name.into());
        self
    }

    /// Gives a variable a value that does not come from the environment: `workspaceFolder`, or `input:key` for the
    /// answer that a file of VS Code asks a person for.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.insert(name.into(), value.into());
        self
    }

    /// Lets a file name an `envFile` in or below this directory; links that lead out of it are not followed.
    #[must_use]
    pub fn base_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.base = Some(directory.into());
        self
    }

    /// Says what becomes of the other servers when one is wrong.
    #[must_use]
    pub fn on_mistake(mut self, mistakes: OnMistake) -> Self {
        self.mistakes = mistakes;
        self
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.contains(name)
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }
}

/// What a file holds.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ImportedServers {
    /// The servers, in the file's order.
    pub servers: Vec<Server>,
    /// What was left aside, and why.
    pub warnings: Vec<ConfigNote>,
    /// What is wrong with servers that were left out; empty unless [`OnMistake::KeepOthers`] was asked for.
    pub mistakes: Vec<ConfigNote>,
}

/// One thing to know about a file. It shows no value that stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigNote {
    /// The server, as the file names it; `None` for the whole file.
    pub server: Option<String>,
    /// Where, as a path: `env.TOKEN`; `.` for the whole.
    pub field: String,
    /// What it is and what to do.
    pub words: String,
}

impl fmt::Display for ConfigNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "server {server:?}: ")?;
        }
        write!(f, "`{}`: {}", self.field, self.words)
    }
}

/// Why a file gives no servers: everything that is wrong with it, at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is wrong: {}", .mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
#[non_exhaustive]
pub struct ConfigError {
    /// Each mistake, in the file's order.
    pub mistakes: Vec<ConfigNote>,
}

/// Reads the servers of a configuration file: `mcpServers` or `servers`, as an object by name or as a list, in JSON that
/// may have comments and trailing commas. It blocks for as long as an `envFile` takes to be read.
///
/// Names become ids; a server's `command` makes it a child process, its `url` a server over HTTP. Nothing in a file
/// switches approvals off: `autoApprove`, `alwaysAllow` and `trust` are told in the warnings and grant nothing.
///
/// ```
/// use pilothouse_supervision::{ConfigOptions, servers_from_json};
///
/// let text = r#"{"mcpServers": {
///     // What the assistant may look into.
///     "files": {"command": "mcp-server-filesystem", "args": ["${ROOT:-/srv/data}"], "autoApprove": ["read_file"]},
/// }}"#;
/// let imported = servers_from_json(text, &ConfigOptions::new().variable("ROOT", "/srv/notes"))?;
/// assert_eq!(imported.servers.len(), 1);
/// assert_eq!(imported.warnings[0].field, "autoApprove");
/// # Ok::<(), pilothouse_supervision::ConfigError>(())
/// ```
///
/// # Errors
/// Everything that is wrong, each with its server, its field and what to do; values of the file are not shown.
pub fn servers_from_json(text: &str, options: &ConfigOptions) -> Result<ImportedServers, ConfigError> {
    let root = root(text).map_err(|words| ConfigError { mistakes: vec![note(None, ".", words)] })?;
    let mut import = Import { options, taken: BTreeSet::new(), imported: ImportedServers::default() };
    for field in root.unknown {
        import.warn(None, &field, "it is not about servers, and is left aside");
    }
    if root.sections.is_empty() {
        let words = "there is neither `mcpServers` nor `servers`: put the servers into one of them";
        return Err(ConfigError { mistakes: vec![note(None, ".", words.to_owned())] });
    }
    for (name, section) in root.sections {
        match section {
            Section::Named(entries) => {
                for (key, entry) in entries {
                    import.take(&key, entry);
                }
            }
            Section::Listed(entries) => {
                for (index, entry) in entries.into_iter().enumerate() {
                    import.take_listed(&format!("{name}[{index}]"), entry);
                }
            }
        }
    }
    let Import { imported, .. } = import;
    match options.mistakes {
        OnMistake::RefuseAll if !imported.mistakes.is_empty() => {
            Err(ConfigError { mistakes: imported.mistakes })
        }
        OnMistake::RefuseAll | OnMistake::KeepOthers => Ok(imported),
    }
}

fn note(server: Option<&str>, field: &str, words: String) -> ConfigNote {
    ConfigNote { server: server.map(str::to_owned), field: field.to_owned(), words }
}

/// The file as sections. A message of the parser could show a value, so only its place is told.
fn root(text: &str) -> Result<Root, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("the file is larger than {TEXT_BYTES_MAX} bytes: shorten it"));
    }
    let plain = jsonc::plain(text)
        .map_err(|open| format!("the comment that begins in line {} does not end: close it", open.line))?;
    serde_json::from_str(&plain).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        if error.is_data() {
            format!("at {place} there is neither an object of servers by name nor a list of servers")
        } else {
            format!("it is no JSON from {place} on: correct it there")
        }
    })
}

/// An import under way.
struct Import<'a> {
    options: &'a ConfigOptions,
    taken: BTreeSet<ServerId>,
    imported: ImportedServers,
}

impl Import<'_> {
    fn warn(&mut self, server: Option<&str>, field: &str, words: &str) {
        self.imported.warnings.push(note(server, field, words.to_owned()));
    }

    /// A server of a list names itself.
    fn take_listed(&mut self, place: &str, mut entry: Value) {
        let mut named = |key| entry.as_object_mut().and_then(|fields| fields.remove(key));
        let (id, name) = (named("id"), named("name"));
        match id.as_ref().or(name.as_ref()).and_then(Value::as_str).map(str::to_owned) {
            Some(key) => self.take(&key, entry),
            None => {
                let words = "a server of a list has an `id` or a `name`, as text: give it one".to_owned();
                self.imported.mistakes.push(note(Some(place), "id", words));
            }
        }
    }

    fn take(&mut self, key: &str, entry: Value) {
        let mut notes = entry::Notes::default();
        let id = match valid_id(key) {
            Ok(id) => Some(id),
            Err(words) => {
                notes.mistakes.push((".".into(), words));
                None
            }
        };
        if let Some(id) = &id {
            if id.as_str() != key {
                notes.warnings.push((".".into(), format!("its id is {id:?}: its name is none")));
            }
            if !self.taken.insert(id.clone()) {
                notes
                    .mistakes
                    .push((".".into(), format!("another server has the id {id:?}: rename one of them")));
            }
        }
        let server = entry::read(id.as_ref().map_or("", ServerId::as_str), entry, self.options, &mut notes);
        let noted = |(field, words): (String, String)| note(Some(key), &field, words);
        self.imported.warnings.extend(notes.warnings.into_iter().map(noted));
        if notes.mistakes.is_empty() {
            self.imported.servers.extend(server);
        }
        self.imported.mistakes.extend(notes.mistakes.into_iter().map(noted));
    }
}

/// A name as an id: without blanks at its ends and control characters, and not too long.
fn valid_id(key: &str) -> Result<ServerId, String> {
    let text: String = key.trim().chars().filter(|c| !c.is_control()).collect();
    let mut end = text.len().min(ID_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    ServerId::new(text.get(..end).unwrap_or_default()).map_err(|_| "it has no name: give it one".to_owned())
}

#[cfg(test)]
mod tests;
