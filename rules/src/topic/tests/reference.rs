//! A small model of a topic that knows nothing of how it decides: it follows the events, refuses every illegal step, and
//! says where each message, call and turn has to be.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_messages::id::{Attempt, CallId, MessageId, StepRef, TurnId};
use pilothouse_messages::topic::{CallPlan, Level, TopicCommand, TopicEvent, TopicView};

/// Where a message is: in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bucket {
    Queued,
    Held,
    InTurn(TurnId),
    Dropped,
}

/// How far a call has come; it only goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Planned,
    Asked,
    Running(Attempt),
    Finished,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    messages: BTreeMap<MessageId, Bucket>,
    levels: BTreeMap<MessageId, Level>,
    queue: Vec<MessageId>,
    held: BTreeSet<MessageId>,
    open: Option<TurnId>,
    last_turn: TurnId,
    step: Option<StepRef>,
    model: Option<StepRef>,
    calls: BTreeMap<CallId, Phase>,
}

impl Reference {
    /// Whether this is news of an attempt that is over, which must change nothing.
    pub(super) fn is_late(&self, command: &TopicCommand) -> bool {
        let step = |at: &StepRef| self.model != Some(*at);
        let call = |call: &CallId, attempt: &Attempt| self.calls.get(call) != Some(&Phase::Running(*attempt));
        match command {
            TopicCommand::ModelText { at, .. }
            | TopicCommand::ModelReplied { at, .. }
            | TopicCommand::ModelFailed { at, .. } => step(at),
            TopicCommand::ModelShowed { at, .. } => step(at),
            TopicCommand::CallSent { call: of, attempt }
            | TopicCommand::CallReturned { call: of, attempt, .. }
            | TopicCommand::CallReceipted { call: of, attempt, .. }
            | TopicCommand::Nested { call: of, attempt, .. } => call(of, attempt),
            TopicCommand::Open { .. }
            | TopicCommand::Configure { .. }
            | TopicCommand::Send { .. }
            | TopicCommand::Stop { .. }
            | TopicCommand::Card { .. }
            | TopicCommand::Recover { .. }
            | TopicCommand::ShutDown
            | TopicCommand::Queue(_)
            | TopicCommand::Continue
            | TopicCommand::Tick
            | TopicCommand::CallAnsweredLate { .. }
            | TopicCommand::Sleep => false,
        }
    }

    pub(super) fn follow(&mut self, event: &TopicEvent) {
        match event {
            TopicEvent::MessageAccepted { message, .. } => {
                assert_eq!(self.messages.insert(*message, Bucket::Queued), None, "{message} twice");
                self.enqueue(*message);
            }
            TopicEvent::MessageResent { message, .. } => {
                self.moves(*message, &[Bucket::Held], Bucket::Queued);
                assert!(self.held.remove(message));
                self.enqueue(*message);
            }
            TopicEvent::LevelSet { message, level } => self.relevel(*message, *level),
            TopicEvent::QueueReordered { messages } => self.queue.clone_from(messages),
            TopicEvent::MessageEdited { message, .. } => {
                assert!(matches!(self.messages[message], Bucket::Queued | Bucket::Held));
            }
            TopicEvent::MessageDropped { message, .. } => {
                self.moves(*message, &[Bucket::Queued, Bucket::Held], Bucket::Dropped);
                self.queue.retain(|waiting| waiting != message);
                self.held.remove(message);
            }
            TopicEvent::MessagesHeld { messages, .. } => {
                for message in messages {
                    self.moves(*message, &[Bucket::Queued], Bucket::Held);
                }
                self.queue.retain(|waiting| !messages.contains(waiting));
                self.held.extend(messages);
            }
            TopicEvent::TurnStarted { turn, messages, .. } => {
                assert_eq!((self.open, *turn), (None, self.last_turn.next()), "turns follow each other");
                (self.open, self.last_turn, self.step) = (Some(*turn), *turn, None);
                assert!(self.queue.starts_with(messages), "the head of the queue begins");
                self.claim(*turn, messages);
            }
            TopicEvent::MessagesInjected { turn, messages, .. } => {
                assert_eq!(self.open, Some(*turn));
                assert!(self.queue.starts_with(messages), "the head of the queue joins");
                self.claim(*turn, messages);
            }
            TopicEvent::StepStarted { at } => {
                assert_eq!((self.open, self.model), (Some(at.turn), None), "one model runs");
                assert!(self.step.is_none_or(|last| last < *at), "steps and attempts only grow");
                assert!(self.unfinished().next().is_none(), "a step begins after the last one's results");
                (self.step, self.model) = (Some(*at), Some(*at));
            }
            TopicEvent::StepReplied { at, calls, .. } => {
                assert_eq!(self.model.take(), Some(*at));
                for planned in calls {
                    let phase = match planned.plan {
                        CallPlan::Ask { .. } => Phase::Asked,
                        CallPlan::Run(_) | CallPlan::Reject(_) | CallPlan::Deny(_) | CallPlan::Answered => {
                            Phase::Planned
                        }
                    };
                    assert_eq!(self.calls.insert(planned.call, phase), None, "{} twice", planned.call);
                }
            }
            TopicEvent::CallStarted { call, attempt, .. } => self.advance(*call, Phase::Running(*attempt)),
            TopicEvent::CallFinished { call, .. } => self.advance(*call, Phase::Finished),
            TopicEvent::TurnFinished { turn, .. } => {
                assert_eq!(self.open.take(), Some(*turn));
                assert!(self.unfinished().next().is_none(), "a turn ends after all its results");
                self.model = None;
            }
            // What ran in an earlier life of the process does not run any more.
            TopicEvent::Recovered { .. } => self.model = None,
            TopicEvent::TextAppended { at, .. } => assert_eq!(self.model, Some(*at)),
            TopicEvent::CallSent { call, attempt } | TopicEvent::CallReceipted { call, attempt, .. } => {
                assert_eq!(self.calls.get(call), Some(&Phase::Running(*attempt)));
            }
            TopicEvent::CallDecided { call, .. }
            | TopicEvent::CallExpired { call, .. }
            | TopicEvent::CardOpened { call, .. } => assert_eq!(self.calls[call], Phase::Asked),
            TopicEvent::TurnContinued { turn, .. } | TopicEvent::TurnResumed { turn, .. } => {
                assert_eq!(self.open, Some(*turn));
            }
            TopicEvent::Configured { .. }
            | TopicEvent::StepFinished { .. }
            | TopicEvent::HeadlessSet { .. }
            | TopicEvent::CallEdited { .. }
            | TopicEvent::ToolTermsSet { .. }
            | TopicEvent::TurnTermsSet { .. }
            | TopicEvent::Slept { .. }
            | TopicEvent::Nested { .. }
            | TopicEvent::CallAnsweredLate { .. } => {}
        }
    }

