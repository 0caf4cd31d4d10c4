//! The meta tools as a model is shown them. Their bytes are part of every pinned block, so they change only on purpose.

use pilothouse_messages::digest::canonical;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::meta::MetaTool;
use pilothouse_messages::tool::{ShownTool, ToolDefinition};
use serde_json::{Value, json};

use super::search::{LIMIT_DEFAULT, LIMIT_MAX};

/// The three meta tools, sorted by name.
pub fn definitions() -> [ShownTool; 3] {
    [
        shown(
            MetaTool::Inspect,
            "Shows the full signature of one tool: every parameter with its type, and which are required.",
            json!({
                "type": "object",
                "properties": {"name": {"type": "string", "description": "The tool's name, as tool_search gives it."}},
                "required": ["name"],
            }),
        ),
        shown(
            MetaTool::Invoke,
            "Calls a tool that is not listed here. Inspect it first with tool_inspect, or with tool_search and verbose.",
            // `params` stays open: it is another tool's arguments.
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The tool's name, as tool_search gives it."},
                    "params": {
                        "type": "object",
                        "description": "The tool's own arguments, as its signature shows them.",
                        "additionalProperties": true,
                    },
                },
                "required": ["name"],
            }),
        ),
        shown(
            MetaTool::Search,
            "Finds tools that are not listed here. Without a query it lists them.",
            json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "A tool's name, or words for what it should do."},
                    "namespace": {"type": "string", "description": "Only tools of this namespace."},
                    "verbose": {"type": "boolean", "description": "Shows the schemas of the arguments, too."},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": LIMIT_MAX,
                        "description": format!("The most tools to be listed; {LIMIT_DEFAULT} if not given."),
                    },
                },
            }),
        ),
    ]
}

/// `tool_exec`, where it is switched on: an entry of the registry like any function.
pub fn exec_definition() -> ToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "script": {
                "type": "string",
                "description": "The body of an async JavaScript function. End it with `return value`.",
            },
        },
        "required": ["script"],
        "additionalProperties": false,
    });
    let ShownTool { name, description, input_schema } = shown(
        MetaTool::Exec,
        "Runs a short JavaScript program that calls several tools and combines what they say. In it, \
         `await tools.call(name, args)` calls a tool by its full name and gives its data, else its text; it throws if the \
         tool fails, or needs a person's approval. `await tools.search(query)` and `await tools.inspect(name)` give the text of \
         tool_search and tool_inspect. `console.log` lines are shown to you. There is nothing else: no network, \
         no files, no timers, no imports.",
        schema,
    );
    ToolDefinition {
        name,
        title: None,
        description: Some(description),
        input_schema,
        output_schema: None,
        annotations: None,
    }
}

fn shown(tool: MetaTool, description: &str, schema: Value) -> ShownTool {
    ShownTool {
        name: tool.name().to_owned(),
        description: description.to_owned(),
        // The same bytes, whatever order the host's `serde_json` keeps its maps in.
        input_schema: JsonText::parse(canonical(&schema)).unwrap_or_else(|_never| JsonText::from(&schema)),
    }
}
