use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::GrantId;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{Classified, Findings, Headless, PermissionMode, ResolvedTool, RunBasis};

use super::{Modes, Need, is_within, need, need_in};
use Effect::{Edits, Executes, OpenWorld, Reads, Unknown};
use PermissionMode::{AcceptEdits, Auto, Bypass, Default as Asking, Plan};

mod vectors;

const GRANT: GrantId = GrantId(Digest([9; 32]));

fn tool(effect: Effect, force_prompt: bool) -> ResolvedTool {
    ResolvedTool {
        name: "look".into(),
        source: ToolSource::Builtin { name: "look".into() },
        label: "look".into(),
        title: None,
        effect,
        force_prompt,
        interruptible: false,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

/// One word for each answer.
fn word(need: &Need) -> &'static str {
    match need {
        Need::Run(RunBasis::Mode) => "run",
        Need::Run(RunBasis::Grant { .. }) => "grant",
        Need::Run(RunBasis::Classified) => "classified",
        Need::Run(RunBasis::Approved { .. }) => "approved",
        Need::Ask(_) => "ask",
        Need::Deny(_) => "deny",
    }
}

fn one(mode: PermissionMode) -> Modes {
    Modes::of(mode, Bypass)
}

#[test]
fn effect_and_mode_decide_where_no_other_layer_speaks() {
    let rows = [
        (Reads, ["run", "run", "run", "run", "run"]),
        (Edits, ["ask", "run", "deny", "classified", "run"]),
        (Executes, ["ask", "ask", "deny", "classified", "run"]),
        (OpenWorld, ["ask", "ask", "deny", "classified", "run"]),
        (Unknown, ["ask", "ask", "deny", "classified", "run"]),
    ];
    let findings = Findings { classified: Some(Classified::Run), ..Findings::default() };
    for (effect, expected) in rows {
        let found = [Asking, AcceptEdits, Plan, Auto, Bypass]
            .map(|mode| word(&need(&tool(effect, false), &findings, one(mode))));
        assert_eq!(found, expected, "{effect:?}");
    }
}

#[test]
fn a_script_runs_in_every_mode_unless_a_layer_speaks_against_it() {
    let exec = |name: &str| ResolvedTool {
        name: name.into(),
        source: ToolSource::Builtin { name: name.into() },
        ..tool(Executes, false)
    };
    let denied = Findings { denied: Some("no".into()), ..Findings::default() };
    let asked = Findings { asked: Some("look".into()), ..Findings::default() };
    let rows = [
        ("tool_exec", Findings::default(), ["run", "run", "run", "run", "run"]),
        ("tool_exec", denied, ["deny", "deny", "deny", "deny", "deny"]),
        ("tool_exec", asked, ["ask", "ask", "ask", "ask", "ask"]),
        ("tool_execute", Findings::default(), ["ask", "ask", "deny", "ask", "run"]),
    ];
    for (name, findings, expected) in rows {
        let found = [Asking, AcceptEdits, Plan, Auto, Bypass]
            .map(|mode| word(&need(&exec(name), &findings, one(mode))));
        assert_eq!(found, expected, "{name} {findings:?}");
    }
}

#[test]
fn deny_goes_before_ask_before_grant_before_mode_and_what_is_unheard_asks() {
    let denied = || Findings { denied: Some("no".into()), ..asked() };
    fn asked() -> Findings {
        Findings { asked: Some("hm".into()), ..granted() }
    }
    fn granted() -> Findings {
        Findings {
            grant: Some(GRANT),
            classified: Some(Classified::Deny("never".into())),
            ..Findings::default()
        }
    }
    let said = |classified| Findings { classified, ..Findings::default() };
    let rows = [
        (denied(), Reads, false, Bypass, "deny"),
        (denied(), Unknown, true, Asking, "deny"),
        (asked(), Reads, false, Bypass, "ask"),
        (granted(), Unknown, true, Bypass, "ask"),
        (granted(), Unknown, false, Asking, "grant"),
        (granted(), Unknown, false, Auto, "grant"),
        (granted(), Edits, false, Plan, "deny"),
        (said(Some(Classified::Deny("no".into()))), Edits, false, Auto, "deny"),
        (said(Some(Classified::Ask("hm".into()))), Edits, false, Auto, "ask"),
        (said(None), Edits, false, Auto, "ask"),
        (said(None), Reads, true, Bypass, "ask"),
    ];
    for (findings, effect, force_prompt, mode, expected) in rows {
        let found = need(&tool(effect, force_prompt), &findings, one(mode));
        assert_eq!(word(&found), expected, "{findings:?}, {effect:?}, {mode:?}");
    }
}

#[test]
fn of_several_modes_the_strictest_word_counts_and_nobody_to_ask_is_a_denial() {
    let modes = |turn, newest, max| Modes { turn, newest, max };
    let rows = [
        (modes(Bypass, Plan, Bypass), Edits, Headless::Park, "deny"),
        (modes(Plan, Bypass, Bypass), Edits, Headless::Park, "deny"),
        (modes(Bypass, Bypass, Asking), Edits, Headless::Park, "ask"),
        (modes(AcceptEdits, Auto, Bypass), Edits, Headless::Park, "ask"),
        (modes(Bypass, Bypass, Asking), Edits, Headless::Deny, "deny"),
        (modes(Asking, Asking, Asking), Reads, Headless::Deny, "run"),
    ];
    for (modes, effect, headless, expected) in rows {
        let found = need_in(&tool(effect, false), &Findings::default(), modes, headless);
        assert_eq!(word(&found), expected, "{modes:?}, {effect:?}");
    }
    let all = [Plan, Asking, AcceptEdits, Auto, Bypass];
    let within = all.map(|max| all.map(|mode| u8::from(is_within(mode, max))));
    assert_eq!(within, [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]]);
}
