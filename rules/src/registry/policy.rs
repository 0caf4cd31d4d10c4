//! Decides which tools allow and deny lists let through.
//!
//! ```text
//! a rule's text             matches
//! search_issues             every tool with this raw name; a function of this name
//! mcp__gh__search_306d…     the tool with this wire name
//! mcp__github__search       every tool with this legacy name, also by the name that its server had at first sight
//! mcp__github__*            every tool of every server with this name
//! mcp:github-1              every tool of the server with this id
//! *                         everything
//! ```
//!
//! Texts are compared exactly, case included. A text that could mean several tools means all of them, in a deny list and
//! in an allow list. What a rule matches is a tool's identity, server id and raw name: no name is taken apart.
//! Over several lists, a deny from any wins, and every allow list has to let a tool through.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::{ToolLists, ToolSource, identity_digits};
use pilothouse_messages::topic::{ResolvedTool, TopicConfig};

use crate::name::{camel, legacy_name, legacy_parts, slug};

/// The longest text of a rule, in bytes; longer than an id with a raw name that any server has.
pub const RULE_BYTES: usize = 1 << 10;

/// What a rule looks at: a tool's identity and the names that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The wire name.
    pub name: &'a str,
    /// Who runs it.
    pub source: &'a ToolSource,
    /// The embedder's label of the server, or of the function.
    pub label: &'a str,
}

impl<'a> From<&'a Entry> for Identity<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self { name: &entry.name, source: &entry.source, label: &entry.label }
    }
}

impl<'a> From<&'a Arc<Entry>> for Identity<'a> {
    fn from(entry: &'a Arc<Entry>) -> Self {
        Self::from(&**entry)
    }
}

impl<'a> From<&'a ResolvedTool> for Identity<'a> {
    fn from(tool: &'a ResolvedTool) -> Self {
        Self { name: &tool.name, source: &tool.source, label: &tool.label }
    }
}

/// The most rules of one pair of lists.
pub const RULES_MAX: usize = 256;

/// One line of an allow or deny list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyRule {
    /// Every tool.
    Everything,
    /// Every tool of the server with this id.
    Server(ServerId),
    /// Every tool of every server whose name reads so in a wire name.
    ServerNamed(String),
    /// Every tool that has this raw name, wire name or legacy name.
    Named(String),
    /// This tool.
    Tool(ToolSource),
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyRuleError {
    /// There is no text.
    #[error("a policy rule is empty: name a tool, or a server as mcp__name__*, or leave the rule out")]
    Empty,
    /// The text is too long.
    #[error("a policy rule has {bytes} bytes: shorten it to {RULE_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// There are more rules than are ever looked through.
    #[error("there are {rules} policy rules, at most {RULES_MAX} are taken: use wildcards")]
    TooMany {
        /// How many.
        rules: usize,
    },
    /// A wildcard without a server's name; every server without Latin letters in its name would share it.
    #[error("\"mcp____*\" names no server: use the server's id, as in mcp:my-server")]
    NoServer,
    /// Not the id of a server.
    #[error("\"{text}\" names no server: {reason}")]
    BadServer {
        /// The rule.
        text: String,
        /// What is wrong with the id.
        reason: String,
    },
}

impl PolicyRule {
    /// Understands a rule's text, as the module page lists them.
    ///
    /// # Errors
    /// [`PolicyRuleError`] if it can match no tool, whatever there is.
    ///
    /// ```
    /// use pilothouse_rules::registry::policy::PolicyRule;
    /// let rule = PolicyRule::parse("mcp__github__*");
    /// assert_eq!(rule, Ok(PolicyRule::ServerNamed("github".into())));
    /// ```
    pub fn parse(text: &str) -> Result<Self, PolicyRuleError> {
        if text.trim().is_empty() {
            return Err(PolicyRuleError::Empty);
        }
        if text.len() > RULE_BYTES {
            return Err(PolicyRuleError::TooLong { bytes: text.len() });
        }
        if text == "*" {
            return Ok(Self::Everything);
        }
        if let Some(id) = text.strip_prefix("mcp:") {
            let bad =
                |error| PolicyRuleError::BadServer { text: text.to_owned(), reason: format!("{error}") };
            return ServerId::new(id).map(Self::Server).map_err(bad);
        }
        match text.strip_prefix("mcp__").and_then(|rest| rest.strip_suffix("__*")) {
            Some("") => Err(PolicyRuleError::NoServer),
            Some(server) => Ok(Self::ServerNamed(server.to_owned())),
            None if text == "mcp____*" || text == "mcp__*" => Err(PolicyRuleError::NoServer),
            None => Ok(Self::Named(text.to_owned())),
        }
    }

