//! `tool_exec`: programs that models write, whose calls pass the gate like any other.
//!
//! These run on the real clock: a script has a thread of its own, of which no paused clock knows.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::audit::{AuditFact, ScriptCallFact};
use pilothouse::error::StartError;
use pilothouse::exec::ExecOptions;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::tool::Invocation;
use pilothouse::topic::{CallState, ConfigPatch, PermissionMode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::stage::{Setup, Stage, call_function, memory, peer, plays, said};
use crate::stores::Slow;

fn script(script: &str) -> Step {
    call_function("tool_exec", json!({"script": script}))
}

fn scripted(text: &str) -> Setup {
    plays([script(text), Step::text("Done.")]).build(|builder| builder.exec(ExecOptions::new()))
}

fn function(name: &str, schema: Value, effect: Effect) -> Function {
    let text = name.to_owned();
    Function::new(name, "Says its name.", &schema, move |_: Invocation| {
        let text = text.clone();
        async move { Ok(text) }
    })
    .effect(effect)
}

/// Says its name and counts how often it did.
fn counted(name: &str, effect: Effect) -> (Function, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let (count, text) = (runs.clone(), name.to_owned());
    let function = Function::new(name, "Says its name.", &json!({"type": "object"}), move |_: Invocation| {
        count.fetch_add(1, Ordering::SeqCst);
        let text = text.clone();
        async move { Ok(text) }
    });
    (function.effect(effect), runs)
}

/// What the first call of the topic came to, once its turn has ended.
async fn result(setup: Setup) -> String {
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    said(&stage.results()[0])
}

fn shown(stage: &Stage) -> Vec<String> {
    let surface = stage.topic.surface().expect("a turn has pinned it");
    surface.tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn a_script_combines_the_tools_of_a_server_and_of_the_embedder() {
    let lookout = peer(json!({"tools": [{"name": "look", "reply": "fog"}]}));
    let setup = plays([Step::text("Hm.")]).peer("lookout", &lookout);
    let mut stage = setup.raise().await;
    stage.say("What is there?").await;
    stage.until_end().await;
    let look = shown(&stage).into_iter().find(|name| name.starts_with("mcp__")).expect("it is shown");
    drop(stage);

    let combined = format!(
        "const [seen, harbour] = await Promise.all([tools.call('{look}'), tools.call('harbour')]);\n\
         return `${{seen}} at ${{harbour}}`"
    );
    let setup = scripted(&combined).peer("lookout", &lookout).function(function(
        "harbour",
        json!({"type": "object"}),
        Effect::Reads,
    ));
    let told = result(setup).await;
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("succeeded: \"fog at harbour\""), "{told}");
    assert_eq!(lines.count(), 3, "both calls stand in the trace: {told}");
}

#[tokio::test]
async fn what_a_script_may_not_call_is_refused_with_words_and_never_becomes_a_card() {
    // The mode, what the script calls, and what it is told.
    let rows = [
        (
            PermissionMode::Default,
            "tools.call('write')",
            "rejected: \"write\" needs a person's approval (this tool changes things), and a script cannot wait for one: call it outside the script",
        ),
        (
            PermissionMode::Plan,
            "tools.call('write')",
            "denied: this tool changes things, and the mode \"plan\" only reads",
        ),
        (
            PermissionMode::Bypass,
            "tools.call('launch')",
            "rejected: \"launch\" needs a person's approval (this tool always asks before it runs), and a script cannot wait for one: call it outside the script",
        ),
        (PermissionMode::Bypass, "tools.call('forbidden')", "denied: not here"),
        (
            PermissionMode::Bypass,
            "tools.call('sum', {n: 'four'})",
            "rejected: \"sum\" was not called: the arguments do not match its schema:\n- n: expected an integer, found the string \"four\"",
        ),
        (
            PermissionMode::Bypass,
            "tools.call('tool_exec', {script: 'return 1'})",
            "rejected: a script calls tools by their own names, and not \"tool_exec\"",
        ),
        (
            PermissionMode::Bypass,
            "tools.call('elsewhere')",
            "rejected: no tool named \"elsewhere\" is available here",
        ),
    ];
    for (mode, call, expected) in rows {
        let (write, writes) = counted("write", Effect::Edits);
        let (launch, launches) = counted("launch", Effect::Reads);
        let (forbidden, forbidden_runs) = counted("forbidden", Effect::Reads);
        let caught =
            format!("try {{ return await {call} }} catch (e) {{ return e.outcome + ': ' + e.message }}");
        let sum = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let setup = scripted(&caught)
            .function(write)
            .function(launch.force_prompt())
            .function(forbidden)
            .function(function("elsewhere", json!({"type": "object"}), Effect::Reads).applies(|_| false))
            .function(function("sum", sum, Effect::Reads))
            .build(|builder| {
                builder.deny(|subject: &pilothouse::approval::Subject| {
                    (subject.tool.name == "forbidden").then(|| "not here".to_owned())
                })
            })
            .config(|config| config.mode = mode);
        let told = result(setup).await;
        let value = told.lines().next().and_then(|line| line.strip_prefix("succeeded: ")).unwrap_or(&told);
        let value: String = serde_json::from_str(value).unwrap_or_else(|_| told.clone());
        assert!(value.starts_with(expected), "{call}: {value}");
        let runs = [writes, launches, forbidden_runs].map(|runs| runs.load(Ordering::SeqCst));
        assert_eq!(runs, [0, 0, 0], "{call}");
    }
}

#[tokio::test]
async fn a_script_runs_in_every_mode_and_its_calls_as_the_mode_says() {
    for (mode, expected) in [
        (PermissionMode::Plan, "succeeded: \"read\""),
        (PermissionMode::Default, "succeeded: \"read\""),
        (PermissionMode::Bypass, "succeeded: \"read\""),
    ] {
        let (read, runs) = counted("read", Effect::Reads);
        let setup =
            scripted("return await tools.call('read')").function(read).config(|config| config.mode = mode);
        let told = result(setup).await;
        assert_eq!(told.lines().next(), Some(expected), "{mode:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_mode_that_becomes_stricter_counts_for_the_rest_of_a_script() {
    let patch = ConfigPatch { mode: Some(PermissionMode::Plan), ..ConfigPatch::default() };
    stricter(patch, "failed: the script threw error: this tool changes things").await;
}

#[tokio::test]
async fn a_list_that_becomes_stricter_counts_for_the_rest_of_a_script() {
    let lists = pilothouse::tool::ToolLists { allow: None, deny: vec!["write".to_owned()] };
    let patch = ConfigPatch { tools: Some(lists), ..ConfigPatch::default() };
    stricter(patch, "failed: the script threw error: the topic's deny list has this tool").await;
}

/// A script writes, waits until the topic has become stricter, and would write again.
async fn stricter(patch: ConfigPatch, expected: &str) {
    let (write, writes) = counted("write", Effect::Edits);
    let gate = Arc::new(tokio::sync::Notify::new());
    let opened = gate.clone();
    let wait = Function::new("wait", "Waits.", &json!({"type": "object"}), move |_: Invocation| {
        let opened = opened.clone();
        async move {
            opened.notified().await;
            Ok("on".to_owned())
        }
    });
    let setup = scripted("await tools.call('write'); await tools.call('wait'); await tools.call('write')")
        .function(write)
        .function(wait.effect(Effect::Reads))
        .config(|config| config.mode = PermissionMode::Bypass);
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    stage.until_running().await;
    while writes.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.topic.configure(patch).await.expect("it is configured");
    gate.notify_one();
    stage.until_end().await;
    let told = said(&stage.results()[0]);
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(writes.load(Ordering::SeqCst), 1);
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_stop_ends_a_script_with_the_calls_that_it_has_made() {
    // What the script does, and how many calls end with it.
    for (endless, ends) in [("await tools.call('hang')", 1), ("while (true) {}", 0)] {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (starts, drops) = (begun.clone(), ended.clone());
        let hang = Function::new("hang", "Hangs.", &json!({"type": "object"}), move |_: Invocation| {
            let dropped = Dropped(drops.clone());
            starts.fetch_add(1, Ordering::SeqCst);
            async move {
                let _dropped = dropped;
                pending().await
            }
        });
        let mut stage = scripted(endless).function(hang.effect(Effect::Reads)).raise().await;
        stage.say("Go.").await;
        stage.until_running().await;
        while begun.load(Ordering::SeqCst) < ends {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = Instant::now();
        stage.topic.stop("ana").await.expect("it stops");
        let end = timeout(Duration::from_secs(10), stage.until_end()).await;
        assert_eq!(end, Ok(StopReason::Aborted), "{endless}");
        while ended.load(Ordering::SeqCst) < ends {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(asked.elapsed() < Duration::from_secs(10), "{endless}");
    }
}

/// What the first call's script has called, in words.
fn nested(stage: &Stage) -> Vec<String> {
    let view = stage.view();
    let call = &view.turns[0].steps[0].calls[0];
    let shown = call.nested.iter().map(|nested| {
        let state = match &nested.state {
            CallState::Awaiting { .. } => "awaits".to_owned(),
            CallState::Running => "runs".to_owned(),
            CallState::Finished(result) => said(result),
        };
        format!("{} {} {} {state}", nested.number, nested.tool, nested.arguments)
    });
    shown.collect()
}

#[tokio::test]
async fn the_calls_of_a_script_are_recorded_below_it_whatever_became_of_them() {
    let text = "await tools.call('read', {n: 1}); \
                try { await tools.call('write') } catch (e) {} \
                try { await tools.call('nothing') } catch (e) {} \
                return 'ok'";
    let (read, _) = counted("read", Effect::Reads);
    let (write, writes) = counted("write", Effect::Edits);
    let mut stage = scripted(text).function(read).function(write).raise().await;
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    let (asks, lacks) = (
        "rejected: \"write\" needs a person's approval (this tool changes things), and a script cannot wait for one: call it outside the script",
        "rejected: no tool named \"nothing\" is available here; the nearest are \"write\", \"read\", \"tool_exec\": call one by exactly its name",
    );
    let expected = [
        r#"1 read {"n":1} succeeded: read"#.to_owned(),
        format!("2 write {{}} {asks}"),
        format!("3 nothing {{}} {lacks}"),
    ];
    assert_eq!(nested(&stage), expected);
    let told: Vec<_> = shown.iter().filter(|line| line.starts_with("call 1.1.0/")).cloned().collect();
    let ends = [
        "call 1.1.0/1 on read".to_owned(),
        "call 1.1.0/1 succeeded: read".to_owned(),
        format!("call 1.1.0/2 {asks}"),
        format!("call 1.1.0/3 {lacks}"),
    ];
    assert_eq!(told, ends);
    assert_eq!(writes.load(Ordering::SeqCst), 0);
}

/// Says nothing before it is told to; counts how often it began.
fn held(name: &str) -> (Function, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let starts = begun.clone();
    let function = Function::new(name, "Hangs.", &json!({"type": "object"}), move |_: Invocation| {
        starts.fetch_add(1, Ordering::SeqCst);
        pending()
    });
    (function.effect(Effect::Edits), begun)
}

async fn begins(begun: &AtomicUsize) {
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const TWO_WRITES: &str =
    "await tools.call('write'); await tools.call('hang'); return await tools.call('write')";

#[tokio::test]
async fn a_crash_in_a_script_leaves_each_call_with_what_is_known_of_it_and_runs_none_again() {
    let store = memory();
    let (write, writes) = counted("write", Effect::Edits);
    let (hang, begun) = held("hang");
    let bypass = |setup: Setup| setup.config(|config| config.mode = PermissionMode::Bypass);
    let slow = Slow::over(store.clone(), Duration::from_millis(20));
    let stage = bypass(scripted(TWO_WRITES)).function(write).function(hang).store(slow).raise().await;
    stage.say("Go.").await;
    timeout(Duration::from_secs(10), begins(&begun)).await.expect("it runs");
    // What has begun to run is on the disk.
    let after = store.crash();
    drop(stage);
    let (write, again) = counted("write", Effect::Edits);
    let (hang, begun) = held("hang");
    let stage = bypass(scripted(TWO_WRITES)).function(write).function(hang).store(after).raise().await;
    assert_eq!(
        nested(&stage),
        [
            "1 write {} succeeded: write",
            "2 hang {} unknown: its script was cut off: nobody knows whether it ran"
        ]
    );
    let unknown =
        "unknown: the process was restarted after this call was sent: nobody knows whether it ran".to_owned();
    assert_eq!(stage.results().iter().map(said).collect::<Vec<_>>(), [unknown]);
    let runs = [writes, again, begun].map(|runs| runs.load(Ordering::SeqCst));
    assert_eq!(runs, [1, 0, 0]);
}

#[tokio::test]
async fn a_stop_ends_the_calls_of_a_script_in_the_records_too() {
    let (hang, begun) = held("hang");
    let mut stage = scripted("return await tools.call('hang')")
        .function(hang)
        .config(|config| config.mode = PermissionMode::Bypass)
        .raise()
        .await;
    stage.say("Go.").await;
    timeout(Duration::from_secs(10), begins(&begun)).await.expect("it runs");
    stage.topic.stop("ana").await.expect("it stops");
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    let ended = "1 hang {} cancelled: its script ended while it ran: it may have had its effect";
    assert_eq!(nested(&stage), [ended]);
}

#[tokio::test]
async fn scripts_share_the_places_of_their_topic_and_never_wait_for_each_other() {
    // One place for calls, and two scripts in one reply: both end, since a script itself takes no place.
    let text = "return (await Promise.all([tools.call('read'), tools.call('read')])).join()";
    let one = || script(text).calls;
    let both = Step { calls: [one(), one()].concat(), ..Step::default() };
    let most = Arc::new(AtomicUsize::new(0));
    let (running, seen) = (Arc::new(AtomicUsize::new(0)), most.clone());
    let read = Function::new("read", "Reads.", &json!({"type": "object"}), move |_: Invocation| {
        let (running, seen) = (running.clone(), seen.clone());
        async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok("r".to_owned())
        }
    });
    let mut stage = plays([both, Step::text("Done.")])
        .build(|builder| builder.exec(ExecOptions::new()))
        .limits(|limits| limits.calls_per_topic = 1)
        .function(read.effect(Effect::Reads))
        .raise()
        .await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    for result in stage.results() {
        assert!(said(&result).starts_with("succeeded: \"r,r\""), "{result:?}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_script_finds_and_inspects_a_tool_that_its_model_is_not_shown_and_calls_it() {
    let library: Vec<_> = (0..9)
        .map(|n| json!({"name": format!("shelf{n}"), "description": "Smells of tar. ".repeat(40), "reply": "a book"}))
        .collect();
    let library = peer(json!({"tools": library}));
    let effect = Server::in_memory("library", library).effect("shelf3", Effect::Reads);
    let text = "const found = await tools.search('shelf3', {limit: 1}); \
                const name = found.match(/mcp__\\w+/)[0]; \
                let first; try { await tools.call(name) } catch (e) { first = e.message } \
                const signature = await tools.inspect(name); \
                return [first.includes('had not been inspected'), signature.includes('@throws') || signature.length > 0, await tools.call(name)]";
    let mut stage =
        scripted(text).server(effect).config(|config| config.context_window = Some(8_000)).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let told = said(&stage.results()[0]);
    assert_eq!(told.lines().next(), Some("succeeded: [true,true,\"a book\"]"), "{told}");
    let names: Vec<_> =
        nested(&stage).iter().map(|line| line.split(' ').nth(1).unwrap_or("").to_owned()).collect();
    assert_eq!((names[0].as_str(), names[2].as_str(), names.len()), ("tool_search", "tool_inspect", 4));
}

#[tokio::test]
async fn a_script_outside_a_turn_is_refused() {
    let stage = scripted("return 1").raise().await;
    let result = stage.topic.call("tool_exec", &json!({"script": "return 1"})).await.expect("it is answered");
    assert_eq!(said(&result), "rejected: scripts run inside a turn only");
}

type Switch = fn(pilothouse::Builder) -> pilothouse::Builder;

#[tokio::test]
async fn tool_exec_is_there_only_where_it_is_switched_on() {
    let on = |builder: pilothouse::Builder| builder.exec(ExecOptions::new());
    let elsewhere = |builder: pilothouse::Builder| {
        builder.exec(ExecOptions::new().applies(|scope| scope.tenant().as_str() == "other"))
    };
    let panics = |builder: pilothouse::Builder| builder.exec(ExecOptions::new().applies(|_| panic!("oh")));
    let off = |builder: pilothouse::Builder| builder;
    let rows: [(&str, Switch, &[&str]); 4] = [
        ("on", on, &["tool_exec"]),
        ("elsewhere", elsewhere, &[]),
        ("panics", panics, &[]),
        ("off", off, &[]),
    ];
    for (row, switch, expected) in rows {
        let mut stage = plays([Step::text("Hm.")]).build(switch).raise().await;
        stage.say("Go.").await;
        stage.until_end().await;
        assert_eq!(shown(&stage), expected, "{row}");
    }
    let (own, _) = counted("tool_exec", Effect::Reads);
    let refused = Runtime::builder().function(own).exec(ExecOptions::new()).start().await.map(drop);
    assert!(matches!(refused, Err(StartError::Function(_))), "the name is no function's: {refused:?}");
}

#[tokio::test]
async fn the_audit_says_why_each_call_of_a_script_ran() {
    let text =
        "const seen = await tools.call('read'); try { await tools.call('drop') } catch (e) {} return seen";
    let object = || json!({"type": "object"});
    let setup = scripted(text).function(function("read", object(), Effect::Reads));
    let mut stage = setup.function(function("drop", object(), Effect::Edits)).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let report = stage.runtime.audit().await.expect("the store can be read");
    let calls: Vec<_> = report
        .rows
        .iter()
        .filter_map(|row| match &row.fact {
            AuditFact::ScriptCall { call, number, what } => Some((call.to_string(), *number, what)),
            _ => None,
        })
        .map(|(call, number, what)| match what {
            ScriptCallFact::Allowed { tool, basis, .. } => format!("{call} {number} {} {basis:?}", tool.name),
            ScriptCallFact::Answered { name, outcome } => format!("{call} {number} {name} {outcome:?}"),
            ScriptCallFact::Finished { outcome } => format!("{call} {number} {outcome:?}"),
        })
        .collect();
    let expected = ["1.1.0 1 read Mode { mode: Default }", "1.1.0 1 Succeeded", "1.1.0 2 drop Rejected"];
    assert_eq!((calls, &report.faults[..]), (expected.map(str::to_owned).into(), &[][..]));
}
