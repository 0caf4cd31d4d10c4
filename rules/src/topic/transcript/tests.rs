use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Attempt, CallId, MessageId, StepId, StepRef, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{FinishReason, HistoryCall, HistoryItem, Usage};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{
    CallPlan, HoldReason, PlannedCall, ResolvedTool, RunBasis, StopReason, TopicEvent,
};

use super::Transcript;

const AT: Timestamp = Timestamp(1);

fn step(turn: u64, step: u32) -> StepRef {
    StepRef { turn: TurnId(turn), step: StepId(step), attempt: Attempt(1) }
}

fn call(index: u32) -> CallId {
    CallId { turn: TurnId(1), step: StepId(1), index }
}

fn arguments() -> JsonText {
    JsonText::parse("{}").expect("JSON")
}

fn sent(id: u64, text: &str) -> TopicEvent {
    TopicEvent::MessageAccepted { message: MessageId(id), text: text.into(), key: None, at: AT }
}

fn started(turn: u64, message: u64) -> TopicEvent {
    TopicEvent::TurnStarted { turn: TurnId(turn), messages: vec![MessageId(message)], at: AT }
}

fn wrote(delta: &str) -> TopicEvent {
    TopicEvent::TextAppended { at: step(1, 1), delta: delta.into() }
}

fn replied(text: &str, calls: u32) -> TopicEvent {
    let planned = |index| PlannedCall {
        call: call(index),
        provider_id: None,
        name: "look".into(),
        arguments: arguments(),
        tool: None,
        plan: CallPlan::Reject("no".into()),
    };
    let (finish, usage) = (FinishReason::Stop, Usage::default());
    let calls = (0..calls).map(planned).collect();
    TopicEvent::StepReplied { at: step(1, 1), text: text.into(), calls, finish, usage }
}

fn result(text: &str) -> CallResult {
    CallResult::said(CallOutcome::Succeeded, text)
}

fn returned(index: u32, text: &str) -> TopicEvent {
    TopicEvent::CallFinished { call: call(index), attempt: Attempt(1), result: result(text) }
}

fn ended(turn: u64, stop: StopReason) -> TopicEvent {
    TopicEvent::TurnFinished { turn: TurnId(turn), stop, at: AT }
}

fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.into() }
}

fn assistant(text: &str, calls: u32) -> HistoryItem {
    let asked = |index| HistoryCall { call: call(index), name: "look".into(), arguments: arguments() };
    HistoryItem::Assistant { text: text.into(), calls: (0..calls).map(asked).collect() }
}

fn tool(index: u32, text: &str) -> HistoryItem {
    HistoryItem::Tool { call: call(index), result: result(text) }
}

fn folded(events: &[TopicEvent]) -> Transcript {
    let mut transcript = Transcript::default();
    events.iter().for_each(|event| transcript.apply(event));
    transcript
}

fn check(events: Vec<TopicEvent>, expected: Vec<HistoryItem>) {
    assert_eq!(folded(&events).items(), expected, "{events:?}");
}

#[test]
fn results_stand_behind_their_reply_in_the_order_of_its_calls() {
    let asked = || vec![sent(1, "hi"), started(1, 1), wrote("x"), replied("xy", 3)];
    let history = |results: Vec<HistoryItem>| [vec![user("hi"), assistant("xy", 3)], results].concat();
    check(asked(), history(vec![]));
    check(
        [asked(), vec![returned(2, "C"), returned(0, "A")]].concat(),
        history(vec![tool(0, "A"), tool(2, "C")]),
    );
    let all = vec![returned(2, "C"), returned(0, "A"), returned(1, "B"), returned(1, "again")];
    check([asked(), all].concat(), history(vec![tool(0, "A"), tool(1, "B"), tool(2, "C")]));
}

#[test]
fn a_message_that_waited_comes_after_the_results_of_the_turn_that_yielded_to_it() {
    check(
        vec![
            sent(1, "hi"),
            started(1, 1),
            replied("", 1),
            sent(2, "and"),
            returned(0, "A"),
            ended(1, StopReason::Yielded),
            started(2, 2),
        ],
        vec![user("hi"), assistant("", 1), tool(0, "A"), user("and")],
    );
}

#[test]
fn a_message_is_told_as_it_was_mended_and_one_that_was_dropped_is_forgotten() {
    let (message, at) = (MessageId(2), AT);
    let held = TopicEvent::MessagesHeld { messages: vec![message], reason: HoldReason::Aborted };
    let mended = TopicEvent::MessageEdited { message, text: "mended".into() };
    let resent = TopicEvent::MessageResent { message, at };
    let dropped = TopicEvent::MessageDropped { message, by: "ann".into(), at };
    check(vec![sent(2, "held"), held.clone(), mended, resent, started(1, 2)], vec![user("mended")]);
    assert_eq!(folded(&[sent(2, "held"), held, dropped]), Transcript::default());
}

