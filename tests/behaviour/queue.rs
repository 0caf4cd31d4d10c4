//! What people do with messages that wait or are held, how soon a message is seen, and turns that go on.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::call::CallOutcome;
use pilothouse::error::TopicError;
use pilothouse::id::{MessageId, ServerId, TurnId};
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::model::{FinishReason, HistoryItem, ModelRequest};
use pilothouse::prelude::*;
use pilothouse::topic::{
    AfterCrash, Budget, BudgetLimit, Claim, ConfigPatch, Configured, Level, PermissionMode, Receipt, Setting,
    Steering, TopicRejection, TopicStatus,
};
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{
    LATENCY, PATIENCE, Stage, assert_acceptable, call, calls, holds, memory, peer, place, plays, said, thinks,
};

fn tools() -> Arc<Peer> {
    let peer =
        peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}));
    peer.hold_calls();
    peer
}

/// A turn with a call under way that may be interrupted, as it reads.
async fn looking(
    peer: &Arc<Peer>,
    model: &Arc<ScriptedModel>,
    config: impl FnOnce(&mut TopicConfig),
) -> Stage {
    let mut stage = thinks(model.clone()).peer("a", peer).config(config).raise().await;
    stage.say("first").await;
    stage.until_running().await;
    holds("the call is under way", || peer.executions("look") > 0).await;
    stage
}

fn model(then: impl IntoIterator<Item = Step>) -> Arc<ScriptedModel> {
    let steps = std::iter::once(call("a", "look", json!({}))).chain(then);
    Arc::new(ScriptedModel::new(steps.collect()))
}

/// What a model was told last: the words of people, and results as `tool`.
fn told(model: &ScriptedModel) -> Vec<String> {
    let requests = model.requests();
    let last: &ModelRequest = requests.last().expect("it was asked");
    assert_acceptable(&last.history);
    let word = |item: &HistoryItem| match item {
        HistoryItem::User { text } => text.clone(),
        HistoryItem::Assistant { text, calls } => format!("model: {text}{}", "*".repeat(calls.len())),
        HistoryItem::Tool { result, .. } => format!("tool: {}", said(result)),
    };
    last.history.iter().map(word).collect()
}

