//! `tool_exec`: programs that models write, whose calls pass the gate like any other.
//!
//! These run on the real clock: a script has a thread of its own, of which no paused clock knows.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::error::StartError;
use pilothouse::exec::ExecOptions;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::tool::Invocation;
use pilothouse::topic::{ConfigPatch, PermissionMode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::stage::{Setup, Stage, call_function, peer, plays, said};

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