#[test]
fn a_turn_that_takes_up_cut_words_is_asked_to_go_on_and_one_behind_a_result_is_not() {
    let goes_on = TopicEvent::TurnContinued { turn: TurnId(2), of: TurnId(1) };
    let cut = ended(1, StopReason::OutputTruncated);
    let asked = user("Go on where you stopped.");
    check(
        vec![sent(1, "hi"), started(1, 1), replied("Once", 0), cut.clone(), goes_on.clone()],
        vec![user("hi"), assistant("Once", 0), asked],
    );
    check(
        vec![sent(1, "hi"), started(1, 1), replied("", 1), returned(0, "A"), cut, goes_on],
        vec![user("hi"), assistant("", 1), tool(0, "A")],
    );
}

#[test]
fn a_message_that_joins_a_turn_stands_behind_the_results_of_the_step_before() {
    let joins = TopicEvent::MessagesInjected {
        turn: TurnId(1),
        step: StepId(2),
        messages: vec![MessageId(2), MessageId(3)],
    };
    check(
        vec![
            sent(1, "hi"),
            started(1, 1),
            replied("", 1),
            sent(2, "and"),
            sent(3, "so"),
            returned(0, "A"),
            joins,
        ],
        vec![user("hi"), assistant("", 1), tool(0, "A"), user("and"), user("so")],
    );
}

#[test]
fn a_held_message_is_not_in_it() {
    let held = TopicEvent::MessagesHeld { messages: vec![MessageId(2)], reason: HoldReason::Aborted };
    check(
        vec![
            sent(1, "hi"),
            started(1, 1),
            sent(2, "held"),
            ended(1, StopReason::Aborted),
            held,
            sent(3, "next"),
            started(2, 3),
        ],
        vec![user("hi"), user("next")],
    );
}

#[test]
fn a_turn_that_was_cut_off_keeps_the_text_so_far() {
    let opens = || vec![sent(1, "hi"), started(1, 1)];
    let stops = || ended(1, StopReason::Aborted);
    check(
        [opens(), vec![wrote("half "), wrote("a reply"), stops()]].concat(),
        vec![user("hi"), assistant("half a reply", 0)],
    );
    check([opens(), vec![wrote("half")]].concat(), vec![user("hi")]);
    check([opens(), vec![stops()]].concat(), vec![user("hi")]);
}

#[test]
fn a_whole_reply_is_in_it_once_and_an_empty_one_not_at_all() {
    let opens = || vec![sent(1, "hi"), started(1, 1)];
    let ends = || ended(1, StopReason::Completed);
    check(
        [opens(), vec![wrote("x"), replied("xy", 0), ends()]].concat(),
        vec![user("hi"), assistant("xy", 0)],
    );
    check([opens(), vec![replied("", 0), ends()]].concat(), vec![user("hi")]);
    let again = TopicEvent::StepStarted { at: step(1, 1) };
    check([opens(), vec![wrote("lost"), again, ends()]].concat(), vec![user("hi")]);
}

/// The model reads back what it wrote, with the arguments that were sent.
#[test]
fn a_tool_that_was_called_through_another_one_keeps_the_models_form() {
    let tool = ResolvedTool {
        name: "mcp__db__find_0123456789abcdef0123".into(),
        source: ToolSource::Builtin { name: "find".into() },
        label: "db".into(),
        title: None,
        effect: Effect::Reads,
        force_prompt: false,
        interruptible: false,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    };
    let json = |text: &str| JsonText::parse(text).expect("JSON");
    let planned = |index, name: &str| PlannedCall {
        call: call(index),
        provider_id: None,
        name: name.into(),
        arguments: json(r#"{"n":1.50}"#),
        tool: Some(tool.clone()),
        plan: CallPlan::Run(RunBasis::Mode),
    };
    let (finish, usage) = (FinishReason::Stop, Usage::default());
    let calls = vec![planned(0, "tool_invoke"), planned(1, &tool.name)];
    let replied = TopicEvent::StepReplied { at: step(1, 1), text: String::new(), calls, finish, usage };
    let edited = |index| TopicEvent::CallEdited { call: call(index), arguments: json(r#"{"n":2}"#) };
    let shown = |events: &[TopicEvent]| match folded(events).items().pop() {
        Some(HistoryItem::Assistant { calls, .. }) => {
            calls.into_iter().map(|call| format!("{} {}", call.name, call.arguments)).collect()
        }
        _ => Vec::new(),
    };
    let expected = |arguments: &str| {
        vec![
            format!(r#"tool_invoke {{"name":"{}","params":{arguments}}}"#, tool.name),
            format!("{} {arguments}", tool.name),
        ]
    };
    let events = [replied, edited(0), edited(1)];
    assert_eq!(shown(&events[..1]), expected(r#"{"n":1.50}"#));
    assert_eq!(shown(&events), expected(r#"{"n":2}"#));
}
