//! Laws that hold after any sequence of commands, plausible or late, against a small model of a topic.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::call::CallReceipt;
use pilothouse_messages::id::{CallId, MessageId, StepRef};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, HistoryItem};
use pilothouse_messages::secret::Opaque;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    AfterCrash, Budget, CardNews, Claim, Directive, Level, NestedNews, NestedPlan, QueueCommand, Recovery,
    RequestedCall, RunBasis, Steering, TopicCommand, TopicEvent, TopicStatus, TurnTerms,
};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::nested::{script_calls, script_refused, script_returns, script_sends};
use super::reference::Reference;
use super::words::{
    allows, answered, call, change, denies, look, missing, news, open, opened, opens_with, receipts, reply,
    returns, send_at, send_keyed, sends, step_ref, stop,
};
use super::{NOW, fresh, replayed, topic};
use crate::decider::Decider;
use crate::topic::TopicState;
use crate::topic::transcript::Transcript;

/// What may happen next. Numbers choose among what has been seen so far, so that late and repeated news are common.
#[derive(Debug, Clone)]
enum Move {
    Send(Option<u8>, Level),
    Stop,
    Text(usize),
    Reply(usize, Vec<u8>, FinishReason),
    Fail(usize),
    Sent(usize, u32),
    Receipt(usize, u32, u8),
    Return(usize, u32),
    Nested(usize, u32, u8),
    Card(usize, News),
    Recover(Recovery),
    ShutDown,
    Open,
    Queue(Deed),
    Continue,
    /// So many milliseconds pass.
    Wait(u64),
}

/// What is done about a message; the number is its id.
#[derive(Debug, Clone)]
enum Deed {
    Edit(u64),
    Drop(u64),
    /// The queue, turned around so far.
    Reorder(usize),
    Resend(u64),
    Relevel(u64, Level),
}

#[derive(Debug, Clone, Copy)]
enum News {
    Opened,
    Waits,
    Refused,
    Allowed,
    Denied,
    Expired,
}

fn levels() -> impl Strategy<Value = Level> {
    prop_oneof![4 => Just(Level::NextStep), 2 => Just(Level::Now), 2 => Just(Level::NextTurn)]
}

fn deeds() -> impl Strategy<Value = Deed> {
    let message = || 0..12_u64;
    prop_oneof![
        1 => message().prop_map(Deed::Edit),
        1 => message().prop_map(Deed::Drop),
        1 => (0..4_usize).prop_map(Deed::Reorder),
        3 => message().prop_map(Deed::Resend),
        2 => (message(), levels()).prop_map(|(message, level)| Deed::Relevel(message, level)),
    ]
}

/// The terms of a topic: each of them in any way.
fn terms() -> impl Strategy<Value = TurnTerms> {
    let budget = prop_oneof![
        3 => Just(Budget::default()),
        1 => Just(Budget { tokens: Some(9), ..Budget::default() }),
        1 => Just(Budget { wall_ms: Some(40), ..Budget::default() }),
    ];
    (any::<bool>(), any::<bool>(), any::<bool>(), budget).prop_map(|(inject, batch, resume, budget)| {
        TurnTerms {
            steering: if inject { Steering::Inject } else { Steering::Chain },
            claim: if batch { Claim::Batch } else { Claim::One },
            after_crash: if resume { AfterCrash::ResumeOnce } else { AfterCrash::Interrupt },
            budget,
        }
    })
}