fn refused(rejection: TopicRejection) -> TopicError {
    TopicError::Rejected(rejection)
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_are_edited_reordered_and_dropped_and_are_answered_as_they_are_then() {
    let (peer, model) = (tools(), model([Step::text("B."), Step::text("C.")]));
    let mut stage = looking(&peer, &model, |_| ()).await;
    for text in ["second", "third", "fourth"] {
        stage.say(text).await;
    }
    let topic = stage.topic.clone();
    let (second, third, fourth) = (MessageId(2), MessageId(3), MessageId(4));
    stage.shown_already();
    assert_eq!(
        topic.edit(third, "third, mended").await.map(|sent| place(&sent.receipt)),
        Ok("queued(2)".into())
    );
    assert_eq!(topic.reorder([third, fourth, second]).await, Ok(()));
    assert_eq!(topic.drop_message(fourth, "ann").await, Ok(()));
    assert_eq!(
        stage.shown_already(),
        [
            "message 3 is \"third, mended\", next_step",
            "message 3 queued(1)",
            "message 4 queued(2)",
            "message 2 queued(3)",
            "message 4 dropped(ann)",
            "message 2 queued(2)",
        ]
    );
    // Whoever looked before changes nothing.
    assert_eq!(topic.reorder([second, third, fourth]).await, Err(refused(TopicRejection::WrongOrder)));
    assert_eq!(topic.edit(fourth, "x").await, Err(refused(TopicRejection::NotWaiting { message: fourth })));
    assert_eq!(
        topic.edit(MessageId(1), "x").await,
        Err(refused(TopicRejection::NotWaiting { message: MessageId(1) }))
    );
    assert_eq!(topic.resend(second).await, Err(refused(TopicRejection::NotHeld { message: second })));
    let unknown = TopicRejection::UnknownMessage { message: MessageId(9) };
    assert_eq!(topic.drop_message(MessageId(9), "ann").await, Err(refused(unknown)));
    peer.release_calls();
    holds("all are answered", || stage.view().turns.len() == 3 && stage.status() == TopicStatus::Done).await;
    assert_eq!(stage.messages(), ["first answered(1)", "second answered(3)", "third, mended answered(2)"]);
    assert_eq!(
        told(&model),
        ["first", "model: *", "tool: succeeded: seen", "third, mended", "model: B.", "second"]
    );
}

#[tokio::test(start_paused = true)]
async fn held_messages_are_edited_dropped_and_sent_again_also_after_a_crash() {
    let (peer, first, store) = (tools(), model([]), memory());
    let mut stage = thinks(first).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("first").await;
    stage.until_running().await;
    for text in ["second", "third", "fourth"] {
        stage.topic.send_with_key(text, text).await.expect("it is taken");
    }
    stage.topic.stop("ann").await.expect("the topic is there");
    stage.topic.edit(MessageId(2), "second, mended").await.expect("it is held");
    stage.topic.drop_message(MessageId(3), "ann").await.expect("it is held");

    let second = Arc::new(ScriptedModel::new(vec![Step::text("Two."), Step::text("Four.")]));
    let mut stage = thinks(second.clone()).store(store.crash()).raise().await;
    assert_eq!(
        stage.messages(),
        ["first accepted(1)", "second, mended held(aborted)", "fourth held(aborted)"]
    );
    let resent = stage.topic.resend(MessageId(2)).await.expect("it is held");
    assert_eq!((resent.message, place(&resent.receipt)), (MessageId(2), "accepted(2)".to_owned()));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    stage.topic.resend(MessageId(4)).await.expect("it is held");
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first accepted(1)", "second, mended answered(2)", "fourth answered(3)"]);
    let told = told(&second);
    assert_eq!(told[told.len() - 3..], ["second, mended", "model: Two.", "fourth"]);
    // Keys live as long as their topic, whatever was done about the message.
    let again = async |key: &str| stage.topic.send_with_key(key, key).await.map(|sent| place(&sent.receipt));
    assert_eq!(again("second").await, Ok("answered(2)".into()));
    assert_eq!(again("third").await, Ok("dropped(ann)".into()));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_wait_cancels_a_read_and_is_answered_at_once() {
    let (peer, model) = (tools(), model([Step::text("Yes?")]));
    let mut stage = looking(&peer, &model, |_| ()).await;
    let asked = Instant::now();
    let sent = stage.topic.send_at(Level::Now, "stop looking", None).await.expect("it is taken");
    assert_eq!(place(&sent.receipt), "accepted(2)");
    assert!(asked.elapsed() <= 2 * LATENCY, "the commit before it, and its own");
    holds("the server is told", || peer.cancellations() == 1).await;
    assert_eq!(stage.until_end().await, StopReason::Yielded);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let interrupted = "tool: cancelled: interrupted by a message while it ran: it may have had its effect";
    assert_eq!(told(&model), ["first", "model: *", interrupted, "stop looking"]);
    // What the server says to it after all changes nothing.
    let before = stage.view();
    peer.release_calls();
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.view(), before);
}

#[tokio::test(start_paused = true)]
async fn only_calls_that_may_be_interrupted_are_and_the_others_are_waited_for() {
    let rows = [(false, "queued(1)", CallOutcome::Succeeded), (true, "accepted(2)", CallOutcome::Cancelled)];
    for (interruptible, receipt, outcome) in rows {
        let peer = tools();
        let server = Server::in_memory("a", peer.clone()).effect("drop", Effect::Edits);
        let server = if interruptible { server.interruptible("drop") } else { server };
        let steps = [call("a", "drop", json!({})), Step::text("Yes?")];
        let setup = plays(steps).server(server).config(|config| config.mode = PermissionMode::AcceptEdits);
        let mut stage = setup.raise().await;
        stage.say("first").await;
        stage.until_running().await;
        let sent = stage.topic.send_at(Level::Now, "second", None).await.expect("it is taken");
        assert_eq!(place(&sent.receipt), receipt);
        peer.release_calls();
        assert_eq!(stage.until_end().await, StopReason::Yielded);
        assert_eq!(stage.until_end().await, StopReason::Completed);
        assert_eq!(stage.results()[0].outcome, outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_for_the_next_turn_lets_the_turn_end_by_itself_and_what_steers_goes_first() {
    let (peer, model) = (tools(), model([Step::text("A."), Step::text("C."), Step::text("B.")]));
    let mut stage = looking(&peer, &model, |_| ()).await;
    let at = async |level, text: &str| {
        let sent = stage.topic.send_at(level, text, None).await.expect("it is taken");
        place(&sent.receipt)
    };
    assert_eq!(at(Level::NextTurn, "later").await, "queued(1)");
    assert_eq!(at(Level::NextStep, "soon").await, "queued(1)");
    assert_eq!(stage.messages(), ["first accepted(1)", "later queued(2)", "soon queued(1)"]);
    stage.topic.relevel(MessageId(3), Level::NextTurn).await.expect("it waits");
    stage.topic.relevel(MessageId(2), Level::NextStep).await.expect("it waits");
    stage.topic.relevel(MessageId(2), Level::NextTurn).await.expect("it waits");
    assert_eq!(stage.messages(), ["first accepted(1)", "later queued(2)", "soon queued(1)"]);
    peer.release_calls();
    assert_eq!(stage.until_end().await, StopReason::Completed, "nothing steers");
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(1)", "later answered(3)", "soon answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_topic_that_injects_a_message_joins_the_turn_before_its_next_step() {
    let (peer, model) = (tools(), model([Step::text("A."), Step::text("B.")]));
    let mut stage = looking(&peer, &model, |config| config.turns.steering = Steering::Inject).await;
    assert_eq!(place(&stage.say("second").await), "queued(1)");
    stage.topic.send_at(Level::NextTurn, "third", None).await.expect("it is taken");
    stage.shown_already();
    peer.release_calls();
    let shown = stage.until(|update| matches!(update, TopicUpdate::Text { .. })).await;
    assert_eq!(
        shown,
        [
            "call 1.1.0 succeeded: seen",
            "step 1.1 ends",
            "message 2 injected(1.2)",
            "message 3 queued(1)",
            "\"A.\"",
        ]
    );
    assert_eq!(told(&model), ["first", "model: *", "tool: succeeded: seen", "second"]);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(1)", "second answered(1)", "third answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_claims_in_batches_answers_all_that_waits_by_one_turn() {
    let (peer, model) = (tools(), model([Step::text("All.")]));
    let mut stage = looking(&peer, &model, |config| config.turns.claim = Claim::Batch).await;
    for text in ["second", "third", "fourth"] {
        stage.say(text).await;
    }
    peer.release_calls();
    assert_eq!(stage.until_end().await, StopReason::Yielded);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let answered = ["first answered(1)", "second answered(2)", "third answered(2)", "fourth answered(2)"];
    assert_eq!(stage.messages(), answered);
    assert_eq!(told(&model), ["first", "model: *", "tool: succeeded: seen", "second", "third", "fourth"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_truncated_goes_on_and_its_message_is_answered_by_the_next_one() {
    let cut = Step { finish: Some(FinishReason::Length), ..Step::text("Once upon") };
    let model = Arc::new(ScriptedModel::new(vec![cut, Step::text("a time.")]));
    let mut stage = thinks(model.clone()).raise().await;
    let nothing = TopicRejection::NothingToContinue;
    assert_eq!(stage.topic.continue_turn().await, Err(refused(nothing.clone())));
    stage.say("first").await;
    assert_eq!(stage.until_end().await, StopReason::OutputTruncated);
    assert_eq!(stage.messages(), ["first accepted(1)"]);
    assert_eq!(stage.topic.continue_turn().await, Ok(TurnId(2)));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(2)"]);
    assert_eq!(told(&model), ["first", "model: Once upon", "Go on where you stopped."]);
    let continued: Vec<_> = stage.view().turns.iter().map(|turn| turn.continues).collect();
    assert_eq!(continued, [None, Some(TurnId(1))]);
    assert_eq!(stage.topic.continue_turn().await, Err(refused(nothing)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_at_its_step_limit_and_one_that_a_crash_cut_off_go_on_when_they_are_told_to() {
    let (peer, store) = (tools(), memory());
    peer.release_calls();
    let limited = plays([call("a", "look", json!({}))]).config(|config| config.max_steps = Some(1));
    let mut stage = limited.peer("a", &peer).store(store.clone()).raise().await;
    stage.say("first").await;
    assert_eq!(stage.until_end().await, StopReason::StepLimit);
    assert_eq!(stage.topic.continue_turn().await, Ok(TurnId(2)));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(2)"]);

    let (peer, store) = (tools(), memory());
    let first = model([]);
    let mut stage = thinks(first).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("first").await;
    stage.until_running().await;
    let second = Arc::new(ScriptedModel::new(vec![Step::text("On.")]));
    let mut stage = thinks(second.clone()).store(store.crash()).raise().await;
    assert_eq!(stage.status(), TopicStatus::Error);
    assert_eq!(stage.topic.continue_turn().await, Ok(TurnId(2)));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.messages(), ["first answered(2)"]);
    assert_eq!(told(&second).len(), 3, "nobody is asked to go on behind a result");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_resumes_goes_on_by_itself_after_a_crash_but_only_once() {
    let store = memory();
    let hangs = || plays([Step { hang: true, ..Step::default() }]);
    let resumes = |config: &mut TopicConfig| config.turns.after_crash = AfterCrash::ResumeOnce;
    let stage = hangs().config(resumes).store(store.clone()).raise().await;
    stage.say("first").await;
    stage.say("second").await;
    let crashed = store.crash();

    let model = Arc::new(ScriptedModel::new(vec![Step::text("There.")]));
    let mut again = thinks(model.clone()).config(resumes).store(crashed.crash()).raise().await;
    holds("it goes on by itself", || again.status() == TopicStatus::Done).await;
    assert_eq!(again.messages(), ["first answered(1)", "second held(process_restart)"]);
    assert_eq!(told(&model), ["first"]);
    again.shown_already();

    let second = hangs().config(resumes).store(crashed.clone()).raise().await;
    holds("it goes on", || second.status() == TopicStatus::Pending).await;
    let third = plays([]).config(resumes).store(crashed.crash()).raise().await;
    let interrupted = StopReason::Interrupted("the process was restarted".to_owned());
    assert_eq!(third.view().turns[0].stop, Some(interrupted));
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_when_its_time_is_over_whatever_hangs() {
    let peer = tools();
    let budget = Budget { wall_ms: Some(5_000), ..Budget::default() };
    let steps = [calls([("a", "look", json!({})), ("a", "drop", json!({}))]), Step::text("Yes?")];
    let setup = plays(steps).peer("a", &peer).config(|config| config.turns.budget = budget);
    let mut stage = setup.raise().await;
    let begun = Instant::now();
    stage.say("first").await;
    stage.until_card().await;
    stage.say("second").await;
    assert_eq!(stage.until_end().await, StopReason::BudgetSpent(BudgetLimit::Time));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_millis(5_100), "{took:?}");
    let outcomes: Vec<_> = stage.results().iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Cancelled, CallOutcome::Cancelled]);
    assert_eq!(stage.status(), TopicStatus::Done);
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(turn_ended)"]);
    holds("its card is withdrawn", || stage.runtime.approvals().is_empty()).await;
    // A turn that ends in time is not touched by the timer of the one before.
    stage.say("third").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.view().turns.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_has_used_up_its_budget_ends_where_a_further_step_would_begin() {
    let peer = tools();
    peer.release_calls();
    let budget = Budget { steps: Some(2), ..Budget::default() };
    let steps = (0..5).map(|_| call("a", "look", json!({})));
    let setup = plays(steps).peer("a", &peer).config(|config| config.turns.budget = budget);
    let mut stage = setup.raise().await;
    stage.say("first").await;
    assert_eq!(stage.until_end().await, StopReason::BudgetSpent(BudgetLimit::Steps));
    assert_eq!((stage.status(), peer.executions("look")), (TopicStatus::Done, 2));
    let nothing = TopicRejection::NothingToContinue;
    assert_eq!(stage.topic.continue_turn().await, Err(refused(nothing)));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_repeats_a_refused_call_is_stopped_after_the_third_time() {
    let model = Arc::new(ScriptedModel::new((0..9).map(|_| call("a", "nothing", json!({"x": 1}))).collect()));
    let mut stage = thinks(model.clone()).raise().await;
    stage.say("Go.").await;
    let stop = stage.until_end().await;
    assert!(matches!(&stop, StopReason::Failed(words) if words.starts_with("no_progress: ")), "{stop:?}");
    assert_eq!((model.requests().len(), stage.results().len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_change_says_what_counts_now_and_what_becomes_stricter_does_also_for_a_card() {
    let peer = tools();
    let steps =
        [call("a", "drop", json!({})), Step::text("No."), call("a", "drop", json!({})), Step::text("Again.")];
    let mut stage = plays(steps).peer("a", &peer).raise().await;
    stage.say("first").await;
    stage.until_card().await;
    let none = Some(Vec::<ServerId>::new());
    let patch = ConfigPatch { servers: none, max_steps: Some(9), ..ConfigPatch::default() };
    let said = Configured { now: vec![Setting::Servers], next_turn: vec![Setting::MaxSteps] };
    assert_eq!(stage.topic.configure(patch).await, Ok(said));
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let result = crate::stage::said(&stage.results()[0]);
    assert_eq!((result.as_str(), peer.executions("drop")), ("denied: the topic no longer uses this tool", 0));
    assert!(stage.runtime.approvals().is_empty());
    let patch = ConfigPatch { mode: Some(PermissionMode::AcceptEdits), ..ConfigPatch::default() };
    let said = Configured { now: vec![Setting::Mode], next_turn: Vec::new() };
    assert_eq!(stage.topic.configure(patch).await, Ok(said), "between turns everything counts");
}

#[tokio::test(start_paused = true)]
async fn the_position_in_a_receipt_is_where_the_message_stands() {
    let (peer, model) = (tools(), model([]));
    let stage = looking(&peer, &model, |_| ()).await;
    let at = async |level, text: &str| stage.topic.send_at(level, text, None).await.expect("taken").receipt;
    assert_eq!(at(Level::NextTurn, "b").await, Receipt::Queued { position: 1 });
    assert_eq!(at(Level::NextTurn, "c").await, Receipt::Queued { position: 2 });
    assert_eq!(at(Level::NextStep, "d").await, Receipt::Queued { position: 1 });
    let places: Vec<_> =
        stage.view().queue.iter().map(|message| (message.message.0, message.level)).collect();
    assert_eq!(places, [(4, Level::NextStep), (2, Level::NextTurn), (3, Level::NextTurn)]);
}
