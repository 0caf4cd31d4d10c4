//! Tools: what a server or an embedder offers, and what a model is shown.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::deferral::DeferralReport;
use crate::digest::Digest;
use crate::id::ServerId;
use crate::json::JsonText;
use crate::model::Dialect;

/// What a tool may do to the world; decides whether it needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads only: runs without a person, may be run again.
    Reads,
    /// Changes things that can be changed back.
    Edits,
    /// Runs programs.
    Executes,
    /// Talks to the open world.
    OpenWorld,
    /// Nobody said: asks, and is never run again by itself.
    Unknown,
}

/// Who runs a tool. This is a tool's identity; its wire name is only what a model calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// A function of the embedder, under its registered name.
    Builtin {
        /// The registered name, which is also the wire name.
        name: String,
    },
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: ServerId,
        /// The name that the server gave it.
        tool: String,
    },
}

impl ToolSource {
    /// The server, if it is a server's tool.
    pub fn server(&self) -> Option<&ServerId> {
        match self {
            Self::Builtin { .. } => None,
            Self::Mcp { server, .. } => Some(server),
        }
    }

    /// The name as its owner wrote it.
    pub fn raw_name(&self) -> &str {
        match self {
            Self::Builtin { name } => name,
            Self::Mcp { tool, .. } => tool,
        }
    }
}

/// The 20 hex digits in which a wire name ends: SHA-256(utf8(server id) ‖ 0x00 ‖ utf8(raw tool name)), cut.
pub fn identity_digits(server: &str, tool: &str) -> String {
    Digest::of_bytes(&[server.as_bytes(), b"\0", tool.as_bytes()]).prefix(20)
}

/// One tool as its owner describes it; every field is data from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name that the owner gave it.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it does, for a model.
    pub description: Option<String>,
    /// JSON Schema of its arguments; always an object schema.
    pub input_schema: JsonText,
    /// JSON Schema of its structured result.
    pub output_schema: Option<JsonText>,
    /// Hints of the owner (`readOnlyHint` …), believed only where the embedder trusts them.
    pub annotations: Option<JsonText>,
}

impl ToolDefinition {
    /// Fingerprint over raw name, title, description, both schemas and annotations (not icons, not `_meta`).
    pub fn fingerprint(&self) -> Digest {
        let json = |text: &Option<JsonText>| text.as_ref().map_or(Value::Null, JsonText::value);
        Digest::of_json(
            "pilothouse/tool/1",
            &serde_json::json!({
                "name": self.name,
                "title": self.title,
                "description": self.description,
                "inputSchema": self.input_schema.value(),
                "outputSchema": json(&self.output_schema),
                "annotations": json(&self.annotations),
            }),
        )
    }

    /// The effect that the owner's annotations claim (MCP 2025-11-25, "Tool annotations").
    pub fn annotated_effect(&self) -> Effect {
        let Some(Value::Object(hints)) = self.annotations.as_ref().map(JsonText::value) else {
            return Effect::Unknown;
        };
        let hint = |name: &str| hints.get(name).and_then(Value::as_bool);
        match (hint("readOnlyHint"), hint("destructiveHint"), hint("openWorldHint")) {
            (Some(true), _, _) => Effect::Reads,
            (_, _, Some(true)) => Effect::OpenWorld,
            (Some(false), Some(false), _) => Effect::Edits,
            (_, Some(true), _) => Effect::Executes,
            (_, _, _) => Effect::Unknown,
        }
    }
}

/// A tool as one model request shows it: sorted by name, byte-stable while pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownTool {
    /// The wire name.
    pub name: String,
    /// What it does, bounded.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: JsonText,
}

/// What one topic shows its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SurfaceView {
    /// The tools, sorted by the bytes of their names.
    pub tools: Vec<ShownTool>,
    /// What is found by search instead, by label; sorted by the bytes of the labels.
    pub deferred: Vec<DeferredGroup>,
    /// What a prompt says about the deferred tools; `None` if there are none.
    pub section: Option<String>,
    /// Why tools were deferred or not; `None` where nothing was decided.
    pub deferral: Option<DeferralReport>,
    /// Tools whose schema is shown less exactly than their owner wrote it, sorted by name.
    pub loosened: Vec<LoosenedTool>,
    /// Digest of the serialised tool block, and of the section where there is one.
    pub hash: Digest,
    /// Whose rules the schemas keep: the model's, when it was pinned.
    pub dialect: Dialect,
    /// Under [`Dialect::OpenAiStrict`]: the tools for which strict mode has no words, by wire name. Their schemas keep
    /// to [`Dialect::OpenAi`].
    pub not_strict: BTreeSet<String>,
}

/// Deferred tools under one label, which is text of whoever named their server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeferredGroup {
    /// The label as it was given.
    pub label: String,
    /// How many.
    pub count: usize,
}

/// A tool whose shown schema says less than its owner's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoosenedTool {
    /// The wire name.
    pub name: String,
    /// What was lost.
    pub losses: Vec<Loosened>,
}

/// One thing that a shown schema says less exactly than the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loosened {
    /// Where: a JSON Pointer into the server's schema, with references followed; cut at 256 bytes.
    pub at: String,
    /// What was lost.
    pub what: String,
}

impl SurfaceView {
    /// A surface of these tools, in the order given, with nothing deferred.
    pub fn new(tools: Vec<ShownTool>) -> Self {
        Self::with_section(tools, None)
    }

    /// A surface of these tools, in the order given, with this section about what is found by search.
    pub fn with_section(tools: Vec<ShownTool>, section: Option<String>) -> Self {
        let mut block = serde_json::to_value(&tools).unwrap_or(Value::Null);
        if let Some(section) = &section {
            block = serde_json::json!([block, section]);
        }
        let hash = Digest::of_json("pilothouse/surface/1", &block);
        Self {
            tools,
            deferred: Vec::new(),
            section,
            deferral: None,
            loosened: Vec::new(),
            hash,
            dialect: Dialect::default(),
            not_strict: BTreeSet::new(),
        }
    }

    /// Whether a request marks the tool `"strict": true`.
    pub fn is_strict(&self, name: &str) -> bool {
        self.dialect == Dialect::OpenAiStrict && self.shows(name) && !self.not_strict.contains(name)
    }

    /// Whether a tool of this name is shown.
    pub fn shows(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }
}

/// What a list lets through, as an embedder writes it; the rules' `registry::policy` says what each text matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolLists {
    /// What is let through; `None` for all.
    pub allow: Option<Vec<String>>,
    /// What is not, even if it is allowed.
    pub deny: Vec<String>,
}

impl ToolLists {
    /// Whether they let everything through.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Every rule, the allow list first.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().flatten().chain(&self.deny).map(String::as_str)
    }
}
