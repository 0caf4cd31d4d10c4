//! Opening, configuring, and turns from their message to their stop reason.

use pilothouse_messages::call::{CallOutcome, CallResult, LateAnswer, LateWord};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Attempt, TenantId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::topic::{
    CallPlan, ConfigPatch, Configured, Recovery, Setting, StopReason, TopicAnswer, TopicCommand, TopicConfig,
    TopicEvent, TopicRejection, TopicStatus as Is,
};

use super::words::{
    accepted, allows, answered, call, call_ends, call_says, call_starts, cancel, change, done, fails, look,
    missing, open, planned, planned_look, replied, replies, reply, returns, run_look, run_model, says, send,
    sends, step_ends, step_ref, step_starts, stop, took, turn_ends, turn_starts,
};
use super::{NOW, after, check, check_in, on};

fn opens(config: TopicConfig) -> TopicCommand {
    TopicCommand::Open { config }
}

fn configured(config: TopicConfig) -> TopicEvent {
    TopicEvent::Configured { config, at: NOW }
}

fn model_patch(model: &str) -> TopicCommand {
    TopicCommand::Configure { patch: ConfigPatch { model: Some(model.into()), ..ConfigPatch::default() } }
}

#[test]
fn a_topic_that_was_never_opened_takes_nothing_but_its_opening() {
    let id = call(1, 1, 0);
    let commands = [
        model_patch("n"),
        send("hi"),
        stop(),
        says(1, 1, "a"),
        replies(1, 1, "a", vec![]),
        fails(1, 1, "no"),
        sends(id, 1),
        returns(id, 1, "ok"),
        allows(id),
        TopicCommand::Recover { cause: Recovery::ProcessRestart },
        TopicCommand::ShutDown,
    ];
    let row = |command| on(command, Is::Idle).refused(TopicRejection::NotOpen);
    check([], commands.into_iter().map(row).collect());
}

#[test]
fn opening_again_is_recorded_only_if_it_changes_something_and_never_changes_the_tenant() {
    let (first, other) = (TopicConfig::new("m"), TopicConfig::new("n"));
    let mut foreign = TopicConfig::new("m");
    foreign.tenant = TenantId::new("foreign").expect("an id");
    let said =
        |now: &[Setting]| TopicAnswer::Configured(Configured { now: now.to_vec(), next_turn: Vec::new() });
    check(
        [],
        vec![
            on(opens(first.clone()), Is::Idle).answers(said(&[])).records([configured(first.clone())]),
            on(opens(first.clone()), Is::Idle),
            on(opens(foreign), Is::Idle).refused(TopicRejection::OtherTenant),
            on(opens(other.clone()), Is::Idle)
                .answers(said(&[Setting::Model]))
                .records([configured(other.clone())]),
            on(model_patch("n"), Is::Idle).answers(said(&[])),
            on(model_patch("m"), Is::Idle).answers(said(&[Setting::Model])).records([configured(first)]),
        ],
    );
}

#[test]
fn a_change_while_a_turn_runs_waits_for_the_next_turn() {
    let patch = ConfigPatch { model: Some("n".into()), max_steps: Some(1), ..ConfigPatch::default() };
    let change = TopicCommand::Configure { patch: patch.clone() };
    let config = TopicConfig::new("m").patched(&patch);
    check(
        [open(), send("a")],
        vec![
            on(change.clone(), Is::Pending)
                .answers(TopicAnswer::Configured(Configured {
                    now: Vec::new(),
                    next_turn: vec![Setting::Model, Setting::MaxSteps],
                }))
                .records([configured(config)]),
            on(replies(1, 1, "", vec![missing()]), Is::Streaming)
                .records([
                    replied(1, 1, "", vec![planned(call(1, 1, 0), &missing(), no_such_tool())]),
                    call_says(call(1, 1, 0), 0, CallOutcome::Rejected, "there is no tool \"missing\""),
                    step_ends(1, 1),
                    step_starts(1, 2),
                ])
                .does([run_model(1, 2)]),
        ],
    );
    let (state, _) = after(&Limits::default(), [open(), send("a"), change]);
    let model = |config: Option<&TopicConfig>| config.map(|config| config.model.clone());
    assert_eq!(model(state.turn_config()), Some("m".into()));
    assert_eq!(model(state.config()), Some("n".into()));
}

fn no_such_tool() -> CallPlan {
    CallPlan::Reject("there is no tool \"missing\"".into())
}

