//! Another host's tables of permissions, as policies built on ours: its effects and its plain commands are the
//! embedder's rule, the table is the gate's.

use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{Findings, PermissionMode};
use serde::Deserialize;

use super::super::{Need, need};
use super::{one, tool};

#[derive(Deserialize)]
struct Vectors {
    claude_tool_access: Vec<Access>,
    claude_bash_accept_edits: Vec<Command>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Access {
    descriptor: Descriptor,
    default: String,
    accept_edits: String,
    bypass_permissions: String,
    plan: String,
    auto: String,
    unset: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: String,
    source_approval: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    command: String,
    accept_edits: String,
    default: String,
    plan: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../tests/vectors/modes.json")).expect("the vectors are JSON")
}

fn effect_of(id: &str) -> Effect {
    match id {
        "Read" | "Glob" | "Grep" | "NotebookRead" | "Task" | "TodoWrite" => Effect::Reads,
        "Edit" | "MultiEdit" | "NotebookEdit" | "Write" => Effect::Edits,
        "Bash" => Effect::Executes,
        _ => Effect::Unknown,
    }
}

/// One plain `mkdir`, `touch`, `mv` or `cp` edits; any other command executes.
fn effect_of_command(command: &str) -> Effect {
    let plain = !command.trim().contains([';', '&', '|', '\n', '\r', '`', '$', '(', ')', '{', '}', '<', '>']);
    match command.split_whitespace().next() {
        Some("mkdir" | "touch" | "mv" | "cp") if plain => Effect::Edits,
        Some(_) | None => Effect::Executes,
    }
}

/// What the gate says, in that host's words; nobody has asked a classifier.
fn said(effect: Effect, force_prompt: bool, mode: PermissionMode) -> &'static str {
    match need(&tool(effect, force_prompt), &Findings::default(), one(mode)) {
        Need::Run(_) => "auto",
        Need::Ask(_) => "prompt",
        Need::Deny(_) => "deny",
    }
}

/// That host leaves plan mode to its model's runtime and asks; ours denies what does not read.
fn in_plan(theirs: &str) -> &str {
    if theirs == "prompt" { "deny" } else { theirs }
}

#[test]
fn tools_of_another_host_run_ask_and_are_denied_as_there() {
    use PermissionMode::{AcceptEdits, Auto, Bypass, Default, Plan};
    let rows = vectors().claude_tool_access;
    assert_eq!(rows.len(), 17);
    for row in &rows {
        let Descriptor { id, source_approval } = &row.descriptor;
        let force_prompt = source_approval.as_deref() == Some("prompt");
        let ours = [Default, AcceptEdits, Bypass, Plan, Auto, PermissionMode::default()]
            .map(|mode| said(effect_of(id), force_prompt, mode));
        let theirs = [
            row.default.as_str(),
            &row.accept_edits,
            &row.bypass_permissions,
            in_plan(&row.plan),
            &row.auto,
            &row.unset,
        ];
        assert_eq!(ours, theirs, "{id}, {source_approval:?}");
    }
}

#[test]
fn only_one_plain_command_is_an_edit() {
    let rows = vectors().claude_bash_accept_edits;
    assert_eq!(rows.len(), 27);
    for row in &rows {
        let effect = effect_of_command(&row.command);
        let ours = [PermissionMode::AcceptEdits, PermissionMode::Default, PermissionMode::Plan]
            .map(|mode| said(effect, false, mode));
        assert_eq!(ours, [row.accept_edits.as_str(), &row.default, in_plan(&row.plan)], "{:?}", row.command);
    }
}
