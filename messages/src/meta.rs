//! The meta tools: three tools through which a model reaches those that it is not shown, and what it says to them.

use std::fmt;

/// A tool about tools. Its name is its own; no function and no server's tool has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetaTool {
    /// Finds tools.
    Search,
    /// Shows one tool's full signature.
    Inspect,
    /// Calls one tool.
    Invoke,
    /// Runs a program that calls tools; only where it is switched on.
    Exec,
}

impl MetaTool {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Search, Self::Inspect, Self::Invoke, Self::Exec];

    /// The name under which a model calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "tool_search",
            Self::Inspect => "tool_inspect",
            Self::Invoke => "tool_invoke",
            Self::Exec => "tool_exec",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

impl fmt::Display for MetaTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much `tool_search` says about each tool that it finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchDetail {
    /// Name and description.
    #[default]
    Brief,
    /// The schema of its arguments, too, which makes it inspected.
    Schemas,
}

/// What a model asks of `tool_search`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchInput {
    /// Words, or a name; empty for all tools.
    pub query: String,
    /// Only tools of this namespace, by its label.
    pub namespace: Option<String>,
    /// How much is said about each.
    pub detail: SearchDetail,
    /// The most tools in the answer, within what an answer may hold.
    pub limit: usize,
}
