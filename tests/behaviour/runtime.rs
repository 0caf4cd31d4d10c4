//! The runtime as a whole: its start, its windows, its end, and that nothing of it is global.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::error::{AskError, DecideError, ServerError, StartError, StoreError, TopicError};
use pilothouse::id::{CallId, ServerId, StepId, TopicId, TurnId};
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::topic::{ConfigPatch, TopicStatus};
use pilothouse::tree::TreeNode;
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::fake::{Fake, Mood, tool};
use crate::puppet::Panicking;
use crate::stage::{
    LATENCY, PATIENCE, Stage, call, call_function, holds, memory, peer, plays, settle, thinks, words,
};

fn look() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}))
}

fn interrupted() -> StopReason {
    StopReason::Interrupted("the runtime shut down".to_owned())
}

#[tokio::test(start_paused = true)]
async fn two_runtimes_in_one_process_do_not_see_each_other() {
    let (peers, steps) = ([look(), look()], || [call("a", "drop", json!({})), Step::text("Done.")]);
    let mut one = plays(steps()).peer("a", &peers[0]).raise().await;
    let mut two = plays(steps()).peer("a", &peers[1]).raise().await;
    for stage in [&mut one, &mut two] {
        stage.say("Go.").await;
    }
    let card = one.until_card().await;
    assert_eq!(card.approval, two.until_card().await.approval, "the same topic and call, so the same name");
    one.decide(&card, Decision::allow("ann")).await;
    assert_eq!(one.until_end().await, StopReason::Completed);
    assert!(one.runtime.shutdown().await.is_clean());
    sleep(PATIENCE).await;
    assert_eq!(two.status(), TopicStatus::AwaitingApproval);
    assert_eq!((peers[0].executions("drop"), peers[1].executions("drop")), (1, 0));
    assert_eq!((peers[0].connections(), peers[1].connections()), (0, 1));
    two.decide(&card, Decision::allow("bob")).await;
    assert_eq!(two.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_records_the_end_of_every_turn_and_is_clean_with_models_and_tools_hanging() {
    let (peer, store) = (look(), memory());
    let hanging = Function::new("hang", "Hangs.", &json!({"type": "object"}), async |_| {
        std::future::pending::<Result<String, String>>().await
    });
    let steps = [
        call("a", "look", json!({})),
        Step { hang: true, ..Step::default() },
        call_function("hang", json!({})),
        call("a", "drop", json!({})),
    ];
    let setup = plays(steps).peer("a", &peer).function(hanging.effect(Effect::Reads)).store(store.clone());
    let first = setup.raise().await;
    peer.hold_calls();
    let mut stages = vec![first];
    for name in ["model", "function", "person"] {
        let stage = Stage::on(stages[0].runtime.clone(), name, TopicConfig::new("main")).await;
        stages.push(stage);
    }
    for stage in &mut stages {
        stage.say("first").await;
        settle().await;
    }
    stages[3].until_card().await;
    stages[0].say("second").await;
    let begun = Instant::now();
    let shutdown = stages[0].runtime.shutdown().await;
    assert_eq!((shutdown.forced, begun.elapsed() < Duration::from_secs(1)), (vec![], true));
    for stage in &mut stages[..3] {
        assert_eq!(stage.until_end().await, interrupted());
    }
    assert_eq!(stages[0].messages(), ["first accepted(1)", "second held(shut_down)"]);
    assert_eq!(peer.connections(), 0);
    holds("the window hears the end", || stages[0].window.try_next().is_none()).await;
    assert_eq!(stages[0].window.next().await, Some(TopicEventOut::Closed));
    assert_eq!(stages[0].window.next().await, None);

    let next = plays([Step::text("Done.")]).peer("a", &peer).store(store.crash()).start().await;
    let cards = next.approvals();
    assert_eq!(cards.len(), 1, "who waits for a person still does");
    assert_eq!(cards[0].topic.as_str(), "person");
    let topic = next.topic("t").await.expect("it is stored");
    assert_eq!(topic.view().map(|view| crate::stage::messages(&view)), Some(stages[0].messages()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_keeps_its_bound_whatever_hangs_and_says_what_it_forced() {
    let clinging = Fake::new(Mood::Well, [tool("look", "Looks.")]);
    let server = Server::with_connector("a", "fake", clinging.connector()).effect("look", Effect::Reads);
    let runtime = plays([]).server(server).start().await;
    clinging.becomes(Mood::Clinging);
    let begun = Instant::now();
    let shutdown = runtime.shutdown().await;
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(shutdown.is_clean(), "a connection is let go of after its own grace: {shutdown:?}");

    let store = memory();
    let stage = plays([Step { hang: true, ..Step::default() }]).store(store.clone()).raise().await;
    stage.say("Go.").await;
    store.hold();
    let begun = Instant::now();
    let shutdown = stage.runtime.shutdown().await;
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    let parts: Vec<_> = shutdown.forced.iter().filter_map(|words| words.split(':').next()).collect();
    assert_eq!(parts, ["topics", "store"], "{shutdown:?}");
    assert_eq!(stage.runtime.shutdown().await, shutdown, "the same end for everybody");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_goes_on_when_its_caller_has_gone_and_many_callers_share_it() {
    let peer = look();
    let runtime = plays([]).peer("a", &peer).start().await;
    let impatient = timeout(Duration::ZERO, runtime.shutdown()).await;
    assert!(impatient.is_err());
    let (one, two) = tokio::join!(runtime.shutdown(), runtime.shutdown());
    assert_eq!((&one, one.is_clean(), peer.connections()), (&two, true, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_every_handle_says_so() {
    let peer = look();
    let stage = plays([call("a", "drop", json!({}))]).peer("a", &peer).raise().await;
    let mut stage = stage;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let Stage { runtime, topic, .. } = stage;
    let a = crate::stage::server(&runtime, "a");
    runtime.shutdown().await;
    let begun = Instant::now();
    let over = || TopicError::Ask(AskError::ShutDown);
    assert_eq!(topic.send("more").await, Err(over()));
    assert_eq!(topic.stop("ann").await, Err(over()));
    assert_eq!(topic.configure(ConfigPatch::default()).await, Err(over()));
    assert_eq!(runtime.open_topic("t", TopicConfig::new("main")).await.map(drop), Err(over()));
    assert_eq!(runtime.open_topic("new", TopicConfig::new("main")).await.map(drop), Err(over()));
    assert_eq!(runtime.topic("none").await.map(drop), Err(over()));
    let decided = runtime.decide(card.approval, Decision::allow("ann")).await;
    assert_eq!(decided, Err(DecideError::Ask { approval: card.approval, source: AskError::ShutDown }));
    assert_eq!(a.refresh().await, Err(ServerError::Ask(AskError::ShutDown)));
    assert_eq!(a.restart().await, Err(ServerError::Ask(AskError::ShutDown)));
    let called = a.call("look", &json!({})).await;
    assert_eq!(called.outcome, CallOutcome::Unavailable, "{called:?}");
    assert!(begun.elapsed() <= LATENCY, "at once, but for a look into the store");
    // What can be read can still be read.
    assert_eq!(topic.view().map(|view| view.status), Some(TopicStatus::AwaitingApproval));
    assert_eq!(a.list().tools().len(), 2);
    let mut window = topic.attach().expect("its view is there");
    assert_eq!(window.next().await, Some(TopicEventOut::Closed));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_shuts_down_and_any_handle_is_one() {
    let (peer, store) = (look(), memory());
    let stage =
        plays([Step { hang: true, ..Step::default() }]).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("Go.").await;
    let Stage { runtime, topic, window } = stage;
    let a = crate::stage::server(&runtime, "a");
    drop((runtime, topic));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(peer.connections(), 1, "a handle of a server keeps it up");
    drop(a);
    holds("it is down", || peer.connections() == 0).await;
    sleep(Duration::from_secs(1)).await;
    drop(window);
    let next = plays([]).store(store.crash()).start().await;
    let topic = next.topic("t").await.expect("it is stored");
    let stop = topic.view().and_then(|view| view.turns[0].stop.clone());
    assert_eq!(stop, Some(interrupted()), "and the turn has recorded its end");
}

#[test]
fn handles_can_be_dropped_outside_of_tokio_and_after_it() {
    let peer = look();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let tokio = tokio.expect("it can be built");
    let raise = || plays([]).peer("a", &peer).cold().raise();
    let (first, second) = tokio.block_on(async { (raise().await, raise().await) });
    drop(first);
    let begun = std::time::Instant::now();
    while peer.connections() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(5), "the first one is still up");
        std::thread::sleep(Duration::from_millis(1));
    }
    tokio.shutdown_background();
    drop(second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_runs_on_many_threads_with_many_topics_at_once() {
    let peer = look();
    let steps = (0..200).map(|_| Step::default());
    let stage = plays(steps).peer("a", &peer).raise().await;
    let running = (0..40).map(|n| {
        let runtime = stage.runtime.clone();
        tokio::spawn(async move {
            let mut stage = Stage::on(runtime, &format!("topic {n}"), TopicConfig::new("main")).await;
            for text in ["one", "two", "three"] {
                stage.say(text).await;
            }
            let answered = holds("all is answered", || {
                stage.status() == TopicStatus::Done
                    && stage.messages().iter().all(|line| line.contains("answered"))
            });
            timeout(Duration::from_secs(20), answered).await.expect("in time");
            stage.shown_already()
        })
    });
    for running in running.collect::<Vec<_>>() {
        let shown = running.await.expect("the task ends");
        assert_eq!(shown.iter().filter(|line| line.ends_with("completed")).count(), 3, "{shown:?}");
    }
    assert!(stage.runtime.shutdown().await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_wrong_at_the_start_is_said_at_once() {
    let peer = look();
    let a = || Server::in_memory("a", peer.clone());
    let id = |text: &str| ServerId::new(text);
    let bad = || StartError::Id { text: String::new(), source: id("").expect_err("it is none") };
    let twice = || StartError::DuplicateServer { server: id("a").expect("it is one") };
    let build = |servers: Vec<Server>| {
        let builder = Runtime::builder();
        servers.into_iter().fold(builder, pilothouse::Builder::server)
    };
    let empty = || Server::in_memory("", peer.clone());
    let wrong = async |servers| build(servers).start().await.expect_err("it does not start");
    assert_eq!(wrong(vec![a(), a()]).await, twice());
    assert_eq!(wrong(vec![empty()]).await, bad());
    assert_eq!(wrong(vec![a(), empty(), a()]).await, StartError::Several(vec![bad(), twice()]));
    let said = wrong(vec![a(), empty(), a()]).await.to_string();
    let reasons = "cannot start: 2 things are wrong: \"\" is no server id: an id needs at least one character; \
                   two servers have the id \"a\": give each its own";
    assert_eq!(said, reasons);
    let reserved =
        Function::new("mcp__mine", "Mine.", &json!({"type": "object"}), async |_| Ok(String::new()));
    let refused = Runtime::builder().function(reserved).start().await.map(drop);
    assert!(matches!(refused, Err(StartError::Function(_))), "{refused:?}");
    assert_eq!(peer.connections_ever(), 0);
}

#[tokio::test]
async fn a_data_directory_that_is_a_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("it can be made");
    let file = directory.path().join("data");
    std::fs::write(&file, "mine").expect("it can be written");
    let refused = Runtime::builder().data_dir(&file).start().await.map(drop);
    assert!(
        matches!(&refused, Err(StartError::Store(StoreError::Directory { path, .. })) if *path == file),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
}

#[tokio::test]
async fn a_data_directory_serves_one_runtime_after_the_other() {
    let directory = tempfile::tempdir().expect("it can be made");
    let build = || {
        let model = ScriptedModel::new(vec![Step::text("Yes?"), Step::text("Yes?")]);
        Runtime::builder().data_dir(directory.path()).model("main", model)
    };
    let runtime = build().start().await.expect("it starts");
    let mut stage = Stage::on(runtime, "t", TopicConfig::new("main")).await;
    stage.say("first").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let locked = build().start().await.map(drop);
    assert!(matches!(locked, Err(StartError::Store(StoreError::Locked { .. }))), "{locked:?}");
    assert!(stage.runtime.shutdown().await.is_clean());
    let runtime = build().start().await.expect("it starts again");
    let topic = runtime.topic("t").await.expect("it is stored");
    holds("it is read back", || topic.view().is_some_and(|view| view.turns.len() == 1)).await;
    assert!(runtime.shutdown().await.is_clean());
}

#[test]
fn a_start_outside_of_tokio_is_an_error() {
    let mut starting = Box::pin(Runtime::builder().start());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(started) = starting.as_mut().poll(&mut context) else {
        panic!("it waits for something");
    };
    assert_eq!(started.map(drop), Err(StartError::NoTokio));
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_is_said_in_types() {
    let stage = plays([]).raise().await;
    let runtime = &stage.runtime;
    let none = TopicId::new("none").expect("it is an id");
    assert_eq!(runtime.topic("none").await.map(drop), Err(TopicError::Unknown { topic: none }));
    let model = "none".to_owned();
    let unknown = TopicError::UnknownModel { model: model.clone() };
    assert_eq!(runtime.open_topic("x", TopicConfig::new("none")).await.map(drop), Err(unknown.clone()));
    let patch = ConfigPatch { model: Some(model), ..Default::default() };
    assert_eq!(stage.topic.configure(patch).await, Err(unknown));
    let server = ServerId::new("none").expect("it is an id");
    assert_eq!(runtime.server(&server).map(drop), Err(ServerError::Unknown { server }));
    assert!(matches!(runtime.topic("").await, Err(TopicError::Id { .. })));
    assert!(matches!(runtime.topic("x".repeat(129)).await, Err(TopicError::Id { .. })));
    let call = CallId { turn: TurnId(1), step: StepId(1), index: 0 };
    let card = pilothouse::approval::ApprovalId::of(stage.topic.id(), call);
    let answer = runtime.decide(card, Decision::allow("ann")).await;
    assert_eq!(answer, Ok(pilothouse::approval::DecideAnswer::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_topic_of_one_tenant_is_not_opened_by_another() {
    let stage = plays([]).raise().await;
    let mut config = TopicConfig::new("main");
    config.tenant = pilothouse::id::TenantId::new("other").expect("it is an id");
    let refused = stage.runtime.open_topic("t", config).await.map(drop);
    let other = pilothouse::topic::TopicRejection::OtherTenant;
    assert_eq!(refused, Err(TopicError::Rejected(other)));
}

#[tokio::test(start_paused = true)]
async fn a_window_shows_the_view_at_one_point_and_everything_after_it() {
    let paced = |text: &str| Step { chunk_ms: Some(100), ..Step::text(text) };
    let mut stage = plays([paced("one two three four five six"), paced("seven eight")]).raise().await;
    stage.say("Go.").await;
    stage.until_status(TopicStatus::Streaming).await;
    for wait in [0, 50, 100, 170, 250, 400, 1_000] {
        sleep(Duration::from_millis(wait)).await;
        let mut late = stage.topic.attach().expect("it is open");
        let seen = late.view.turns[0].steps[0].text.clone();
        let mut rest = String::new();
        let mut last = late.view.sequence;
        sleep(Duration::from_secs(2)).await;
        while let Some(TopicEventOut::Update { sequence, update }) = late.try_next() {
            assert_eq!((sequence.epoch, sequence.n), (last.epoch, last.n + 1), "no gap");
            last = sequence;
            if let TopicUpdate::Text { delta, .. } = update {
                rest.push_str(&delta);
            }
        }
        assert_eq!(format!("{seen}{rest}"), "one two three four five six");
        assert_eq!(late.view.topic, *stage.topic.id());
    }
    let shown = stage.shown_already();
    assert!(shown.contains(&"turn 1 completed".to_owned()), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_does_not_keep_up_is_told_and_nobody_else_notices() {
    let long = Step { chunk_ms: Some(20), ..Step::text("a b c d e f g h i j k l m n o p") };
    let mut stage = plays([long]).raise().await;
    let mut slow = stage.topic.attach_with(3).expect("it is open");
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    let mut got = Vec::new();
    let told = loop {
        match timeout(PATIENCE, slow.next()).await.expect("it is told at once") {
            Some(TopicEventOut::Update { update, .. }) => got.push(words(&update)),
            other => break other,
        }
    };
    assert_eq!(got, shown[..3]);
    let Some(TopicEventOut::Lagged { missed, resume_from }) = told else { panic!("{told:?}") };
    assert_eq!((missed as usize, resume_from), (shown.len() - 3, stage.view().sequence));
    assert_eq!(slow.next().await, None);
    let again = stage.topic.attach().expect("it is open");
    assert_eq!((again.view.sequence, again.view.status), (resume_from, TopicStatus::Done));
}

#[tokio::test(start_paused = true)]
async fn closing_every_window_stops_no_turn() {
    let slow = Step { delay_ms: Some(1_000), ..Step::text("Yes?") };
    let stage = plays([slow]).raise().await;
    stage.say("Go.").await;
    let Stage { topic, window, runtime } = stage;
    drop(window);
    holds("it is answered", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_everybody() {
    fn names(node: &TreeNode, depth: usize, out: &mut Vec<String>) {
        out.push(format!("{}{} {}", "  ".repeat(depth), node.name, node.state));
        node.children.iter().for_each(|child| names(child, depth + 1, out));
    }
    let peer = look();
    let stage = plays([]).peer("a", &peer).raise().await;
    let mut shown = Vec::new();
    names(&stage.runtime.tree(), 0, &mut shown);
    assert_eq!(
        shown,
        [
            "runtime running",
            "  approval running",
            "  catalog running",
            "  registry running",
            "  servers running",
            "    connection/a ready",
            "  topics running",
            "    session/t running",
        ]
    );
}

/// What an embedder brings may panic; it costs one call or one turn.
#[tokio::test(start_paused = true)]
async fn a_resolver_that_panics_fails_the_turn_and_the_topic_stays() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let resolver = move |_name: &str| -> Option<Arc<dyn pilothouse::model::Model>> {
        // The opening asks first, then each turn.
        match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            1 => panic!("no idea"),
            _ => Some(Arc::new(ScriptedModel::new(vec![Step::text("Yes?")]))),
        }
    };
    let runtime = Runtime::builder().models(resolver).start().await.expect("it starts");
    let mut stage = Stage::on(runtime, "t", TopicConfig::new("main")).await;
    stage.say("first").await;
    let stop = stage.until_end().await;
    assert!(matches!(&stop, StopReason::Failed(words) if words.contains("no idea")), "{stop:?}");
    stage.say("second").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.runtime.tree().children[4].children[0].restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn texts_of_people_are_kept_within_bounds() {
    let peer = look();
    let steps = [call("a", "drop", json!({})), Step::text("Done."), call("a", "drop", json!({}))];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    let long = "é".repeat(1 << 20);
    stage.say("first").await;
    let card = stage.until_card().await;
    stage.decide(&card, Decision::deny(long.clone(), long.clone())).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!(stage.results()[0].text().len() < 10 << 10);
    stage.say("second").await;
    stage.until_card().await;
    assert_eq!(stage.topic.stop(long.clone()).await, Ok(Some(TurnId(2))));
    holds("the card is gone", || stage.runtime.approvals().is_empty()).await;
    assert!(stage.topic.send_with_key("third", long).await.is_err());
    stage.say("third").await;
    stage.until_end().await;
    let restarts: Vec<_> = stage.runtime.tree().children.iter().map(|child| child.restarts).collect();
    assert_eq!(restarts, [0; 5]);
    assert_eq!(stage.runtime.tree().children[4].children[0].restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_model_leaves_the_runtime_as_it_was() {
    let mut stage = thinks(Panicking::Stream.model()).raise().await;
    for _ in 0..20 {
        stage.say("Go.").await;
        assert!(matches!(stage.until_end().await, StopReason::Failed(_)));
    }
    assert_eq!(stage.runtime.tree().children[4].children[0].restarts, 0);
    assert!(stage.runtime.shutdown().await.is_clean());
}
