//! Turns that were cut short and go on.

use pilothouse_messages::call::CallOutcome;
use pilothouse_messages::id::{Attempt, MessageId, StepRef, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::FinishReason;
use pilothouse_messages::topic::{
    AfterCrash, CardNews, Directive, HoldReason, Receipt, Recovery, StopReason, TopicAnswer, TopicCommand,
    TopicEvent, TopicRejection, TopicStatus as Is, TopicUpdate, TurnTerms,
};

use super::words::{
    call, call_ends, call_says, change, done, fails, held, look, missing, news, open, opens_with, replied,
    replies, reply, returns, run_model, says, send, send_keyed, sent, step_ends, step_ref, step_starts, stop,
    turn_ends,
};
use super::{NOW, after, check, on};
use crate::decider::Decider;

const CRASH: TopicCommand = TopicCommand::Recover { cause: Recovery::ProcessRestart };

fn continues(turn: u64) -> [TopicEvent; 3] {
    [
        TopicEvent::TurnStarted { turn: TurnId(turn), messages: vec![], at: NOW },
        TopicEvent::TurnContinued { turn: TurnId(turn), of: TurnId(turn - 1) },
        step_starts(turn, 1),
    ]
}

fn goes_on(turn: u64) -> TopicAnswer {
    TopicAnswer::Continued { turn: TurnId(turn) }
}

fn truncated(turn: u64) -> TopicCommand {
    TopicCommand::ModelReplied { at: step_ref(turn, 1), reply: reply("x", vec![], FinishReason::Length) }
}

/// A topic whose turns have one step, so that a call brings them to their limit.
fn limited() -> TopicCommand {
    let mut config = pilothouse_messages::topic::TopicConfig::new("m");
    config.max_steps = Some(1);
    TopicCommand::Open { config }
}

#[test]
fn a_turn_that_was_cut_short_goes_on_as_the_next_one() {
    let expired = news(call(1, 1, 0), CardNews::Expired);
    let rows = [
        vec![open(), send("a"), truncated(1)],
        vec![limited(), send("a"), replies(1, 1, "", vec![missing()])],
        vec![open(), send("a"), replies(1, 1, "", vec![change()]), expired],
        vec![open(), send("a"), says(1, 1, "so"), CRASH],
        vec![open(), send("a"), TopicCommand::ShutDown],
    ];
    for given in rows {
        check(
            given,
            vec![
                on(TopicCommand::Continue, Is::Pending)
                    .answers(goes_on(2))
                    .records(continues(2))
                    .does([run_model(2, 1)]),
                on(TopicCommand::Continue, Is::Pending).refused(TopicRejection::TurnOpen { turn: TurnId(2) }),
            ],
        );
    }
}

#[test]
fn a_turn_that_ended_in_any_other_way_does_not_go_on() {
    let rows = [
        (vec![open()], Is::Idle),
        (vec![open(), send("a"), replies(1, 1, "x", vec![])], Is::Done),
        (vec![open(), send("a"), stop()], Is::Aborted),
        (vec![open(), send("a"), fails(1, 1, "no")], Is::Error),
    ];
    for (given, status) in rows {
        let row = on(TopicCommand::Continue, status).refused(TopicRejection::NothingToContinue);
        check(given, vec![row]);
    }
}

#[test]
fn the_messages_of_a_turn_that_was_cut_short_are_answered_by_the_one_that_ends_well() {
    let given = [
        open(),
        send_keyed("a", "k"),
        truncated(1),
        TopicCommand::Continue,
        truncated(2),
        TopicCommand::Continue,
        replies(3, 1, "x", vec![]),
    ];
    let receipts: Vec<Receipt> = (3..=given.len())
        .map(|taken| {
            let (state, _) = after(&Limits::default(), given[..taken].to_vec());
            let again = state.decide(NOW, &send_keyed("a", "k")).expect("it is known");
            let view = state.view();
            let receipt = view.turns[0].messages[0].receipt.clone();
            assert_eq!(again.answer, sent(1, receipt.clone()));
            receipt
        })
        .collect();
    let accepted = |turn| Receipt::Accepted { turn: TurnId(turn) };
    let answered = Receipt::Answered { turn: TurnId(3) };
    assert_eq!(receipts, [accepted(1), accepted(2), accepted(2), accepted(3), answered.clone()]);

    let (mut state, _) = after(&Limits::default(), given[..6].to_vec());
    let decision = state.decide(NOW, &given[6]).expect("it is taken");
    let told: Vec<_> = decision.events.iter().flat_map(|event| state.apply_told(event)).collect();
    assert!(told.contains(&TopicUpdate::Receipt { message: MessageId(1), receipt: answered }), "{told:?}");
}

fn resuming() -> TopicCommand {
    opens_with(TurnTerms { after_crash: AfterCrash::ResumeOnce, ..TurnTerms::default() })
}

fn recovered() -> TopicEvent {
    TopicEvent::Recovered { cause: Recovery::ProcessRestart, at: NOW }
}

fn resumed() -> TopicEvent {
    TopicEvent::TurnResumed { turn: TurnId(1), at: NOW }
}

#[test]
fn a_topic_that_resumes_runs_the_step_of_its_model_again_once_and_holds_what_waited() {
    let second = StepRef { attempt: Attempt(2), ..step_ref(1, 1) };
    let restarted = StopReason::Interrupted("the process was restarted".into());
    let reply = reply("x", vec![], FinishReason::Stop);
    check(
        [resuming(), send("a"), send("b"), says(1, 1, "so")],
        vec![
            on(CRASH, Is::Pending)
                .records([
                    recovered(),
                    held(&[2], HoldReason::ProcessRestart),
                    resumed(),
                    TopicEvent::StepStarted { at: second },
                ])
                .does([Directive::RunModel { at: second }]),
            on(replies(1, 1, "of the first attempt", vec![]), Is::Pending).refused(TopicRejection::Stale),
            on(CRASH, Is::Error).records([recovered(), turn_ends(1, restarted)]),
            on(TopicCommand::ModelReplied { at: second, reply }, Is::Error).refused(TopicRejection::Stale),
        ],
    );
}

#[test]
fn a_topic_that_resumes_goes_on_after_a_call_of_which_nobody_knows_whether_it_ran() {
    let (read, other) = (call(1, 1, 0), call(1, 1, 1));
    let lost = "the process was restarted after this call was sent: nobody knows whether it ran";
    let runs = super::words::requested_of("shell", pilothouse_messages::tool::Effect::Edits);
    let mut config = pilothouse_messages::topic::TopicConfig::new("m");
    config.mode = pilothouse_messages::topic::PermissionMode::Bypass;
    config.turns.after_crash = AfterCrash::ResumeOnce;
    let opens = TopicCommand::Open { config };
    check(
        [opens.clone(), send("a"), replies(1, 1, "", vec![look(), runs.clone()])],
        vec![
            on(CRASH, Is::Streaming)
                .records([
                    recovered(),
                    super::words::call_starts(read, 2),
                    call_says(other, 1, CallOutcome::Unknown, lost),
                    resumed(),
                ])
                .does([super::words::run_look(read, 2)]),
            on(returns(read, 2, "A"), Is::Streaming)
                .records([call_ends(read, 2, done("A")), step_ends(1, 1), step_starts(1, 2)])
                .does([run_model(1, 2)]),
        ],
    );
    check(
        [opens, send("a"), replies(1, 1, "", vec![runs])],
        vec![
            on(CRASH, Is::Streaming)
                .records([
                    recovered(),
                    call_says(read, 1, CallOutcome::Unknown, lost),
                    resumed(),
                    step_ends(1, 1),
                    step_starts(1, 2),
                ])
                .does([run_model(1, 2)]),
            on(replies(1, 2, "x", vec![]), Is::Done).records([
                replied(1, 2, "x", vec![]),
                step_ends(1, 2),
                turn_ends(1, StopReason::Completed),
            ]),
        ],
    );
}