    /// The topic has to show the same.
    pub(super) fn compare(&self, view: &TopicView) {
        let queue: Vec<_> = view.queue.iter().map(|message| message.message).collect();
        assert_eq!(queue, self.queue);
        let steers = view.queue.iter().map(|message| message.level.steers());
        assert!(
            steers.is_sorted_by(|first, second| first >= second),
            "what is for the next turn waits behind"
        );
        let held: BTreeSet<_> = view.held.iter().map(|message| message.message).collect();
        assert_eq!(held, self.held);
        assert_eq!(view.turns.last().filter(|turn| turn.stop.is_none()).map(|turn| turn.turn), self.open);
        for (message, bucket) in &self.messages {
            assert_eq!(*bucket == Bucket::Queued, self.queue.contains(message), "{message}: {bucket:?}");
            assert_eq!(*bucket == Bucket::Held, self.held.contains(message), "{message}: {bucket:?}");
        }
        for turn in &view.turns {
            for message in &turn.messages {
                assert_eq!(self.messages[&message.message], Bucket::InTurn(turn.turn));
            }
        }
    }

    /// Where the message ended, in a word.
    pub(super) fn bucket(&self, message: MessageId) -> String {
        format!("{:?}", self.messages[&message])
    }

    fn enqueue(&mut self, message: MessageId) {
        let level = *self.levels.entry(message).or_default();
        let ahead = |waiting: &&MessageId| !level.steers() || self.levels[*waiting].steers();
        let place = self.queue.iter().take_while(ahead).count();
        self.queue.insert(place, message);
    }

    fn relevel(&mut self, message: MessageId, level: Level) {
        let before = self.levels.insert(message, level).expect("it was accepted");
        if before.steers() != level.steers() && self.messages[&message] == Bucket::Queued {
            self.queue.retain(|waiting| *waiting != message);
            self.enqueue(message);
        }
    }

    fn claim(&mut self, turn: TurnId, messages: &[MessageId]) {
        for message in messages {
            self.moves(*message, &[Bucket::Queued], Bucket::InTurn(turn));
        }
        self.queue.retain(|waiting| !messages.contains(waiting));
    }

    fn moves(&mut self, message: MessageId, from: &[Bucket], to: Bucket) {
        let before = self.messages.insert(message, to).expect("it was accepted");
        assert!(from.contains(&before), "{message} goes from {before:?} to {to:?}");
    }

    fn advance(&mut self, call: CallId, to: Phase) {
        let before = self.calls.insert(call, to).expect("it was asked for");
        assert!(before < to, "{call} goes from {before:?} to {to:?}");
    }

    fn unfinished(&self) -> impl Iterator<Item = &CallId> {
        self.calls.iter().filter(|(_, phase)| **phase != Phase::Finished).map(|(call, _)| call)
    }
}
