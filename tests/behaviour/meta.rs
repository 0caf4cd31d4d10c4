//! Tools that a model is not shown: how it finds, inspects and calls them, and what becomes of slips in arguments.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse::ServerHandle;
use pilothouse::approval::{Decision, GuardVerdict, Subject};
use pilothouse::call::CallOutcome;
use pilothouse::model::HistoryItem;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::tool::{BrokenCall, identity_digits};
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};

use crate::fake::{Fake, Mood, tool};
use crate::stage::{Setup, Stage, assert_acceptable, call, call_function, holds, peer, plays, said, thinks};

/// Tools that cost so much that they are deferred: `chart` is the one that tests call.
fn library() -> Arc<Peer> {
    let schema = json!({
        "type": "object",
        "properties": {"port": {"type": "string"}},
        "required": ["port"],
        "additionalProperties": false,
    });
    let mut tools: Vec<_> =
        (0..6).map(|n| json!({"name": format!("shelf{n}"), "description": long("shelf")})).collect();
    tools.push(
        json!({"name": "chart", "description": long("chart of a port"), "schema": schema, "echo": true}),
    );
    peer(json!({"tools": tools}))
}

fn long(about: &str) -> String {
    format!("Gives the {about}. {}", "It is bound in leather and smells of tar. ".repeat(20))
}

/// The wire name.
fn wire(server: &ServerHandle, tool: &str) -> String {
    server.tool_name(tool).expect("it is listed")
}

/// With a context window in which the library does not pay for its place.
fn over(setup: Setup) -> Setup {
    setup.config(|config| config.context_window = Some(8_000))
}

/// A stage over the library, whose model first learns the wire name of `chart`.
async fn stage(
    effect: Effect,
    steps: impl Fn(&str) -> Vec<Step>,
    change: impl FnOnce(Setup) -> Setup,
) -> Stage {
    let digits = identity_digits("library", "chart");
    let name = format!("mcp__library__chart_{digits}");
    let server = Server::in_memory("library", library()).effect("chart", effect);
    let stage = change(over(plays(steps(&name)).server(server))).raise().await;
    assert_eq!(wire(&stage.server("library"), "chart"), name);
    let shown = stage.topic.surface().expect("it is open");
    assert!(shown.tools.iter().all(|tool| tool.name.starts_with("tool_")), "everything is deferred");
    stage
}

fn invoke(name: &str, params: Value) -> Step {
    call_function("tool_invoke", json!({"name": name, "params": params}))
}