    /// Whether it means this tool.
    pub fn matches<'a>(&self, tool: impl Into<Identity<'a>>) -> bool {
        let tool = tool.into();
        match self {
            Self::Everything => true,
            Self::Server(server) => tool.source.server() == Some(server),
            Self::ServerNamed(name) => tool.source.server().is_some() && is_server_named(name, tool),
            Self::Named(name) => {
                tool.source.raw_name() == name || tool.name == name || is_legacy_name(name, tool)
            }
            Self::Tool(source) => tool.source == source,
        }
    }
}

/// By the name that the server has, or by the one that it had when the tool was named: a rule outlives a renaming.
fn is_server_named(name: &str, tool: Identity<'_>) -> bool {
    let at_first_sight = tool.name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(name));
    at_first_sight.is_some_and(|rest| rest.starts_with("__"))
        || camel(tool.label) == name
        || slug(tool.label) == name
}

fn is_legacy_name(name: &str, identity: Identity<'_>) -> bool {
    let ToolSource::Mcp { server, tool } = identity.source else { return false };
    if !name.starts_with("mcp__") {
        return false;
    }
    let digits = || identity_digits(server.as_str(), tool);
    let at_first_sight = identity.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
    at_first_sight.is_some_and(|rest| rest.starts_with(&digits()))
        || legacy_name(identity.label, tool) == name
}

impl FromStr for PolicyRule {
    type Err = PolicyRuleError;

    fn from_str(text: &str) -> Result<Self, PolicyRuleError> {
        Self::parse(text)
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Server(server) => write!(f, "mcp:{server}"),
            Self::ServerNamed(name) => write!(f, "mcp__{name}__*"),
            Self::Named(name) => f.write_str(name),
            Self::Tool(ToolSource::Builtin { name }) => f.write_str(name),
            Self::Tool(ToolSource::Mcp { server, tool }) => write!(f, "{tool:?} of mcp:{server}"),
        }
    }
}

/// Whose tools a list speaks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyReach {
    /// All tools: a topic's list.
    Everywhere,
    /// One server's tools; it says nothing about others.
    Server(ServerId),
}

/// An allow list and a deny list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Whose tools they are about.
    pub reach: PolicyReach,
    /// What is let through; `None` for all.
    pub allow: Option<Vec<PolicyRule>>,
    /// What is not, even if it is allowed.
    pub deny: Vec<PolicyRule>,
}

/// What lists say about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission<'a> {
    /// It is let through.
    Admitted,
    /// There is an allow list, and nothing on it means this tool.
    NotAllowed,
    /// This rule denies it.
    Denied(&'a PolicyRule),
}

/// A rule that means no tool that there is: it may be misspelt, or early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedRule<'a> {
    /// The rule.
    pub rule: &'a PolicyRule,
}

impl fmt::Display for UnmatchedRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy rule \"{}\" matches no tool", self.rule)?;
        match self.rule {
            PolicyRule::Named(name) => match legacy_parts(name) {
                Some((server, tool)) => write!(f, ": no server \"{server}\" lists a tool \"{tool}\""),
                None => f.write_str(": check its spelling and its case"),
            },
            PolicyRule::Server(_) | PolicyRule::ServerNamed(_) => f.write_str(": no such server lists any"),
            PolicyRule::Everything | PolicyRule::Tool(_) => Ok(()),
        }
    }
}

impl ToolPolicy {
    /// Lets everything through.
    pub fn open(reach: PolicyReach) -> Self {
        Self { reach, allow: None, deny: Vec::new() }
    }