#[test]
fn a_message_starts_a_turn_and_a_reply_without_calls_ends_it() {
    check(
        [open()],
        vec![
            on(send("  "), Is::Idle).refused(TopicRejection::EmptyText),
            on(send("hi"), Is::Pending)
                .answers(took(1, 1))
                .records([vec![accepted(1, "hi")], turn_starts(1, 1).into()].concat())
                .does([run_model(1, 1)]),
            on(says(1, 1, ""), Is::Pending),
            on(says(1, 1, "a"), Is::Streaming)
                .records([TopicEvent::TextAppended { at: step_ref(1, 1), delta: "a".into() }]),
            on(says(1, 2, "a"), Is::Streaming).refused(TopicRejection::Stale),
            on(replies(1, 1, "ab", vec![]), Is::Done).records([
                replied(1, 1, "ab", vec![]),
                step_ends(1, 1),
                turn_ends(1, StopReason::Completed),
            ]),
            on(says(1, 1, "a"), Is::Done).refused(TopicRejection::Stale),
            on(replies(1, 1, "ab", vec![]), Is::Done).refused(TopicRejection::Stale),
            on(fails(1, 1, "no"), Is::Done).refused(TopicRejection::Stale),
        ],
    );
}

#[test]
fn an_answer_that_is_known_at_once_is_the_calls_result_and_nothing_is_started() {
    let answers = |step| {
        let id = call(1, step, 0);
        on(replies(1, step, "", vec![answered()]), Is::Streaming)
            .records([
                replied(1, step, "", vec![planned(id, &answered(), CallPlan::Answered)]),
                call_says(id, 0, CallOutcome::Succeeded, "two tools"),
                step_ends(1, step),
                step_starts(1, step + 1),
            ])
            .does([run_model(1, step + 1)])
    };
    check([open(), send("hi")], vec![answers(1), answers(2)]);
}

