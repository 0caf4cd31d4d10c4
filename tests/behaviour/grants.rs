//! What runs without a card: modes, standing approvals, and how both are taken back.

use std::sync::Arc;

use pilothouse::approval::{
    CardOwner, DecideAnswer, Decider, Grant, GrantOffer, GrantReach, GrantScope, GuardVerdict, RevokeAnswer,
    Subject,
};
use pilothouse::json::JsonText;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::topic::{ConfigPatch, Headless, PermissionMode, TopicStatus};
use pilothouse_harness::peer::Peer;
use serde_json::json;

use crate::stage::{Setup, Stage, call, calls, peer, plays, said};

fn tools() -> Arc<Peer> {
    peer(json!({"tools": [{"name": "look", "reply": "seen"}, {"name": "drop", "reply": "dropped"}]}))
}

/// A model that calls `drop` in this many turns, once in each.
fn drops(turns: usize) -> Setup {
    let turn = || [call("a", "drop", json!({"what": "it"})), Step::text("Done.")];
    plays((0..turns).flat_map(|_| turn()))
}

/// One turn to its end, or to a card.
async fn turn(stage: &mut Stage) -> (TopicStatus, String) {
    stage.say("Go.").await;
    stage.until_rest().await;
    (stage.status(), stage.results().last().map(said).unwrap_or_default())
}