#[tokio::test(start_paused = true)]
async fn a_model_searches_inspects_and_invokes_a_tool_that_it_is_not_shown() {
    let steps = |chart: &str| {
        vec![
            call_function("tool_search", json!({"query": "chart of a port", "limit": 1})),
            call_function("tool_inspect", json!({"name": chart})),
            invoke(chart, json!({"port": "Brest"})),
            Step::text("Brest it is."),
        ]
    };
    let mut stage = stage(Effect::Reads, steps, |setup| setup).await;
    stage.say("Where?").await;
    let shown = stage.until_rest().await;
    assert!(shown.contains(&"call 1.3.0 on library".to_owned()), "the real tool is what is shown: {shown:?}");
    assert!(!shown.iter().any(|line| line.starts_with("call 1.1.0 on") || line.starts_with("call 1.2.0 on")));
    let told: Vec<_> = stage.results().iter().map(said).collect();
    let chart = wire(&stage.server("library"), "chart").to_lowercase();
    assert!(
        told[0].starts_with(&format!("succeeded: library\n  - {chart} — gives the chart of a port.")),
        "{}",
        told[0]
    );
    assert!(told[1].contains("@param {string} params.port - (required)"), "{}", told[1]);
    assert_eq!(told[2], r#"succeeded: {"port":"brest"}"#);
    let view = stage.view();
    let calls: Vec<_> =
        view.turns[0].steps.iter().flat_map(|step| &step.calls).map(|call| call.tool.as_str()).collect();
    assert_eq!(calls, ["tool_search", "tool_inspect", wire(&stage.server("library"), "chart").as_str()]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_not_inspected_is_refused_once_with_its_signature() {
    let steps = |chart: &str| {
        vec![
            invoke(chart, json!({"port": "Brest"})),
            invoke(chart, json!({"port": "Brest"})),
            invoke(chart, json!({"harbour": "Brest"})),
            Step::text("Done."),
        ]
    };
    let mut stage = stage(Effect::Reads, steps, |setup| setup).await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let told: Vec<_> = stage.results().iter().map(said).collect();
    assert!(told[0].starts_with("rejected: ") && told[0].contains("had not been inspected"), "{}", told[0]);
    assert!(told[0].contains("@param {string} params.port"), "{}", told[0]);
    assert_eq!(told[1], r#"succeeded: {"port":"brest"}"#);
    assert!(
        told[2].contains("\"port\" is required and missing") && told[2].contains("signature"),
        "{}",
        told[2]
    );
}

/// The card, the guard and the history each see the call as it is.
#[tokio::test(start_paused = true)]
async fn an_invoked_tool_asks_on_a_card_of_its_own_and_the_history_keeps_the_models_name() {
    let digits = identity_digits("library", "chart");
    let name = format!("mcp__library__chart_{digits}");
    let model = Arc::new(ScriptedModel::new(vec![
        call_function("tool_search", json!({"query": "chart", "verbose": true})),
        invoke(&name, json!(r#"{"port": "Brest"}"#)),
        Step::text("Done."),
    ]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let judged = seen.clone();
    let mut stage = over(thinks(model.clone()).peer("library", &library()))
        .guard(move |subject: &Subject| {
            judged.lock().expect("whole").push(format!(
                "{} {}",
                subject.tool.source.raw_name(),
                subject.arguments
            ));
            GuardVerdict::Pass
        })
        .raise()
        .await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    assert_eq!((card.tool.as_str(), card.source.raw_name()), (name.as_str(), "chart"));
    assert_eq!(card.arguments.value(), json!({"port": "Brest"}), "mended before it is shown");
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let sent = r#"chart {"port":"Brest"}"#;
    assert_eq!(
        seen.lock().expect("whole").as_slice(),
        [sent, sent],
        "when it is asked for, and when it is sent"
    );
    let history = model.requests().last().expect("it was asked").history.clone();
    assert_acceptable(&history);
    let invoked = history.iter().find_map(|item| match item {
        HistoryItem::Assistant { calls, .. } => calls.iter().find(|call| call.name == "tool_invoke"),
        _ => None,
    });
    let written = json!({"name": name, "params": {"port": "Brest"}});
    assert_eq!(invoked.map(|call| call.arguments.value()), Some(written));
}

#[tokio::test(start_paused = true)]
async fn slips_in_arguments_are_mended_and_wrong_ones_are_refused_with_the_signature() {
    let peer = peer(json!({"tools": [{"name": "look", "echo": true, "schema": {
        "type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"],
    }}]}));
    let steps = [
        call("a", "look", json!(r#"{"at": 1}"#)),
        call("a", "look", json!({"at": "here"})),
        call("a", "look", json!({"arguments": {"at": 2}})),
        Step::text("Seen."),
    ];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let told: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!((told[0].as_str(), told[2].as_str()), (r#"succeeded: {"at":1}"#, r#"succeeded: {"at":2}"#));
    assert!(told[1].contains("at: expected an integer, found the string \"here\""), "{}", told[1]);
    assert!(told[1].contains("@param {integer} params.at"), "{}", told[1]);
    let outside = stage.topic.call(&wire(&stage.server("a"), "look"), &json!({})).await.expect("it is open");
    assert!(outside.outcome == CallOutcome::Rejected && outside.text().contains("signature"), "{outside:?}");
    let by_raw_name = stage.server("a").call("look", &json!({"at": "here"})).await;
    assert!(by_raw_name.outcome == CallOutcome::Rejected && by_raw_name.text().contains("signature"));
}

#[tokio::test(start_paused = true)]
async fn meta_tools_do_the_same_outside_a_turn() {
    let stage = stage(Effect::Reads, |_| Vec::new(), |setup| setup).await;
    let ask =
        async |tool: &str, arguments: Value| stage.topic.call(tool, &arguments).await.expect("it is open");
    let chart = wire(&stage.server("library"), "chart");
    let invoked = || json!({"name": chart, "params": {"port": "Brest"}});
    assert_eq!(ask("tool_invoke", invoked()).await.outcome, CallOutcome::Rejected);
    assert_eq!(said(&ask("tool_invoke", invoked()).await), r#"succeeded: {"port":"brest"}"#);
    assert!(ask("tool_search", json!({"query": "chart"})).await.text().contains(&chart));
    assert!(ask("tool_inspect", json!({"name": chart})).await.text().contains("params.port"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_always_asks_is_shown_and_refused_by_every_alias() {
    let forced =
        Function::new("scuttle", "Sinks it.", &json!({"type": "object"}), async |_| Ok("sunk".to_owned()))
            .effect(Effect::Reads)
            .force_prompt();
    let server = Server::in_memory("library", library());
    let steps = [invoke("scuttle", json!({})), call_function("scuttle", json!({}))];
    let mut stage = over(plays(steps).server(server).function(forced)).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    assert_eq!((card.tool.as_str(), card.call.to_string().as_str()), ("scuttle", "1.2.0"));
    assert_eq!(
        said(&stage.results()[0]),
        "rejected: a person is asked before each call of \"scuttle\": call it directly, by that name"
    );
}

#[tokio::test(start_paused = true)]
async fn a_search_marks_tools_whose_server_is_down() {
    let fake = Fake::new(Mood::Well, (0..7).map(|n| tool(&format!("tool{n}"), &long("tool"))));
    let server = Server::with_connector("deep", "fake", fake.connector());
    let stage = over(plays([]).server(server)).raise().await;
    let ask =
        async || stage.topic.call("tool_search", &json!({"limit": 1})).await.expect("it is open").text();
    assert!(!ask().await.contains("not running"));
    stage.server("deep").disable().await.expect("it is told");
    let place = stage.server("deep");
    holds("it stops", || place.view().state == pilothouse::server::ServerState::Stopped).await;
    let told = ask().await;
    assert!(told.contains("(its server is not running)"), "{told}");
}

type Mend = fn(BrokenCall) -> Option<String>;

#[tokio::test(start_paused = true)]
async fn a_repair_is_asked_once_and_what_it_gives_has_to_fit() {
    let look = peer(json!({"tools": [{"name": "look", "echo": true, "schema": {
        "type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"],
    }}]}));
    let rows: [(Mend, &str); 4] = [
        (|broken| broken.written.contains("one").then(|| r#"{"at":1}"#.to_owned()), r#"succeeded: {"at":1}"#),
        (|_| Some(r#"{"at":"1"}"#.to_owned()), "rejected: "),
        (|_| None, "rejected: "),
        (|_| panic!("oh"), "rejected: "),
    ];
    for (mend, expected) in rows {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let repair = move |broken: BrokenCall| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { mend(broken) }
        };
        let steps = [call("a", "look", json!({"at": "one"})), Step::text("Seen.")];
        let mut stage =
            plays(steps).peer("a", &look).build(|builder| builder.argument_repair(repair)).raise().await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        assert!(said(&stage.results()[0]).starts_with(expected), "{:?}", stage.results());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
    let hangs = |_: BrokenCall| std::future::pending::<Option<String>>();
    let steps = [call("a", "look", json!({"at": "one"})), Step::text("Seen.")];
    let mut stage =
        plays(steps).peer("a", &look).build(|builder| builder.argument_repair(hangs)).raise().await;
    let before = tokio::time::Instant::now();
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(before.elapsed() < Duration::from_secs(11), "{:?}", before.elapsed());
}
