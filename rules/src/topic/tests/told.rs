//! What subscribers are told, and what the view shows.

use pilothouse_messages::approval::CardState;
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::id::{CallId, MessageId, StepId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::Usage;
use pilothouse_messages::topic::{
    CallState, CallView, CardNews, HoldReason, MessageView, Receipt, StepView, StopReason, TopicCommand,
    TopicConfig, TopicStatus as Is, TopicUpdate, TopicView, TurnView,
};

use super::words::{
    allows, call, card, card_of, change, denies, done, fails, look, news, open, opened, replies, returns,
    says, send, sends, stop,
};
use super::{NOW, after, fresh, topic};
use crate::decider::Decider;

/// After `given`, the command's events must be told exactly so.
fn check_told(given: Vec<TopicCommand>, command: TopicCommand, expected: Vec<TopicUpdate>) {
    let (mut state, _) = after(&Limits::default(), given);
    let decision = state.decide(NOW, &command).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let told: Vec<_> = decision.events.iter().flat_map(|event| state.apply_told(event)).collect();
    assert_eq!(told, expected, "{command:?}");
}

fn status(status: Is) -> TopicUpdate {
    TopicUpdate::Status(status)
}

fn receipt(message: u64, receipt: Receipt) -> TopicUpdate {
    TopicUpdate::Receipt { message: MessageId(message), receipt }
}

fn turn_starts_told(turn: u64, message: u64) -> TopicUpdate {
    TopicUpdate::TurnStarted { turn: TurnId(turn), messages: vec![MessageId(message)] }
}

fn turn_ends_told(turn: u64, stop: StopReason) -> TopicUpdate {
    TopicUpdate::TurnFinished { turn: TurnId(turn), stop }
}

fn step_ends_told() -> TopicUpdate {
    TopicUpdate::StepFinished { turn: TurnId(1), step: StepId(1) }
}

fn text(delta: &str) -> TopicUpdate {
    TopicUpdate::Text { turn: TurnId(1), delta: delta.into() }
}

fn tool_starts(call: CallId, tool: &str) -> TopicUpdate {
    TopicUpdate::ToolStarted { call, tool: tool.into(), server: Some("files".into()) }
}

fn tool_ends(call: CallId, tool: &str, outcome: CallOutcome, text: &str) -> TopicUpdate {
    let (tool, server) = (tool.into(), Some("files".into()));
    TopicUpdate::ToolFinished { call, tool, server, result: CallResult::said(outcome, text) }
}

fn settles(call: CallId, state: CardState, by: Option<&str>, reason: Option<&str>) -> TopicUpdate {
    let (by, reason) = (by.map(str::to_owned), reason.map(str::to_owned));
    TopicUpdate::ApprovalSettled { approval: card_of(call), state, by, reason }
}

fn asking() -> Vec<TopicCommand> {
    vec![open(), send("a"), replies(1, 1, "", vec![change()]), opened(call(1, 1, 0))]
}

#[test]
fn a_message_is_told_where_it_is_each_time_that_it_moves() {
    let (one, two) = (TurnId(1), TurnId(2));
    let accepted = Receipt::Accepted { turn: one };
    check_told(
        vec![open()],
        send("a"),
        vec![status(Is::Pending), turn_starts_told(1, 1), receipt(1, accepted)],
    );
    check_told(vec![open(), send("a")], send("b"), vec![receipt(2, Receipt::Queued { position: 1 })]);
    check_told(
        vec![open(), send("a"), send("b"), send("c"), says(1, 1, "x")],
        replies(1, 1, "x", vec![]),
        vec![
            step_ends_told(),
            turn_ends_told(1, StopReason::Completed),
            receipt(1, Receipt::Answered { turn: one }),
            status(Is::Pending),
            turn_starts_told(2, 2),
            receipt(2, Receipt::Accepted { turn: two }),
            receipt(3, Receipt::Queued { position: 1 }),
        ],
    );
    check_told(
        vec![open(), send("a"), send("b")],
        fails(1, 1, "no"),
        vec![
            turn_ends_told(1, StopReason::Failed("no".into())),
            status(Is::Error),
            receipt(2, Receipt::Held { reason: HoldReason::TurnEnded }),
        ],
    );
}

#[test]
fn text_is_told_as_it_comes_and_the_pieces_add_up_to_the_reply() {
    check_told(vec![open(), send("a")], says(1, 1, "x"), vec![text("x"), status(Is::Streaming)]);
    check_told(vec![open(), send("a"), says(1, 1, "x")], says(1, 1, "y"), vec![text("y")]);
    check_told(
        vec![open(), send("a"), says(1, 1, "x")],
        replies(1, 1, "xyz", vec![]),
        vec![
            text("yz"),
            step_ends_told(),
            turn_ends_told(1, StopReason::Completed),
            receipt(1, Receipt::Answered { turn: TurnId(1) }),
            status(Is::Done),
        ],
    );
}

#[test]
fn tools_are_told_when_they_start_and_when_they_have_their_result() {
    let id = call(1, 1, 0);
    check_told(
        vec![open(), send("a")],
        replies(1, 1, "", vec![look()]),
        vec![status(Is::Streaming), tool_starts(id, "look")],
    );
    let running = || vec![open(), send("a"), replies(1, 1, "", vec![look()])];
    check_told(running(), sends(id, 1), vec![]);
    check_told(
        running(),
        returns(id, 1, "A"),
        vec![tool_ends(id, "look", CallOutcome::Succeeded, "A"), step_ends_told()],
    );
}

#[test]
fn a_card_is_told_when_it_is_stored_and_when_it_is_final() {
    let id = call(1, 1, 0);
    let asks = || vec![open(), send("a"), replies(1, 1, "", vec![change()])];
    check_told(
        vec![open(), send("a")],
        replies(1, 1, "", vec![change()]),
        vec![status(Is::AwaitingApproval)],
    );
    check_told(asks(), opened(id), vec![TopicUpdate::ApprovalRequested(Box::new(card(id, "change")))]);
    check_told(
        asking(),
        allows(id),
        vec![
            settles(id, CardState::Approved, Some("bob"), None),
            status(Is::Streaming),
            tool_starts(id, "change"),
        ],
    );
    check_told(
        asking(),
        denies(id),
        vec![
            settles(id, CardState::Denied, Some("bob"), Some("too risky")),
            status(Is::Streaming),
            tool_ends(id, "change", CallOutcome::Denied, "denied by bob: too risky"),
            step_ends_told(),
        ],
    );
    check_told(
        asking(),
        news(id, CardNews::Expired),
        vec![
            settles(id, CardState::Expired, None, None),
            status(Is::Streaming),
            tool_ends(id, "change", CallOutcome::Denied, "nobody decided in time"),
            step_ends_told(),
            turn_ends_told(1, StopReason::ApprovalExpired),
            status(Is::Done),
        ],
    );
}

#[test]
fn a_stop_tells_that_the_cards_that_were_shown_are_withdrawn() {
    let id = call(1, 1, 0);
    let words = "stopped by ann while it waited for a decision: it never ran";
    let cancelled = || tool_ends(id, "change", CallOutcome::Cancelled, words);
    let ends = || vec![status(Is::Streaming), turn_ends_told(1, StopReason::Aborted), status(Is::Aborted)];
    let shown = vec![cancelled(), settles(id, CardState::Withdrawn, None, None)];
    check_told(asking(), stop(), [shown, ends()].concat());
    let mut unseen = asking();
    unseen.pop();
    check_told(unseen, stop(), [vec![cancelled()], ends()].concat());
}

fn message(id: u64, text: &str, receipt: Receipt) -> MessageView {
    MessageView::new(MessageId(id), text.into(), NOW, receipt)
}

fn call_view(id: CallId, tool: &str, state: CallState) -> CallView {
    CallView { call: id, tool: tool.into(), arguments: look().arguments, state, nested: Vec::new() }
}

#[test]
fn the_view_shows_the_open_turn_the_last_closed_ones_and_every_waiting_message() {
    let mut limits = Limits::default();
    limits.view_turns = 1;
    let (a, b, c) = (call(3, 1, 0), call(3, 1, 1), call(3, 1, 2));
    let given = vec![
        open(),
        send("a"),
        send("held"),
        fails(1, 1, "no"),
        send("b"),
        replies(2, 1, "yes", vec![]),
        send("c"),
        send("d"),
        replies(3, 1, "x", vec![look(), look(), change()]),
        returns(b, 1, "B"),
        opened(c),
    ];
    let (state, _) = after(&limits, given);
    let mut expected = TopicView::new(topic(), TopicConfig::new("m"));
    expected.status = Is::Streaming;
    expected.earlier_turns = 1;
    let closed = TurnView {
        turn: TurnId(2),
        messages: vec![message(3, "b", Receipt::Answered { turn: TurnId(2) })],
        steps: vec![StepView { step: StepId(1), text: "yes".into(), calls: vec![] }],
        stop: Some(StopReason::Completed),
        started_at: NOW,
        finished_at: Some(NOW),
        continues: None,
        usage: Usage { input: 3, output: 2 },
    };
    let calls = vec![
        call_view(a, "look", CallState::Running),
        call_view(b, "look", CallState::Finished(done("B"))),
        call_view(c, "change", CallState::Awaiting { approval: card_of(c) }),
    ];
    let running = TurnView {
        turn: TurnId(3),
        messages: vec![message(4, "c", Receipt::Accepted { turn: TurnId(3) })],
        steps: vec![StepView { step: StepId(1), text: "x".into(), calls }],
        stop: None,
        started_at: NOW,
        finished_at: None,
        continues: None,
        usage: Usage { input: 3, output: 2 },
    };
    expected.turns = vec![closed.into(), running.into()];
    expected.queue = vec![message(5, "d", Receipt::Queued { position: 1 })];
    expected.held = vec![message(2, "held", Receipt::Held { reason: HoldReason::TurnEnded })];
    expected.cards = vec![card(c, "change")];
    assert_eq!(state.view(), expected);
}

#[test]
fn a_topic_that_was_never_opened_has_an_empty_view() {
    assert_eq!(fresh(&Limits::default()).view(), TopicView::new(topic(), TopicConfig::new("")));
}

#[test]
fn a_turn_shows_the_tokens_of_all_its_steps_while_it_runs_and_after_its_end() {
    let a = call(1, 1, 0);
    let running = vec![open(), send("a"), replies(1, 1, "x", vec![look()]), returns(a, 1, "A")];
    let ended = [running.clone(), vec![replies(1, 2, "y", vec![])]].concat();
    for (given, steps) in [(running, 1), (ended, 2)] {
        let (state, _) = after(&Limits::default(), given);
        let usage = state.view().turns[0].usage;
        assert_eq!(usage, Usage { input: 3 * steps, output: 2 * steps });
    }
}
