//! Reads one server of a file; everything that is wrong with it is told at once.

use std::collections::BTreeMap;

use pilothouse_messages::endpoint::Endpoint;
use serde_json::{Map, Value};

use super::expand::{Expanded, expanded};
use super::{ConfigOptions, env_file};
use crate::builder::Server;

/// Fields that elsewhere let tools run unasked.
const GRANTS: [&str; 4] = ["autoApprove", "alwaysAllow", "alwaysApprove", "trust"];
/// Names of the field that says how a server is reached.
const KINDS: [&str; 3] = ["type", "transport", "transportType"];

/// What is told of one server: a field and words each.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<(String, String)>,
    pub(super) mistakes: Vec<(String, String)>,
}

impl Notes {
    fn wrong(&mut self, field: &str, words: impl Into<String>) {
        self.mistakes.push((field.to_owned(), words.into()));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
    Sse,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "stdio" => Some(Self::Stdio),
            "http" | "streamable-http" | "streamableHttp" | "streamable_http" => Some(Self::Http),
            "sse" => Some(Self::Sse),
            _ => None,
        }
    }
}

/// Takes fields out of an entry, one after the other.
struct Fields<'a> {
    left: Map<String, Value>,
    options: &'a ConfigOptions,
    notes: &'a mut Notes,
    /// What was put in under the name of a secret.
    secrets: Vec<String>,
}

/// The server, unless something is wrong with it.
pub(super) fn read(id: &str, entry: Value, options: &ConfigOptions, notes: &mut Notes) -> Option<Server> {
    let Value::Object(left) = entry else {
        notes.wrong(".", format!("a server is an object, not {}", kind_of(&entry)));
        return None;
    };
    let mut fields = Fields { left, options, notes, secrets: Vec::new() };
    for grant in GRANTS {
        if fields.left.remove(grant).is_some() {
            let words = "it grants nothing here: state effects or give grants in your program";
            fields.notes.warnings.push((grant.to_owned(), words.to_owned()));
        }
    }
    let kind = fields.kind();
    let is_off = fields.switch("disabled", false) || !fields.switch("enabled", true);
    let server = match kind {
        Some(Kind::Stdio) => fields.stdio(id),
        Some(kind @ (Kind::Http | Kind::Sse)) => fields.over_http(id, kind),
        None => None,
    };
    fields.leave();
    let secrets = fields.secrets;
    let server = server.map(|server| secrets.into_iter().fold(server, Server::secret));
    server.map(|server| if is_off { server.disabled() } else { server })
}