    /// What an embedder wrote. Texts that can mean no tool ([`faults`](Self::faults)) mean none here, either: an allow
    /// list of such texts lets nothing through.
    pub fn of(lists: &ToolLists, reach: PolicyReach) -> Self {
        let parsed =
            |texts: &[String]| texts.iter().filter_map(|text| PolicyRule::parse(text).ok()).collect();
        Self { reach, allow: lists.allow.as_deref().map(parsed), deny: parsed(&lists.deny) }
    }

    /// What is wrong with these lists, if anything is; whoever takes them from an embedder refuses them then.
    ///
    /// # Errors
    /// The first fault.
    pub fn faults(lists: &ToolLists) -> Result<(), PolicyRuleError> {
        let rules = lists.rules().count();
        if rules > RULES_MAX {
            return Err(PolicyRuleError::TooMany { rules });
        }
        lists.rules().try_for_each(|text| PolicyRule::parse(text).map(drop))
    }

    /// What it says about this tool.
    pub fn admits<'a>(&self, tool: impl Into<Identity<'a>>) -> Admission<'_> {
        let tool = tool.into();
        if !self.reaches(tool) {
            return Admission::Admitted;
        }
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(tool)) {
            return Admission::Denied(rule);
        }
        match &self.allow {
            Some(rules) if !rules.iter().any(|rule| rule.matches(tool)) => Admission::NotAllowed,
            Some(_) | None => Admission::Admitted,
        }
    }

    /// The rules that mean none of these tools, allow list first.
    pub fn unmatched<'a>(
        &'a self,
        entries: impl IntoIterator<Item = &'a Arc<Entry>>,
    ) -> Vec<UnmatchedRule<'a>> {
        let mut left: Vec<&PolicyRule> = self.allow.iter().flatten().chain(&self.deny).collect();
        for entry in entries.into_iter().filter(|entry| self.reaches((*entry).into())) {
            left.retain(|rule| !rule.matches(entry));
        }
        left.into_iter().map(|rule| UnmatchedRule { rule }).collect()
    }

    fn reaches(&self, tool: Identity<'_>) -> bool {
        match &self.reach {
            PolicyReach::Everywhere => true,
            PolicyReach::Server(server) => tool.source.server() == Some(server),
        }
    }
}

/// Why a topic's lists do not let this tool run; `None` if they do.
fn refusal<'a>(lists: &ToolLists, tool: impl Into<Identity<'a>>) -> Option<String> {
    match ToolPolicy::of(lists, PolicyReach::Everywhere).admits(tool) {
        Admission::Admitted => None,
        Admission::NotAllowed => Some("the topic's allow list does not have this tool".to_owned()),
        Admission::Denied(rule) => Some(format!("the topic's deny list has this tool, by \"{rule}\"")),
    }
}

/// Why a topic of this configuration may not use the tool; `None` if it may. Asked again when a call is sent, since the
/// configuration may have become stricter by then.
pub fn out_of_reach(config: &TopicConfig, tool: &ResolvedTool) -> Option<String> {
    let is_chosen = match &tool.source {
        ToolSource::Mcp { server, .. } => {
            config.servers.as_ref().is_none_or(|chosen| chosen.contains(server))
        }
        ToolSource::Builtin { name } => config.builtins.as_ref().is_none_or(|chosen| chosen.contains(name)),
    };
    if !is_chosen {
        return Some("the topic no longer uses this tool".to_owned());
    }
    refusal(&config.tools, tool)
}

/// What all of these lists together say: a deny from any wins, then a list that does not allow the tool.
pub fn admits_all<'a>(policies: impl IntoIterator<Item = &'a ToolPolicy>, entry: &Entry) -> Admission<'a> {
    let mut admission = Admission::Admitted;
    for policy in policies {
        match policy.admits(entry) {
            Admission::Admitted => {}
            Admission::NotAllowed => admission = Admission::NotAllowed,
            denied @ Admission::Denied(_) => return denied,
        }
    }
    admission
}

#[cfg(test)]
mod tests;
