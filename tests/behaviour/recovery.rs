//! What a crash leaves: every message in one place, every card to be answered, and nothing run twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse::approval::{Card, DecideAnswer};
use pilothouse::call::CallOutcome;
use pilothouse::id::MessageId;
use pilothouse::model::HistoryItem;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::store::memory::MemoryStore;
use pilothouse::topic::{Receipt, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::json;

use crate::stage::{
    LATENCY, PATIENCE, Setup, Stage, assert_acceptable, call, calls, holds, memory, peer, plays, said,
    settle, thinks,
};
use crate::stores::{Moment, Recorder, Slow};

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [
        {"name": "look", "reply": "seen"},
        {"name": "drop", "reply": "dropped"},
        {"name": "burn", "reply": "burnt"},
    ]}))
}

fn slow_to_start() -> Arc<Peer> {
    peer(
        json!({"tools": [{"name": "drop", "reply": "dropped"}, {"name": "look"}], "faults": [{"delay_ms": 700}]}),
    )
}

fn drop_it() -> Step {
    call("a", "drop", json!({"what": "it"}))
}

/// The same topic in the next process.
async fn next_process(setup: Setup, store: MemoryStore) -> Stage {
    setup.store(store).raise().await
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ran_is_interrupted_and_what_waited_is_held() {
    let (peer, store) = (tools(), memory());
    let mut stage = plays([call("a", "look", json!({}))]).peer("a", &peer).store(store.clone()).raise().await;
    peer.hold_calls();
    stage.say("first").await;
    stage.until_running().await;
    stage.say("second").await;
    let mut stage = next_process(plays([Step::text("Yes?")]).cold(), store.crash()).await;
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(process_restart)"]);
    let interrupted = StopReason::Interrupted("the process was restarted".to_owned());
    assert_eq!((stage.view().turns[0].stop.clone(), stage.status()), (Some(interrupted), TopicStatus::Error));
    assert_eq!(
        stage.results().iter().map(said).collect::<Vec<_>>(),
        ["unknown: the process was restarted after this call was sent: nobody knows whether it ran"]
    );
    stage.say("third").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(stage.messages(), ["first accepted(1)", "second held(process_restart)", "third answered(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_wakes_the_topics_that_were_cut_off_and_no_other() {
    let (peer, store) = (tools(), memory());
    let steps = [drop_it(), Step::text("Yes?"), Step { hang: true, ..Step::default() }];
    let mut resting = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    resting.say("first").await;
    let card = resting.until_card().await;
    resting.decide(&card, Decision::allow("ann")).await;
    // Its decision is paid at once, so that nobody is owed anything.
    assert_eq!(resting.until_end().await, StopReason::Completed);
    let mut cut_off = Stage::on(resting.runtime.clone(), "cut off", TopicConfig::new("main")).await;
    cut_off.say("first").await;
    cut_off.until_status(TopicStatus::Pending).await;

    let runtime = plays([]).store(store.crash()).start().await;
    settle().await;
    let topics = &runtime.tree().children[4].children;
    let shown: Vec<_> = topics.iter().map(|topic| (topic.name.as_str(), topic.status)).collect();
    assert_eq!(shown, [("session/cut off", Some(TopicStatus::Error))]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_awaited_approval_still_does_and_the_call_runs_once() {
    let (peer, store) = (tools(), memory());
    let mut stage = plays([drop_it()]).peer("a", &peer).store(store.clone()).raise().await;
    stage.say("first").await;
    let card = stage.until_card().await;
    stage.say("second").await;

    let model = Arc::new(ScriptedModel::new(vec![Step::text("Done."), Step::text("Again.")]));
    let runtime = thinks(model.clone()).peer("a", &peer).store(store.crash()).start().await;
    holds("the card is there before anybody opened the topic", || runtime.approvals() == [card.clone()])
        .await;
    let answer = runtime.decide(card.approval, Decision::allow("ann").of(&card)).await;
    assert_eq!(answer, Ok(DecideAnswer::Applied));
    let topic = runtime.topic("t").await.expect("it is stored");
    holds("the turn goes on", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
    let view = topic.view().expect("it is loaded");
    assert_eq!(crate::stage::messages(&view), ["first answered(1)", "second held(process_restart)"]);
    assert_eq!(peer.executions("drop"), 1);
    assert_acceptable(&model.requests().pop().expect("it went on").history);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_its_topic_never_recorded_is_taken_up() {
    let peer = tools();
    let recorder = Recorder::new(|| ());
    let mut stage = plays([drop_it()]).peer("a", &peer).store(recorder.clone()).raise().await;
    stage.say("first").await;
    let card = stage.until_card().await;
    drop(recorder.moments());
    stage.decide(&card, Decision::allow("ann")).await;
    // The ledger's record comes first; nothing else is kept by this crash.
    let decided = recorder.moments().remove(0);
    stage.topic.stop("the old process").await.expect("it is there");

    // Its server takes a while to start, as programs do.
    let peer = slow_to_start();
    let runtime =
        plays([Step::text("Done.")]).peer("a", &peer).cold().store(decided.after_power_cut).start().await;
    assert_eq!(runtime.approvals(), []);
    let topic = runtime.topic("t").await.expect("it is stored");
    holds("the turn goes on", || topic.view().is_some_and(|view| view.status == TopicStatus::Done)).await;
    assert_eq!(peer.executions("drop"), 1);
    let again = runtime.decide(card.approval, Decision::allow("bob")).await;
    assert!(matches!(again, Ok(DecideAnswer::Already(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_beside_a_card_is_run_again_once_its_server_is_there() {
    let (peer, store) = (tools(), memory());
    let steps = [calls([("a", "look", json!({})), ("a", "drop", json!({}))])];
    let mut stage = plays(steps).peer("a", &peer).store(store.clone()).raise().await;
    peer.hold_calls();
    stage.say("first").await;
    let card = stage.until_card().await;

    let peer = slow_to_start();
    let mut stage = plays([Step::text("Done.")]).peer("a", &peer).cold().store(store.crash()).raise().await;
    stage.decide(&card, Decision::allow("ann")).await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!((peer.executions("look"), peer.executions("drop")), (1, 1));
    assert_eq!(
        stage.results().iter().map(said).collect::<Vec<_>>(),
        ["succeeded: done", "succeeded: dropped"]
    );
}

/// What was true just before a batch became durable.
#[derive(Debug, Clone)]
struct Seen {
    dropped: u64,
    burnt: u64,
    told: Told,
}

/// What people had been told.
#[derive(Debug, Clone, Default)]
struct Told {
    /// Messages that are taken.
    taken: BTreeSet<MessageId>,
    /// That the turn is stopped.
    stopped: bool,
    /// That the call of `drop` may not run.
    denied: bool,
}

/// One life of a topic `t`, up to its crash.
struct Story {
    stage: Stage,
    peer: Arc<Peer>,
    told: Arc<Mutex<Told>>,
}

impl Story {
    async fn say(&self, text: &str) {
        let sent = self.stage.topic.send_with_key(text, text).await.expect("the message is taken");
        self.told(|told| told.taken.extend([sent.message]));
    }

    fn told(&self, what: impl FnOnce(&mut Told)) {
        what(&mut self.told.lock().expect("nobody panics"));
    }

    /// Sends the first message, and waits for the cards of `drop` and `burn`.
    async fn two_cards(&mut self) -> (Card, Card) {
        self.say("first").await;
        (self.stage.until_card().await, self.stage.until_card().await)
    }

    /// A turn that asks for two approvals, is steered twice, and chains twice.
    async fn steered(mut self) {
        let (drop, burn) = self.two_cards().await;
        self.say("second").await;
        self.stage.decide(&burn, Decision::allow("ann")).await;
        holds("it ran", || self.peer.executions("burn") == 1).await;
        self.say("third").await;
        self.stage.decide(&drop, Decision::allow("ann")).await;
        for stop in [StopReason::Yielded, StopReason::Completed, StopReason::Completed] {
            assert_eq!(self.stage.until_end().await, stop);
        }
        assert_eq!((self.peer.executions("drop"), self.peer.executions("burn")), (1, 1));
    }

    /// A turn that is stopped while one call runs and another one waits for a person.
    async fn stopped(mut self) {
        let (_drop, burn) = self.two_cards().await;
        self.peer.hold_calls();
        self.say("second").await;
        self.stage.decide(&burn, Decision::allow("ann")).await;
        holds("it runs", || self.peer.executions("burn") == 1).await;
        self.stage.topic.stop("ann").await.expect("the topic is there");
        self.told(|told| told.stopped = true);
        self.peer.release_calls();
        self.say("third").await;
        for stop in [StopReason::Aborted, StopReason::Completed] {
            assert_eq!(self.stage.until_end().await, stop);
        }
        holds("the card is gone", || self.stage.runtime.approvals().is_empty()).await;
    }

    /// A turn with one call denied and one that nobody decides.
    async fn expired(mut self) {
        let (drop, _burn) = self.two_cards().await;
        self.say("second").await;
        self.stage.decide(&drop, Decision::deny("ann", "no")).await;
        self.told(|told| told.denied = true);
        assert_eq!(self.stage.until_end().await, StopReason::ApprovalExpired);
        self.say("third").await;
        assert_eq!(self.stage.until_end().await, StopReason::Completed);
        assert_eq!((self.peer.executions("drop"), self.peer.executions("burn")), (0, 0));
    }

    /// Enough turns for a checkpoint, each with a key.
    async fn long(mut self) {
        let (drop, burn) = self.two_cards().await;
        self.stage.decide(&drop, Decision::allow("ann")).await;
        self.stage.decide(&burn, Decision::allow("ann")).await;
        assert_eq!(self.stage.until_end().await, StopReason::Completed);
        let texts = ["second", "third"].map(str::to_owned).into_iter();
        for text in texts.chain((4..11).map(|number| format!("message-{number}"))) {
            self.say(&text).await;
            assert_eq!(self.stage.until_end().await, StopReason::Completed);
        }
    }
}

/// How fast the store of a story is.
#[derive(Debug, Clone, Copy)]
enum Pace {
    AtOnce,
    Slow,
}

fn setup(model: Arc<ScriptedModel>, peer: &Arc<Peer>) -> Setup {
    thinks(model).peer("a", peer).config(|config| config.approval_ttl_ms = Some(300_000))
}

/// Plays a story, then crashes it after each of its batches, in both ways.
async fn check<F: Future<Output = ()>>(name: &str, pace: Pace, story: impl FnOnce(Story) -> F) {
    let (peer, told) = (tools(), Arc::new(Mutex::new(Told::default())));
    let recorder = Recorder::new({
        let (executed, told) = (peer.executed(), told.clone());
        move || Seen {
            dropped: executed.of("drop"),
            burnt: executed.of("burn"),
            told: told.lock().expect("nobody panics").clone(),
        }
    });
    let steps = vec![
        Step { text: Some("Let me see.".to_owned()), ..call("a", "look", json!({})) },
        calls([("a", "look", json!({})), ("a", "drop", json!({})), ("a", "burn", json!({}))]),
        Step::text("Second."),
        Step::text("Third."),
    ];
    let setup = setup(Arc::new(ScriptedModel::new(steps)), &peer);
    let setup = match pace {
        Pace::AtOnce => setup.store(recorder.clone()),
        Pace::Slow => setup.store(Slow::over(recorder.clone(), LATENCY)),
    };
    let stage = setup.raise().await;
    story(Story { stage, peer, told }).await;
    settle().await;

    let moments = recorder.moments();
    assert!(moments.len() > 20, "{} moments", moments.len());
    // What the witness saw before the next batch may have happened at any time after this one.
    for (index, pair) in moments.windows(2).enumerate() {
        let [Moment { after_power_cut, after_kill, .. }, Moment { before: seen, .. }] = pair else {
            continue;
        };
        for (kind, store) in [("power cut", after_power_cut), ("kill", after_kill)] {
            after_crash(&format!("{name} {pace:?}, {kind} after batch {index}"), store, seen).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_crash_leaves_nothing_is_lost_and_nothing_runs_twice() {
    for pace in [Pace::AtOnce, Pace::Slow] {
        check("steered", pace, Story::steered).await;
        check("stopped", pace, Story::stopped).await;
        check("expired", pace, Story::expired).await;
        check("long", pace, Story::long).await;
    }
}

async fn after_crash(when: &str, store: &MemoryStore, seen: &Seen) {
    let peer = tools();
    let model = Arc::new(ScriptedModel::new((0..8).map(|_| Step::text("Well.")).collect()));
    let stage = setup(model.clone(), &peer).store(store.clone()).raise().await;
    in_one_place(when, &stage, seen);
    decide_everything(when, &stage, seen).await;
    tokio::time::sleep(PATIENCE).await;
    let status = stage.status();
    let rests =
        matches!(status, TopicStatus::Idle | TopicStatus::Done | TopicStatus::Error | TopicStatus::Aborted);
    assert!(rests, "{when}: {status:?} in {:#?}", stage.view());
    at_most_once(when, &stage, &peer, seen);
    goes_on(when, &stage, &model, seen).await;
    let shutdown = stage.runtime.shutdown().await;
    assert!(shutdown.is_clean(), "{when}: {shutdown:?}");
}

/// Every message that was taken is in exactly one place, and none runs by itself.
fn in_one_place(when: &str, stage: &Stage, seen: &Seen) {
    let view = stage.view();
    let of_turns = view.turns.iter().flat_map(|turn| &turn.messages);
    let places: Vec<_> =
        of_turns.chain(&view.queue).chain(&view.held).map(|message| message.message).collect();
    let distinct: BTreeSet<_> = places.iter().copied().collect();
    assert_eq!(distinct.len(), places.len(), "{when}: a message is in two places: {view:#?}");
    assert!(distinct.is_superset(&seen.told.taken), "{when}: of {seen:?} only {distinct:?} are left");
    assert_eq!(view.queue, [], "{when}: nothing that waited runs by itself");
}

/// The cards that are shown are those that a call waits for, and each can be decided.
async fn decide_everything(when: &str, stage: &Stage, seen: &Seen) {
    loop {
        settle().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cards = stage.runtime.approvals();
        assert_eq!(cards, stage.view().cards, "{when}: the ledger and the topic agree");
        if cards.is_empty() {
            return;
        }
        assert_eq!(stage.status(), TopicStatus::AwaitingApproval, "{when}");
        assert!(!seen.told.stopped, "{when}: a stopped turn asks nobody");
        for card in cards {
            assert_eq!(stage.decide(&card, Decision::allow("bob")).await, DecideAnswer::Applied, "{when}");
        }
    }
}

/// A call that needed a person ran at most once over both lives, and not at all if that was refused.
fn at_most_once(when: &str, stage: &Stage, peer: &Peer, seen: &Seen) {
    let now = (peer.executions("drop"), peer.executions("burn"));
    let ran = (seen.dropped + now.0, seen.burnt + now.1);
    assert!(ran.0 <= 1 && ran.1 <= 1, "{when}: {ran:?}");
    assert!(!seen.told.stopped || now == (0, 0), "{when}: {now:?} after the stop");
    assert!(!seen.told.denied || ran.0 == 0, "{when}: it was denied");
    // What is said to have been run, was; what was, is not said to have been refused.
    for (result, ran) in stage.results().iter().skip(2).zip([ran.0, ran.1]) {
        match result.outcome {
            CallOutcome::Succeeded => assert_eq!(ran, 1, "{when}: {result:?}"),
            CallOutcome::Denied | CallOutcome::Rejected => assert_eq!(ran, 0, "{when}: {result:?}"),
            CallOutcome::Unknown | CallOutcome::Cancelled => {}
            other => panic!("{when}: {other:?}"),
        }
    }
}

/// The topic goes on over a history that a provider takes, and a sender that repeats itself does no harm.
async fn goes_on(when: &str, stage: &Stage, model: &ScriptedModel, seen: &Seen) {
    let last = stage.topic.send_with_key("last", "last").await.expect("the message is taken");
    assert!(matches!(last.receipt, Receipt::Accepted { .. }), "{when}: {:?}", last.receipt);
    holds("the last message is answered", || stage.status() == TopicStatus::Done).await;
    let history = model.requests().pop().expect("it was asked").history;
    assert_acceptable(&history);
    assert_eq!(history.last(), Some(&HistoryItem::User { text: "last".to_owned() }), "{when}");
    for (text, number) in [("first", 1), ("second", 2), ("third", 3)] {
        let again = stage.topic.send_with_key(text, text).await.expect("the message is taken");
        let known = seen.told.taken.contains(&MessageId(number));
        assert!(!known || again.message == MessageId(number), "{when}: {again:?}");
        holds("it comes to rest", || stage.status() == TopicStatus::Done).await;
    }
    let mut texts: Vec<_> =
        stage.messages().iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
    texts.sort();
    let distinct: BTreeSet<_> = texts.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), texts.len(), "{when}: {texts:?}");
    assert!(distinct.is_superset(&["first", "last", "second", "third"].into()), "{when}: {texts:?}");
}
