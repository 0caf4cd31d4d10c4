//! Calls that a script makes: recorded below the script's own call, each with one result.

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{Attempt, CallId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::tool::Effect;
use pilothouse_messages::topic::{
    CallState, HoldReason, NestedCall, NestedNews, NestedPlan, NestedView, PermissionMode, Recovery,
    RequestedCall, Resolution, ResolvedTool, RunBasis, StopReason, TopicAnswer, TopicCommand, TopicConfig,
    TopicEvent, TopicRejection as Refused, TopicStatus as Is, TopicUpdate,
};

use super::words::{
    call, call_ends, call_says, cancel, done, held, look, open, replies, returns, run_model, send, sends,
    step_ends, step_starts, stop, tool, turn_ends,
};
use super::{NOW, Row, after, check, check_in, on};
use crate::decider::Decider;

fn news(script: CallId, news: NestedNews) -> TopicCommand {
    TopicCommand::Nested { call: script, attempt: Attempt(1), news }
}

fn made(number: u32, plan: NestedPlan) -> NestedNews {
    let tool = Some(tool("find", Effect::Reads));
    let name = "find".into();
    NestedNews::Called(Box::new(NestedCall { number, name, arguments: look().arguments, tool, plan }))
}

fn refusal() -> CallResult {
    CallResult::said(CallOutcome::Rejected, "a person would have to be asked")
}

/// The script calls something that runs.
pub(super) fn script_calls(script: CallId, number: u32) -> TopicCommand {
    news(script, made(number, NestedPlan::Run(RunBasis::Mode)))
}

/// The script calls something that is refused.
pub(super) fn script_refused(script: CallId, number: u32) -> TopicCommand {
    news(script, made(number, NestedPlan::Answered(refusal())))
}

pub(super) fn script_sends(script: CallId, number: u32) -> TopicCommand {
    news(script, NestedNews::Sent { number })
}

pub(super) fn script_returns(script: CallId, number: u32, text: &str) -> TopicCommand {
    news(script, NestedNews::Returned { number, result: done(text) })
}

/// A turn whose model has started a script, which was handed over.
fn scripted() -> Vec<TopicCommand> {
    let script = RequestedCall {
        name: "tool_exec".into(),
        resolution: Resolution::Tool(Box::new(tool("tool_exec", Effect::Reads))),
        ..look()
    };
    vec![open(), send("a"), replies(1, 1, "", vec![script]), sends(call(1, 1, 0), 1)]
}

fn records(command: TopicCommand) -> Row {
    let TopicCommand::Nested { call, news, .. } = command.clone() else { panic!("no news of a script") };
    on(command, Is::Streaming).records([TopicEvent::Nested { call, news }])
}

/// The event with which an unfinished call of the script ends.
fn ends(number: u32, outcome: CallOutcome, words: &str) -> TopicEvent {
    let result = CallResult::said(outcome, words);
    TopicEvent::Nested { call: call(1, 1, 0), news: NestedNews::Returned { number, result } }
}

const ENDED: &str = "its script ended while it ran: it may have had its effect";
const CUT_OFF: &str = "its script was cut off: nobody knows whether it ran";

#[test]
fn each_call_of_a_script_is_recorded_once_with_one_result_and_late_news_change_nothing() {
    let script = call(1, 1, 0);
    let stale = |command| on(command, Is::Streaming).refused(Refused::Stale);
    let other = |attempt| {
        let news = made(9, NestedPlan::Run(RunBasis::Mode));
        TopicCommand::Nested { call: script, attempt: Attempt(attempt), news }
    };
    check(
        scripted(),
        vec![
            stale(script_sends(script, 1)),
            stale(script_returns(script, 1, "early")),
            records(script_calls(script, 1)),
            stale(script_calls(script, 1)),
            records(script_sends(script, 1)),
            on(script_sends(script, 1), Is::Streaming),
            records(script_calls(script, 2)),
            records(script_returns(script, 1, "one")),
            stale(script_returns(script, 1, "again")),
            records(script_refused(script, 3)),
            stale(script_returns(script, 3, "refused")),
            stale(other(2)),
            stale(script_calls(call(1, 1, 1), 1)),
            records(script_returns(script, 2, "two")),
            on(returns(script, 1, "all"), Is::Streaming)
                .records([call_ends(script, 1, done("all")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
            stale(script_calls(script, 4)),
        ],
    );
}

#[test]
fn a_script_that_ends_leaves_no_call_without_a_result() {
    let script = call(1, 1, 0);
    let running = || [scripted(), vec![script_calls(script, 1), script_calls(script, 2)]].concat();
    let sent = || [running(), vec![script_sends(script, 1), script_returns(script, 1, "one")]].concat();
    let by_itself = on(returns(script, 1, "all"), Is::Streaming)
        .records([
            ends(2, CallOutcome::Cancelled, ENDED),
            call_ends(script, 1, done("all")),
            step_ends(1, 1),
            step_starts(1, 2),
        ])
        .does([run_model(1, 2)]);
    check(sent(), vec![by_itself]);
    let stopped = on(stop(), Is::Aborted)
        .answers(TopicAnswer::Stopped { turn: Some(script.turn) })
        .records([
            ends(1, CallOutcome::Cancelled, ENDED),
            ends(2, CallOutcome::Cancelled, ENDED),
            call_says(
                script,
                1,
                CallOutcome::Cancelled,
                "stopped by ann while it ran: it may have had its effect",
            ),
            turn_ends(1, StopReason::Aborted),
        ])
        .does([cancel(1)]);
    check(running(), vec![stopped]);
    let cause = Recovery::ProcessRestart;
    let words = "the process was restarted after this call was sent: nobody knows whether it ran";
    let waiting = [sent(), vec![send("b")]].concat();
    let recovered = on(TopicCommand::Recover { cause }, Is::Error).records([
        TopicEvent::Recovered { cause, at: NOW },
        ends(2, CallOutcome::Unknown, CUT_OFF),
        call_says(script, 1, CallOutcome::Unknown, words),
        turn_ends(1, StopReason::Interrupted("the process was restarted".into())),
        held(&[2], HoldReason::ProcessRestart),
    ]);
    check(waiting, vec![recovered]);
}

#[test]
fn a_script_calls_as_often_as_it_may() {
    let script = call(1, 1, 0);
    let mut limits = Limits::default();
    limits.exec.calls = 1;
    let refused = Refused::NestedCalls { limit: 1 };
    let given = [scripted(), vec![script_calls(script, 7)]].concat();
    check_in(&limits, given, vec![on(script_calls(script, 8), Is::Streaming).refused(refused)]);
}

#[test]
fn a_call_that_the_mode_no_longer_lets_run_is_not_recorded() {
    let script = call(1, 1, 0);
    let mut edits = made(1, NestedPlan::Run(RunBasis::Mode));
    let NestedNews::Called(made) = &mut edits else { panic!("no call") };
    made.tool = made.tool.take().map(|tool| ResolvedTool { effect: Effect::Edits, ..tool });
    let command = news(script, edits);
    let refused = Refused::ModeForbids { mode: PermissionMode::Default };
    check(scripted(), vec![on(command.clone(), Is::Streaming).refused(refused)]);

    let in_mode = |mode| TopicCommand::Open { config: TopicConfig { mode, ..TopicConfig::new("m") } };
    let edits = [vec![in_mode(PermissionMode::AcceptEdits)], scripted().split_off(1)].concat();
    check(edits.clone(), vec![records(command.clone())]);
    // It became stricter while the script's call was judged.
    let tightened = [edits, vec![in_mode(PermissionMode::Plan)]].concat();
    let refused = Refused::ModeForbids { mode: PermissionMode::Plan };
    check(tightened, vec![on(command, Is::Streaming).refused(refused)]);
}

#[test]
fn what_is_recorded_of_a_call_is_bounded() {
    let script = call(1, 1, 0);
    let (state, _) = after(&Limits::default(), scripted());
    let long = "x".repeat(20_000);
    let called = |news: NestedNews| match news {
        NestedNews::Called(call) => *call,
        NestedNews::Sent { .. } | NestedNews::Returned { .. } => panic!("no call"),
    };
    let mut large = called(made(1, NestedPlan::Answered(done(&long))));
    large.arguments = JsonText::from(&serde_json::json!({"text": long}));
    large.name.clone_from(&long);
    let decision =
        state.decide(NOW, &news(script, NestedNews::Called(Box::new(large)))).expect("it is taken");
    let [TopicEvent::Nested { news: NestedNews::Called(recorded), .. }] = decision.events.as_slice() else {
        panic!("{:?}", decision.events)
    };
    assert_eq!(recorded.arguments.as_str(), r#""20011 bytes of arguments, too many to be recorded""#);
    assert_eq!(recorded.name.len(), 256);
    let NestedPlan::Answered(result) = &recorded.plan else { panic!("{recorded:?}") };
    // Its pieces have that much, and a line break joins them.
    assert!(result.text().len() <= (8 << 10) + 1 && result.text().ends_with("bytes, 8143 are shown]"));
}

#[test]
fn the_calls_of_a_script_are_told_and_shown_below_it() {
    let script = call(1, 1, 0);
    let (mut state, _) = after(&Limits::default(), scripted());
    let (tool, server) = ("find".to_owned(), Some("files".to_owned()));
    let started =
        TopicUpdate::NestedStarted { call: script, number: 1, tool: tool.clone(), server: server.clone() };
    let finished = |number, result| TopicUpdate::NestedFinished {
        call: script,
        number,
        tool: tool.clone(),
        server: server.clone(),
        result,
    };
    for (command, expected) in [
        (script_calls(script, 1), vec![started]),
        (script_sends(script, 1), vec![]),
        (script_refused(script, 2), vec![finished(2, refusal())]),
        (script_returns(script, 1, "one"), vec![finished(1, done("one"))]),
    ] {
        let decision = state.decide(NOW, &command).unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let told: Vec<_> = decision.events.iter().flat_map(|event| state.apply_told(event)).collect();
        assert_eq!(told, expected, "{command:?}");
    }
    let shown = |number, result| NestedView {
        number,
        tool: tool.clone(),
        arguments: look().arguments,
        state: CallState::Finished(result),
    };
    let view = state.view();
    assert_eq!(view.turns[0].steps[0].calls[0].nested, [shown(1, done("one")), shown(2, refusal())]);
}