fn moves() -> impl Strategy<Value = Move> {
    let finish = prop_oneof![
        12 => Just(FinishReason::Stop),
        1 => Just(FinishReason::Length),
        1 => Just(FinishReason::Refused),
    ];
    let news = prop_oneof![
        3 => Just(News::Opened),
        1 => Just(News::Waits),
        1 => Just(News::Refused),
        4 => Just(News::Allowed),
        2 => Just(News::Denied),
        1 => Just(News::Expired),
    ];
    let cause = prop_oneof![Just(Recovery::ProcessRestart), Just(Recovery::SessionRestart)];
    // Small numbers reach back from the newest, so most news are about what is going on.
    let back = || prop_oneof![8 => 0..4_usize, 1 => 0..20_usize];
    let recent = || prop_oneof![6 => Just(0_usize), 1 => 0..3_usize];
    prop_oneof![
        8 => (any::<Option<u8>>(), levels())
            .prop_map(|(key, level)| Move::Send(key.map(|key| key % 8), level)),
        6 => deeds().prop_map(Move::Queue),
        2 => Just(Move::Continue),
        2 => (0..20_u64).prop_map(Move::Wait),
        1 => Just(Move::Stop),
        3 => recent().prop_map(Move::Text),
        12 => (recent(), proptest::collection::vec(0..4_u8, 0..5), finish)
            .prop_map(|(step, calls, finish)| Move::Reply(step, calls, finish)),
        1 => recent().prop_map(Move::Fail),
        3 => (back(), 1..3_u32).prop_map(|(call, attempt)| Move::Sent(call, attempt)),
        3 => (back(), 1..3_u32, 0..3_u8).prop_map(|(call, attempt, kind)| Move::Receipt(call, attempt, kind)),
        14 => (back(), prop_oneof![5 => Just(1_u32), 1 => 1..4_u32])
            .prop_map(|(call, attempt)| Move::Return(call, attempt)),
        8 => (recent(), 1..4_u32, 0..4_u8).prop_map(|(call, number, kind)| Move::Nested(call, number, kind)),
        14 => (back(), news).prop_map(|(call, news)| Move::Card(call, news)),
        1 => cause.prop_map(Move::Recover),
        1 => Just(Move::ShutDown),
        1 => Just(Move::Open),
    ]
}

/// One topic, its log, and what the laws need to remember.
pub(super) struct Run {
    limits: Limits,
    pub(super) state: TopicState,
    pub(super) reference: Reference,
    now: Timestamp,
    pub(super) log: Vec<TopicEvent>,
    pub(super) done: Vec<Directive>,
    steps: Vec<StepRef>,
    calls: Vec<CallId>,
    /// The step whose model runs, by the directives.
    model: Option<StepRef>,
}

impl Run {
    pub(super) fn new() -> Self {
        let mut limits = Limits::default();
        (limits.queued_messages, limits.steps_per_turn, limits.view_turns) = (3, 4, 2);
        limits.held_messages = 6;
        (limits.calls_per_reply, limits.exec.calls) = (3, 2);
        let state = fresh(&limits);
        Self {
            limits,
            state,
            reference: Reference::default(),
            now: NOW,
            log: Vec::new(),
            done: Vec::new(),
            steps: Vec::new(),
            calls: Vec::new(),
            model: None,
        }
    }

    fn step(&self, back: usize) -> StepRef {
        self.steps.iter().rev().nth(back).copied().unwrap_or(step_ref(1, 1))
    }

    fn call(&self, back: usize) -> CallId {
        self.calls.iter().rev().nth(back).copied().unwrap_or(call(1, 1, 0))
    }

    fn command(&self, wanted: &Move) -> TopicCommand {
        match wanted {
            Move::Send(None, level) => send_at(*level, "m"),
            Move::Send(Some(key), _) => send_keyed("m", &key.to_string()),
            Move::Stop => stop(),
            Move::Text(back) => TopicCommand::ModelText { at: self.step(*back), delta: "x".into() },
            Move::Reply(back, calls, finish) => {
                let calls = calls.iter().map(|kind| requested(*kind)).collect();
                TopicCommand::ModelReplied { at: self.step(*back), reply: reply("x", calls, *finish) }
            }
            Move::Fail(back) => TopicCommand::ModelFailed { at: self.step(*back), message: "no".into() },
            Move::Sent(back, attempt) => sends(self.call(*back), *attempt),
            Move::Receipt(back, attempt, kind) => receipts(self.call(*back), *attempt, receipt(*kind)),
            Move::Return(back, attempt) => returns(self.call(*back), *attempt, "r"),
            Move::Nested(back, number, kind) => nested_command(self.call(*back), *number, *kind),
            Move::Card(back, kind) => card_command(self.call(*back), *kind),
            Move::Recover(cause) => TopicCommand::Recover { cause: *cause },
            Move::ShutDown => TopicCommand::ShutDown,
            Move::Open => open(),
            Move::Queue(deed) => TopicCommand::Queue(self.deed(deed)),
            Move::Continue => TopicCommand::Continue,
            Move::Wait(_) => TopicCommand::Tick,
        }
    }