impl Fields<'_> {
    fn kind(&mut self) -> Option<Kind> {
        let named = KINDS.iter().find_map(|field| Some((*field, self.left.remove(*field)?)));
        let (has_command, has_url) = (self.left.contains_key("command"), self.left.contains_key("url"));
        let kind = match &named {
            None => match (has_command, has_url) {
                (true, false) => Some(Kind::Stdio),
                (false, true) => Some(Kind::Http),
                (true, true) => {
                    self.notes.wrong(".", "it has a `command` and a `url`: leave one of them out");
                    None
                }
                (false, false) => {
                    self.notes.wrong(".", "it has neither a `command` nor a `url`: give it one of them");
                    None
                }
            },
            Some((field, value)) => {
                let kind = value.as_str().and_then(Kind::named);
                if kind.is_none() {
                    self.notes.wrong(field, "write `stdio`, `http` (also `streamable-http`) or `sse`");
                }
                kind
            }
        };
        let Some(kind) = kind else {
            // What else is wrong is told, too.
            if has_command {
                self.stdio("");
            } else if has_url {
                self.over_http("", Kind::Http);
            }
            return None;
        };
        Some(kind)
    }

    /// What is left over was not understood.
    fn leave(&mut self) {
        for field in std::mem::take(&mut self.left).into_iter().map(|(field, _)| field) {
            self.notes.warnings.push((field, "it is not understood here, and is left aside".to_owned()));
        }
    }

    fn switch(&mut self, field: &str, default: bool) -> bool {
        match self.left.remove(field) {
            None | Some(Value::Null) => default,
            Some(Value::Bool(on)) => on,
            Some(other) => {
                self.notes.wrong(field, format!("write true or false, not {}", kind_of(&other)));
                default
            }
        }
    }

    /// A text with its variables; `None` if there is none or it is wrong.
    fn text(&mut self, field: &str, value: Option<Value>) -> Option<String> {
        match value? {
            Value::Null => None,
            Value::String(text) => match expanded(&text, self.options) {
                Ok(Expanded { text, secrets }) => {
                    self.secrets.extend(secrets);
                    Some(text)
                }
                Err(words) => {
                    self.notes.wrong(field, words);
                    None
                }
            },
            other => {
                self.notes.wrong(field, format!("write a text in quotes, not {}", kind_of(&other)));
                None
            }
        }
    }

    fn field(&mut self, field: &str) -> Option<String> {
        let value = self.left.remove(field);
        self.text(field, value)
    }

    /// A field that a server of this kind cannot be without.
    fn needed(&mut self, field: &str) -> Option<String> {
        let mistakes = self.notes.mistakes.len();
        let text = self.field(field).filter(|text| !text.trim().is_empty());
        if text.is_none() && self.notes.mistakes.len() == mistakes {
            self.notes.wrong(field, "it is missing or empty: write it");
        }
        text
    }

    fn list(&mut self, field: &str) -> Vec<String> {
        match self.left.remove(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => {
                let numbered = values.into_iter().enumerate();
                numbered.filter_map(|(n, value)| self.text(&format!("{field}[{n}]"), Some(value))).collect()
            }
            Some(other) => {
                self.notes.wrong(field, format!("write a list of texts, not {}", kind_of(&other)));
                Vec::new()
            }
        }
    }

    fn map(&mut self, field: &str) -> BTreeMap<String, String> {
        match self.left.remove(field) {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(values)) => {
                let named = values.into_iter();
                named
                    .filter_map(|(name, value)| {
                        let text = self.text(&format!("{field}.{name}"), Some(value))?;
                        Some((name, text))
                    })
                    .collect()
            }
            Some(other) => {
                self.notes.wrong(field, format!("write an object of texts, not {}", kind_of(&other)));
                BTreeMap::new()
            }
        }
    }

    fn stdio(&mut self, id: &str) -> Option<Server> {
        let command = self.needed("command");
        let args = self.list("args");
        let mut env = match self.field("envFile") {
            Some(file) => env_file::read(self.options.base(), &file).unwrap_or_else(|words| {
                self.notes.wrong("envFile", words);
                BTreeMap::new()
            }),
            None => BTreeMap::new(),
        };
        // What the file itself says holds.
        env.extend(self.map("env"));
        for name in env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
            self.notes.wrong("env", format!("{name:?} is no name of a variable: correct it"));
        }
        let cwd = self.field("cwd");
        self.idle(&["url", "headers"], "it means nothing for a server with a `command`");
        let server = Server::stdio(id, command?).args(args);
        let server = env.into_iter().fold(server, |server, (name, value)| server.env(name, value));
        Some(match cwd {
            Some(directory) => server.cwd(directory),
            None => server,
        })
    }

    fn over_http(&mut self, id: &str, kind: Kind) -> Option<Server> {
        let url = self.needed("url");
        let headers = self.map("headers");
        for (name, value) in &headers {
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(is_token) {
                self.notes.wrong("headers", format!("{name:?} is no name of a header: correct it"));
            }
            if value.chars().any(|c| c.is_control() && c != '\t') {
                let words = "it has a line break or another control character: remove it";
                self.notes.wrong(&format!("headers.{name}"), words);
            }
        }
        self.idle(
            &["command", "args", "env", "envFile", "cwd"],
            "it means nothing for a server with a `url`",
        );
        let url = url?;
        if let Err(error) = Endpoint::parse(&url) {
            self.notes.wrong("url", format!("{error}: write an http or https URL"));
            return None;
        }
        Some(http(id, kind, &url, headers))
    }

    fn idle(&mut self, fields: &[&str], words: &str) {
        for field in fields {
            if self.left.remove(*field).is_some() {
                self.notes.warnings.push(((*field).to_owned(), words.to_owned()));
            }
        }
    }
}

/// A server over HTTP.
fn http(id: &str, kind: Kind, url: &str, headers: BTreeMap<String, String>) -> Server {
    let server = if kind == Kind::Sse { Server::sse(id, url) } else { Server::http(id, url) };
    headers.into_iter().fold(server, |server, (name, value)| server.header(name, value))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
