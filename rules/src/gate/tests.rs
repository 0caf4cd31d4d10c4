use pilothouse_messages::digest::Digest;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{PermissionMode, ResolvedTool, RunBasis};

use super::{Need, need};

fn tool(effect: Effect, force_prompt: bool) -> ResolvedTool {
    ResolvedTool {
        name: "look".into(),
        source: ToolSource::Builtin { name: "look".into() },
        label: "look".into(),
        title: None,
        effect,
        force_prompt,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

#[test]
fn reads_run_and_everything_else_asks_and_a_tool_that_always_asks_asks_even_if_it_reads() {
    let ask = |words: &str| Need::Ask(words.into());
    for (effect, force_prompt, expected) in [
        (Effect::Reads, false, Need::Run(RunBasis::Mode)),
        (Effect::Edits, false, ask("this tool changes things")),
        (Effect::Executes, false, ask("this tool runs programs")),
        (Effect::OpenWorld, false, ask("this tool talks to the outside world")),
        (Effect::Unknown, false, ask("nobody has said what this tool may do")),
        (Effect::Reads, true, ask("this tool always asks before it runs")),
        (Effect::Unknown, true, ask("this tool always asks before it runs")),
    ] {
        let found = need(&tool(effect, force_prompt), PermissionMode::Default);
        assert_eq!(found, expected, "{effect:?}, always asks: {force_prompt}");
    }
}