    fn deed(&self, deed: &Deed) -> QueueCommand {
        let message = |id: &u64| MessageId(*id);
        match deed {
            Deed::Edit(id) => QueueCommand::Edit { message: message(id), text: "other".into() },
            Deed::Drop(id) => QueueCommand::Drop { message: message(id), by: "ann".into() },
            Deed::Reorder(turned) => {
                let mut messages: Vec<_> = self.state.view().queue.iter().map(|one| one.message).collect();
                let turned = turned % messages.len().max(1);
                messages.rotate_left(turned);
                QueueCommand::Reorder { messages }
            }
            Deed::Resend(id) => QueueCommand::Resend { message: message(id) },
            Deed::Relevel(id, level) => QueueCommand::Relevel { message: message(id), level: *level },
        }
    }

    pub(super) fn take(&mut self, command: &TopicCommand) {
        let before = self.state.clone();
        let late = self.reference.is_late(command);
        let Ok(decision) = self.state.decide(self.now, command) else { return };
        assert!(!late, "{command:?} is of an attempt that is over");
        assert_eq!(self.state, before, "a decision changed the state");
        for event in decision.events {
            self.state.apply_told(&event);
            self.reference.follow(&event);
            self.remember(&event);
            self.log.push(event);
        }
        for directive in decision.directives {
            self.follow(&directive);
            self.done.push(directive);
        }
    }

    fn remember(&mut self, event: &TopicEvent) {
        if let TopicEvent::StepStarted { at } = event {
            self.steps.push(*at);
        }
        if let TopicEvent::StepReplied { calls, .. } = event {
            self.calls.extend(calls.iter().map(|planned| planned.call));
        }
        if matches!(
            event,
            TopicEvent::StepReplied { .. } | TopicEvent::TurnFinished { .. } | TopicEvent::Recovered { .. }
        ) {
            self.model = None;
        }
    }

    fn follow(&mut self, directive: &Directive) {
        if let Directive::RunModel { at } = directive {
            assert_eq!(self.model, None, "two models run");
            assert_eq!(self.steps.last(), Some(at), "a model runs for a step that is not the newest");
            self.model = Some(*at);
        }
        if let Directive::CallTool { call, attempt, .. } | Directive::TakeUpCall { call, attempt, .. } =
            directive
        {
            let starts = |event: &&TopicEvent| matches!(event, TopicEvent::CallStarted { call: c, attempt: a, .. } if c == call && a == attempt);
            assert_eq!(self.log.iter().filter(starts).count(), 1, "{call} {attempt} without one intent");
        }
    }
}

fn requested(kind: u8) -> RequestedCall {
    match kind {
        0 => missing(),
        1 => look(),
        2 => answered(),
        _ => change(),
    }
}

fn receipt(kind: u8) -> CallReceipt {
    match kind {
        0 => CallReceipt::Task { id: Opaque::new("t"), poll_after_ms: None, expires_at: None },
        1 => CallReceipt::Asked { round: 1, requests: JsonText::parse("{}").expect("JSON"), state: None },
        _ => CallReceipt::Answered { round: 1 },
    }
}

fn nested_command(call: CallId, number: u32, kind: u8) -> TopicCommand {
    match kind {
        0 => script_sends(call, number),
        1 => script_calls(call, number),
        2 => script_refused(call, number),
        _ => script_returns(call, number, "r"),
    }
}

fn card_command(call: CallId, kind: News) -> TopicCommand {
    match kind {
        News::Opened => opened(call),
        News::Waits => news(call, CardNews::Waits),
        News::Refused => news(call, CardNews::Refused("full".into())),
        News::Allowed => allows(call),
        News::Denied => denies(call),
        News::Expired => news(call, CardNews::Expired),
    }
}

/// No call gets two results, and a closed turn has one for each of its calls.
fn check_results(run: &Run) {
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for event in &run.log {
        if let TopicEvent::StepReplied { calls, .. } = event {
            asked.extend(calls.iter().map(|planned| planned.call));
        }
        if let TopicEvent::CallFinished { call, .. } = event {
            assert!(answered.insert(*call), "{call} has two results");
        }
        if let TopicEvent::TurnFinished { .. } = event {
            assert_eq!(asked, answered);
        }
    }
}