async fn allow(stage: &mut Stage, offer: GrantOffer) -> Grant {
    let card = stage.until_card().await;
    assert_eq!(stage.decide(&card, Decision::allow("ann").granting(offer)).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    stage.runtime.grants().pop().expect("a grant holds")
}

#[tokio::test(start_paused = true)]
async fn a_mode_says_for_each_effect_whether_a_call_runs() {
    use PermissionMode::{AcceptEdits, Auto, Bypass, Default, Plan};
    let (done, waits) = ((TopicStatus::Done, "succeeded: dropped"), (TopicStatus::AwaitingApproval, ""));
    let denied = |words| (TopicStatus::Done, words);
    let rows = [
        (Default, Effect::Reads, done),
        (Default, Effect::Edits, waits),
        (Default, Effect::Executes, waits),
        (AcceptEdits, Effect::Edits, done),
        (AcceptEdits, Effect::Executes, waits),
        (Plan, Effect::Reads, done),
        (Plan, Effect::Edits, denied("denied: this tool changes things, and the mode \"plan\" only reads")),
        (
            Plan,
            Effect::Unknown,
            denied("denied: nobody has said what this tool may do, and the mode \"plan\" only reads"),
        ),
        (Auto, Effect::Reads, done),
        (Auto, Effect::Edits, waits),
        (Bypass, Effect::Edits, done),
        (Bypass, Effect::Unknown, done),
    ];
    for (mode, effect, expected) in rows {
        let server = Server::in_memory("a", tools()).effect("drop", effect);
        let mut stage = drops(1).server(server).config(|config| config.mode = mode).raise().await;
        let (status, result) = turn(&mut stage).await;
        assert_eq!((status, result.as_str()), expected, "{mode:?}, {effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_lets_the_next_call_run_and_a_revoked_one_asks_again() {
    let mut stage = drops(3).peer("a", &tools()).raise().await;
    assert_eq!(turn(&mut stage).await.0, TopicStatus::AwaitingApproval);
    let grant = allow(&mut stage, GrantOffer::new(GrantScope::Topic, GrantReach::Tool)).await;
    assert_eq!(turn(&mut stage).await, (TopicStatus::Done, "succeeded: dropped".into()));
    assert_eq!(stage.runtime.revoke(grant.grant, "bob").await, Ok(RevokeAnswer::Revoked));
    assert_eq!(stage.runtime.revoke(grant.grant, "bob").await, Ok(RevokeAnswer::Unknown));
    assert_eq!((stage.runtime.grants(), turn(&mut stage).await.0), (vec![], TopicStatus::AwaitingApproval));
}

#[tokio::test(start_paused = true)]
async fn a_stricter_mode_counts_at_once_and_takes_open_cards_back() {
    let mut stage = drops(1).peer("a", &tools()).raise().await;
    assert_eq!(turn(&mut stage).await.0, TopicStatus::AwaitingApproval);
    let patch = ConfigPatch { mode: Some(PermissionMode::Plan), ..ConfigPatch::default() };
    stage.topic.configure(patch).await.expect("it is taken");
    stage.until_status(TopicStatus::Done).await;
    let results: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!(results, ["denied: nobody has said what this tool may do, and the mode \"plan\" only reads"]);
    stage.runtime.shutdown().await;
    assert_eq!(stage.runtime.approvals(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn a_headless_topic_denies_what_needs_a_person() {
    let setup = drops(1).peer("a", &tools()).config(|config| config.headless = Headless::Deny);
    let (status, result) = turn(&mut setup.raise().await).await;
    let words = "denied: nobody has said what this tool may do, and nobody is there to be asked";
    assert_eq!((status, result.as_str()), (TopicStatus::Done, words));
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_are_what_is_sent_and_pass_the_guards_again() {
    let guard = |subject: &Subject| match subject.arguments.get("what") {
        Some(what) if what == "all" => GuardVerdict::Deny("not everything".into()),
        _ => GuardVerdict::Pass,
    };
    let peer = tools();
    let mut stage = drops(1).guard(guard).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let with = |text: &str| Decision::allow("ann").with_arguments(JsonText::parse(text).expect("JSON"));
    let refused = stage.runtime.decide(card.approval, with(r#"{"what":"all"}"#)).await;
    assert!(refused.expect_err("a guard says no").to_string().ends_with("not everything"));
    assert_eq!(stage.decide(&card, with(r#"{"what":"half"}"#)).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    let view = stage.view();
    let call = &view.turns[0].steps[0].calls[0];
    assert_eq!(call.arguments.value(), json!({"what": "half"}));
}

/// 2⁴⁰ visits, were they made.
fn endless() -> serde_json::Value {
    let level = |n: usize| json!({"$ref": format!("#/$defs/l{}", n + 1)});
    let mut levels: serde_json::Map<_, _> =
        (0..40).map(|n| (format!("l{n}"), json!({"allOf": [level(n), level(n)]}))).collect();
    levels.insert("l40".to_owned(), json!({"type": "object"}));
    json!({"type": "object", "$ref": "#/$defs/l0", "$defs": levels})
}

#[tokio::test(start_paused = true)]
async fn arguments_come_only_where_they_can_be_checked() {
    let peer = peer(json!({"tools": [{"name": "drop", "schema": endless(), "reply": "dropped"}]}));
    let mut stage = drops(1).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let arguments = || JsonText::parse(r#"{"what":"half"}"#).expect("JSON");
    let rows = [
        (Decision::allow("ann").with_arguments(arguments()), "checking these arguments would take too long"),
        (
            Decision::deny("ann", "no").with_arguments(arguments()),
            "a denial brings no arguments: leave them out",
        ),
    ];
    for (decision, words) in rows {
        let refused = stage.runtime.decide(card.approval, decision).await;
        assert!(refused.expect_err("it is refused").to_string().contains(words), "{words}");
    }
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    let late = Decision::allow("ann").with_arguments(arguments());
    let words = stage.runtime.decide(card.approval, late).await.expect_err("it is refused").to_string();
    assert!(words.contains("there is no open card"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn what_its_server_denies_by_now_is_not_called_although_its_card_was_approved() {
    let offered = tools();
    let mut stage = drops(1).peer("a", &offered).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    let stricter = Server::in_memory("a", offered.clone()).deny("drop");
    stage.runtime.edit_server(stricter).await.expect("it is edited");
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    assert_eq!(stage.results().len(), 1);
    assert!(said(&stage.results()[0]).starts_with("rejected: "), "{}", said(&stage.results()[0]));
    assert_eq!(offered.executions("drop"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_tool_or_server_voids_its_grant() {
    let store = crate::stage::memory();
    let before = peer(json!({"tools": [{"name": "drop", "description": "Drops.", "reply": "dropped"}]}));
    let mut stage = drops(1).peer("a", &before).store(store.clone()).raise().await;
    stage.say("Go.").await;
    allow(&mut stage, GrantOffer::new(GrantScope::Always, GrantReach::Tool)).await;
    let after = peer(json!({"tools": [{"name": "drop", "description": "Burns.", "reply": "burnt"}]}));
    let mut next = drops(1).peer("a", &after).store(store.crash()).raise().await;
    assert_eq!(next.runtime.grants().len(), 1);
    next.say("Go.").await;
    next.until_card().await;
    crate::stage::holds("the grant is void", || next.runtime.grants().is_empty()).await;
    assert_eq!((before.executions("drop"), after.executions("drop")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn several_cards_are_decided_at_once_each_by_its_own_decision() {
    let drops =
        [("a", "drop", json!({"n": 1})), ("a", "drop", json!({"n": 2})), ("a", "drop", json!({"n": 3}))];
    let peer = tools();
    let mut stage = plays([calls(drops), Step::text("Done.")]).peer("a", &peer).raise().await;
    stage.say("Go.").await;
    crate::stage::holds("three cards wait", || stage.runtime.approvals().len() == 3).await;
    let cards = stage.runtime.approvals();
    let [first, second, third] = cards.as_slice() else { panic!("{cards:?}") };
    let decisions = [
        (third.approval, Decision::allow("ann").of(third)),
        (first.approval, Decision::deny("ann", "no").of(first)),
        (second.approval, Decision::allow("ann").of(first)),
        (third.approval, Decision::deny("bob", "no")),
    ];
    let answers = stage.runtime.decide_each(decisions).await;
    let named: Vec<_> = answers.iter().map(|(approval, _)| *approval).collect();
    assert_eq!(named, [third.approval, first.approval, second.approval, third.approval]);
    let [
        Ok(DecideAnswer::Applied),
        Ok(DecideAnswer::Applied),
        Ok(DecideAnswer::Changed { .. }),
        Ok(conflict),
    ] = [&answers[0].1, &answers[1].1, &answers[2].1, &answers[3].1]
    else {
        panic!("{answers:?}")
    };
    let DecideAnswer::Conflict(settled) = conflict else { panic!("{conflict:?}") };
    assert_eq!((settled.by.as_deref(), settled.at.0 > 0), (Some("ann"), true));
    assert_eq!(stage.decide(second, Decision::allow("ann").of(second)).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    let results: Vec<_> = stage.results().iter().map(said).collect();
    assert_eq!(results, ["denied: denied by ann: no", "succeeded: dropped", "succeeded: dropped"]);
    assert_eq!(peer.executions("drop"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_who_may_decide_and_one_that_panics_says_no() {
    let policy = |card: &CardOwner, decider: Decider<'_>| {
        assert_ne!(decider.by, "mallory", "the policy's own fault");
        card.topic.as_str() == "t" && decider.by == "ann"
    };
    let peer = tools();
    let mut stage = drops(1).peer("a", &peer).build(|builder| builder.decide_policy(policy)).raise().await;
    stage.say("Go.").await;
    let card = stage.until_card().await;
    for by in ["bob", "mallory"] {
        assert_eq!(stage.decide(&card, Decision::allow(by)).await, DecideAnswer::Unknown, "{by}");
    }
    assert_eq!(stage.decide(&card, Decision::allow("ann")).await, DecideAnswer::Applied);
    stage.until_status(TopicStatus::Done).await;
    assert_eq!(stage.decide(&card, Decision::allow("bob")).await, DecideAnswer::Unknown);
    assert_eq!(peer.executions("drop"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_no_looser_than_the_runtime_allows() {
    use PermissionMode::{AcceptEdits, Auto, Bypass, Default, Plan};
    let rows = [
        (Default, vec![Default, Plan], vec![AcceptEdits, Auto, Bypass]),
        (AcceptEdits, vec![Default, Plan, AcceptEdits], vec![Auto, Bypass]),
        (Bypass, vec![Default, Plan, AcceptEdits, Auto, Bypass], vec![]),
    ];
    for (max, within, beyond) in rows {
        let runtime = drops(1).peer("a", &tools()).build(|builder| builder.max_mode(max)).start().await;
        for mode in within.iter().chain(&beyond) {
            let config = TopicConfig { mode: *mode, ..TopicConfig::new("main") };
            let opened = runtime.open_topic(format!("{mode:?}"), config).await;
            assert_eq!(opened.is_ok(), within.contains(mode), "{mode:?} under {max:?}: {opened:?}");
        }
        let topic = runtime.topic("Default").await.expect("it is open");
        for mode in beyond {
            let patch = ConfigPatch { mode: Some(mode), ..ConfigPatch::default() };
            let refused = topic.configure(patch).await.expect_err("it is too loose").to_string();
            assert!(refused.contains("the loosest that this runtime allows"), "{refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_classifier_that_does_not_answer_has_a_person_asked() {
    #[derive(Clone, Copy)]
    enum Fault {
        Late,
        Fails,
        Panics,
    }
    let rows = [
        (Fault::Late, "the classifier took too long, so a person is asked"),
        (Fault::Fails, "the classifier could not tell: no idea"),
        (Fault::Panics, "the classifier panicked, so a person is asked"),
    ];
    for (fault, reason) in rows {
        let classifier = move |_subject: Subject| async move {
            match fault {
                Fault::Late => std::future::pending().await,
                Fault::Fails => Err("no idea".to_owned()),
                Fault::Panics => panic!("its own fault"),
            }
        };
        let peer = tools();
        let setup = drops(1).peer("a", &peer).build(|builder| builder.classifier(classifier));
        let mut stage = setup.config(|config| config.mode = PermissionMode::Auto).raise().await;
        stage.say("Go.").await;
        assert_eq!(stage.until_card().await.reason, reason);
        assert_eq!(peer.executions("drop"), 0);
    }
}