#[test]
fn calls_run_side_by_side_and_the_step_ends_when_each_has_its_result() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    check(
        [open(), send("hi")],
        vec![
            on(replies(1, 1, "x", vec![look(), look()]), Is::Streaming)
                .records([
                    replied(1, 1, "x", vec![planned_look(a), planned_look(b)]),
                    call_starts(a, 1),
                    call_starts(b, 1),
                ])
                .does([run_look(a, 1), run_look(b, 1)]),
            on(sends(b, 1), Is::Streaming).records([TopicEvent::CallSent { call: b, attempt: Attempt(1) }]),
            on(sends(b, 1), Is::Streaming),
            on(sends(b, 2), Is::Streaming).refused(TopicRejection::Stale),
            on(returns(b, 1, "B"), Is::Streaming).records([call_ends(b, 1, done("B"))]),
            on(returns(b, 1, "again"), Is::Streaming).refused(TopicRejection::Stale),
            on(returns(a, 2, "other"), Is::Streaming).refused(TopicRejection::Stale),
            on(returns(call(1, 1, 2), 1, "other"), Is::Streaming).refused(TopicRejection::Stale),
            on(returns(a, 1, "A"), Is::Streaming)
                .records([call_ends(a, 1, done("A")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
            on(returns(a, 1, "late"), Is::Streaming).refused(TopicRejection::Stale),
            on(replies(1, 2, "y", vec![]), Is::Done).records([
                replied(1, 2, "y", vec![]),
                step_ends(1, 2),
                turn_ends(1, StopReason::Completed),
            ]),
        ],
    );
}

#[test]
fn a_result_is_cut_to_its_limit() {
    let mut limits = Limits::default();
    limits.result_bytes = 2;
    let id = call(1, 1, 0);
    check_in(
        &limits,
        [open(), send("hi"), replies(1, 1, "", vec![look()])],
        vec![
            on(returns(id, 1, "abc"), Is::Streaming)
                .records([call_ends(id, 1, done("abc").capped(2)), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
        ],
    );
    assert_ne!(done("abc").capped(2), done("abc"));
}

#[test]
fn a_turn_that_used_its_steps_ends_at_the_boundary() {
    let mut limits = Limits::default();
    limits.steps_per_turn = 2;
    let (one, two) = (call(1, 1, 0), call(1, 2, 0));
    let ends = || {
        vec![on(returns(two, 1, "B"), Is::Done).records([
            call_ends(two, 1, done("B")),
            step_ends(1, 2),
            turn_ends(1, StopReason::StepLimit),
        ])]
    };
    let rest =
        [send("hi"), replies(1, 1, "", vec![look()]), returns(one, 1, "A"), replies(1, 2, "", vec![look()])];
    check_in(&limits, [vec![open()], rest.to_vec()].concat(), ends());
    let mut config = TopicConfig::new("m");
    config.max_steps = Some(2);
    check([vec![opens(config)], rest.to_vec()].concat(), ends());
}

#[test]
fn a_reply_that_was_cut_off_or_refused_runs_none_of_its_calls() {
    for (finish, stop, status, words) in [
        (
            FinishReason::Length,
            StopReason::OutputTruncated,
            Is::Done,
            "the reply was cut off, so this call was not run",
        ),
        (
            FinishReason::Refused,
            StopReason::Refused,
            Is::Error,
            "the model refused, so this call was not run",
        ),
    ] {
        let calls: Vec<_> = [look(), change(), missing()].into_iter().zip(0..).collect();
        let plan = || CallPlan::Reject(words.into());
        let planned_calls = calls.iter().map(|(asked, i)| planned(call(1, 1, *i), asked, plan())).collect();
        let results = calls.iter().map(|(_, i)| call_says(call(1, 1, *i), 0, CallOutcome::Rejected, words));
        let replied = TopicEvent::StepReplied {
            at: step_ref(1, 1),
            text: "x".into(),
            calls: planned_calls,
            finish,
            usage: Usage { input: 3, output: 2 },
        };
        let mut events = vec![replied];
        events.extend(results);
        events.extend([step_ends(1, 1), turn_ends(1, stop)]);
        let asked = calls.into_iter().map(|(asked, _)| asked).collect();
        let command = TopicCommand::ModelReplied { at: step_ref(1, 1), reply: reply("x", asked, finish) };
        check([open(), send("hi")], vec![on(command, status).records(events)]);
    }
}

#[test]
fn a_reply_larger_than_its_limits_fails_the_turn() {
    let mut limits = Limits::default();
    limits.calls_per_reply = 1;
    limits.reply_bytes = 20;
    let failed = |words: &str| turn_ends(1, StopReason::Failed(words.into()));
    let too_long = "the model's reply is longer than 20 bytes";
    for (command, words) in [
        (
            replies(1, 1, "", vec![look(), look()]),
            "the model asked for 2 tool calls in one reply, the limit is 1",
        ),
        (replies(1, 1, &"x".repeat(21), vec![]), too_long),
        (replies(1, 1, "123456789", vec![look()]), too_long),
    ] {
        check_in(&limits, [open(), send("hi")], vec![on(command, Is::Error).records([failed(words)])]);
    }
    // The arguments, the name and the provider's id of `look` are twelve bytes.
    let fits = replies(1, 1, "12345678", vec![look()]);
    let row = on(fits, Is::Streaming)
        .records([
            replied(1, 1, "12345678", vec![planned_look(call(1, 1, 0))]),
            call_starts(call(1, 1, 0), 1),
        ])
        .does([run_look(call(1, 1, 0), 1)]);
    check_in(&limits, [open(), send("hi")], vec![row]);
    let streams = [open(), send("hi"), says(1, 1, &"x".repeat(20))];
    let row = on(says(1, 1, "x"), Is::Error).records([failed(too_long)]).does([cancel(1)]);
    check_in(&limits, streams, vec![row]);
}

#[test]
fn a_failed_model_fails_the_turn_in_its_own_words_and_the_next_message_starts_another() {
    let mut limits = Limits::default();
    limits.description_bytes = 4;
    let row = |message, words: &str| {
        on(fails(1, 1, message), Is::Error).records([turn_ends(1, StopReason::Failed(words.into()))])
    };
    let next = on(send("b"), Is::Pending)
        .answers(took(2, 2))
        .records([vec![accepted(2, "b")], turn_starts(2, 2).into()].concat())
        .does([run_model(2, 1)]);
    check([open(), send("a")], vec![row("no credit", "no credit"), next]);
    check_in(&limits, [open(), send("a")], vec![row("né né", "né ")]);
}

#[test]
fn a_step_whose_calls_are_all_rejected_ends_at_once_and_a_mixed_one_waits_for_the_rest() {
    let (a, b) = (call(1, 1, 0), call(1, 1, 1));
    let rejected = |id| call_says(id, 0, CallOutcome::Rejected, "there is no tool \"missing\"");
    let mixed = on(replies(1, 1, "", vec![missing(), look()]), Is::Streaming)
        .records([
            replied(1, 1, "", vec![planned(a, &missing(), no_such_tool()), planned_look(b)]),
            rejected(a),
            call_starts(b, 1),
        ])
        .does([run_look(b, 1)]);
    let result = CallResult::unavailable("down", None);
    let returned = TopicCommand::CallReturned { call: b, attempt: Attempt(1), result: result.clone() };
    let boundary = on(returned, Is::Streaming)
        .records([call_ends(b, 1, result), step_ends(1, 1), step_starts(1, 2)])
        .does([run_model(1, 2)]);
    check([open(), send("hi")], vec![mixed, boundary]);
}

#[test]
fn an_answer_that_nobody_waited_for_is_recorded_and_changes_nothing() {
    let answer = LateAnswer { word: LateWord::Succeeded, digest: Digest([5; 32]) };
    let late = |turn| TopicCommand::CallAnsweredLate { call: call(turn, 1, 0), answer };
    let recorded = |turn| TopicEvent::CallAnsweredLate { call: call(turn, 1, 0), answer, at: NOW };
    check(
        vec![open(), send("a"), replies(1, 1, "", vec![look()])],
        vec![
            on(late(1), Is::Streaming).records([recorded(1)]),
            on(late(2), Is::Streaming).refused(TopicRejection::Stale),
            on(late(0), Is::Streaming).refused(TopicRejection::Stale),
        ],
    );
}