/// A script's call has its intent before anything else and one result at most, and exactly one once its script has one.
fn check_nested(run: &Run) {
    let (mut open, mut over) = (BTreeSet::new(), BTreeSet::new());
    for event in &run.log {
        if let TopicEvent::Nested { call, news } = event {
            match news {
                NestedNews::Called(made) => {
                    let key = (*call, made.number);
                    assert!(!open.contains(&key) && !over.contains(&key), "{key:?} was made twice");
                    let set =
                        if made.plan == NestedPlan::Run(RunBasis::Mode) { &mut open } else { &mut over };
                    set.insert(key);
                }
                NestedNews::Sent { number } => assert!(open.contains(&(*call, *number))),
                NestedNews::Returned { number, .. } => {
                    assert!(open.remove(&(*call, *number)), "{call}/{number} had no intent, or a result");
                    over.insert((*call, *number));
                }
            }
        }
        if let TopicEvent::CallFinished { call, .. } = event {
            assert!(!open.iter().any(|(script, _)| script == call), "{call} left calls open");
        }
    }
}

/// What runs by the directives runs by the state, and the status says so.
fn check_status(run: &Run) {
    let status = run.state.status();
    let busy =
        matches!(status, TopicStatus::Pending | TopicStatus::Streaming | TopicStatus::AwaitingApproval);
    assert_eq!(run.state.open.is_some(), busy, "{status:?}");
    let by_state = run.steps.last().filter(|at| run.state.runs_model(**at));
    assert_eq!(run.model.as_ref(), by_state);
}

/// Each reply is followed by results of its calls in their order, by all of them but in the open turn.
fn check_transcript(run: &Run) {
    let mut transcript = Transcript::default();
    run.log.iter().for_each(|event| transcript.apply(event));
    let open = run.state.open.as_ref().map(|turn| turn.turn);
    let mut due: Vec<CallId> = Vec::new();
    for item in transcript.items() {
        match item {
            HistoryItem::Tool { call, .. } => {
                let place = due.iter().position(|wanted| *wanted == call).expect("a result of another reply");
                let skipped: Vec<_> = due.drain(..=place).filter(|skipped| *skipped != call).collect();
                assert!(skipped.is_empty() || Some(call.turn) == open, "{skipped:?} have no result");
            }
            HistoryItem::User { .. } => assert_eq!(due, []),
            HistoryItem::Assistant { calls, .. } => {
                assert_eq!(due, []);
                due = calls.into_iter().map(|asked| asked.call).collect();
            }
        }
    }
    assert!(due.iter().all(|call| Some(call.turn) == open), "{due:?} have no result");
}

/// A topic that goes on from a checkpoint, wherever that was, shows what the one that never stopped shows.
fn check_checkpoints(run: &Run) {
    let mut whole = fresh(&run.limits);
    let mut resumed: Vec<TopicState> = Vec::new();
    for event in &run.log {
        whole.apply(event);
        resumed.iter_mut().for_each(|state| state.apply(event));
        if let (TopicEvent::TurnFinished { .. }, Some(from)) = (event, whole.checkpoint()) {
            resumed.push(TopicState::resumed(topic(), Arc::new(run.limits.clone()), &from));
        }
    }
    for state in resumed {
        let (mut shown, again) = (whole.view(), state.view());
        let before = shown.turns.len().saturating_sub(again.turns.len());
        shown.turns.drain(..before);
        shown.earlier_turns = again.earlier_turns;
        assert_eq!(again, shown);
        assert_eq!((state.last_turn, state.last_message), (whole.last_turn, whole.last_message));
    }
}

pub(super) fn check_laws(run: &Run) {
    assert_eq!(replayed(&run.limits, &run.log), run.state, "the replay law");
    run.reference.compare(&run.state.view());
    check_results(run);
    check_nested(run);
    check_status(run);
    check_transcript(run);
    check_checkpoints(run);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_in_whatever_order_the_laws_of_a_topic_hold(
        terms in terms(),
        script in proptest::collection::vec(moves(), 1..60),
    ) {
        let mut run = Run::new();
        run.take(&opens_with(terms));
        for wanted in &script {
            if let Move::Wait(milliseconds) = wanted {
                run.now = run.now.after(Duration::from_millis(*milliseconds));
            }
            let command = run.command(wanted);
            run.take(&command);
            check_laws(&run);
        }
        // Whatever is still open can be stopped, and then nothing is.
        run.take(&stop());
        check_laws(&run);
        assert!(!run.state.is_open());
    }
}
